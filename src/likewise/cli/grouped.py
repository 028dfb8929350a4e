"""Help in groups of options, and one sentence for an option of earlier versions."""

from itertools import pairwise
from typing import Any, final

import typer
from typer.core import TyperCommand
from typing_extensions import override

from likewise.cli.exits import BAD_INPUT, say

MOVED = {
    "audit": {
        "--lam": "--set map.lam={}",
        "--time": "--set map.time={}",
        "--solver": "--set map.solver={}",
        "--steps": "--set map.steps={}",
        "--feasible": "--set map.feasible=true",
        "--test": "--set decide.test={}",
        "--loss": "--set decide.loss={}",
        "--interval": "--set decide.interval={}",
        "--refits": "--set metric.refits={}",
        "--seed": "--set seed={}",
        "--inputs": "--set columns.inputs={}",
        "--positive": "--set columns.positive={}",
        "--model-output": "--set columns.output={}",
        "--timeout": "--set model.timeout={}",
        "--max-calls": "--set model.max_calls={}",
        "--threads": "--run threads:{}",
        "--workers": "--run processes:{}",
        "--ray": "--run ray:{}",
        "--max-memory": "--run processes,{}",
        "--journal": "-o FOLDER/result.json, and finished blocks are kept in that folder too",
    },
    "metric": {
        "--C": "--set metric.C={}",
        "--inputs": "--set columns.inputs={}",
        "--seed": "--set seed={}",
    },
}
"""By command: the option, and the new way with a place for its value."""


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
                heading = in_groups and headings.get(param.name)
                groups.setdefault(heading or usual, []).append(line)
        for heading, lines in groups.items():
            with formatter.section(heading):
                formatter.write_dl(lines)

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        moved = MOVED.get(self.name or "", {})
        for word, after in pairwise([*args, ""]):
            flag, _, given = word.partition("=")
            if word == "--":
                break
            if flag in moved:
                value = given or (after if not after.startswith("-") else "") or "VALUE"
                say(f"Error: {flag} is no longer an option: write {moved[flag].format(value)}.")
                raise typer.Exit(BAD_INPUT)
        return super().parse_args(ctx, args)
