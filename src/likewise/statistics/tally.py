"""All that the tests, tables and pictures need of any number of people: small, and it adds up."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from likewise.errors import InvalidSample
from likewise.outcomes import Outcomes, Status
from likewise.statistics.additive import Additive
from likewise.statistics.clusters import ClusterTotals
from likewise.statistics.frame import Frame
from likewise.statistics.group_stats import GroupStats, kinds_of
from likewise.statistics.horizons import HorizonStats
from likewise.statistics.quantile_sketch import QuantileSketch
from likewise.statistics.ratio import RatioStats


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
