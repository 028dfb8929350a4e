"""The sums that tests, tables and pictures are made of, for any number of people; they add up."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes, Status
from likewise.stats.frame import MISSING, Frame, as_text
from likewise.stats.sums import POWERS, Additive, QuantileSketch, TopK, power_products

COUNTS = slice(0, 4)
"""Columns of `CellSums`: people, and their weights, squared weights and cubed weights."""

UNDEFINED, AT_CAP = 4, 5
"""Those without a finite ratio or loss, and those who reach the cap."""

PLAIN = slice(6, 8)
"""Changes and squared changes, whatever the weights."""

LOSS = slice(8, 8 + len(POWERS))
HELD = slice(LOSS.stop, LOSS.stop + len(POWERS))
"""Power sums of ratios (or losses), as in `RatioSums`, and of those that are capped."""


@dataclasses.dataclass(frozen=True)
class Group:
    """A level of a protected attribute (or of ``sex × race``), and which kinds belong to it."""

    trait: str
    name: str
    members: Bool[np.ndarray, " k"]


def groups_of(
    kinds: Int[np.ndarray, " k"], frame: Frame, *, crossed: bool = True
) -> tuple[Group, ...]:
    """Return the groups of every protected attribute, then (``crossed``) of all pairs of them.

    Everyone is in exactly one group of each: those whose attribute is missing have one of their
    own.
    """
    if not frame.traits:
        return ()
    names = {trait: list(dict.fromkeys(known.groups)) for trait, known in frame.traits.items()}
    places = np.unravel_index(cell_of(kinds, frame), [len(own) for own in names.values()])
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


def kinds_of(
    block: Outcomes, frame: Frame, levels: Mapping[str, Int[np.ndarray, " n"]] | None = None
) -> Int[np.ndarray, " n"]:
    """Return everyone's kind: protected groups and, in a classification, label and decisions.

    ``levels`` are codes of everyone's level by attribute, -1 if missing; from the names in
    ``block`` unless given.
    """
    code = np.zeros(len(block), dtype=np.int64)
    for trait, known in frame.traits.items():
        names = dict.fromkeys(known.groups)
        place = {name: k for k, name in enumerate(names)}
        group = np.array([place[name] for name in known.groups])
        own = known.codes(as_text(block.groups[trait])) if levels is None else levels[trait]
        code = code * len(names) + group[own]
    if not frame.regression:
        for column in (block.y, block.decision_before, block.decision_after):
            code = code * frame.classes + column.astype(np.int64)
    return code


def cell_of(kind: Int[np.ndarray, " m"], frame: Frame) -> Int[np.ndarray, " m"]:
    """Return the combination of protected groups that kinds of people belong to."""
    return kind if frame.regression else kind // frame.classes**3


def decisions_of(
    kind: Int[np.ndarray, " m"], frame: Frame
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Return label, decision before and decision after of kinds of people."""
    rest, after = np.divmod(kind, frame.classes)
    rest, before = np.divmod(rest, frame.classes)
    return rest % frame.classes, before, after


@dataclasses.dataclass(frozen=True)
class Measured:
    """What tests of losses compare, by person: ones and loss ratios, or a regression's losses.

    People without finite ones have ones, or zeros. ``held`` is what is capped: no ratio counts for
    more than the cap, and no loss after for more than its limit (or the own loss before, if that is
    more).
    """

    before: Float[np.ndarray, " n"]
    after: Float[np.ndarray, " n"]
    held: Float[np.ndarray, " n"]
    undefined: Bool[np.ndarray, " n"]

    @classmethod
    def of(cls, block: Outcomes, frame: Frame) -> "Measured":
        """Return those of a block."""
        before, after, unknown = np.ones(len(block)), block.ratio, 1.0
        if frame.regression:
            before, after, unknown = block.loss_before, block.loss_after, 0.0
        known = np.isfinite(before) & np.isfinite(after)
        before, after = (np.where(known, values, unknown) for values in (before, after))
        held = np.minimum(after, np.maximum(before, frame.ceiling))
        return cls(before, after, held, ~known)


