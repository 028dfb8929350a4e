"""All commands in one place. Each is imported when it is asked for, and nothing heavy before."""

import importlib
import sys
from typing import Annotated, Any, final

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from likewise.cli.exits import guarded

COMMANDS = {
    "audit": "Audit a model on a table of people.",
    "metric": "Learn a fair metric from data.",
    "report": "Render a saved result again: page, JUnit, CSV, Markdown.",
    "compare": "Put the results of several audits side by side.",
    "improve": "Look for a fairer model that is as accurate.",
    "monitor": "Follow outcomes as they come, and look at any time.",
    "plan": "Say how many people an audit needs.",
    "init": "Write a settings file with every column listed.",
    "demo": "Train a small network on the Adult data, and audit it.",
    "reproduce": "Run a study of the paper again.",
}
"""A line of help by command; each is a function of that name."""
MODULES = dict.fromkeys(("report", "compare", "plan", "reproduce"), "commands")
"""Where a command is, if it has no module of its own."""

PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


@final
class GroupedCommand(TyperCommand):
    """A command whose help shows its options under the headings that they name."""

    @override
    def format_options(self, ctx: Any, formatter: Any) -> None:
        usual = {"option": "Options", "argument": "Arguments"}
        headings = {p.name: getattr(p, "rich_help_panel", None) for p in self.params}
        options = [p.name for p in self.params if p.param_type_name == "option"]
        # Among many options, the one that was just typed (--help) is not worth a line.
        in_groups = all(headings[name] for name in options)
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.params if in_groups else self.get_params(ctx):
            heading = (in_groups and headings[param.name]) or usual[param.param_type_name]
            if (line := param.get_help_record(ctx)) is not None:
                # Without the type of an argument.
                groups.setdefault(heading, []).append((line[0].partition(" <")[0], line[1]))
        for heading, lines in groups.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


def command(name: str) -> Any:
    """Return a command, built when it is asked for."""
    module = importlib.import_module(f"likewise.cli.{MODULES.get(name, name)}")
    alone = typer.Typer(add_completion=False, **PLAIN)
    alone.command(name, cls=GroupedCommand)(guarded(getattr(module, name)))
    return typer.main.get_command(alone)


@final
class CommandGroup(TyperGroup):
    """Shows the line of each command without importing it."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return command(cmd_name) if cmd_name in COMMANDS else None

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    @override
    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        # Nothing, in place of no, would be converted by a library that takes long to import.
        option.default = False
        return option


app = typer.Typer(
    name="likewise",
    help="Are people who are alike, but for race, sex or another protected attribute, "
    "treated alike?",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    **PLAIN,
)


def _version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        print(f"likewise {version('likewise')}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show λ or δ gets a question mark, not a crash.
            stream.reconfigure(errors="replace")
    app()
