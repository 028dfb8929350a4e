"""The sums that tests, tables and pictures are made of, for any number of people; they add up."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes
from likewise.stats.frame import MISSING, Frame
from likewise.stats.sums import (
    CoMoments,
    Mean,
    Moments,
    QuantileSketch,
    RatioMoments,
    StatusCounts,
    TopK,
    UnitSums,
    hill_count,
    known_outcomes,
    spread,
    top_count,
)

POWERS = (1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of people.

    Parameters
    ----------
    trait, name
        The protected attribute (``sex``, or ``sex × race``) and its level.
    members
        Which cells of a tally belong to it.
    """

    trait: str
    name: str
    members: Bool[np.ndarray, " c"]

    @property
    def label(self) -> str:
        """Attribute and level, in words."""
        return f"{self.trait}: {self.name}"


def groups_of(
    cells: Int[np.ndarray, " c"], frame: Frame, *, crossed: bool = True
) -> tuple[Group, ...]:
    """Return the groups of every protected attribute, then those of all pairs of attributes.

    Every person is in exactly one group of each: those whose attribute is missing have one of
    their own. Numbers with many levels are cut into quarters, and of many names the rarest are
    pooled; neither depends on how anybody was treated.

    Parameters
    ----------
    cells
        Combinations of protected groups, as `CellSums` numbers them.
    crossed
        Whether pairs of attributes are crossed, too.
    """
    if not frame.traits:
        return ()
    names = {trait: list(dict.fromkeys(known.groups)) for trait, known in frame.traits.items()}
    places = np.unravel_index(cells, [len(own) for own in names.values()])
    traits = {
        trait: np.array(own, dtype=object)[place]
        for (trait, own), place in zip(names.items(), places, strict=True)
    }
    for one, other in itertools.combinations(tuple(traits), 2) if crossed else ():
        joined = [
            MISSING if MISSING in row else " × ".join(row)
            for row in zip(traits[one], traits[other], strict=True)
        ]
        traits[f"{one} × {other}"] = np.array(joined, dtype=object)
    return tuple(
        Group(trait, name, values == name)
        for trait, values in traits.items()
        for name in sorted(set(values.tolist()), key=_order)
    )


def _order(name: str) -> tuple[bool, float, str]:
    try:
        return name == MISSING, float(name.split(" to ")[0]), name
    except ValueError:
        return name == MISSING, 0.0, name


