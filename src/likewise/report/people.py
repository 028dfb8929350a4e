"""The people treated worst, as cards: what moved, and what the model then made of it."""

import dataclasses
import math
from typing import Any

from markupsafe import Markup

from likewise.record import WorstCase
from likewise.report import charts
from likewise.report.page import short

MOST_COLUMNS = 24


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
    columns = list(dict.fromkeys([*case.before, *case.after]))
    pairs = [(name, case.before.get(name), case.after.get(name)) for name in columns]
    moved = [pair for pair in pairs if not _alike(pair[1], pair[2])]
    # Numbers first by how far they went, in their own size; then names in their own order.
    moved.sort(key=_distance, reverse=True)
    kept = [pair for pair in pairs if _alike(pair[1], pair[2])]
    changed = tuple(
        (short(n), short(b), short(a), short(case.nearest.get(n, "")))
        for n, b, a in moved[:MOST_COLUMNS]
    )
    same = tuple((short(n), short(b)) for n, b, _ in kept[:MOST_COLUMNS])
    shown = [part for row in (*changed, *same) for part in row]
    groups = tuple(short(value) for value in case.groups.values())
    return Person(
        case=case,
        changed=changed,
        same=same,
        left_out=len(pairs) - len(changed) - len(same),
        decision_changed=case.decision_before != case.decision_after,
        chart=charts.change(case.probability_before, case.probability_after),
        groups=groups,
        text=" ".join([*groups, short(case.label), f"row {case.row}", *shown]).lower(),
    )


def _alike(before: Any, after: Any) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-3, abs_tol=1e-9) or before != before
    return bool(before == after)


def _distance(pair: tuple[str, Any, Any]) -> float:
    _, before, after = pair
    if isinstance(before, int | float) and isinstance(after, int | float):
        far = abs(after - before) / (abs(before) + abs(after) or 1.0)
        return 0.0 if math.isnan(far) else far
    return 2.0
