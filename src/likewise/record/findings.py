"""Whom and what a result is about: people, columns that carry it, and subgroups."""

import math
from typing import Any

from pydantic import Field

from likewise.record.json_text import Anything, Count, Number, Share, Size, Text
from likewise.record.record_parts import Part


class WorstCase(Part):
    """A person treated unlike their like, before and after the move."""

    row: Count
    label: Text
    ratio: Number
    loss_before: Size
    loss_after: Size
    decision_before: Text
    decision_after: Text
    probability_before: Share
    probability_after: Share
    fair_distance: Number
    groups: dict[Text, Text | None] = Field(default_factory=dict)
    before: dict[Text, Anything] = Field(default_factory=dict)
    after: dict[Text, Anything] = Field(default_factory=dict)
    nearest: dict[Text, Anything] = Field(default_factory=dict)
    nearest_row: Count | None = None
    outside: tuple[Text, ...] = ()

    def moved(self) -> list[tuple[str, Any, Any]]:
        """Return the columns that differ after the move, first those that went furthest.

        Text comes first; a number is measured in its own size.
        """
        names = dict.fromkeys([*self.before, *self.after])
        pairs = [(name, self.before.get(name), self.after.get(name)) for name in names]
        return sorted(
            (pair for pair in pairs if not _alike(*pair[1:])), key=_distance, reverse=True
        )

    def __str__(self) -> str:
        groups = ", ".join(f"{name} {value}" for name, value in self.groups.items())
        moved = self.moved()
        lines = [
            f"Row {self.row}{f' ({groups})' if groups else ''}, label {self.label}: decided "
            f"{self.decision_before}, then {self.decision_after}",
            f"  probability of the label {self.probability_before:.3f} → "
            f"{self.probability_after:.3f}",
            *(f"  {name}: {_shown(before)} → {_shown(after)}" for name, before, after in moved[:5]),
        ]
        more = len(moved) - 5
        lines += [f"  … and {more} more columns"] if more > 0 else []
        return "\n".join(line if len(line) <= 80 else line[:79] + "…" for line in lines)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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


class ColumnShareRecord(Part):
    """How much of what was found one column (or all levels of one category) carries.

    ``alone`` and ``without`` are the audit values if it alone comes from the other person, and if
    all columns but this one do.
    """

    column: Text
    share: Number
    interval: tuple[Number, Number] = (math.nan, math.nan)
    alone: Number = math.nan
    without: Number = math.nan


class SubgroupRecord(Part):
    """People that nobody named beforehand: found on one half, judged on the other.

    Bounds and p-values hold for all subgroups of a trait together.
    """

    trait: Text = ""
    words: Text
    n: Count
    estimate: Number
    lower_bound: Number
    upper_bound: Number
    p_adjusted: Share
    found: bool