@dataclasses.dataclass(frozen=True)
class CellSums:
    """Sums for every combination of protected groups, and of labels and decisions within it.

    Everything that tests and tables show of independent people follows from them, for everyone and
    for any group. Memory grows with the number of combinations that occur, not of people.

    Parameters
    ----------
    cells
        The combinations of protected groups that occur, as numbers, in increasing order.
    count, undefined, at_cap
        People in every cell, those without a finite ratio or loss, and those whose ratio reaches
        the cap.
    largest, top
        The largest loss ratio in every cell, and the largest of all, for tail diagnostics.
    ratio, held, unweighted
        Moments of loss ratios, cell by cell: with weights, squared and cubed weights; the same of
        ratios that are capped; and without weights. None for a regression.
    losses, held_losses
        Power sums of losses, as in `UnitSums`, cell by cell, and of losses that are capped; zeros
        for a classification.
    kinds, decisions
        Combinations of cell, label and decisions before and after, as numbers; and people, weights,
        squared and cubed weights in each.
    """

    cells: Int[np.ndarray, " c"]
    count: Int[np.ndarray, " c"]
    undefined: Int[np.ndarray, " c"]
    at_cap: Int[np.ndarray, " c"]
    largest: Float[np.ndarray, " c"]
    top: TopK
    ratio: tuple[Moments, ...]
    held: tuple[Moments, ...]
    unweighted: tuple[Moments, ...]
    losses: Float[np.ndarray, "c 4 4"]
    held_losses: Float[np.ndarray, "c 4 4"]
    kinds: Int[np.ndarray, " k"]
    decisions: Float[np.ndarray, "k 4"]

    @classmethod
    def of(cls, block: Outcomes, frame: Frame, kind: Int[np.ndarray, " n"]) -> "CellSums":
        """Summarise a block of people, whose kinds are those of `kinds_of`."""
        each = frame.weights(block)
        kinds, place = numbered(kind)
        columns = [np.ones(len(block)), *(each**power for power in POWERS)]
        decisions = [np.bincount(place, weights=c, minlength=len(kinds)) for c in columns]
        cells, cell_of_kind = numbered(cell_of(kinds, frame))
        cell, size = cell_of_kind[place], len(cells)
        before, after, undefined = known_outcomes(block, frame)
        losses, held_losses, largest = np.zeros((size, 4, 4)), np.zeros((size, 4, 4)), np.ones(size)
        ratio: tuple[Moments, ...] = ()
        held = unweighted = ratio
        top, at_cap = after[:0], np.zeros(len(block), dtype=bool)
        if frame.regression:
            capped = np.minimum(after, np.maximum(before, frame.limit))
            for sums, then in ((losses, after), (held_losses, capped)):
                for i, j in itertools.product(range(4), range(4)):
                    term = ((then - before) * each) ** i * (before * each) ** j
                    sums[:, i, j] = np.bincount(cell, weights=term, minlength=size)
        else:
            np.maximum.at(largest, cell, after)
            powers = columns[1:] if frame.weighted else columns[:1]
            capped, top, at_cap = np.minimum(after, frame.cap), after, after >= frame.cap
            ratio, held, unweighted = (
                tuple(Moments.by_cell(values, cell, size, weight) for weight in weights)
                for values, weights in ((after, powers), (capped, powers), (after, columns[:1]))
            )
        return cls(
            cells=cells,
            count=np.bincount(cell, minlength=size),
            undefined=np.bincount(cell, weights=undefined, minlength=size).astype(np.int64),
            at_cap=np.bincount(cell, weights=at_cap, minlength=size).astype(np.int64),
            largest=largest,
            top=TopK.of(top, min(frame.n, max(hill_count(frame.n) + 1, top_count(frame.n)))),
            ratio=ratio,
            held=held,
            unweighted=unweighted,
            losses=losses,
            held_losses=held_losses,
            kinds=kinds,
            decisions=np.stack(decisions, axis=1),
        )

    def __add__(self, other: "CellSums") -> "CellSums":
        cells, *places = _aligned(self.cells, other.cells)
        kinds, *kind_places = _aligned(self.kinds, other.kinds)
        size = len(cells)

        def moments(name: str) -> tuple[Moments, ...]:
            mine, theirs = (
                [field.spread_to(place, size) for field in getattr(part, name)]
                for part, place in zip((self, other), places, strict=True)
            )
            return tuple(one + two for one, two in zip(mine, theirs, strict=True))

        def wide(name: str, at: Sequence[Any] = places, size: int = size) -> Any:
            return [
                spread(getattr(part, name), place, size)
                for part, place in zip((self, other), at, strict=True)
            ]

        sums = ("count", "undefined", "at_cap", "losses", "held_losses")
        return CellSums(
            cells=cells,
            kinds=kinds,
            decisions=sum(wide("decisions", kind_places, len(kinds))),
            largest=np.maximum(*wide("largest")),
            top=self.top + other.top,
            ratio=moments("ratio"),
            held=moments("held"),
            unweighted=moments("unweighted"),
            **{name: sum(wide(name)) for name in sums},
        )

    def moments(self, column: str, members: Any) -> RatioMoments:
        """Return the moments of loss ratios in some cells together, by the name of their field."""
        found = [field.of_cells(members) for field in getattr(self, column)]
        return RatioMoments(
            int(self.count[members].sum()), *(found if len(found) > 1 else found * 3)
        )

    def loss_sums(self, column: str, members: Any) -> UnitSums:
        """Return the power sums of losses in some cells together, by the name of their field."""
        return UnitSums(getattr(self, column)[members].sum(axis=0))

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
        if not self.ratio:
            scaled = members * (values[:, None] - 1)
            s20, s11, s02 = (self.losses[:, i, j] for i, j in ((2, 0), (1, 1), (0, 2)))
            cross = (scaled * s11) @ members.T
            return (members * s20) @ members.T - cross - cross.T + (scaled * s02) @ scaled.T
        squared = self.ratio[min(1, len(self.ratio) - 1)]
        gaps = members * (squared.mean - values[:, None]) * np.sqrt(squared.weight)
        return (members * squared.squares) @ members.T + gaps @ gaps.T


def kinds_of(
    block: Outcomes, frame: Frame, levels: Mapping[str, Int[np.ndarray, " n"]] | None = None
) -> Int[np.ndarray, " n"]:
    """Return everyone's kind: protected groups and, in a classification, label and decisions.

    Parameters
    ----------
    levels
        Codes of everyone's level by attribute, -1 if missing; from the names in ``block`` unless
        given.
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


def numbered(names: Shaped[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
    """Return the values that occur, and the place of everyone's among them."""
    if names.dtype.kind == "O":
        numbers = {value: k for k, value in enumerate(dict.fromkeys(names.tolist()))}
        found = np.empty(len(numbers), dtype=object)
        found[:] = list(numbers)
        return found, np.array([numbers[value] for value in names.tolist()], dtype=np.int64)
    if len(names) and names.dtype.kind == "i" and names.min() >= 0:
        largest = int(names.max())
        if largest < 4 * len(names) + 1000:  # few enough not to sort
            found = np.flatnonzero(np.bincount(names))
            return found, spread(np.arange(len(found)), found, largest + 1)[names]
    found, place = np.unique(names, return_inverse=True)
    return found, place.reshape(-1)