@dataclasses.dataclass(frozen=True)
class CellSums:
    """Sums for every kind of people: combinations of protected groups, label and decisions.

    Everything that is said of independent people follows from them, for everyone and for any group.
    Memory grows with the number of kinds that occur, not of people.

    Parameters
    ----------
    kinds
        The kinds that occur, in increasing order.
    sums
        For each of them, in columns: `COUNTS`, `UNDEFINED`, `AT_CAP`, `PLAIN`, `LOSS` and `HELD`.
    largest, top
        The largest loss ratio of every kind, and the largest of all.
    """

    kinds: Int[np.ndarray, " k"]
    sums: Float[np.ndarray, "k c"]
    largest: Float[np.ndarray, " k"]
    top: TopK

    @classmethod
    def of(cls, block: Outcomes, frame: Frame, kind: Int[np.ndarray, " n"]) -> "CellSums":
        """Summarise a block of people, whose kinds are those of `kinds_of`."""
        kinds, place = np.unique(kind, return_inverse=True)
        seen, weight = Measured.of(block, frame), frame.weights(block)
        change = seen.after - seen.before
        columns = [np.ones(len(block)), weight, weight**2, weight**2 * weight]
        columns += [seen.undefined, seen.after >= frame.ceiling, change, change**2]
        for then in (seen.after, seen.held):
            columns += power_products(then * weight, seen.before * weight)
        sums = [np.bincount(place, weights=column, minlength=len(kinds)) for column in columns]
        largest = np.ones(len(kinds))
        np.maximum.at(largest, place, seen.after)
        wanted = min(frame.n, max(hill_count(frame.n) + 1, top_count(frame.n)))
        return cls(kinds, np.stack(sums, axis=1), largest, TopK.of(seen.after, wanted))

    def __add__(self, other: "CellSums") -> "CellSums":
        kinds = np.union1d(self.kinds, other.kinds)
        sums, largest = np.zeros((len(kinds), self.sums.shape[1])), np.ones(len(kinds))
        for part in (self, other):
            place = np.searchsorted(kinds, part.kinds)
            sums[place] += part.sums
            largest[place] = np.maximum(largest[place], part.largest)
        return CellSums(kinds, sums, largest, self.top + other.top)


