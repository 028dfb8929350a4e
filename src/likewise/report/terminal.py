"""The summary at a terminal: the verdict first, within 25 lines, or 80 with ``-v``."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence

import typer

from likewise.errors import printable
from likewise.record import Record
from likewise.report import text
from likewise.report.escaping import cut, on_one_line
from likewise.report.formats import Names, capital, interval, limit, number, p_value, wrap
from likewise.report.text import Line, estimates, head, test_name

NARROWEST, WIDEST = 60, 120
SHORT_LINES, LONG_LINES = 25, 80
"""Lines of a summary, by default and with ``-v``."""
ROWS, NOTES = 8, 2
"""Comparisons, and notes, that the short summary shows."""
COLOURS = {
    "evidence": "red",
    "within_tolerance": "green",
    "inconclusive": "yellow",
    "invalid": "red",
}

DIAGNOSTICS = {
    "mean_fair_distance": "mean fair distance",
    "theorem_a1_bound": "Theorem A.1: bound on the effect of the metric's error, of use if small",
}

Fact = tuple[str, str]


def terminal_width() -> int:
    """Return the columns of the terminal, between 60 and 120; 80 if there is none."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)


def show(
    record: Record, *, quiet: bool = False, verbose: bool = False, written: Sequence[str] = ()
) -> None:
    """Print the summary, or with ``quiet`` the sentence alone; plain when piped."""
    if quiet:
        print(printable(text.sentence(record)))
        return
    said = summary(record, width=terminal_width(), verbose=verbose, written=written)
    before, headline, after = said.split("\n\n", 2)
    headline = typer.style(headline, fg=COLOURS[record.verdict], bold=True)
    color = False if os.environ.get("NO_COLOR") else None  # None: at a terminal
    typer.echo(f"{before}\n\n{headline}\n\n{after}", file=sys.stdout, color=color)


def summary(
    record: Record, *, width: int = 80, verbose: bool = False, written: Sequence[str] = ()
) -> str:
    """Return the audit as text: verdict, who, how sure, what next, then the figures.

    ``verbose`` adds all comparisons, notes and tests; ``written`` are the names of the files that
    hold the rest.
    """
    ending = _fact(("Report", ", ".join(written)), width) if written else []
    most = (LONG_LINES if verbose else SHORT_LINES) - len(ending)
    head = _head(record, width)
    warnings = [line for said in record.warnings[:2] for line in _fact(("Warning", said), width)]
    head += [*warnings, ""] if warnings else []  # never cut off
    rows = None if verbose else max(min(ROWS, most - len(head) - 4), 2)
    lines = [*head, *_table(record, width, rows), ""]
    notes = list(dict.fromkeys((*record.notes, *record.data.notes)))
    shown, left = notes if verbose else notes[:NOTES], len(notes)
    room = most - (left > 0)  # for the count of notes that are not shown
    for fact in (*_facts(record), *zip(["Note"] * len(shown), shown, strict=True)):
        more = _fact(fact, width, None if verbose else 2)
        if verbose or len(lines) + len(more) <= room:
            lines, left = lines + more, left - (fact[0] == "Note")
    lines += [f"{'':14}… and {left} more note{'s' * (left > 1)} (-v, or the report)"] * (left > 0)
    lines += _details(record, width) if verbose else ()
    if len(lines) > most:
        lines = [*lines[: most - 1], "… more in the report (-o report.html)"]
    return printable("\n".join([*lines, *ending]).rstrip())


def _head(record: Record, width: int) -> list[str]:
    model = cut(record.model.name or record.model.kind, width - 34)
    version = ".".join(record.likewise_version.split(".")[:2])
    title, about = text.headline(record)
    indent = " " * (8 if width >= 76 else 2)
    verdict = text.HEADLINES[record.verdict]
    said = title.replace(verdict, verdict.upper(), 1) + (f": {about}" if about else "")
    lines = wrap(capital(text.claim(record)[1]), indent, width)
    for step in text.next_steps(record)[:1]:
        lines += wrap(f"Next: {step}.", indent, width)
    return [
        f"likewise {version}   {model}   {record.data.n:,} people",
        "",
        *wrap(said, "", width),
        "",
        *lines,
        "",
    ]


def _fact(fact: Fact, width: int, lines: int | None = None) -> list[str]:
    """Return ``name  text``, continued below the text; cut after ``lines``."""
    found = wrap(f"{fact[0]:13} {on_one_line(fact[1])}", "", width, hanging=" " * 14)
    if lines is not None and len(found) > lines:
        last = found[lines - 1]
        last = last if len(last) <= width - 2 else last.rpartition(" ")[0]
        found = [*found[: lines - 1], f"{last.rstrip('.')} …"]
    return found