def _aligned(one: Any, other: Any) -> tuple[Any, Any, Any]:
    joined = np.union1d(one, other)
    return joined, np.searchsorted(joined, one), np.searchsorted(joined, other)


@dataclasses.dataclass(frozen=True)
class ClusterTable:
    """Totals of some columns for every cluster and, within it, every kind of person.

    Parameters
    ----------
    names
        Names of the clusters, each once.
    unit, kind
        The cluster of every line, by its place in ``names``, and the kind of people in it.
    sums
        One line per cluster and kind, one column per quantity: numbers of people, and weighted
        totals.
    """

    names: Shaped[np.ndarray, " g"]
    unit: Int[np.ndarray, " m"]
    kind: Int[np.ndarray, " m"]
    sums: Float[np.ndarray, "m k"]

    @classmethod
    def joined(cls, parts: Sequence["ClusterTable"]) -> "ClusterTable":
        """Add up several tables."""
        names, place = numbered(np.concatenate([part.names for part in parts]))
        starts = np.cumsum([0, *(len(part.names) for part in parts)])
        unit = np.concatenate(
            [place[part.unit + start] for part, start in zip(parts, starts, strict=False)]
        )
        kind = np.concatenate([part.kind for part in parts])
        order = np.lexsort((kind, unit))
        unit, kind = unit[order], kind[order]
        first = np.append(True, (np.diff(unit) != 0) | (np.diff(kind) != 0))[: len(unit)]
        sums = np.concatenate([part.sums for part in parts])[order]
        return cls(names, unit[first], kind[first], np.add.reduceat(sums, np.flatnonzero(first)))


