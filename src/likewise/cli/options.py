"""Options that several commands share, and how they become settings."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.errors import InvalidSettings, without_query

DATA, QUESTION, METHOD, OUTPUT, RUNNING = "Data", "Question", "Method", "Output", "Running"
"""Headings in the help of commands with many options."""

Table = Annotated[
    list[Path],
    typer.Argument(
        help="Parquet or CSV files, or folders of them.", metavar="DATA", show_default=False
    ),
]
Label = Annotated[
    str | None, typer.Option(help="Column with the true outcome.", rich_help_panel=DATA)
]
Protected = Annotated[
    list[str] | None,
    typer.Option(
        help="Column with a protected trait; repeat it, or separate names by commas.",
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
Weight = Annotated[
    str | None, typer.Option(help="Column with sampling weights.", rich_help_panel=DATA)
]
Cluster = Annotated[
    str | None, typer.Option(help="Column that groups dependent rows.", rich_help_panel=DATA)
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="Column that the model does not see; repeat it, or separate names by commas.",
        metavar="NAME",
        rich_help_panel=DATA,
    ),
]
DropMissing = Annotated[
    bool | None,
    typer.Option(
        "--drop-missing",
        help="Leave out rows with missing values that the model does not fill, and say how many.",
        rich_help_panel=DATA,
    ),
]
CsvSeparator = Annotated[
    str | None,
    typer.Option(
        help="What separates values in CSV files; found out, and said.",
        metavar="MARK",
        rich_help_panel=DATA,
    ),
]
CsvDecimal = Annotated[
    str | None,
    typer.Option(
        help="Decimal mark in CSV files: a point or a comma; found out, and said.",
        metavar="MARK",
        rich_help_panel=DATA,
    ),
]
EncoderFile = Annotated[
    Path | None,
    typer.Option(help="Saved encoder (or a metric file that carries one).", rich_help_panel=DATA),
]
MayMatter = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns that may matter: people alike in them are compared, with real people of "
        "other groups; separate names by commas.",
        metavar="NAMES",
        rich_help_panel=QUESTION,
    ),
]
Free = Annotated[
    list[str] | None,
    typer.Option(
        help="Or else the columns that must not matter; all others may.",
        metavar="NAMES",
        rich_help_panel=QUESTION,
    ),
]
Pool = Annotated[
    list[str] | None,
    typer.Option(
        help="Other people (Parquet or CSV) to find counterparts among, and files of `likewise "
        "pairs`; by default half of DATA.",
        metavar="FILES",
        rich_help_panel=QUESTION,
    ),
]
Favourable = Annotated[
    str | None,
    typer.Option(
        help="The decision that people want; then its refusal counts, and no label is needed.",
        metavar="VALUE",
        rich_help_panel=QUESTION,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(help="Tolerance on the ratio; 1.25 is four fifths.", rich_help_panel=QUESTION),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="Rate of false alarms at the tolerance.", rich_help_panel=QUESTION),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any choice, as map.lam=20 (`likewise init --all` lists them); repeat it.",
        metavar="NAME=VALUE",
        rich_help_panel=METHOD,
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="Settings file (see `likewise init`); options override it.",
        rich_help_panel=METHOD,
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Seed of every random choice.", rich_help_panel=METHOD)
]
Interval = Annotated[
    str | None, typer.Option(help="hall, bootstrap_t, or paper (the normal limit).")
]
Output = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        help="Write this file: .json the result, .html a report, .parquet one row a person, .md "
        "a summary, .csv the groups, .xml for JUnit; repeat it.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]


def csv_written(separator: str | None, decimal: str | None) -> None:
    """Read CSV files as the user says they are written."""
    if separator is not None or decimal is not None:
        from likewise.data.csv_format import say_csv

        say_csv(separator, decimal)


OldOutput = Annotated[Path | None, typer.Option(hidden=True, rich_help_panel=OUTPUT)]
"""What scripts of version 0.1 say in place of ``-o``."""

Redact = Annotated[
    bool,
    typer.Option(
        "--redact", help="Hide what is known about single people.", rich_help_panel=OUTPUT
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Open files that can run code: pickle, joblib, .pt2, module:name.",
        rich_help_panel=RUNNING,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Also groups, measures, other choices and methods.",
        rich_help_panel=RUNNING,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress; the verdict alone.", rich_help_panel=RUNNING),
]

KINDS = {
    ".json": "json",
    ".html": "html",
    ".md": "markdown",
    ".csv": "csv",
    ".xml": "junit",
    ".parquet": "outcomes",
}
"""What is written to a file, by the end of its name."""


def outputs(paths: list[Path] | None, **old: Path | None) -> dict[str, Path]:
    """Return what is to be written where: files by the end of their names, and old options."""
    found = {kind: path for kind, path in old.items() if path is not None}
    for path in paths or ():
        kind = KINDS.get(path.suffix.lower())
        if kind is None:
            raise InvalidSettings(
                f"What is to be written to {str(path)!r}? Its name must end in {', '.join(KINDS)}."
            )
        if kind in found:
            raise InvalidSettings(
                f"{str(found[kind])!r} and {str(path)!r} would hold the same. Name one of them."
            )
        found[kind] = path
    return found


def names(values: list[str] | None) -> tuple[str, ...] | None:
    """Split repeated and comma-separated names."""
    if values is None:
        return None
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def settings_from(
    path: Path | None,
    choices: dict[str, Any],
    assigned: list[str] | None = None,
    *,
    paper: bool = False,
) -> Any:
    """Read the settings file, if any, and let flags and ``--set`` override it.

    ``paper`` asks for the paper's procedure, whatever the file says of it.
    """
    from likewise.settings import Settings
    from likewise.settings.settings_file import read_settings

    base = Settings() if path is None else read_settings(path)
    base = base.as_in_paper() if paper else base
    given = {name: value for name, value in choices.items() if value is not None}
    # Flags first: another map begins with its own parameters, which --set may then change.
    return base.changed(**given).with_set(assigned or ())


def require_label(settings: Any) -> str:
    """Return the name of the label column, or say that it is needed."""
    label = settings.columns.label
    if label is None:
        raise InvalidSettings("Which column is the label? Name it with --label.")
    return str(label)


def label_if_needed(settings: Any) -> str | None:
    """Return the name of the label column; a question about decisions alone needs none."""
    counterparts = settings.map.name == "counterparts"
    if settings.columns.label is None and counterparts:
        if settings.decide.favourable is None:
            raise InvalidSettings(
                "Which column is the label (--label)? Or else, which decision do people want "
                "(--favourable)?"
            )
        return None
    return require_label(settings)


def counterparts_named(
    map: str | None, may_matter: list[str] | None, free: list[str] | None
) -> dict[str, Any]:
    """Return the choices that naming columns makes."""
    if may_matter is None and free is None:
        return {"map": map}
    if map not in (None, "counterparts"):
        if free is not None:
            raise InvalidSettings(
                f"--free names columns for counterparts, not for --map {map}: name the columns "
                "that may matter (--may-matter), which the fair metric then holds."
            )
        return {"map": map, "columns__may_matter": names(may_matter)}
    if may_matter is not None and free is not None:
        both = set(names(may_matter) or ()) & set(names(free) or ())
        which = f" ({', '.join(sorted(both))} is named as both)" if both else ""
        raise InvalidSettings(
            "Name the columns that may matter, or else the free ones: --may-matter or --free"
            f"{which}."
        )
    return {
        "map": "counterparts",
        "map__may_matter": names(may_matter),
        "map__free": names(free),
    }


def typed_command() -> str:
    """Return the command as it was typed, but for keys in addresses."""
    return shlex.join(["likewise", *map(without_query, sys.argv[1:])])
