"""Shares of people and what is made of them: differences, averages and ratios, with intervals.

Intervals of single shares are Wilson's (or Clopper and Pearson's, which never cover too little).
Those of combinations put single intervals together ("square and add": Newcombe 1998, Zou and
Donner 2008), which keeps their virtues at few people and at shares of zero or one.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv

from likewise.inference.estimate import quantile
from likewise.inference.estimators import ONE_MORE


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number with its two-sided interval.

    Parameters
    ----------
    value
        Not a number where there is nobody to compute it from.
    lower, upper
        The interval; all that is possible where nothing is known.
    n
        Number of people it is about.
    """

    value: float
    lower: float
    upper: float
    n: int


@dataclasses.dataclass(frozen=True)
class Share:
    r"""The share of some people for whom something holds, :math:`\sum w h / \sum w`.

    Parameters
    ----------
    value
        The share; not a number if there are no such people.
    n
        How many such people there are.
    effective_n
        How many independent people of equal weight would tell as much: :math:`p(1-p)/\text{se}^2`
        with the design's own standard error, at most n (Korn and Graubard 1998).
    degrees
        Degrees of freedom of that standard error, if these people have weights or clusters.
    terms
        The linearised share, one for each independent unit; says how shares are correlated. None
        for independent people: shares of different people are not.
    more
        Of people in clusters, the share with one more cluster where it holds for 1.5 times as many
        as in any (or does not, if it holds for most): the exact interval allows for it.
    """

    value: float
    n: int
    effective_n: float
    degrees: float
    terms: Float[np.ndarray, " g"] | None
    more: "Share | None" = None

    @classmethod
    def of_units(
        cls,
        hits: Float[np.ndarray, " g"],
        weights: Float[np.ndarray, " g"],
        n: int,
        *,
        clustered: bool,
    ) -> "Share":
        """Return a share from totals of each independent unit of the whole sample.

        Parameters
        ----------
        hits, weights
            Weight of those of the n people for whom it holds, and of all of them, in each unit.
        """
        units, total = len(weights), float(weights.sum())
        if n == 0:
            return cls(math.nan, 0, 0.0, math.inf, np.zeros(units))
        value, most = float(hits.sum()) / total, float(weights.max())
        terms = hits - value * weights
        variance = math.inf
        if most < total:
            variance = (units - 1) / units * float(np.square(terms / (total - weights)).sum())
        kish = total**2 / float(np.square(weights).sum())
        effective = _effective_n(value, n, variance, kish)
        if not clustered:
            return cls(value, n, effective, math.inf, terms)
        more = _with_one_more(hits, weights, n, kish - 1)
        return cls(value, n, effective, kish - 1, terms, more)

    @classmethod
    def of_people(
        cls,
        hits: Float[np.ndarray, "4"],
        among: Float[np.ndarray, "4"],
        *,
        weighted: bool,
    ) -> "Share":
        """Return a share of independent people.

        Parameters
        ----------
        hits, among
            Number, weight, squared and cubed weight of those for whom it holds, and of all it
            could.
        """
        n, total, squared, cubed = (float(value) for value in among)
        if n == 0:
            return cls(math.nan, 0, 0.0, math.inf, None)
        value = float(hits[1]) / total
        if not weighted:
            return cls(value, int(n), n, math.inf, None)
        squares, cubes = (
            float(hits[k]) * (1 - value) ** 2 + (all_ - float(hits[k])) * value**2
            for k, all_ in ((2, squared), (3, cubed))
        )
        # The jackknife's, with the share of the weight that a person holds, as it counts there.
        leverage = cubes / (total * squares) if squares > 0 else 0.0
        variance = (n - 1) / n * squares / total**2 / (1 - leverage) ** 2
        # Few hits say little about their own variance: never more than Kish's number.
        kish = total**2 / squared
        effective = min(kish, _effective_n(value, int(n), variance, kish))
        return cls(value, int(n), effective, kish - 1, None)

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
        return (
            self.effective_n
            * (quantile(1 - alpha / 2) / quantile(1 - alpha / 2, self.degrees)) ** 2
        )


def _with_one_more(
    hits: Float[np.ndarray, " g"], weights: Float[np.ndarray, " g"], n: int, degrees: float
) -> Share:
    some = weights > 0
    usual, each = float(weights[some].mean()), hits[some] / weights[some]
    one = min(1.0, ONE_MORE * float(each.max()))
    if hits.sum() > weights.sum() / 2:
        one = 1 - min(1.0, ONE_MORE * float(1 - each.min()))
    totals = np.append(hits, usual * one), np.append(weights, usual)
    return dataclasses.replace(Share.of_units(*totals, n, clustered=False), degrees=degrees)


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
    return Quantity(
        value,
        root(low, high_base, smaller=True),
        root(high, low_base, smaller=False),
        n,
    )


def _effective_n(value: float, n: int, variance: float, kish: float) -> float:
    if 0 < value < 1 and variance > 0:
        return min(float(n), value * (1 - value) / variance)
    # All alike: no spread to learn the design effect from, so Kish's, of whole units.
    return kish


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