@dataclasses.dataclass(frozen=True)
class ClusterTotals:
    r"""Weighted totals over the people of each cluster, by kind of people.

    All that cluster-robust inference needs, for everyone and for groups; its size grows with the
    number of clusters, not of people.

    Parameters
    ----------
    columns
        Names of the columns: ``count``, ``weight``, and what is totalled with the weights.
    parts
        Tables that have not been joined yet: joining sorts, so it waits until it is worth it.
    """

    columns: tuple[str, ...] = ()
    parts: tuple[ClusterTable, ...] = ()

    @classmethod
    def of(cls, block: Outcomes, frame: Frame, kind: Int[np.ndarray, " n"]) -> "ClusterTotals":
        """Add up a block of people by cluster and kind."""
        if not frame.clustered or block.cluster is None or not len(block):
            return cls()
        each = frame.weights(block)
        columns = {"count": np.ones(len(block)), "weight": each}
        columns |= {name: values * each for name, values in _moving(block, frame, None).items()}
        for time in frame.horizons:
            then = _moving(block.at(time), frame, time)
            columns |= {name: values * each for name, values in then.items()}
        names, unit = numbered(block.cluster)
        rows = ClusterTable(names, unit, kind, np.stack(list(columns.values()), axis=1))
        return cls(tuple(columns), (ClusterTable.joined([rows]),))

    def __add__(self, other: "ClusterTotals") -> "ClusterTotals":
        parts = sorted((*self.parts, *other.parts), key=lambda part: -len(part.unit))
        while len(parts) > 1 and len(parts[-2].unit) <= 2 * len(parts[-1].unit):
            parts[-2:] = [ClusterTable.joined(parts[-2:])]
        return ClusterTotals(self.columns or other.columns, tuple(parts))

    @functools.cached_property
    def table(self) -> ClusterTable:
        """All clusters and kinds."""
        return ClusterTable.joined(self.parts)

    @functools.cached_property
    def count(self) -> int:
        """Number of clusters; 0 if people do not come in clusters."""
        return len(self.table.names) if self.parts else 0

    def totals(
        self, column: str, among: Bool[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, " g"]:
        """Return the total of a column in every cluster, over some of the lines of the table."""
        values = self.table.sums[:, self.columns.index(column)]
        if among is not None:
            values = values * among
        return np.bincount(self.table.unit, weights=values, minlength=self.count)


def _moving(
    block: Outcomes, frame: Frame, time: float | None
) -> dict[str, Shaped[np.ndarray, " n"]]:
    """Return what is totalled by cluster: errors and ratios, or losses, by name and time."""
    before, after, _ = known_outcomes(block, frame)
    if frame.regression:
        first = {"before": before}
        then = {"after": after, "held": np.minimum(after, np.maximum(before, frame.limit))}
    else:
        first = {"wrong_before": block.error_before}
        then = {"ratio": after, "held": np.minimum(after, frame.cap)}
        then["wrong_after"] = block.error_after
    if time is None:
        return {**first, **then}
    return {f"{name}@{time!r}": values for name, values in {**first, **then}.items()}


@dataclasses.dataclass(frozen=True)
class Tally:
    """The sums of everyone, or of some people, by what they are needed for.

    In memory, in pieces, on a cluster: the tally of all is the sum of those of blocks, whichever
    blocks they are and in whatever order and grouping they are added.

    Parameters
    ----------
    frame
        What all blocks have in common.
    groups, clusters
        Sums of independent people, by cell of protected groups; and totals by cluster.
    horizons, joint
        The same as ``groups`` at other stopping times of the flow, without protected groups; and
        how ratios (or losses after, and last before) at all times covary, with squared weights.
    status, fair_distance, spread
        What became of people, how far they were perturbed, and the distribution of loss ratios.
    time
        The stopping time that ``groups`` is about; ``None`` is the end of the flow.
    """

    frame: Frame
    groups: CellSums
    clusters: ClusterTotals
    horizons: tuple[CellSums, ...]
    joint: CoMoments
    status: StatusCounts
    fair_distance: Mean
    spread: QuantileSketch
    time: float | None = None

    @classmethod
    def of(
        cls,
        block: Outcomes,
        frame: Frame | None = None,
        levels: Mapping[str, Int[np.ndarray, " n"]] | None = None,
    ) -> "Tally":
        """Summarise a block of people.

        Parameters
        ----------
        frame
            What all blocks have in common; if this is all there is, it says so itself.
        levels
            Codes of everyone's level by attribute, -1 if missing; by default from the names of
            levels in the block.
        """
        frame = frame or Frame.of(block)
        kind, ratio, bare = kinds_of(block, frame, levels), block.ratio, frame.bare()
        later = [block.at(time) for time in frame.horizons]
        columns = [known_outcomes(then, frame)[1] for then in later]
        if frame.regression and later:
            columns.append(known_outcomes(block, frame)[0])
        joint = np.stack(columns, axis=1) if columns else np.zeros((len(block), 0))
        return cls(
            frame=frame,
            groups=CellSums.of(block, frame, kind),
            clusters=ClusterTotals.of(block, frame, kind),
            horizons=tuple(CellSums.of(then, bare, kinds_of(then, bare)) for then in later),
            joint=CoMoments.of(joint, frame.weights(block) ** 2),
            status=StatusCounts.of(block),
            fair_distance=Mean.of(block.fair_distance[:, None]),
            spread=QuantileSketch.of(ratio[np.isfinite(ratio) & (ratio > 0)]),
        )

    def __add__(self, other: "Tally") -> "Tally":
        names = ("groups", "clusters", "joint", "status", "fair_distance", "spread")
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        pairs = zip(self.horizons, other.horizons, strict=True)
        sums["horizons"] = tuple(one + two for one, two in pairs)
        return dataclasses.replace(self, **sums)

    def at(self, time: float) -> "Tally":
        """Return the tally as it was at another stopping time of the flow, for the tests."""
        times = self.frame.horizons
        if time not in times:
            known = ", ".join(f"{t:g}" for t in times) or "none"
            raise InvalidSample(f"There are no outcomes at time {time:g} (there are: {known}).")
        then = self.horizons[times.index(time)]
        return dataclasses.replace(self, frame=self.frame.bare(), groups=then, time=time)

    @property
    def n(self) -> int:
        """Number of people."""
        return int(self.groups.count.sum())

    @property
    def weight(self) -> float:
        """Total weight of the people."""
        return float(self.groups.decisions[:, 1].sum())

    @property
    def clustered(self) -> bool:
        """Whether some people share a cluster; clusters of one are none."""
        units = self.clusters.count
        if units == 1:
            raise InvalidSample("All people are in one cluster; a standard error needs two.")
        return 0 < units < self.n

    def by_cluster(
        self, column: str, among: Bool[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, " g"]:
        """Return the total of a column in every cluster, at this tally's time."""
        fixed = column in ("count", "weight") or self.time is None
        return self.clusters.totals(column if fixed else f"{column}@{self.time!r}", among)

    def crossed_terms(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m m"]:
        """Return the products of the linearised estimates at all times, summed over units."""
        times, k = self.frame.horizons, len(values)
        if self.clustered:
            after, before = ("after", "before") if self.frame.regression else ("ratio", "weight")
            base = self.by_cluster(before)
            at = [self.at(time).by_cluster(after) for time in times]
            terms = np.stack([after - v * base for after, v in zip(at, values, strict=True)])
            return terms @ terms.T
        if self.frame.regression:
            return self.joint.of_combinations(np.vstack([np.eye(k), -values[None, :]]))
        about = dataclasses.replace(self.joint, mean=self.joint.mean - values)
        return about.of_combinations(np.eye(k))
