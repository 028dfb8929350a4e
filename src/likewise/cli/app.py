"""All commands in one place. Nothing heavy is imported before a command runs."""

import sys
from typing import Annotated

import typer

from likewise.cli.audit import audit
from likewise.cli.compare import compare
from likewise.cli.demo import demo
from likewise.cli.exits import guarded
from likewise.cli.init import init
from likewise.cli.metric import metric
from likewise.cli.monitor import monitor
from likewise.cli.plan import plan
from likewise.cli.repeat import repeat
from likewise.cli.report import report
from likewise.cli.reproduce import reproduce

app = typer.Typer(
    name="likewise",
    help="Are people who are alike, but for race, sex or another protected trait, treated alike?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(guarded(audit))
app.command()(guarded(metric))
app.command("test")(guarded(repeat))
app.command()(guarded(report))
app.command()(guarded(compare))
app.command()(guarded(monitor))
app.command()(guarded(plan))
app.command()(guarded(init))
app.command()(guarded(demo))
app.command()(guarded(reproduce))


def _version(wanted: bool | None) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"likewise {version('likewise')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show λ or δ gets a question mark, not a crash.
            stream.reconfigure(errors="replace")
    app()
