"""Group metrics by protected attribute: accuracy, odds, selection rates (Appendix F.5).

They ask another question than the audit (is one *group* treated like another?), and are shown
beside it. Intervals of single shares are Wilson's or Clopper and Pearson's. Those of combinations
put single intervals together ("square and add": Newcombe 1998, Zou and Donner 2008), which keeps
their virtues at few people and at shares of zero or one.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betaincinv

from likewise.errors import InvalidSample
from likewise.stats.estimate import (
    ONE_MORE,
    Estimate,
    check_alpha,
    quantile,
    ratio_of_sums,
    ratio_of_totals,
)
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
    terms
        Of people in clusters, the linearised share of each: says how shares are correlated.
    more
        The share with one more cluster where it holds for 1.5 times as many as in any (or does not,
        if it holds for most): the exact interval allows for it.
    """

    value: float
    n: int
    effective_n: float
    degrees: float = math.inf
    terms: Float[np.ndarray, " g"] | None = None
    more: "Share | None" = None

    @classmethod
    def of_clusters(
        cls, hits: Float[np.ndarray, " g"], weights: Float[np.ndarray, " g"], n: int
    ) -> "Share":
        """Return a share of n people from the weights of hits, and of all, in each cluster."""
        if n == 0:
            return cls(math.nan, 0, 0.0, terms=np.zeros(len(weights)))
        some, kish = weights > 0, effective_units(weights)
        usual, each = float(weights[some].mean()), hits[some] / weights[some]
        one = min(1.0, ONE_MORE * float(each.max()))
        if hits.sum() > weights.sum() / 2:
            one = 1 - min(1.0, ONE_MORE * float(1 - each.min()))
        more_weights = np.append(weights, usual)
        wider = ratio_of_totals(np.append(hits, usual * one), more_weights, n)
        more = cls(wider.value, n, _effective_n(wider, effective_units(more_weights)), kish - 1)
        found = ratio_of_totals(hits, weights, n)
        terms = hits - found.value * weights
        return cls(found.value, n, _effective_n(found, kish), kish - 1, terms, more)

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
        found = ratio_of_sums(sums, int(n), leverage=sums.leverage())
        # Few hits say little about their own variance: never more than Kish's number.
        kish = total**2 / squared
        return cls(value, int(n), min(kish, _effective_n(found, kish)), kish - 1)

    def wilson(self, alpha: float) -> Quantity:
        """Return the share with Wilson's score interval."""
        n, z2 = self._size(alpha), quantile(1 - alpha / 2) ** 2
        if n == 0:
            return Quantity(self.value, 0.0, 1.0, self.n)
        middle = (self.value + z2 / (2 * n)) / (1 + z2 / n)
        spread = self.value * (1 - self.value) / n + z2 / (4 * n**2)
        half = math.sqrt(z2 * spread) / (1 + z2 / n)
        # Exactly 0 and 1 at the ends, which rounding would miss.
        lower = middle - half if self.value > 0 else 0.0
        upper = middle + half if self.value < 1 else 1.0
        return Quantity(self.value, lower, upper, self.n)

    def clopper_pearson(self, alpha: float) -> Quantity:
        r"""Return the share with the exact interval of Clopper and Pearson.

        With weights or clusters n is ``effective_n`` and the count :math:`n p` (Korn and Graubard):
        no longer exact, but on the cautious side.
        """
        n = self._size(alpha)
        if n == 0:
            return Quantity(self.value, 0.0, 1.0, self.n)
        hits, others = self.value * n, (1 - self.value) * n
        lower = float(betaincinv(hits, others + 1, alpha / 2)) if hits > 0 else 0.0
        upper = float(betaincinv(hits + 1, others, 1 - alpha / 2)) if others > 0 else 1.0
        if self.more is not None:
            wider = self.more.clopper_pearson(alpha)
            lower, upper = min(lower, wider.lower), max(upper, wider.upper)
        return Quantity(self.value, lower, upper, self.n)

    def _size(self, alpha: float) -> float:
        if self.degrees < 1e-9:  # one cluster says nothing
            return 0.0
        q = 1 - alpha / 2
        return self.effective_n * (quantile(q) / quantile(q, self.degrees)) ** 2


def _effective_n(share: Estimate, kish: float) -> float:
    if 0 < share.value < 1 and share.std_error > 0:
        return min(float(share.n), share.value * (1 - share.value) / share.std_error**2)
    # All alike: no spread to learn the design effect from, so Kish's, of whole units.
    return kish


