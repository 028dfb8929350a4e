"""Options that several commands share, and how they become settings."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.errors import InvalidSettings, without_query

DATA, QUESTION, METHOD, OUTPUT, RUNNING = "Data", "Question", "Method", "Output", "Running"
"""Headings in the help of commands with many options."""


def option(heading: str | None, words: str, metavar: str | None = None, *names: str) -> Any:
    """Return an option under a heading of the help, with a line of words."""
    return typer.Option(*names, help=words, metavar=metavar, rich_help_panel=heading)


Text = str | None
Texts = list[str] | None
File = Path | None

Table = Annotated[
    list[Path] | None,
    typer.Argument(help="Parquet or CSV files, or folders of them.", metavar="DATA"),
]
Label = Annotated[Text, option(DATA, "Column with the true outcome.", "COLUMN")]
Protected = Annotated[Texts, option(DATA, "Columns with protected attributes.", "COLUMNS")]
Weights = Annotated[Text, option(DATA, "Column with sampling weights.", "COLUMN")]
Clusters = Annotated[Text, option(DATA, "Column that groups dependent rows.", "COLUMN")]
Identity = Annotated[
    Text, option(DATA, "Column that names people; rows of one are merged.", "COLUMN", "--id")
]
LabelMap = Annotated[
    Texts, option(DATA, "The model's class for each label: approved=1,declined=0.", "PAIRS")
]
Bins = Annotated[Texts, option(DATA, "Where to cut a continuous attribute: age=40.", "COLUMN=CUTS")]
EncoderFile = Annotated[File, option(DATA, "Saved encoder, or a metric file with one.", "FILE")]
Scores = Annotated[
    File, option(DATA, "A table that is scored already, in place of MODEL and DATA.", "FILE")
]
Decision = Annotated[Text, option(DATA, "With --scores: column with the decision.", "COLUMN")]
Score = Annotated[Text, option(DATA, "With --scores: column with the score.", "COLUMN")]
Threshold = Annotated[
    float | None, option(DATA, "Probability or score from which on it is decided.", "NUMBER")
]
MayMatter = Annotated[
    Texts, option(QUESTION, "Legitimate factors: people alike in them are compared.", "COLUMNS")
]
Pool = Annotated[Texts, option(QUESTION, "Reference sample to find comparable people in.", "FILES")]
Favourable = Annotated[Text, option(QUESTION, "The decision that people want.", "VALUE")]
Delta = Annotated[
    float | None, option(QUESTION, "Limit on the ratio (default 1.25, four fifths).", "NUMBER")
]
MethodName = Annotated[Text, option(METHOD, "matched_pairs, gradient_flow, reach or flip.", "NAME")]
MetricFile = Annotated[
    File, option(METHOD, "Saved metric, or package.module:name (--trust).", "FILE")
]
Loss = Annotated[Text, option(METHOD, "Loss of your own, package.module:name (--trust).", "NAME")]
Paper = Annotated[bool, option(METHOD, "Exactly the ICLR 2021 paper's test.", None, "--paper")]
Checks = Annotated[
    Text, option(METHOD, "full, core (the verdict alone), or names (default full).", "NAMES")
]
SettingsFile = Annotated[
    File, option(METHOD, "Settings file (see likewise init).", "FILE", "--settings")
]
Set = Annotated[
    Texts, option(METHOD, "Any setting, as method.lam=20; repeat it.", "NAME=VALUE", "--set")
]
Output = Annotated[
    list[Path] | None,
    option(
        OUTPUT,
        "Write .json, .html, .md, .csv, .xml (JUnit) or .parquet; repeat it.",
        "FILE",
        "-o",
        "--output",
    ),
]
Redact = Annotated[bool, option(OUTPUT, "Leave out single people.", None, "--redact")]
InconclusiveOk = Annotated[
    bool, option(OUTPUT, "Exit with 0 if inconclusive.", None, "--inconclusive-ok")
]
Run = Annotated[
    Text, option(RUNNING, "threads:4, processes:4, ray:4@ADDRESS; processes:4,8GB.", "WHERE")
]
Resume = Annotated[bool, option(RUNNING, "Continue an interrupted audit.", None, "--resume")]
Trust = Annotated[
    bool, option(RUNNING, "Open files and modules that can run code.", None, "--trust")
]
DryRun = Annotated[bool, option(RUNNING, "Check everything, measure no one.", None, "--dry-run")]
Verbose = Annotated[
    bool, option(RUNNING, "Show groups, checks and methods too.", None, "--verbose", "-v")
]
Quiet = Annotated[bool, option(RUNNING, "Show the verdict alone.", None, "--quiet", "-q")]


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
    if values is None:
        return None
    found = {}
    for pair in names(values) or ():
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise InvalidSettings(f"{option} {pair!r} is no pair. Write name=value.")
        found[name.strip()] = value.strip()
    return found


def cuts(values: list[str] | None) -> dict[str, tuple[float, ...]] | None:
    """Read ``age=40`` or ``age=25:40:60``; several columns by repeating the option."""
    try:
        given = mapping(values, "--bins")
        if given is None:
            return None
        return {
            name: tuple(float(part) for part in text.split(":")) for name, text in given.items()
        }
    except ValueError:  # as InvalidSettings is, too
        raise InvalidSettings(
            f"--bins takes numbers, as age=40 or age=25:40:60 (got {values!r})."
        ) from None


def settings_from(
    path: Path | None, choices: dict[str, Any], assigned: list[str] | None = None
) -> Any:
    """Read the settings file, if any, and let options and ``--set`` override it."""
    from likewise.settings import Settings
    from likewise.settings.settings_file import read_settings

    base = Settings() if path is None else read_settings(path)
    given = {name: value for name, value in choices.items() if value is not None}
    # Options first: another method begins with its own parameters, which --set may then change.
    return base.changed(**given).with_set(assigned or ())


def typed_command() -> str:
    """Return the command as it was typed, but for keys in addresses."""
    return shlex.join(["likewise", *map(without_query, sys.argv[1:])])
