"""Tables by group, added up block by block: who is in which cell, and how they fare there."""

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.inference.cells import MISSING
from likewise.inference.moments import Moments, RatioMoments
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_of_sums import UnitSums

PARTS = 32
POWERS = (1, 2, 3)


class GroupTally:
    """Sums for every combination of protected levels, labels and decisions that occurs.

    Everything that tables by group show follows from them, exactly. Memory grows with the number
    of combinations, not of people.

    Parameters
    ----------
    groups
        By trait, the group of every level, and last that of people whose trait is missing.
    classes
        Number of classes.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[str]],
        *,
        classes: int,
        regression: bool,
        weighted: bool,
    ) -> None:
        self.classes, self.regression, self.weighted = classes, regression, weighted
        self.names = {trait: tuple(dict.fromkeys(names)) for trait, names in groups.items()}
        self._group_of = {
            trait: np.array([self.names[trait].index(name) for name in names])
            for trait, names in groups.items()
        }
        self._shape = tuple(len(names) for names in self.names.values())
        self._counts: list[tuple[np.ndarray, np.ndarray]] = []
        self._fares: dict[int, tuple[RatioMoments | UnitSums, int]] = {}

    def add(self, block: Outcomes, levels: Mapping[str, Int[np.ndarray, " n"]]) -> None:
        """Add the people of a block, whose levels are given by their codes (-1 if missing)."""
        weight = block.weight if self.weighted else None
        place = np.zeros(len(block), dtype=np.int64)
        for trait, size in zip(self.names, self._shape, strict=True):
            place = place * size + self._group_of[trait][levels[trait]]
        self._add_fares(block, place, weight)
        if self.regression:
            return
        code = place
        for column in (block.y, block.decision_before, block.decision_after):
            code = code * self.classes + column
        each = np.ones(len(block)) if weight is None else weight
        columns = np.stack([np.ones(len(block)), *(each**power for power in POWERS)], axis=1)
        self._counts.append(_grouped(code, columns))
        if len(self._counts) > PARTS:
            self._counts = [self._merged()]

    def _add_fares(
        self, block: Outcomes, place: Int[np.ndarray, " n"], weight: np.ndarray | None
    ) -> None:
        order = np.argsort(place, kind="stable")
        cells, starts = np.unique(place[order], return_index=True)
        for cell, rows in zip(cells.tolist(), np.split(order, starts[1:]), strict=True):
            own = None if weight is None else weight[rows]
            fare, lost = self._fare(block, rows, own)
            if cell in self._fares:
                before, lost_before = self._fares[cell]
                fare, lost = before + fare, lost + lost_before  # type: ignore[operator]
            self._fares[cell] = fare, lost

    def _fare(
        self, block: Outcomes, rows: Int[np.ndarray, " m"], weight: np.ndarray | None
    ) -> tuple[RatioMoments | UnitSums, int]:
        if self.regression:
            after, before = block.loss_after[rows], block.loss_before[rows]
            known = np.isfinite(after) & np.isfinite(before)
            each = np.ones(len(rows)) if weight is None else weight
            return UnitSums.of(after * each, before * each), int((~known).sum())
        ratio = block.ratio[rows]
        known = np.isfinite(ratio)
        # Whoever has no ratio makes the mean undefined; until that is said, they count as one.
        return RatioMoments.of(np.where(known, ratio, 1.0), weight), int((~known).sum())

    def _merged(self) -> tuple[np.ndarray, np.ndarray]:
        return _grouped(
            np.concatenate([codes for codes, _ in self._counts]),
            np.concatenate([sums for _, sums in self._counts]),
        )

    def table(self) -> "DecisionTable":
        """Return the table of decisions."""
        self._counts = [self._merged()]
        code, sums = self._counts[0]
        columns = []
        for _ in range(3):
            code, column = np.divmod(code, self.classes)
            columns.append(column)
        after, before, y = columns
        return DecisionTable(self._unravelled(code), y, before, after, sums, self)

    def cells(self, crossed: bool) -> list[tuple[str, str, Bool[np.ndarray, " m"]]]:
        """Return trait, group and membership of every group, as `likewise.inference.cells` does.

        Membership is over the cells of `fares`.
        """
        return self.memberships(self._unravelled(np.array(sorted(self._fares))), crossed)

    def memberships(
        self, place: Mapping[str, Int[np.ndarray, " m"]], crossed: bool
    ) -> list[tuple[str, str, Bool[np.ndarray, " m"]]]:
        """Return trait, group and members of every group, for cells at some places."""
        single = {trait: np.array(self.names[trait], dtype=object)[place[trait]] for trait in place}
        traits = dict(single)
        for names in itertools.combinations(single, 2) if crossed else ():
            rows = zip(*(single[name] for name in names), strict=True)
            joined = [MISSING if MISSING in row else " × ".join(row) for row in rows]
            traits[" × ".join(names)] = np.array(joined, dtype=object)
        return [
            (trait, group, values == group)
            for trait, values in traits.items()
            for group in sorted(set(values.tolist()), key=_order)
        ]

    def fares(self, members: Bool[np.ndarray, " m"]) -> tuple[RatioMoments | UnitSums, int]:
        """Return the sums of some cells together, and how many people in them have no ratio."""
        chosen = [
            self._fares[c] for c, own in zip(sorted(self._fares), members, strict=True) if own
        ]
        total = functools.reduce(operator.add, [fare for fare, _ in chosen])
        return total, sum(lost for _, lost in chosen)

    def crossed_terms(
        self, members: Sequence[Bool[np.ndarray, " m"]], values: Sequence[float]
    ) -> Float[np.ndarray, "k k"]:
        """Return the products of the linearised estimates of groups, summed over people."""
        member = np.stack(members).astype(float)
        v = np.array(values)
        cells = [self._fares[c][0] for c in sorted(self._fares)]
        if self.regression:
            s20, s11, s02 = (
                np.array([c.sums[i, j] for c in cells if isinstance(c, UnitSums)])
                for i, j in ((2, 0), (1, 1), (0, 2))
            )
            cross = (member * v[:, None] * s11) @ member.T
            squares = (member * v[:, None] * s02) @ (member * v[:, None]).T
            return (member * s20) @ member.T - cross - cross.T + squares
        squared: list[Moments] = [c.squared for c in cells if isinstance(c, RatioMoments)]
        spread = np.array([m.squares for m in squared])
        weight, mean = np.array([m.weight for m in squared]), np.array([m.mean for m in squared])
        gaps = member * (mean - v[:, None]) * np.sqrt(weight)
        return (member * spread) @ member.T + gaps @ gaps.T

    def _unravelled(self, code: Int[np.ndarray, " m"]) -> dict[str, Int[np.ndarray, " m"]]:
        if not self._shape:
            return {}
        return dict(zip(self.names, np.unravel_index(code, self._shape), strict=True))


class DecisionTable:
    """How many people, of what weight, have each combination of group, label and decisions."""

    def __init__(
        self,
        place: Mapping[str, Int[np.ndarray, " m"]],
        y: Int[np.ndarray, " m"],
        before: Int[np.ndarray, " m"],
        after: Int[np.ndarray, " m"],
        sums: Float[np.ndarray, "m 4"],
        tally: GroupTally,
    ) -> None:
        self.y, self.before, self.after, self.sums = y, before, after, sums
        self.groups = tally.memberships(place, crossed=False)
        self.crossed = tally.memberships(place, crossed=True)
        self.weighted = tally.weighted

    @property
    def everybody(self) -> Float[np.ndarray, "4"]:
        """Number of people, and sums of their weights, squared and cubed weights."""
        return self.sums.sum(axis=0)


def _grouped(
    codes: Int[np.ndarray, " m"], values: Float[np.ndarray, "m c"]
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, "k c"]]:
    found, place = np.unique(codes, return_inverse=True)
    sums = np.stack([np.bincount(place, weights=column) for column in values.T], axis=1)
    return found, sums


def _order(group: str) -> tuple[bool, float, str]:
    try:
        return group == MISSING, float(group.split(" to ")[0]), group
    except ValueError:
        return group == MISSING, 0.0, group
