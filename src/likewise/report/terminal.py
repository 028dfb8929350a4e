"""The summary at a terminal: the same words, with colour where there is one to see it."""

import sys
from typing import Any

from likewise.record import Record
from likewise.report.details import details
from likewise.report.escaping import for_terminal
from likewise.report.words import summary

COLOURS = {
    "evidence_of_unfairness": "bold red",
    "within_tolerance": "bold green",
    "inconclusive": "bold yellow",
}


def show(record: Record, *, quiet: bool = False, verbose: bool = False) -> None:
    """Print the summary, or with ``quiet`` the verdict alone; plain when piped."""
    said = record.sentence if quiet else summary(record, details(record) if verbose else ())
    text = for_terminal(said)
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console

    print_coloured(Console(highlight=False), text, record)


def print_coloured(console: Any, text: str, record: Record) -> None:
    """Print lines in the colour of what they say; `rich` leaves it out where NO_COLOR is set."""
    from rich.text import Text

    lines = text.splitlines()
    rules = [i for i, line in enumerate(lines) if line and set(line) == {"="}]
    for i, line in enumerate(lines):
        style = ""
        if not rules or i > rules[-1]:
            style = COLOURS[record.outcome] if record.trustworthy else "bold red"
        elif line.startswith("Warning:"):
            style = "yellow"
        elif set(line) <= {"-", "="}:
            style = "dim"
        console.print(Text(line, style=style), soft_wrap=True)
