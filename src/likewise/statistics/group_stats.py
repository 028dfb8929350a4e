"""How every group of people fares and is decided about, in sums that merge; who is in a group."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.errors import InvalidSettings, nearest
from likewise.outcomes import Outcomes
from likewise.statistics.frame import MISSING, Frame
from likewise.statistics.moments import Moments, RatioMoments
from likewise.statistics.ratio import UnitSums, known_losses, known_ratios


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of people.

    Parameters
    ----------
    trait, name
        The protected trait (``sex``, or ``sex × race``) and its level.
    members
        Which of some cells belong to it.
    """

    trait: str
    name: str
    members: Bool[np.ndarray, " c"]

    @property
    def label(self) -> str:
        """Trait and level, in words."""
        return f"{self.trait}: {self.name}"


def groups_of(
    cells: Int[np.ndarray, " c"],
    frame: Frame,
    intersections: Sequence[Sequence[str]] | None = None,
) -> tuple[Group, ...]:
    """Return the groups of every protected trait, then those of intersections of traits.

    Every person is in exactly one group of each trait: those whose trait is missing have one of
    their own. Numbers with many levels are cut into quarters, and of many names the rarest are
    pooled; neither depends on how anybody was treated.

    Parameters
    ----------
    cells
        Combinations of protected groups, as `GroupStats` numbers them.
    intersections
        Which traits to cross: all pairs unless told otherwise; ``()`` crosses none.
    """
    if not frame.traits:
        return ()
    names = {trait: list(dict.fromkeys(known.groups)) for trait, known in frame.traits.items()}
    places = np.unravel_index(cells, [len(own) for own in names.values()])
    single = {
        trait: np.array(own, dtype=object)[place]
        for (trait, own), place in zip(names.items(), places, strict=True)
    }
    traits = dict(single)
    if intersections is None:
        intersections = list(itertools.combinations(single, 2))
    for crossed in intersections:
        for trait in crossed:
            if trait not in single:
                raise InvalidSettings(
                    f"There is no protected trait {trait!r} to cross (there are: "
                    f"{', '.join(single) or 'none'}).{nearest(trait, single)}"
                )
        traits[" × ".join(crossed)] = _cross([single[trait] for trait in crossed])
    return tuple(
        Group(trait, name, values == name)
        for trait, values in traits.items()
        for name in sorted(set(values.tolist()), key=_order)
    )


def _cross(columns: Sequence[Shaped[np.ndarray, " c"]]) -> Shaped[np.ndarray, " c"]:
    rows = zip(*columns, strict=True)
    joined = [MISSING if MISSING in row else " × ".join(row) for row in rows]
    return np.array(joined, dtype=object)


def _order(name: str) -> tuple[bool, float, str]:
    try:
        return name == MISSING, float(name.split(" to ")[0]), name
    except ValueError:
        return name == MISSING, 0.0, name


POWERS = (1, 2, 3)