def combination(coefficients: Sequence[float], shares: Sequence[Share], alpha: float) -> Quantity:
    r"""Return :math:`\sum_j c_j p_j` with Newcombe's square-and-add interval.

    Each share goes to that end of its Wilson interval which lowers (or raises) the sum; the
    distances add up like standard deviations, with the shares' own correlations: zero unless the
    people share clusters.
    """
    c = np.array(coefficients)
    p, low, high = _ends(shares, alpha)
    value, n = float(c @ p), sum(share.n for share in shares)
    if math.isnan(value):
        return Quantity(value, float(c[c < 0].sum()), float(c[c > 0].sum()), n)
    correlation = _correlation(shares)

    def distance(ends: Float[np.ndarray, " k"]) -> float:
        steps = np.abs(c) * (p - ends)
        return math.sqrt(max(0.0, float(steps @ correlation @ steps)))

    below, above = distance(np.where(c > 0, low, high)), distance(np.where(c > 0, high, low))
    return Quantity(value, value - below, value + above, n)


def ratio(share: Share, base: Share, alpha: float) -> Quantity:
    r"""Return :math:`p_1 / p_2` with Donner and Zou's (2012) interval.

    Its ends are the r for which square-and-add puts an end of :math:`p_1 - r p_2` at zero: roots of
    :math:`A r^2 - 2 B r + C`, written so that neither zero counts nor cancellation spoil them.
    """
    (p, q), (low, low_base), (high, high_base) = _ends((share, base), alpha)
    n = share.n + base.n
    if math.isnan(p) or math.isnan(q):
        return Quantity(math.nan, 0.0, math.inf, n)
    correlation = float(_correlation((share, base))[0, 1])

    def root(end: float, base_end: float, *, smaller: bool) -> float:
        a, c = base_end * (2 * q - base_end), end * (2 * p - end)
        b = p * q + correlation * (end - p) * (base_end - q)
        r = math.sqrt(max(0.0, b**2 - a * c))
        if smaller:
            return c / (b + r) if c > 0 else 0.0
        return (b + r) / a if a > 0 else math.inf

    value = p / q if q > 0 else (math.inf if p > 0 else math.nan)
    lower, upper = root(low, high_base, smaller=True), root(high, low_base, smaller=False)
    return Quantity(value, lower, upper, n)


def _ends(shares: Sequence[Share], alpha: float) -> Float[np.ndarray, "3 k"]:
    parts = [share.wilson(alpha) for share in shares]
    return np.array([(part.value, part.lower, part.upper) for part in parts]).T


def _correlation(shares: Sequence[Share]) -> Float[np.ndarray, "k k"]:
    if any(share.terms is None for share in shares):
        return np.eye(len(shares))
    terms = np.stack([share.terms for share in shares if share.terms is not None])
    length = np.sqrt(np.square(terms).sum(axis=1, keepdims=True))
    unit = np.divide(terms, length, out=np.zeros_like(terms), where=length > 0)
    correlation = unit @ unit.T
    np.fill_diagonal(correlation, 1.0)
    return correlation


Metrics = dict[tuple[str, str, str], Quantity]
"""Quantities by name (``accuracy``, ``selection_rate``, …), protected attribute and level; the last
two are empty for everyone."""


