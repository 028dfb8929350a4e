"""Options that several commands share, and how they become settings."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.addresses import without_query
from likewise.errors import InvalidSettings

Table = Annotated[
    list[Path], typer.Argument(help="Parquet or CSV files, or folders of them.", show_default=False)
]
Label = Annotated[str | None, typer.Option(help="Column with the true outcome.")]
Protected = Annotated[
    list[str] | None,
    typer.Option(help="Column with a protected trait; repeat it, or separate names by commas."),
]
Weight = Annotated[str | None, typer.Option(help="Column with sampling weights.")]
Cluster = Annotated[str | None, typer.Option(help="Column that groups dependent rows.")]
Ignore = Annotated[list[str] | None, typer.Option(help="Column that the model does not see.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(help="Columns that the model sees, in order; by default all without a role."),
]
Positive = Annotated[str | None, typer.Option(help="Label value that is class 1 of two.")]
DropMissing = Annotated[
    bool | None,
    typer.Option("--drop-missing", help="Leave out rows with missing values, and say how many."),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Open files that can run code: pickle, joblib, .pt2, module:name."
    ),
]
EncoderFile = Annotated[
    Path | None, typer.Option(help="Saved encoder (or a metric file that carries one).")
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random choice.")]
Delta = Annotated[float | None, typer.Option(help="Tolerance on the ratio; 1.25 is four fifths.")]
Alpha = Annotated[float | None, typer.Option(help="Rate of false alarms at the tolerance.")]
Interval = Annotated[
    str | None, typer.Option(help="hall, bootstrap_t, or paper (the normal limit).")
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also groups, measures, other choices and methods."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the verdict alone.")]


def names(values: list[str] | None) -> tuple[str, ...] | None:
    """Split repeated and comma-separated names."""
    if values is None:
        return None
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def settings_from(path: Path | None, choices: dict[str, Any]) -> Any:
    """Read the settings file, if any, and let the flags that were given override it."""
    from likewise.settings import Settings
    from likewise.settings_file import read_settings

    base = Settings() if path is None else read_settings(path)
    return base.changed(**{name: value for name, value in choices.items() if value is not None})


def require_label(settings: Any) -> str:
    """Return the name of the label column, or say that it is needed."""
    label = settings.columns.label
    if label is None:
        raise InvalidSettings("Which column is the label? Name it with --label.")
    return str(label)


def typed_command() -> str:
    """Return the command as it was typed, but for keys in addresses."""
    return shlex.join(["likewise", *map(without_query, sys.argv[1:])])
