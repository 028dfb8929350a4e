"""Comparator file: people beside comparable people, side by side, for comparative file review."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from likewise.record import ComparedPerson, Record
from likewise.report.escaping import for_csv

HEAD = ("case", "attribute", "group", "other", "item", "kind", "person", "own_group", "other_group")
Line = tuple[str, str, Any, Any, Any]


def to_comparators(record: Record) -> str:
    """Return the most affected people beside their closest comparable pair, one line an item.

    ``person`` is the audited person, ``own_group`` and ``other_group`` are the members of the
    pair: real people of the reference sample. Items are row numbers, decisions and probabilities,
    and every column: ``may matter`` (people are alike in it), ``remaining``, or ``protected``.
    Decisions are the person's: as they are, and with the remaining columns of either member.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(HEAD)
    part = record.matched_pairs
    for number, one in enumerate(() if part is None else part.people, start=1):
        case = (number, one.attribute, one.group, one.other)
        for line in _lines(one):
            writer.writerow(["" if value is None else for_csv(value) for value in (*case, *line)])
    return text.getvalue()


def _lines(one: ComparedPerson) -> Iterator[Line]:
    yield "row", "identity", one.row, one.own_row, one.other_row
    if one.label:
        yield "label", "identity", one.label, None, None
    yield "decision", "decision", one.decision, one.decision_own, one.decision_swapped
    yield (
        f"probability of {one.outcome}",
        "decision",
        one.probability,
        one.probability_own,
        one.probability_swapped,
    )
    yield f"mean rate of {one.outcome} over all pairs", "decision", None, one.own, one.swapped
    for name, value in one.kept.items():
        yield name, "may matter", value, one.own_member.get(name), one.other_member.get(name)
    for name, value in one.person.items():
        kind = "protected" if name == one.attribute else "remaining"
        yield name, kind, value, one.own_member.get(name), one.other_member.get(name)
