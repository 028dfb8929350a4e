"""File formats of a result: JSON, CSV of groups, Markdown, JUnit XML, and the JSON Schema."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from likewise.errors import InvalidSettings
from likewise.files import write_whole
from likewise.record import ComparedPerson, GroupRecord, Record
from likewise.report import text
from likewise.report.escaping import for_csv, for_markdown, for_xml
from likewise.report.formats import Names, interval, limit, number, p_value
from likewise.report.html import to_html
from likewise.report.terminal import summary
from likewise.report.text import effect, estimates, result, sentence

SIGNS = {"evidence": "🔴", "within_tolerance": "🟢", "inconclusive": "🟡", "invalid": "⚠️"}
MARKS = {"evidence": "failure", "inconclusive": "skipped", "invalid": "error"}
COUNTED = {"evidence": "failures", "inconclusive": "skipped", "invalid": "errors"}
"""What a verdict is in JUnit, and what it is counted as."""
MOST_ROWS = 40
COLUMNS = (
    *("attribute", "group", "other", "measure", "outcome", "people", "own", "swapped"),
    *("difference", "ratio", "lower", "upper", "p_adjusted", "result"),
    *("selection_rate", "impact_ratio", "error_rate", "settings_hash"),
)
COMPARATORS = (
    *("case", "attribute", "group", "other"),
    *("item", "kind", "person", "own_group", "other_group"),
)


def write_outputs(record: Record, outputs: Mapping[str, str | Path]) -> None:
    """Write the record in every form that was asked for: by format (`WRITERS`), the file's name."""
    for name, path in outputs.items():
        # A lone surrogate in a column name has no place in a file.
        write_whole(Path(path), WRITERS[name](record).encode("utf-8", errors="replace"))


KINDS = {
    ".json": "json",
    ".html": "html",
    ".md": "markdown",
    ".csv": "csv",
    ".xml": "junit",
    ".parquet": "rows",
}
"""What is written to a file, by the end of its name."""


def kind_of(path: str | Path, *, rows: bool = True) -> str:
    """Return what a file's name asks for: by its end, which may be ``comparators.csv``.

    ``rows`` is whether there are people's rows to write (Parquet).
    """
    known = {end: kind for end, kind in KINDS.items() if rows or kind != "rows"}
    kind = known.get(Path(path).suffix.lower())
    if kind is None:
        raise InvalidSettings(
            f"What is to be written to {str(path)!r}? Its name must end in {', '.join(known)}."
        )
    return "comparators" if Path(path).name.lower().endswith("comparators.csv") else kind


def to_csv(record: Record) -> str:
    """Return every comparison or group as comma-separated values, safe to open in a spreadsheet.

    Numbers stand in full, unknown ones are empty. The last column names the settings, so that a
    table on its own can be traced to its audit.
    """
    return _csv(COLUMNS, ([row.get(name) for name in COLUMNS] for row in _rows(record)))


def _rows(record: Record) -> Iterator[dict[str, Any]]:
    raw = {(m.attribute, m.group, m.name): m.value for m in record.measures}
    part = record.matched_pairs
    for row in record.groups if part is None else part.comparisons:
        if isinstance(row, GroupRecord):
            said = result(record, "evidence") if row.rejected else ""
            found = {"people": row.n, "ratio": row.estimate, "result": said}
            found["measure"] = text.group_test(record)
        else:
            _, _, (lower, upper) = effect(row)
            found = {"lower": lower, "upper": upper, "result": result(record, row.verdict)}
        known = row.model_dump() | found
        shown = ("selection_rate", "impact_ratio", "error_rate")
        known |= {name: raw.get((row.attribute, row.group, name)) for name in shown}
        yield known | {"settings_hash": record.settings_hash}


def to_comparators(record: Record) -> str:
    """Return the most affected people beside their closest comparable pair, one line an item.

    ``person`` is the audited person, ``own_group`` and ``other_group`` are the members of the
    pair: real people of the reference sample. Items are row numbers, decisions and probabilities,
    and every column: ``may matter`` (people are alike in it), ``remaining``, or ``protected``.
    Decisions are the person's: as they are, and with the remaining columns of either member.
    """
    part = record.matched_pairs
    cases = enumerate(() if part is None else part.people, start=1)
    return _csv(
        COMPARATORS, ((k, *one.direction, *line) for k, one in cases for line in _lines(one))
    )


