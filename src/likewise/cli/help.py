"""Help of a command, its options under the headings that they name."""

from typing import Any, final

from typer.core import TyperCommand
from typing_extensions import override


@final
class GroupedCommand(TyperCommand):
    """A command whose help shows its options under the headings that they name."""

    @override
    def format_options(self, ctx: Any, formatter: Any) -> None:
        options = [param for param in self.params if param.param_type_name == "option"]
        headings = {option.name: getattr(option, "rich_help_panel", None) for option in options}
        # Among many options, the one that was just typed (--help) is not worth a line.
        in_groups = all(headings.values())
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.params if in_groups else self.get_params(ctx):
            usual = "Options" if param.param_type_name == "option" else "Arguments"
            line = param.get_help_record(ctx)
            if line is not None:
                line = line[0].partition(" <")[0], line[1]  # without the type of an argument
                heading = in_groups and headings.get(param.name)
                groups.setdefault(heading or usual, []).append(line)
        for heading, lines in groups.items():
            with formatter.section(heading):
                formatter.write_dl(lines)
