"""Group metrics by protected attribute: selection rates, impact ratios, error rates.

They ask another question than the audit (is one *group* treated like another?), and are shown
beside it. Intervals of shares are Wilson's; a ratio puts two of them together, which keeps their
virtues at few people and at shares of zero or one.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

from likewise.errors import InvalidSample
from likewise.stats.estimate import jackknife_error, quantile, ratio_of_sums
from likewise.stats.frame import MISSING
from likewise.stats.sums import POWERS, RatioSums
from likewise.stats.tally import COUNTS, Tally, effective_units, groups_of


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number of n people with its two-sided interval; not a number where there is nobody."""

    value: float
    lower: float
    upper: float
    n: int


@dataclasses.dataclass(frozen=True)
class Share:
    r"""The share of n people for whom something holds, :math:`\sum w h / \sum w`.

    Parameters
    ----------
    effective_n
        How many independent people of equal weight would tell as much: :math:`p(1-p)/\text{se}^2`
        with the design's own standard error, at most n (Korn and Graubard 1998).
    degrees
        Degrees of freedom of that standard error, if these people have weights or clusters.
    """

    value: float
    n: int
    effective_n: float
    degrees: float = math.inf

    @classmethod
    def of_clusters(
        cls, hits: Float[np.ndarray, " g"], weights: Float[np.ndarray, " g"], n: int
    ) -> "Share":
        """Return a share of n people from the weights of hits, and of all, in each cluster."""
        if n == 0:
            return cls(math.nan, 0, 0.0)
        value, kish = float(hits.sum() / weights.sum()), effective_units(weights)
        return cls(value, n, design_size(value, jackknife_error(hits, weights), n, kish), kish - 1)

    @classmethod
    def of_people(
        cls, hits: Float[np.ndarray, "4"], among: Float[np.ndarray, "4"], *, weighted: bool
    ) -> "Share":
        """Return a share of independent people.

        ``hits`` and ``among`` are the number, weight, squared and cubed weight of those for whom it
        holds, and of all.
        """
        n, total, squared, _ = (float(value) for value in among)
        if n == 0:
            return cls(math.nan, 0, 0.0)
        value = float(hits[1]) / total
        if not weighted:
            return cls(value, int(n), n)
        others = among - hits
        sums = RatioSums(np.array([(-1) ** i * (others if i else among)[i + j] for i, j in POWERS]))
        error = ratio_of_sums(sums, int(n)).std_error * (n - 1) / n / (1 - sums.leverage())
        # Few hits say little about their own variance: never more than Kish's number.
        kish = total**2 / squared
        return cls(value, int(n), min(kish, design_size(value, error, n, kish)), kish - 1)

    def wilson(self, alpha: float) -> Quantity:
        """Return the share with Wilson's score interval.

        With weights or clusters n is ``effective_n``, less what Student's t takes at this level
        (Korn and Graubard).
        """
        if self.effective_n == 0 or self.degrees < 1e-9:  # one cluster says nothing
            return Quantity(self.value, 0.0, 1.0, self.n)
        z2 = quantile(1 - alpha / 2) ** 2
        n = self.effective_n * z2 / quantile(1 - alpha / 2, self.degrees) ** 2
        middle = (self.value + z2 / (2 * n)) / (1 + z2 / n)
        spread = self.value * (1 - self.value) / n + z2 / (4 * n**2)
        half = math.sqrt(z2 * spread) / (1 + z2 / n)
        # Exactly 0 and 1 at the ends, which rounding would miss.
        lower = middle - half if self.value > 0 else 0.0
        upper = middle + half if self.value < 1 else 1.0
        return Quantity(self.value, lower, upper, self.n)


def design_size(value: float, error: float, n: float, kish: float) -> float:
    """Return how many independent people would give a share the same standard error."""
    if 0 < value < 1 and error > 0:
        return min(n, value * (1 - value) / error**2)
    # All alike: no spread to learn the design effect from, so Kish's, of whole units.
    return kish


