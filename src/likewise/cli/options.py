"""Options that several commands share, and how they become settings."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.errors import InvalidSettings, without_query

DATA, QUESTION, METHOD, OUTPUT, RUNNING = "Data", "Question", "Method", "Output", "Running"
"""Headings in the help of commands with many options."""


def option(words: str, metavar: str | None = None, *names: str, under: str | None = None) -> Any:
    """Return an option with a line of help, under a heading if commands have many."""
    return typer.Option(*names, help=words, metavar=metavar, rich_help_panel=under)


def argument(words: str, metavar: str) -> Any:
    """Return an argument with a line of help."""
    return typer.Argument(help=words, metavar=metavar, show_default=False)


Text = str | None
Texts = list[str] | None
File = Path | None
Number = float | None

Table = Annotated[list[Path] | None, argument("Parquet or CSV files, or folders of them.", "DATA")]
Label = Annotated[Text, option("Column with the true outcome.", "COLUMN", under=DATA)]
Protected = Annotated[Texts, option("Columns with protected attributes.", "COLUMNS", under=DATA)]
Weights = Annotated[Text, option("Column with sampling weights.", "COLUMN", under=DATA)]
Clusters = Annotated[Text, option("Column that groups dependent rows.", "COLUMN", under=DATA)]
Identity = Annotated[
    Text, option("Column that names people; rows of one are merged.", "COLUMN", "--id", under=DATA)
]
LabelMap = Annotated[
    Texts, option("The model's class for each label: approved=1,declined=0.", "PAIRS", under=DATA)
]
Bins = Annotated[
    Texts, option("Where to cut a continuous attribute: age=40.", "COLUMN=CUTS", under=DATA)
]
EncoderFile = Annotated[
    File, option("Saved encoder, or a metric file with one.", "FILE", under=DATA)
]
Scores = Annotated[
    File, option("A table that is scored already, in place of MODEL and DATA.", "FILE", under=DATA)
]
Decision = Annotated[Text, option("With --scores: column with the decision.", "COLUMN", under=DATA)]
Score = Annotated[Text, option("With --scores: column with the score.", "COLUMN", under=DATA)]
Threshold = Annotated[
    Number, option("Probability or score from which on it is decided.", "NUMBER", under=DATA)
]
MayMatter = Annotated[
    Texts,
    option("Legitimate factors: people alike in them are compared.", "COLUMNS", under=QUESTION),
]
Pool = Annotated[
    Texts, option("Reference sample to find comparable people in.", "FILES", under=QUESTION)
]
Favourable = Annotated[Text, option("The decision that people want.", "VALUE", under=QUESTION)]
Delta = Annotated[
    Number, option("Limit on the ratio (default 1.25, four fifths).", "NUMBER", under=QUESTION)
]
MethodName = Annotated[
    Text, option("matched_pairs, gradient_flow, reach or flip.", "NAME", under=METHOD)
]
MetricFile = Annotated[
    File, option("Saved metric, or package.module:name (--trust).", "FILE", under=METHOD)
]
Loss = Annotated[
    Text, option("Loss of your own, package.module:name (--trust).", "NAME", under=METHOD)
]
Paper = Annotated[
    bool, option("Exactly the ICLR 2021 paper's test.", None, "--paper", under=METHOD)
]
Checks = Annotated[
    Text, option("full, core (the verdict alone), or names (default full).", "NAMES", under=METHOD)
]
SettingsFile = Annotated[
    File, option("Settings file (see likewise init).", "FILE", "--settings", under=METHOD)
]
Set = Annotated[
    Texts, option("Any setting, as method.lam=20; repeat it.", "NAME=VALUE", "--set", under=METHOD)
]
WRITES = "Write .json, .html, .md, .csv, .xml (JUnit) or .parquet; repeat it."
Output = Annotated[list[Path] | None, option(WRITES, "FILE", "-o", "--output", under=OUTPUT)]
Redact = Annotated[bool, option("Leave out single people.", None, "--redact", under=OUTPUT)]
InconclusiveOk = Annotated[
    bool, option("Exit with 0 if inconclusive.", None, "--inconclusive-ok", under=OUTPUT)
]
Run = Annotated[
    Text, option("threads:4, processes:4, ray:4@ADDRESS; processes:4,8GB.", "WHERE", under=RUNNING)
]
Resume = Annotated[bool, option("Continue an interrupted audit.", None, "--resume", under=RUNNING)]
Trust = Annotated[
    bool, option("Open files and modules that can run code.", None, "--trust", under=RUNNING)
]
DryRun = Annotated[
    bool, option("Check everything, measure no one.", None, "--dry-run", under=RUNNING)
]
Verbose = Annotated[
    bool, option("Show groups, checks and methods too.", None, "--verbose", "-v", under=RUNNING)
]
Quiet = Annotated[bool, option("Show the verdict alone.", None, "--quiet", "-q", under=RUNNING)]


def outputs(
    paths: list[Path] | None, *, rows: bool = True, redact: bool = False
) -> dict[str, Path]:
    """Return the files to write by what they hold; refuse names that do not say it.

    With ``redact`` files of single people are refused.
    """
    from likewise.report.export import kind_of

    found: dict[str, Path] = {}
    for path in paths or ():
        kind = kind_of(path, rows=rows)
        if redact and kind in ("rows", "comparators"):
            raise InvalidSettings(
                f"{str(path)!r} would hold single people, whom --redact leaves out. Leave out this "
                "file."
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


def mapping(values: list[str] | None, option: str) -> dict[str, str] | None:
    """Read ``approved=1,declined=0``."""
    pairs = [pair.partition("=") for pair in names(values) or ()]
    for name, sign, value in pairs:
        if not sign or not name.strip():
            raise InvalidSettings(f"{option} {name + sign + value!r} is no pair: write name=value.")
    return None if values is None else {name.strip(): value.strip() for name, _, value in pairs}


def typed_command() -> str:
    """Return the command as it was typed, but for keys in addresses."""
    return shlex.join(["likewise", *map(without_query, sys.argv[1:])])
