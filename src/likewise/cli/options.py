"""Options that several commands share, and how they become settings."""

import functools
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.errors import InvalidSettings, without_query

DATA, QUESTION, METHOD, OUTPUT, RUNNING = "Data", "Question", "Method", "Output", "Running"
"""Headings in the help of commands with many options."""


def option(words: str, metavar: str | None = None, *names: str, under: str | None = None) -> Any:
    """Return an option with a line of help, under a heading if commands have many."""
    return typer.Option(*names, help=words, metavar=metavar, rich_help_panel=under)


in_data = functools.partial(option, under=DATA)
in_question = functools.partial(option, under=QUESTION)
in_method = functools.partial(option, under=METHOD)
in_output = functools.partial(option, under=OUTPUT)
in_running = functools.partial(option, under=RUNNING)


def argument(words: str, metavar: str) -> Any:
    """Return an argument with a line of help."""
    return typer.Argument(help=words, metavar=metavar, show_default=False)


Text = str | None
Texts = list[str] | None
File = Path | None
Number = float | None

Table = Annotated[list[Path] | None, argument("Parquet or CSV files, or folders of them.", "DATA")]
Label = Annotated[Text, in_data("Column with the true outcome.", "COLUMN")]
Protected = Annotated[Texts, in_data("Columns with protected attributes.", "COLUMNS")]
Weights = Annotated[Text, in_data("Column with sampling weights.", "COLUMN")]
Clusters = Annotated[Text, in_data("Column that groups dependent rows.", "COLUMN")]
Identity = Annotated[Text, in_data("Column that names people: rows are merged.", "COLUMN", "--id")]
LabelMap = Annotated[Texts, in_data("The model's class of a label: yes=1,no=0.", "PAIRS")]
Bins = Annotated[Texts, in_data("Cut a continuous attribute: age=40, age=30:50.", "COLUMN=CUTS")]
EncoderFile = Annotated[File, in_data("Saved encoder, or a metric file with one.", "FILE")]
Scores = Annotated[File, in_data("Scored table in place of MODEL and DATA.", "FILE")]
Decision = Annotated[Text, in_data("With --scores: column with the decision.", "COLUMN")]
Score = Annotated[Text, in_data("With --scores: column with the score.", "COLUMN")]
Threshold = Annotated[Number, in_data("Probability or score that decides.", "NUMBER")]
MayMatter = Annotated[Texts, in_question("Legitimate factors, to match people on.", "COLUMNS")]
Pool = Annotated[Texts, in_question("Reference sample to find comparable people in.", "FILES")]
Favourable = Annotated[Text, in_question("The decision that people want.", "VALUE")]
Delta = Annotated[Number, in_question("Limit on the ratio (default 1.25, four fifths).", "NUMBER")]
MethodName = Annotated[Text, in_method("matched_pairs, gradient_flow, reach or flip.", "NAME")]
MetricFile = Annotated[File, in_method("Saved metric, or package.module:name (--trust).", "FILE")]
Loss = Annotated[Text, in_method("Loss of your own, package.module:name (--trust).", "NAME")]
Paper = Annotated[bool, in_method("Exactly the ICLR 2021 paper's test.", None, "--paper")]
Checks = Annotated[Text, in_method("full (default), core (the verdict alone), or names.", "NAMES")]
SettingsFile = Annotated[File, in_method("Settings file (likewise init).", "FILE", "--settings")]
Set = Annotated[Texts, in_method("Any setting: method.lam=20; repeat it.", "NAME=VALUE", "--set")]
WRITES = "Write .json, .html, .md, .csv, .xml (JUnit) or .parquet; repeat it."
Output = Annotated[list[Path] | None, in_output(WRITES, "FILE", "-o", "--output")]
RENDERS = "Write .json, .html, .md, .csv or .xml (JUnit); repeat it."
Rendered = Annotated[list[Path] | None, in_output(RENDERS, "FILE", "-o", "--output")]
Redact = Annotated[bool, in_output("Leave out single people.", None, "--redact")]
InconclusiveOk = Annotated[bool, in_output("Exit 0 if inconclusive.", None, "--inconclusive-ok")]
Run = Annotated[Text, in_running("threads:4, processes:4,8GB or ray:4@ADDRESS.", "WHERE")]
Resume = Annotated[bool, in_running("Continue an interrupted audit.", None, "--resume")]
Trust = Annotated[bool, in_running("Open files and modules that can run code.", None, "--trust")]
DryRun = Annotated[bool, in_running("Check everything, measure no one.", None, "--dry-run")]
Verbose = Annotated[bool, in_running("Show all comparisons and tests.", None, "--verbose", "-v")]
Quiet = Annotated[bool, in_running("Show the verdict alone.", None, "--quiet", "-q")]


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
            raise InvalidSettings(f"{str(path)!r} would hold people, whom --redact leaves out.")
        if kind in found:
            raise InvalidSettings(f"{str(found[kind])!r} and {str(path)!r} would hold the same.")
        found[kind] = path
    return found


def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command that are arguments of `likewise.audit`, as it takes them."""
    from likewise.settings.arguments import PLACES  # late: it takes a while

    # The output of a command is files, that of a model is what it returns.
    taken = {*PLACES, "trust"} - {"output"}
    found = {name: value for name, value in given.items() if name in taken}
    for name in ("protected", "may_matter"):
        found[name] = names(found[name])
    for name, option in {"label_map": "--label-map", "bins": "--bins"}.items():
        found[name] = mapping(found.get(name), option)
    return found


def names(values: list[str] | None) -> tuple[str, ...]:
    """Split repeated and comma-separated names."""
    parts = (part.strip() for value in values or () for part in value.split(","))
    return tuple(filter(None, parts))


def mapping(values: list[str] | None, option: str) -> dict[str, str] | None:
    """Read ``approved=1,declined=0``, or cuts (``age=30:50``), which repeated names add to."""
    cuts, found = option == "--bins", dict[str, str]()
    for pair in names(values):
        name, sign, value = map(str.strip, pair.partition("="))
        if not sign or not name:
            form = "COLUMN=CUT, several as age=30:50" if cuts else "name=value"
            raise InvalidSettings(f"{option} {pair!r} is no pair: write {form}.")
        before = found.setdefault(name, value)
        if cuts and before != value:
            found[name] = f"{before}:{value}"
        elif before != value:
            raise InvalidSettings(f"{option} maps {name!r} to {before!r} and {value!r}. Name one.")
    return None if values is None else found


def typed_command() -> str:
    """Return the command as it was typed, but for keys in addresses."""
    return shlex.join(["likewise", *map(without_query, sys.argv[1:])])
