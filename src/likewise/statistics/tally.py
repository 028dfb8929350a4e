"""All that the tests, tables and pictures need of any number of people: small, and it adds up."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes, Status
from likewise.statistics.frame import Frame
from likewise.statistics.group_stats import GroupStats, kinds_of
from likewise.statistics.moments import Additive
from likewise.statistics.order_statistics import QuantileSketch
from likewise.statistics.ratio import HorizonStats, RatioStats


@dataclasses.dataclass(frozen=True)
class ClusterTable:
    """Totals of some columns for every cluster and, within it, every kind of person.

    Parameters
    ----------
    names
        Names of the clusters, each once.
    unit, kind
        The cluster of every line, by its place in ``names``, and the kind of people in it: the
        cell of protected groups, label and decisions that `likewise.statistics.group_stats` counts.
    sums
        One line a cluster and kind, one column a quantity: numbers of people, and weighted totals.
    """

    names: Shaped[np.ndarray, " g"]
    unit: Int[np.ndarray, " m"]
    kind: Int[np.ndarray, " m"]
    sums: Float[np.ndarray, "m k"]

    @classmethod
    def joined(cls, parts: Sequence["ClusterTable"]) -> "ClusterTable":
        """Add up several tables."""
        names, place = _numbered(np.concatenate([part.names for part in parts]))
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

    columns: tuple[str, ...]
    parts: tuple[ClusterTable, ...] = ()

    @classmethod
    def of(cls, block: Outcomes, frame: Frame, kind: Int[np.ndarray, " n"]) -> "ClusterTotals":
        """Add up a block of people by cluster and kind."""
        if not frame.clustered or block.cluster is None or not len(block):
            return cls(_names(frame))
        each = block.weight if frame.weighted and block.weight is not None else np.ones(len(block))
        columns = [np.ones(len(block)), each, *(column * each for column in _values(block, frame))]
        names, unit = _numbered(block.cluster)
        rows = ClusterTable(names, unit, kind, np.stack(columns, axis=1))
        return cls(_names(frame), (ClusterTable.joined([rows]),))

    def __add__(self, other: "ClusterTotals") -> "ClusterTotals":
        parts = sorted((*self.parts, *other.parts), key=lambda part: -len(part.unit))
        while len(parts) > 1 and len(parts[-2].unit) <= 2 * len(parts[-1].unit):
            parts[-2:] = [ClusterTable.joined(parts[-2:])]
        return ClusterTotals(self.columns, tuple(parts))

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


def _names(frame: Frame) -> tuple[str, ...]:
    base = ("before",) if frame.regression else ("wrong_before",)
    then = ("after", "held") if frame.regression else ("ratio", "held", "wrong_after")
    at = ("", *(f"@{time!r}" for time in frame.horizons))
    return ("count", "weight", *base, *(f"{name}{time}" for time in at for name in then))


def _values(block: Outcomes, frame: Frame) -> list[Shaped[np.ndarray, " n"]]:
    moments = [block, *(block.at(time) for time in frame.horizons)]
    if frame.regression:
        found = [_known(block.loss_before, 0.0)]
        for then in moments:
            after = _known(then.loss_after, 0.0)
            found += [after, np.minimum(after, np.maximum(found[0], frame.limit))]
        return found
    found = [block.error_before.astype(np.float64)]
    for then in moments:
        ratio = _known(then.ratio, 1.0)
        found += [ratio, np.minimum(ratio, frame.cap), then.error_after.astype(np.float64)]
    return found


def _known(values: Float[np.ndarray, " n"], otherwise: float) -> Float[np.ndarray, " n"]:
    # Whoever has no ratio makes it undefined, and is counted elsewhere.
    return np.where(np.isfinite(values), values, otherwise)


def _numbered(
    names: Shaped[np.ndarray, " n"],
) -> tuple[Shaped[np.ndarray, " g"], Int[np.ndarray, " n"]]:
    if names.dtype.kind != "O":
        found, place = np.unique(names, return_inverse=True)
        return found, place.reshape(-1)
    numbers = {value: k for k, value in enumerate(dict.fromkeys(names.tolist()))}
    found = np.empty(len(numbers), dtype=object)
    found[:] = list(numbers)
    return found, np.array([numbers[value] for value in names.tolist()], dtype=np.int64)


@dataclasses.dataclass(frozen=True)
class StatusCounts(Additive):
    """People by what became of them, in the order of `Status`."""

    people: Int[np.ndarray, " s"]

    @classmethod
    def of(cls, block: Outcomes, frame: Frame) -> "StatusCounts":
        """Count a block of people."""
        return cls(np.array([int((block.status == status).sum()) for status in Status]))

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {s.name.lower(): int(n) for s, n in zip(Status, self.people, strict=True)}


@dataclasses.dataclass(frozen=True)
class Mean(Additive):
    """The mean of some columns, row by row of a block."""

    n: int
    total: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, rows: Float[np.ndarray, "n d"]) -> "Mean":
        """Add up a block of rows."""
        return cls(len(rows), rows.sum(axis=0))

    @property
    def value(self) -> Float[np.ndarray, " d"]:
        """The mean of every column."""
        return self.total / self.n


@dataclasses.dataclass(frozen=True)
class Tally:
    """The sums of everyone, or of some people, by what they are needed for.

    In memory, in pieces, on a cluster: the tally of all is the sum of those of blocks, whichever
    blocks they are and in whatever order and grouping they are added.

    Parameters
    ----------
    frame
        What all blocks have in common.
    ratio, clusters
        What the tests need, of independent people and of people in clusters.
    groups, horizons
        What tables by group need, and the tests at other times of the flow.
    status, fair_distance, spread
        What became of people, how far they moved, and how their loss ratios are spread.
    time
        The time of the flow that ``ratio`` is about; ``None`` is its end.
    """

    frame: Frame
    ratio: RatioStats
    clusters: ClusterTotals
    groups: GroupStats
    horizons: HorizonStats
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
            Codes of everyone's level by trait, -1 if missing; by default from the names of levels
            in the block.
        """
        frame = frame or Frame.of(block)
        kind = kinds_of(block, frame, levels)
        ratio = block.ratio
        return cls(
            frame,
            RatioStats.of(block, frame),
            ClusterTotals.of(block, frame, kind),
            GroupStats.of(block, frame, kind),
            HorizonStats.of(block, frame),
            StatusCounts.of(block, frame),
            Mean.of(block.fair_distance[:, None]),
            QuantileSketch.of(ratio[np.isfinite(ratio) & (ratio > 0)]),
        )

    def __add__(self, other: "Tally") -> "Tally":
        names = [f.name for f in dataclasses.fields(self) if f.name not in ("frame", "time")]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return dataclasses.replace(self, **sums)

    def at(self, time: float) -> "Tally":
        """Return the tally as it was at another time of the flow, for the tests."""
        times = self.frame.horizons
        if time not in times:
            known = ", ".join(f"{t:g}" for t in times) or "none"
            raise InvalidSample(f"There are no outcomes at time {time:g} (there are: {known}).")
        return dataclasses.replace(self, ratio=self.horizons.at[times.index(time)], time=time)

    @property
    def clustered(self) -> bool:
        """Whether some people share a cluster; clusters of one are none."""
        units = self.clusters.count
        if units == 1:
            raise InvalidSample("All people are in one cluster; a standard error needs two.")
        return 0 < units < self.ratio.n

    def by_cluster(self, column: str) -> Float[np.ndarray, " g"]:
        """Return the total of a column in every cluster, at this tally's time."""
        moving = column in ("ratio", "held", "after", "wrong_after") and self.time is not None
        return self.clusters.totals(f"{column}@{self.time!r}" if moving else column)