def layout(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Lay out a table with its head: the first column is cut to fit, numbers stand on the right."""
    full = [row for row in rows if any(row[1:])]  # others are headings, and are not cut
    sizes = [max(map(len, column)) for column in zip(*full, strict=True)]
    first = min(sizes[0], max(width - sum(size + 2 for size in sizes[1:]), 8))
    lines = []
    for row in rows:
        label = _cut(row[0], first if any(row[1:]) else width)
        numbers = (f"{cell:>{size}}" for cell, size in zip(row[1:-1], sizes[1:], strict=False))
        lines.append("  ".join([f"{label:{first}}", *numbers, row[-1]]).rstrip())
    return lines


def _cut(label: str, most: int) -> str:
    """Shorten ``group → other`` on both sides, so that both stay readable."""
    here, arrow, there = label.partition(" → ")
    if len(label) <= most or not arrow:
        return cut(label, most) if len(label) > most else label
    column = here.rpartition(": ")[2].partition(" = ")[0]
    there = there.removeprefix(f"{column} = ")  # sex = f → m
    half = (most - 3) // 2
    return f"{cut(here, max(half, most - 3 - len(there)))} → {cut(there, half)}"[:most]


def _table(record: Record, width: int, most: int | None) -> list[str]:
    """Return the table of estimates; too wide, it does without units and attributes, then rates."""
    rows = estimates(record)
    if most is not None and len(rows) > most:
        rows = sorted(rows, key=lambda row: (bool(row.attribute), row.verdict != "evidence"))[:most]
    for detail in (2, 1, 0):
        cells = _cells(record, rows, detail)
        first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
        if width - sum(size + 2 for size in others) >= (first if detail > 1 else min(first, 24)):
            break
    lines = layout(cells, width)
    if more := len(estimates(record)) - len(rows):
        lines.append(f"… and {more} more comparisons (-v, or the report)")
    return lines


def _cells(record: Record, rows: Sequence[Line], detail: int) -> list[list[str]]:
    """Return head and rows: at detail 1 without units and attributes, at 0 without rates."""
    names, (first, second, *others) = Names.from_record(record), head(record)
    titles = [names.column(row.attribute) if row.attribute else "" for row in rows]
    wide = max(map(len, titles)) + 2 if detail > 1 and len(set(titles)) > 1 else 0
    between, unit = (" – ", "") if detail > 1 else ("–", " %")
    if not any(fact.endswith("%") for row in rows for fact in row.facts):
        unit = ""
    cells = [["", f"{first}{unit}", f"{second}{unit}", *others]]
    for k, row in enumerate(rows):
        at = f"{'' if k and titles[k] == titles[k - 1] else titles[k]:{wide}}" if wide else ""
        own, other, *numbers = row.cells(between)
        facts = own.removesuffix(unit), other.removesuffix(unit)
        cells.append([f"{at}{row.label}", *facts, *numbers])
    shown = text.leading(record)  # the negative control of the comparison that decided
    if shown is not None and (redrawn := text.control(shown)):
        low, high = min(redrawn), max(redrawn)
        lower, upper = text.effect(shown)[2]
        ok = "ok" * (shown.verdict == "evidence" and (high < lower or upper < low))
        label = f"control: redrawn {names.column(shown.attribute)}"
        cells.append([label, "", "", "", interval((low, high), between), ok])
    return cells if detail else [[row[0], *row[3:]] for row in cells]


def _facts(record: Record) -> Iterator[Fact]:
    """Yield what else matters, the most important first."""
    names, part, test = Names.from_record(record), record.matched_pairs, record.deciding
    if test is not None:
        bound = "T_n" if record.paper else "lower bound"
        found = f"S_n {number(test.S_n)}, V_n {number(test.V_n)}, {bound} {number(test.T_n)}"
        yield "Statistic", f"{found}; {test.n:,} people, limit {limit(test.delta)}"
        if (control := record.control.get(test.test)) is not None:
            count = f"{len(control.permuted)} permutations, {control.n:,} people"
            real = f"as they are {number(control.estimate)}; p = {p_value(control.p_value)}"
            yield "Control", f"permuted attributes {text.span(control.permuted)}, {real} ({count})"
    if part is not None:
        alike = names.columns(part.may_matter, most=4) or "no column: whole groups are compared"
        about, outcomes = f"people alike in {alike}", {row.outcome for row in part.comparisons}
        if record.verdict != "evidence" and part.measure == "decision" and len(outcomes) == 1:
            # Evidence names it in its sentence.
            about = f"rates of {names.decision(*outcomes)}, of {about}"
        yield "Compared", about
    row = text.leading(record)
    drivers = [d for d in record.drivers if row is None or d.attribute in ("", row.attribute)]
    drivers = sorted((d for d in drivers if d.share == d.share), key=lambda d: -abs(d.share))
    shares = [(names.column(d.column), d.share) for d in drivers[:3]]
    shares.append(("other columns", sum(d.share for d in drivers[3:])))
    said = [f"{name} {limit(round(100 * share))} %" for name, share in shares]
    if said := [words for words in said if not words.endswith(" 0 %")]:
        yield "Driven by", ", ".join(said)
    if record.skipped:
        yield "Skipped", ", ".join(record.skipped)


def _details(record: Record, width: int) -> Iterator[str]:
    """Yield what ``-v`` adds: further steps, tests, errors and the command."""
    yield ""
    facts = [("Next", f"{step}.") for step in text.next_steps(record)[1:]]
    for test in (*record.tests.values(), *record.secondary[:4]):
        said = f"{number(test.estimate)}, CI {interval(test.interval)}"
        said += f", upper bound {text.upper_bound(test)}, by {test.interval_method}"
        facts.append(("Test", f"{test_name(test.test)}, {test.method}: {said}"))
    facts += text.error_words(record)
    for name, value in record.diagnostics.items() if record.metric is not None else ():
        facts.append(("Diagnostic", f"{DIAGNOSTICS.get(name, name)}: {number(value)}"))
    for fact in facts:
        yield from _fact(fact, width, 3)
    # A command is not broken, so that it can be pasted.
    yield from [f"  {record.command}"] if record.command else ()