def _lines(one: ComparedPerson) -> Iterator[tuple[str, str, Any, Any, Any]]:
    yield "row", "identity", one.row, one.own_row, one.other_row
    if one.label:
        yield "label", "identity", one.label, None, None
    yield "decision", "decision", one.decision, one.decision_own, one.decision_swapped
    chances = one.probability, one.probability_own, one.probability_swapped
    yield f"probability of {one.outcome}", "decision", *chances
    yield f"mean rate of {one.outcome} over all pairs", "decision", None, one.own, one.swapped
    for name, value in (one.kept | one.person).items():
        kind = "may matter" if name in one.kept else "remaining"
        kind = "protected" if name == one.attribute else kind
        yield name, kind, value, one.own_member.get(name), one.other_member.get(name)


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    written = io.StringIO()
    # Quoted text keeps its commas; numbers stay numbers.
    writer = csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(head)
    writer.writerows(map(for_csv, row) for row in rows)
    return written.getvalue()


def to_markdown(record: Record) -> str:
    """Return a comment on a pull request; names from the data are shown as they are."""
    names = Names.from_record(record)
    title = ": ".join(filter(None, text.headline(record)))
    lines = [f"### {SIGNS[record.verdict]} {for_markdown(title)}", ""]
    lines += [for_markdown(sentence(record)), ""]
    lines += (f"- Next: {for_markdown(step)}." for step in text.next_steps(record)[:2])
    lines += ["", "<details><summary>All comparisons</summary>", ""]
    lines += [f"| compared | {' | '.join(text.head(record))} |", "|---|--:|--:|--:|--:|---|"]
    rows = []
    for line in estimates(record):
        title = f"{names.column(line.attribute)}: " * bool(line.attribute)
        rows.append((for_markdown(f"{title}{line.label}"), *line.cells()))
    lines += [f"| {' | '.join(row)} |" for row in rows[:MOST_ROWS]]
    lines += [f"\nand {len(rows) - MOST_ROWS} more"] * (len(rows) > MOST_ROWS)
    lines += ["", "</details>"]
    lines += [f"\n**Warning:** {for_markdown(warning)}" for warning in record.warnings]
    model = for_markdown(record.model.name or record.model.kind)
    lines += [
        "",
        f"<sub>{model}, {record.data.n:,} people, limit {limit(record.delta)}, α = "
        f"{record.alpha:g}, settings `{record.settings_hash[:12]}`, likewise "
        f"{for_markdown(record.likewise_version)}</sub>",
    ]
    return "\n".join(lines) + "\n"


def to_junit(record: Record) -> str:
    """Return JUnit XML: evidence fails, inconclusive is skipped, an invalid result is an error."""
    cases: list[tuple[str, ...]] = [("likewise", "verdict", record.verdict, sentence(record))]
    for line in estimates(record):
        said = f"{number(line.value)} ({interval(line.ends)}), p {p_value(line.p_value)}"
        outcome = line.verdict if record.verdict != "invalid" else "invalid"
        if line.attribute:
            cases.append((f"likewise.{line.attribute}", line.label, outcome, said))
    suites = ElementTree.Element("testsuites")
    outcomes = [outcome for _, _, outcome, _ in cases]
    count = {mark: str(outcomes.count(outcome)) for outcome, mark in COUNTED.items()}
    time = f"{record.seconds.get('total', 0.0):.3f}"
    about = {"name": "likewise", "timestamp": record.created[:19], "tests": str(len(cases))}
    suite = ElementTree.SubElement(suites, "testsuite", about | count, time=time)
    for place, name, outcome, said in cases:
        named = {"classname": for_xml(place), "name": for_xml(name), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", named)
        if outcome in MARKS:
            ElementTree.SubElement(case, MARKS[outcome], message=for_xml(said), type=outcome)
    ElementTree.SubElement(suite, "system-out").text = for_xml(summary(record))
    ElementTree.indent(suites)
    written = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def result_schema() -> str:
    """Return the JSON Schema of the result file, as text."""
    schema = Record.model_json_schema(mode="serialization")
    described = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of an audit by likewise",
    }
    return json.dumps(schema | described, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


WRITERS: dict[str, Callable[[Record], str]] = {
    "html": to_html,
    "json": Record.to_json,
    "csv": to_csv,
    "markdown": to_markdown,
    "junit": to_junit,
    "comparators": to_comparators,
}
