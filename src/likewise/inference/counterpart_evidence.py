"""What visits say about one group of people, before anything is decided."""

import dataclasses
import math

import numpy as np
from jaxtyping import Int

from likewise.inference.estimate import Bounds, Unknown
from likewise.inference.two_way import TwoWay, two_way
from likewise.statistics.donors import Donors
from likewise.statistics.honest_worst import inflation

TIED = 1e-6
"""Swapped statistics this close to the real one count as equal: single precision."""


@dataclasses.dataclass(frozen=True)
class CounterpartEvidence:
    r"""People of one group (or all), served with what others bring along.

    Parameters
    ----------
    group
        Name of the group; ``None`` for everyone.
    n, clusters
        How many people, in how many clusters.
    estimate
        :math:`S = \sum a / \sum b` with the worst other group chosen honestly; ``nan`` if there
        is no loss to compare with.
    people_error, pairs_error
        Standard errors due to who was audited, and to who visited.
    bounds
        For the expectation of S.
    effective_pairs
        How many pairs of equal influence the pool is worth (J).
    worst_estimate, worst_bounds
        The same with the worst group chosen and judged on all visits: too large, for certifying.
    capped_bounds
        For the mean of :math:`1 + (a_i^+ - b_i)/\bar B`, capped.
    swap_p_value, swapped_mean, swapped_sd
        The swap test, and the statistic under random exchanges of members.
    near_estimate, far_share
        S for the people whose visitors are all near, and the share of the others.
    no_counterpart
        People whom nobody could visit.
    pool_size
        People of this group in the pool.
    mean_before, mean_after
        Mean losses with columns of the own and of the other group.
    unchanged
        Whether no visit changed anyone's loss: the model is constant, or uses no free column.
    """

    group: str | None
    n: int
    clusters: int
    estimate: float
    people_error: float
    pairs_error: float
    bounds: Bounds
    effective_pairs: float
    worst_estimate: float
    worst_bounds: Bounds
    capped_bounds: Bounds
    swap_p_value: float
    swapped_mean: float
    swapped_sd: float
    near_estimate: float
    far_share: float
    no_counterpart: int
    pool_size: int
    mean_before: float
    mean_after: float
    unchanged: bool

    @property
    def std_error(self) -> float:
        """Standard error of S, both ways together."""
        return math.hypot(self.people_error, self.pairs_error)

    def p_value(self, delta: float) -> float:
        """Return the larger of the p-value at the tolerance and of the swap test."""
        return max(self.bounds.p_value(delta), self.swap_p_value)


def counterpart_evidence(
    donors: Donors,
    group: str | None,
    pool_size: int,
    cap: float,
    pair_cluster: Int[np.ndarray, "q 2"] | None = None,
) -> CounterpartEvidence:
    """Read the evidence about these people from their sums.

    Parameters
    ----------
    donors
        Sums over people of one group, or all.
    group, pool_size
        Name of the group, and how many of the pool are in it.
    cap
        Largest ratio that one person can add to the capped mean.
    pair_cluster
        The clusters of the two members of each pair, if the pool has clusters.
    """
    keep = donors.grouped
    person = {name: column[keep] for name, column in donors.person.items()}
    weight = person["weight"]
    honest_inflation, worst_inflation = inflation(donors.design.m)
    names = ("after", "before", "worst_after", "worst_before")
    after, before, worst_after, worst_before = donors.cluster_totals(
        *(donors.person[name] for name in names)
    )
    pairs = donors.pair.sum(axis=0)
    clustered = len(after) < len(weight)
    bare = CounterpartEvidence(
        group=group,
        n=len(weight),
        clusters=len(after),
        estimate=math.nan,
        people_error=math.nan,
        pairs_error=math.nan,
        bounds=Unknown(),
        effective_pairs=0.0,
        worst_estimate=math.nan,
        worst_bounds=Unknown(),
        capped_bounds=Unknown(),
        swap_p_value=1.0,
        swapped_mean=math.nan,
        swapped_sd=math.nan,
        near_estimate=math.nan,
        far_share=_share(weight, person["far"]),
        no_counterpart=int((~person["visited"]).sum()),
        pool_size=pool_size,
        mean_before=_mean(weight, person["before"]),
        mean_after=_mean(weight, person["after"]),
        unchanged=not np.any(person["pair_after"] != person["pair_before"]),
    )
    if not len(weight) or before.sum() <= 0 or worst_before.sum() <= 0:
        return bare
    swapped = donors.swapped.sum(axis=0)
    # An exchange that leaves no loss to compare with counts against the evidence.
    ratios = np.divide(
        swapped[:, 0], swapped[:, 1], out=np.full(len(swapped), np.inf), where=swapped[:, 1] > 0
    )
    swapped_sd = float(ratios.std(ddof=1)) if np.isfinite(ratios).all() else math.nan
    fair = TwoWay(
        after,
        before,
        pairs[0],
        pairs[1],
        honest_inflation,
        clustered,
        pair_cluster,
        least=0.0 if math.isnan(swapped_sd) else swapped_sd**2,
    )
    worst = TwoWay(
        worst_after, worst_before, pairs[2], pairs[3], worst_inflation, clustered, pair_cluster
    )
    level = float(worst_before.sum() / weight.sum())
    ratio = 1 + (donors.person["worst_after"] - donors.person["worst_before"]) / level
    ones = np.ones(len(ratio))
    capped, counted = donors.cluster_totals(np.minimum(ratio, cap), ones)
    nothing = np.zeros(1)
    people_error, pairs_error = fair.std_errors
    near = ~person["far"]
    return dataclasses.replace(
        bare,
        estimate=fair.centre,
        people_error=people_error,
        pairs_error=pairs_error,
        bounds=two_way(fair),
        effective_pairs=fair.effective_pairs,
        worst_estimate=worst.centre,
        worst_bounds=two_way(worst),
        capped_bounds=two_way(TwoWay(capped, counted, nothing, nothing, 1.0, clustered)),
        swap_p_value=float((1 + (ratios >= fair.centre * (1 - TIED)).sum()) / (1 + len(ratios))),
        swapped_mean=float(ratios.mean()),
        swapped_sd=swapped_sd,
        near_estimate=_ratio(weight[near], person["after"][near], person["before"][near]),
    )


def _ratio(weight: np.ndarray, after: np.ndarray, before: np.ndarray) -> float:
    total = float(weight @ before)
    return float(weight @ after) / total if total > 0 else math.nan


def _mean(weight: np.ndarray, values: np.ndarray) -> float:
    return float(weight @ values / weight.sum()) if len(weight) else math.nan


def _share(weight: np.ndarray, which: np.ndarray) -> float:
    return _mean(weight, which.astype(np.float64))