def hill_count(n: int) -> int:
    """Return how many of the largest ratios give Hill's index: √n, but 10 to a tenth of all."""
    return max(1, min(n // 10, max(10, round(n**0.5))))


def top_count(n: int) -> int:
    """Return how many people the top 1 % are, one at least."""
    return max(1, n // 100)


def numbered(names: Shaped[np.ndarray, " n"]) -> tuple[Any, Int[np.ndarray, " n"]]:
    """Return the values that occur, and the place of everyone's among them."""
    encoded = _in_arrow(names).dictionary_encode()
    found = encoded.dictionary.to_numpy(zero_copy_only=False)
    return found, encoded.indices.to_numpy().astype(np.int64)


def _in_arrow(names: Shaped[np.ndarray, " n"]) -> Any:
    try:
        return pa.array(names)
    except pa.ArrowException:  # values of several types
        return pa.array(names.astype(str))


Columns = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ClusterTotals:
    """Weighted totals by cluster and kind of people: all that cluster-robust errors need.

    Each part has a line for every ``cluster`` and ``kind`` of people in it: their ``count``,
    ``weight``, and weighted totals. Joining takes time, so it waits until it is worth it.
    """

    parts: tuple[Columns, ...] = ()

    @classmethod
    def of(cls, block: Outcomes, frame: Frame, kind: Int[np.ndarray, " n"]) -> "ClusterTotals":
        """Add up a block of people by cluster and kind."""
        if not frame.clustered or block.cluster is None or not len(block):
            return cls()
        each = frame.weights(block)
        columns = {"cluster": block.cluster, "kind": kind}
        seen = Measured.of(block, frame)
        totals = {"weight": np.ones(len(block)), "before": seen.before, "after": seen.after}
        totals |= {"held": seen.held, "wrong_before": block.error_before}
        totals |= {"wrong_after": block.error_after}
        columns |= {"count": np.ones(len(block)), **{k: v * each for k, v in totals.items()}}
        return cls((_joined([columns]),))

    def __add__(self, other: "ClusterTotals") -> "ClusterTotals":
        parts = sorted((*self.parts, *other.parts), key=lambda part: -len(part["kind"]))
        while len(parts) > 1 and len(parts[-2]["kind"]) <= 2 * len(parts[-1]["kind"]):
            parts[-2:] = [_joined(parts[-2:])]
        return ClusterTotals(tuple(parts))

    @functools.cached_property
    def table(self) -> Columns:
        """All clusters and kinds."""
        return _joined(self.parts)

    @functools.cached_property
    def names(self) -> Shaped[np.ndarray, " g"]:
        """Names of the clusters; none if people do not come in clusters."""
        return self._numbered[0]

    @functools.cached_property
    def _numbered(self) -> tuple[Any, Int[np.ndarray, " m"]]:
        if not self.parts:
            return np.zeros(0), np.zeros(0, dtype=np.int64)
        names, unit = numbered(self.table["cluster"])
        order = np.argsort(names)  # the same at every time of a flow
        return names[order], np.argsort(order)[unit]

    def totals(
        self, column: str, among: Bool[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, " g"]:
        """Return the total of a column in every cluster, over some of the lines of the table."""
        values = self.table[column] if among is None else self.table[column] * among
        return np.bincount(self._numbered[1], weights=values, minlength=len(self.names))


def _joined(parts: Sequence[Columns]) -> Columns:
    """Add up lines of the same cluster and kind."""
    tables = [pa.table({**part, "cluster": _in_arrow(part["cluster"])}) for part in parts]
    lines = pa.concat_tables(tables, promote_options="permissive")
    totals = [(name, "sum") for name in lines.column_names[2:]]
    found = lines.group_by(["cluster", "kind"], use_threads=False).aggregate(totals)
    return {
        name.removesuffix("_sum"): found[name].to_numpy(zero_copy_only=False)
        for name in found.column_names
    }


@dataclasses.dataclass(frozen=True)
class Tally(Additive):
    """The sums of some people: those of blocks add up, in whatever order and grouping.

    Parameters
    ----------
    cells, clusters
        Sums of independent people, by kind; and totals by cluster.
    horizons, joint
        The same people at other stopping times of the flow, without protected groups; and sums of
        products of weighted changes at all times, and last of what they are measured by.
    status, fair_distance, spread
        Numbers of people by `Status`, how far they were perturbed in all, and the distribution of
        loss ratios.
    """

    kept_as_is: ClassVar[tuple[str, ...]] = ("frame",)

    frame: Frame
    cells: CellSums
    clusters: ClusterTotals
    horizons: tuple["Tally", ...]
    joint: Float[np.ndarray, "t t"]
    status: Int[np.ndarray, " s"]
    fair_distance: float
    spread: QuantileSketch

    @classmethod
    def of(
        cls,
        block: Outcomes,
        frame: Frame | None = None,
        levels: Mapping[str, Int[np.ndarray, " n"]] | None = None,
    ) -> "Tally":
        """Summarise a block of people; one that says nothing about a frame is all there is."""
        frame = frame or Frame.of(block)
        kind, ratio = kinds_of(block, frame, levels), block.ratio
        later = [block.at(time) for time in frame.horizons]
        seen = [Measured.of(then, frame) for then in later]
        base = Measured.of(block, frame).before
        columns = np.stack([*(s.after - s.before for s in seen), base]) * frame.weights(block)
        return cls(
            frame=frame,
            cells=CellSums.of(block, frame, kind),
            clusters=ClusterTotals.of(block, frame, kind),
            horizons=tuple(cls.of(then, frame.bare()) for then in later),
            joint=columns @ columns.T,
            status=np.array([int((block.status == s).sum()) for s in Status]),
            fair_distance=float(block.fair_distance.sum()),
            spread=QuantileSketch.of(ratio[np.isfinite(ratio) & (ratio > 0)]),
        )

    def at(self, time: float) -> "Tally":
        """Return the tally as it was at another stopping time of the flow, for the tests."""
        times = self.frame.horizons
        if time not in times:
            known = ", ".join(f"{t:g}" for t in times) or "none"
            raise InvalidSample(f"There are no outcomes at time {time:g} (there are: {known}).")
        return self.horizons[times.index(time)]

    @property
    def n(self) -> int:
        """Number of people."""
        return int(self.cells.sums[:, 0].sum())

    @property
    def status_counts(self) -> dict[str, int]:
        """Numbers of people by the name of their `Status`."""
        return {s.name.lower(): int(self.status[s]) for s in Status}

    @property
    def clustered(self) -> bool:
        """Whether some people share a cluster; clusters of one are none."""
        units = len(self.clusters.names)
        if units == 1:
            raise InvalidSample("All people are in one cluster; a standard error needs two.")
        return 0 < units < self.n

    def crossed_terms(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m m"]:
        """Return the products of the linearised estimates at all times, summed over units."""
        if self.clustered:
            after = np.stack([then.clusters.totals("after") for then in self.horizons])
            terms = after - values[:, None] * self.clusters.totals("before")
            return terms @ terms.T
        coefficients = np.vstack([np.eye(len(values)), 1 - values])
        return coefficients.T @ self.joint @ coefficients
