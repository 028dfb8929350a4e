"""Counterparts on a web page: rows of groups, and cards of people beside the pair that visited."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from likewise.record import (
    ColumnShareRecord,
    CounterpartCase,
    CounterpartGroup,
    CounterpartsRecord,
)
from likewise.report import charts, counterpart_words
from likewise.report.layout import number, percent
from likewise.report.page import short

MOST_COLUMNS = 16


@dataclasses.dataclass(frozen=True)
class DirectionRow:
    """One line of the table: everyone, or one group visited as others."""

    name: str
    group: CounterpartGroup
    everyone: bool

    @property
    def interval(self) -> str:
        """The interval in words: a ratio is never below zero, and an infinite bound is none."""
        low, high = self.group.interval
        if math.isnan(low) or math.isnan(high) or math.isinf(high):
            return "not known"
        return f"{number(max(low, 0.0))} – {number(high)}"


@dataclasses.dataclass(frozen=True)
class VisitedPerson:
    """One card.

    Parameters
    ----------
    rows
        Free columns: name, the person's value, and those of the two members.
    kept
        The columns that may matter, with the person's values.
    left_out
        Columns that are not shown, because there are too many.
    """

    case: CounterpartCase
    headline: str
    rows: tuple[tuple[str, str, str, str], ...]
    kept: str
    left_out: int


def counterpart_values(part: CounterpartsRecord, delta: float) -> dict[str, Any]:
    """Return what the template of counterparts is filled with."""
    rows = [
        row
        for trait in part.traits
        for row in (
            DirectionRow(f"{trait.trait}, everyone", trait.overall, True),
            *(
                DirectionRow(counterpart_words.direction(group, trait), group, False)
                for group in trait.groups
            ),
        )
    ]
    bounds = [(row.group.interval[0], row.group.estimate, row.group.interval[1]) for row in rows]
    axis = charts.scale(bounds, delta, 1.0)
    pictures = [charts.row_chart(axis, *bound, delta) for bound in bounds]
    return {
        "asked": counterpart_words.question(part),
        "measured": counterpart_words.what(part),
        "counterpart_rows": (
            charts.axis_chart(axis, delta),
            list(zip(rows, pictures, strict=True)),
        ),
        "undecided": counterpart_words.undecided(part),
        "detectable": counterpart_words.smallest_detectable(part),
        "left_out": [one for trait in part.traits for one in trait.left_out],
        "moved_in": [one for trait in part.traits for one in trait.moved_in],
        "carried": [
            (trait.trait, share_rows(trait.carriers()))
            for trait in part.traits
            if any(not math.isnan(one.share) for one in trait.carriers())
        ],
        "visited": [visited_person(case, part) for case in part.worst],
    }


def share_rows(shares: Sequence[ColumnShareRecord]) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return an axis, and each column's share with its picture."""
    bounds = [(one.interval[0], one.share, one.interval[1]) for one in shares]
    axis = charts.scale(bounds, 0.0, 1.0)
    rows = [
        (one, charts.row_chart(axis, *bound)) for one, bound in zip(shares, bounds, strict=True)
    ]
    return charts.axis_chart(axis), rows


def visited_person(case: CounterpartCase, part: CounterpartsRecord) -> VisitedPerson:
    """Lay out one person's card."""
    kept = [name for name in case.person if name in part.may_matter]
    others = [name for name in case.person if name not in part.may_matter]
    # What differs between the members explains the answer, so it comes first.
    others.sort(key=lambda name: case.own_member.get(name) == case.other_member.get(name))
    shown = others[:MOST_COLUMNS]
    headline = (
        f"refused in {percent(round(case.mean_before, 3))} → {percent(round(case.mean_after, 3))} "
        "of visits"
        if part.favourable
        else f"{part.loss} {number(case.mean_before, 3)} → {number(case.mean_after, 3)}"
    )
    return VisitedPerson(
        case=case,
        headline=headline,
        rows=tuple(
            (
                short(name),
                short(case.person.get(name)),
                short(case.own_member.get(name)),
                short(case.other_member.get(name)),
            )
            for name in shown
        ),
        kept=", ".join(f"{name} {short(case.person[name])}" for name in kept),
        left_out=len(others) - len(shown),
    )