@dataclasses.dataclass(frozen=True)
class GroupStats:
    """Sums for every combination of protected groups, and of labels and decisions within it.

    Everything that tables by group show follows from them, exactly. Memory grows with the number
    of combinations that occur, not of people.

    Parameters
    ----------
    cells
        The combinations of protected groups that occur, as numbers, in increasing order.
    count, undefined
        People in every cell, and how many of them have no finite ratio or loss.
    largest
        The largest loss ratio in every cell; ones for a regression.
    moments
        Of loss ratios, cell by cell: with weights, squared and cubed weights; none for a
        regression.
    losses
        Power sums of losses, as in `UnitSums`, cell by cell; zeros for a classification.
    kinds, decisions
        Combinations of cell, label and decisions before and after, as numbers; and people, weights,
        squared and cubed weights in each.
    """

    cells: Int[np.ndarray, " c"]
    count: Int[np.ndarray, " c"]
    undefined: Int[np.ndarray, " c"]
    largest: Float[np.ndarray, " c"]
    moments: tuple[Moments, ...]
    losses: Float[np.ndarray, "c 4 4"]
    kinds: Int[np.ndarray, " k"]
    decisions: Float[np.ndarray, "k 4"]

    @classmethod
    def of(cls, block: Outcomes, frame: Frame, kind: Int[np.ndarray, " n"]) -> "GroupStats":
        """Summarise a block of people, whose kinds are those of `kinds_of`."""
        weight = block.weight if frame.weighted else None
        each = np.ones(len(block)) if weight is None else weight
        kinds, place = _numbered(kind)
        columns = [np.ones(len(block)), *(each**power for power in POWERS)]
        decisions = np.stack(
            [np.bincount(place, weights=c, minlength=len(kinds)) for c in columns], axis=1
        )
        cells, cell_of_kind = _numbered(cell_of(kinds, frame))
        cell = cell_of_kind[place]
        size = len(cells)
        moments: tuple[Moments, ...] = ()
        losses, largest = np.zeros((size, 4, 4)), np.ones(size)
        if frame.regression:
            before, after, _ = known_losses(block)
            known = np.isfinite(block.loss_before) & np.isfinite(block.loss_after)
            for i in range(4):
                for j in range(4):
                    term = ((after - before) * each) ** i * (before * each) ** j
                    losses[:, i, j] = np.bincount(cell, weights=term, minlength=size)
        else:
            ratio, _ = known_ratios(block)
            known = np.isfinite(block.ratio)
            np.maximum.at(largest, cell, ratio)
            powers = POWERS if frame.weighted else POWERS[:1]
            moments = tuple(Moments.by_cell(ratio, cell, size, each**power) for power in powers)
        return cls(
            cells,
            np.bincount(cell, minlength=size),
            np.bincount(cell, weights=~known, minlength=size).astype(np.int64),
            largest,
            moments,
            losses,
            kinds,
            decisions,
        )

    def __add__(self, other: "GroupStats") -> "GroupStats":
        cells, *places = _aligned(self.cells, other.cells)
        kinds, *kind_places = _aligned(self.kinds, other.kinds)
        size, parts = len(cells), list(zip((self, other), places, strict=True))
        moments = [
            [field.spread_to(place, size) for field in part.moments] for part, place in parts
        ]
        return GroupStats(
            cells,
            sum(_spread(part.count, place, size) for part, place in parts),
            sum(_spread(part.undefined, place, size) for part, place in parts),
            np.maximum(*(_spread(part.largest, place, size) for part, place in parts)),
            tuple(one + two for one, two in zip(*moments, strict=True)),
            sum(_spread(part.losses, place, size) for part, place in parts),
            kinds,
            sum(
                _spread(part.decisions, place, len(kinds))
                for part, place in zip((self, other), kind_places, strict=True)
            ),
        )

    def ratios(self, members: Any) -> RatioMoments:
        """Return the moments of loss ratios in some cells together."""
        found = [field.of_cells(members) for field in self.moments]
        return RatioMoments(
            int(self.count[members].sum()), *(found if len(found) > 1 else found * 3)
        )

    def loss_sums(self, members: Any) -> UnitSums:
        """Return the power sums of losses in some cells together."""
        return UnitSums(self.losses[members].sum(axis=0))

    def crossed_terms(
        self, members: Float[np.ndarray, "m c"], values: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m m"]:
        """Return the products of the linearised estimates of groups, summed over people.

        Parameters
        ----------
        members
            Which cells are in which group.
        values
            Every group's estimate.
        """
        if not self.moments:
            scaled = members * (values[:, None] - 1)
            s20, s11, s02 = (self.losses[:, i, j] for i, j in ((2, 0), (1, 1), (0, 2)))
            cross = (scaled * s11) @ members.T
            return (members * s20) @ members.T - cross - cross.T + (scaled * s02) @ scaled.T
        squared = self.moments[min(1, len(self.moments) - 1)]
        gaps = members * (squared.mean - values[:, None]) * np.sqrt(squared.weight)
        return (members * squared.squares) @ members.T + gaps @ gaps.T


def kinds_of(
    block: Outcomes, frame: Frame, levels: Mapping[str, Int[np.ndarray, " n"]] | None = None
) -> Int[np.ndarray, " n"]:
    """Return everyone's kind: protected groups and, in a classification, label and decisions.

    Parameters
    ----------
    levels
        Codes of everyone's level by trait, -1 if missing; from the names in ``block`` unless given.
    """
    code = np.zeros(len(block), dtype=np.int64)
    for trait, known in frame.traits.items():
        names = dict.fromkeys(known.groups)
        place = {name: k for k, name in enumerate(names)}
        group = np.array([place[name] for name in known.groups])
        own = known.codes_of(block.groups[trait]) if levels is None else levels[trait]
        code = code * len(names) + group[own]
    if not frame.regression:
        for column in (block.y, block.decision_before, block.decision_after):
            code = code * frame.classes + column.astype(np.int64)
    return code


def cell_of(kind: Int[np.ndarray, " m"], frame: Frame) -> Int[np.ndarray, " m"]:
    """Return the cell of protected groups that kinds of people belong to."""
    return kind if frame.regression else kind // frame.classes**3


def decisions_of(
    kind: Int[np.ndarray, " m"], frame: Frame
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Return label, decision before and decision after of kinds of people."""
    rest, after = np.divmod(kind, frame.classes)
    rest, before = np.divmod(rest, frame.classes)
    return rest % frame.classes, before, after


def _numbered(
    codes: Int[np.ndarray, " n"],
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " n"]]:
    """Return the codes that occur, in increasing order, and the place of everyone's among them."""
    if len(codes) and int(codes.max()) < 4 * len(codes) + 1000:  # few enough not to sort
        found = np.flatnonzero(np.bincount(codes))
        place = np.zeros(int(codes.max()) + 1, dtype=np.int64)
        place[found] = np.arange(len(found))
        return found, place[codes]
    found, inverse = np.unique(codes, return_inverse=True)
    return found, inverse.reshape(-1)


def _aligned(one: Any, other: Any) -> tuple[Any, Any, Any]:
    if np.array_equal(one, other):
        return one, np.arange(len(one)), np.arange(len(one))
    joined = np.union1d(one, other)
    return joined, np.searchsorted(joined, one), np.searchsorted(joined, other)


def _spread(values: Any, places: Any, size: int) -> Any:
    wide = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    wide[places] = values
    return wide
