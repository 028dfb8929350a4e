"""The people treated worst, as cards: what moved, and what the model then made of it."""

import dataclasses

from markupsafe import Markup

from likewise.record import WorstCase
from likewise.report import charts
from likewise.report.page import short

MOST_MOVED, MOST_COLUMNS = 5, 24
"""Columns on a card: those that moved most, and of those that did not."""


@dataclasses.dataclass(frozen=True)
class Person:
    """One card.

    Parameters
    ----------
    changed
        Columns that the map moved: name, value before, value after, and that of the nearest real
        person.
    same
        Columns that it left: name and value.
    left_out
        Columns that are not shown, because there are too many.
    groups
        Levels of the protected traits, for the filter.
    text
        Everything on the card, for the search.
    """

    case: WorstCase
    changed: tuple[tuple[str, str, str, str], ...]
    same: tuple[tuple[str, str], ...]
    left_out: int
    decision_changed: bool
    chart: Markup
    groups: tuple[str, ...]
    text: str

    @property
    def drop(self) -> float:
        """How much probability the true class lost."""
        return self.case.probability_before - self.case.probability_after


def person(case: WorstCase) -> Person:
    """Lay out one person's card."""
    moved = case.moved()
    gone = {name for name, _, _ in moved}
    kept = [(name, value) for name, value in case.before.items() if name not in gone]
    changed = tuple(
        (short(n), short(b), short(a), short(case.nearest.get(n, "")))
        for n, b, a in moved[:MOST_MOVED]
    )
    same = tuple((short(name), short(value)) for name, value in kept[:MOST_COLUMNS])
    shown = [part for row in (*changed, *same) for part in row]
    groups = tuple(short(value) for value in case.groups.values())
    return Person(
        case=case,
        changed=changed,
        same=same,
        left_out=len(moved) + len(kept) - len(changed) - len(same),
        decision_changed=case.decision_before != case.decision_after,
        chart=charts.change(case.probability_before, case.probability_after),
        groups=groups,
        text=" ".join([*groups, short(case.label), f"row {case.row}", *shown]).lower(),
    )