def ratio(share: Share, base: Share, alpha: float) -> Quantity:
    r"""Return :math:`p_1 / p_2` with Donner and Zou's (2012) interval.

    Its ends are the r for which square-and-add puts an end of :math:`p_1 - r p_2` at zero: roots of
    :math:`A r^2 - 2 B r + C`, written so that neither zero counts nor cancellation spoil them.
    """
    over, under = share.wilson(alpha), base.wilson(alpha)
    p, q, n = over.value, under.value, share.n + base.n
    if math.isnan(p) or math.isnan(q):
        return Quantity(math.nan, 0.0, math.inf, n)

    def root(end: float, base_end: float, *, smaller: bool) -> float:
        a, b, c = base_end * (2 * q - base_end), p * q, end * (2 * p - end)
        r = math.sqrt(max(0.0, b**2 - a * c))
        if smaller:
            return c / (b + r) if c > 0 else 0.0
        return (b + r) / a if a > 0 else math.inf

    value = p / q if q > 0 else (math.inf if p > 0 else math.nan)
    lower = root(over.lower, under.upper, smaller=True)
    return Quantity(value, lower, root(over.upper, under.lower, smaller=False), n)


def group_table(
    shares: Mapping[str, Mapping[str, Share]], alpha: float
) -> dict[tuple[str, str], Quantity]:
    """Return the rates of groups with Wilson's intervals, and their impact ratios.

    ``shares`` are by group and name, a ``selection_rate`` among them: the ratio is over the highest
    one of a known group (29 CFR 1607.4(D) flags less than four fifths). Keys are name and group.
    """
    found = {
        (name, group): share.wilson(alpha)
        for group, own in shares.items()
        for name, share in own.items()
    }
    selected = {group: own["selection_rate"] for group, own in shares.items()}
    known = [group for group, share in selected.items() if share.n and group != MISSING]
    most = max(known or selected, key=lambda group: selected[group].value)
    for group, share in selected.items():
        same = Quantity(1.0, 1.0, 1.0, share.n)
        impact = same if group == most else ratio(share, selected[most], alpha)
        found["impact_ratio", group] = dataclasses.replace(impact, n=share.n)
    return found


Metrics = dict[tuple[str, str, str], Quantity]
"""Quantities by name (``selection_rate``, …), protected attribute and level."""


def group_metrics(tally: Tally, *, alpha: float = 0.05, positive: int = 1) -> Metrics:
    r"""Group metrics before anybody is perturbed, with intervals that hold one at a time.

    Of each level of each attribute the selection rate, the impact ratio, and true and false
    positive rates; of everyone how often decisions change when people are perturbed
    (``decisions_changed``). With weights, rates are Hájek's. ``positive`` is the index of the class
    that people are selected for; others count as its opposite.
    """
    if tally.frame.regression:
        raise InvalidSample("A regression decides nothing: it has no error or selection rates.")
    cells, clusters = tally.cells, tally.clusters
    y, before, after = np.unravel_index(cells.kinds, tally.frame.shape)[-3:]
    selected, deserving = before == positive, y == positive

    def share(hit: Bool[np.ndarray, " k"], among: Bool[np.ndarray, " k"]) -> Share:
        """Return the share of those ``among`` all people for whom ``hit`` holds."""
        of = (hit & among, among)
        hits, people = (cells.sums[members, COUNTS].sum(axis=0) for members in of)
        if not tally.clustered:
            return Share.of_people(hits, people, weighted=tally.frame.weighted)
        own, whole = (clusters.totals("weight", cells.kinds[members]) for members in of)
        return Share.of_clusters(own, whole, int(people[0]))

    found: Metrics = {}
    groups = groups_of(cells.kinds, tally.frame)
    for attribute, own_groups in itertools.groupby(groups, key=lambda group: group.attribute):
        shares = {
            group.name: {
                "selection_rate": share(selected, group.members),
                "true_positive_rate": share(selected, group.members & deserving),
                "false_positive_rate": share(selected, group.members & ~deserving),
            }
            for group in own_groups
        }
        rates = group_table(shares, alpha)
        found |= {(name, attribute, group): quantity for (name, group), quantity in rates.items()}
    changed = share(before != after, np.ones_like(selected))
    found["decisions_changed", "", ""] = changed.wilson(alpha)
    return found
