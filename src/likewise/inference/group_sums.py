"""What is known of one group of people, from the sums of everyone."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from likewise.inference.error_rate_ratio import ErrorRateRatioTest
from likewise.inference.estimate import Estimate
from likewise.inference.estimators import (
    mean_of_moments,
    ratio_of_sums,
    ratio_of_totals,
    with_one_more,
    with_one_more_cluster,
)
from likewise.inference.sampling import Sampling, effective_units, ratio_of_people
from likewise.inference.verdict import Evidence
from likewise.statistics.group_stats import Group, cell_of, decisions_of
from likewise.statistics.moments import ErrorTable
from likewise.statistics.ratio import UnitSums
from likewise.statistics.tally import Tally

FEW_PEOPLE = 30
"""With fewer people than this Student's t takes the place of the normal."""


@dataclasses.dataclass(frozen=True)
class GroupSums:
    """The sums of one group of people, in clusters or not.

    Parameters
    ----------
    tally, group
        The sums of everyone, and which cells of them are the group.
    lines, present
        In clustered samples, which lines of the table by cluster are its people's, and which
        clusters have some.
    """

    tally: Tally
    group: Group
    lines: Any
    present: Any

    @classmethod
    def of(cls, tally: Tally, group: Group) -> "GroupSums":
        """Return the sums of a group."""
        if not tally.clustered:
            return cls(tally, group, None, None)
        cells = tally.groups.cells[group.members]
        lines = np.isin(cell_of(tally.clusters.table.kind, tally.frame), cells)
        return cls(tally, group, lines, tally.clusters.totals("count", lines) > 0)

    @property
    def n(self) -> int:
        """Number of people."""
        return int(self.tally.groups.count[self.group.members].sum())

    @property
    def undefined(self) -> int:
        """How many of them have no finite ratio."""
        return int(self.tally.groups.undefined[self.group.members].sum())

    @property
    def clusters(self) -> int | None:
        """Number of clusters, if some of them hold several of its people."""
        units = None if self.present is None else int(self.present.sum())
        return None if units == self.n else units

    @property
    def units(self) -> int:
        """Number of independent units."""
        return self.n if self.clusters is None else self.clusters

    def totals(self, column: str) -> Float[np.ndarray, " g"]:
        """Return the totals of its people in every cluster that has some."""
        return self.tally.clusters.totals(column, self.lines)[self.present]

    def terms(self, value: float) -> Float[np.ndarray, " g"]:
        """Return the linearised estimate, cluster by cluster of everyone."""
        after, before = ("after", "before") if self.tally.frame.regression else ("ratio", "weight")
        return self.tally.clusters.totals(after, self.lines) - value * self.tally.clusters.totals(
            before, self.lines
        )

    def estimate(self) -> Estimate:
        """Return the audit value of the group, without an error where people are too few."""
        members, regression = self.group.members, self.tally.frame.regression
        if self.undefined:
            return Estimate(math.nan, math.nan, self.n)
        if self.units < 2:
            value = (
                self.tally.groups.loss_sums(members).ratio
                if regression
                else float(self.tally.groups.ratios(members).plain.mean)
            )
            return Estimate(value, math.nan, self.n)
        few = self.units - 1.0 if self.units < FEW_PEOPLE else math.inf
        if self.clusters is not None:
            after, before = ("after", "before") if regression else ("ratio", "weight")
            effective = effective_units(self.totals("weight"))
            return ratio_of_totals(self.totals(after), self.totals(before), self.n, effective)
        if regression:
            estimate = ratio_of_sums(self.tally.groups.loss_sums(members), self.n)
        else:
            moments = self.tally.groups.ratios(members)
            estimate = mean_of_moments(moments, weighted=self.tally.frame.weighted)
        return dataclasses.replace(estimate, degrees=min(estimate.degrees, few))

    def with_one_more(self) -> Estimate | None:
        """Return the estimate with one more person, or cluster; of regressions there is none."""
        groups, members = self.tally.groups, self.group.members
        if self.tally.frame.regression or self.undefined or self.units < 2:
            return None
        if self.clusters is not None:
            ratio, weight = self.totals("ratio"), self.totals("weight")
            return with_one_more_cluster(ratio, weight, self.n, effective_units(weight))
        largest = float(groups.largest[members].max())
        return with_one_more(groups.ratios(members), largest, weighted=self.tally.frame.weighted)

    def errors(self) -> tuple[ErrorTable, Float[np.ndarray, "4"], Evidence | None]:
        """Return counts and weights of the errors of a group, and what they say of their ratio."""
        tally, frame = self.tally, self.tally.frame
        among = np.isin(cell_of(tally.groups.kinds, frame), tally.groups.cells[self.group.members])
        y, first, second = (column[among] for column in decisions_of(tally.groups.kinds, frame))
        counts, *powers = tally.groups.decisions[among].T
        wrong_before, wrong_after = first != y, second != y
        places = 2 * wrong_before + wrong_after
        order = [3, 1, 2, 0]
        table = ErrorTable(*(int(counts[places == place].sum()) for place in order))
        weights = np.array([float(powers[0][places == place].sum()) for place in order])
        if self.units < 2:
            return table, weights, None
        test = ErrorRateRatioTest()
        total, squared, cubed = (float(power.sum()) for power in powers)
        kish = table.n * squared / total**2 if frame.weighted else None
        if self.clusters is not None:
            after, before = self.totals("wrong_after"), self.totals("wrong_before")
            effective = effective_units(self.totals("weight"))
            sampling = Sampling(table.n, kish, self.clusters, effective)
            estimate = ratio_of_totals(after, before, table.n, effective)
            return (
                table,
                weights,
                test.on_design(table, UnitSums.of(after, before), weights, estimate, sampling),
            )
        sampling = Sampling(table.n, kish, None, total**2 / squared, cubed / (total * squared))
        if sampling.simple:
            return table, weights, test.weigh(table, monotone=frame.monotone)
        sums = _powers(wrong_before, wrong_after, counts, powers)
        estimate = ratio_of_people(sums, sampling)
        return table, weights, test.on_design(table, sums, weights, estimate, sampling)


def _powers(wrong_before: Any, wrong_after: Any, counts: Any, powers: Any) -> UnitSums:
    """Return the power sums of weighted errors of people, from sums of powers of the weights."""
    base = wrong_before.astype(np.float64)
    change = wrong_after - base
    weights = (counts, *powers)
    sums = np.zeros((4, 4))
    for i, j in itertools.product(range(4), range(4)):
        if i + j <= 3:
            sums[i, j] = float((weights[i + j] * change**i * base**j).sum())
    return UnitSums(sums)