def group_metrics(
    tally: Tally,
    *,
    alpha: float = 0.05,
    positive: int = 1,
    privileged: Mapping[str, str] = MappingProxyType({}),
) -> Metrics:
    r"""Group metrics before anybody is perturbed, with intervals that hold one at a time.

    Of everyone accuracy and balanced accuracy, :math:`\frac{1}{|C|} \sum_c P(\hat Y = c | Y = c)`
    over the classes that occur. Of each level of each attribute the selection rate; the impact
    ratio, over the group with the highest rate (29 CFR 1607.4(D) flags less than four fifths);
    true and false positive rates; and the average odds difference, the mean of the differences of
    the two rates to the privileged group's. Intervals are Wilson's, and Newcombe's for what is
    made of several rates. With weights, rates are Hájek's.

    Parameters
    ----------
    positive
        The class that people are selected for, as its index; others count as its opposite.
    privileged
        For each attribute, the level that others are compared with; the largest group unless told.
    """
    check_alpha(alpha)
    table = _Decisions(tally)
    recalls = [table.share(table.before == c, table.y == c) for c in np.unique(table.y)]
    accuracy = table.share(table.before == table.y, table.everybody).wilson(alpha)
    balanced = combination([1 / len(recalls)] * len(recalls), recalls, alpha)
    found = {("accuracy", "", ""): accuracy, ("balanced_accuracy", "", ""): balanced}
    selected, deserving = table.before == positive, table.y == positive
    groups = groups_of(tally.cells.kinds, tally.frame, crossed=False)
    for trait, own_groups in itertools.groupby(groups, key=lambda group: group.trait):
        members = {group.name: group.members for group in own_groups}
        chosen, hits, alarms = (
            {name: table.share(selected, own & who) for name, own in members.items()}
            for who in (table.everybody, deserving, ~deserving)
        )
        known = [name for name in members if name != MISSING] or list(members)
        largest = max(known, key=lambda name: table.people(members[name]))
        base = privileged.get(trait, largest)
        most = max(known, key=lambda name: chosen[name].value)
        for own in members:
            impact, difference = Quantity(1.0, 1.0, 1.0, 0), Quantity(0.0, 0.0, 0.0, 0)
            if own != most:
                impact = ratio(chosen[own], chosen[most], alpha)
            if own != base:
                odds = [hits[own], hits[base], alarms[own], alarms[base]]
                difference = combination([0.5, -0.5, 0.5, -0.5], odds, alpha)
            values = {
                "selection_rate": chosen[own].wilson(alpha),
                "impact_ratio": dataclasses.replace(impact, n=chosen[own].n),
                "true_positive_rate": hits[own].wilson(alpha),
                "false_positive_rate": alarms[own].wilson(alpha),
                "average_odds_difference": dataclasses.replace(difference, n=chosen[own].n),
            }
            found |= {(name, trait, own): quantity for name, quantity in values.items()}
    return found


def flip_rates(tally: Tally, alpha: float = 0.05) -> dict[str, Quantity]:
    """Return how often decisions change when people are perturbed: Clopper–Pearson intervals.

    Shares of all people: whose decision changes at all, whose right one turns wrong, and the
    reverse. With weights or clusters the intervals are Korn and Graubard's. Among more than two
    classes a wrong decision may change and stay wrong, so the three shares need not add up.
    """
    check_alpha(alpha)
    table = _Decisions(tally)
    before, after = table.before != table.y, table.after != table.y
    hits = {
        "changed": table.before != table.after,
        "newly_wrong": ~before & after,
        "newly_right": before & ~after,
    }
    shares = {name: table.share(hit, table.everybody) for name, hit in hits.items()}
    return {name: share.clopper_pearson(alpha) for name, share in shares.items()}


def refusal_rates(tally: Tally, favourable: int, alpha: float = 0.05) -> list[Quantity]:
    """Return how often the favourable decision is refused, before and after the perturbation."""
    table = _Decisions(tally)
    refused = (decision != favourable for decision in (table.before, table.after))
    return [table.share(hit, table.everybody).wilson(alpha) for hit in refused]


class _Decisions:
    """Label and decisions of every kind of people, and the shares of people among them."""

    def __init__(self, tally: Tally) -> None:
        if tally.frame.regression:
            raise InvalidSample("A regression decides nothing: it has no error or selection rates.")
        self.tally = tally
        places = np.unravel_index(tally.cells.kinds, tally.frame.shape)
        self.y, self.before, self.after = places[-3:]
        self.everybody = np.ones(len(self.y), dtype=bool)

    def people(self, among: Bool[np.ndarray, " k"]) -> int:
        """Return how many people are of some kinds."""
        return int(self.tally.cells.sums[among, 0].sum())

    def share(self, hit: Bool[np.ndarray, " k"], among: Bool[np.ndarray, " k"]) -> Share:
        """Return the share of those ``among`` all people for whom ``hit`` holds."""
        cells, clusters = self.tally.cells, self.tally.clusters
        if self.tally.clustered:
            kinds = (cells.kinds[members] for members in (hit & among, among))
            hits, weights = (clusters.totals("weight", own) for own in kinds)
            return Share.of_clusters(hits, weights, self.people(among))
        hits, all_ = (cells.sums[m, COUNTS].sum(axis=0) for m in (hit & among, among))
        return Share.of_people(hits, all_, weighted=self.tally.frame.weighted)
