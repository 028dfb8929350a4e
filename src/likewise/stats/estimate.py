r"""The core of inference: an estimate, its standard error, and confidence bounds that follow.

An `Estimate` is a value with the sums of squares and cubes of its influence function over
independent units (people, or whole clusters) and degrees of freedom. `Bounds` are what every test
needs: the paper's normal limit (Wald), Hall's transformation, and inversion of a pivot.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import fdtrc, ndtr, ndtri, stdtr, stdtrit
from typing_extensions import override

from likewise.errors import InvalidSettings
from likewise.stats.sums import RatioSums

ROUNDING = 1e-12  # a spread of ratios below this, relative to them, is what rounding leaves of none
FARTHEST = 50.0  # ratios beyond exp(±50) count as infinite, or zero


class Bounds:
    r"""Confidence bounds and p-values for one unknown number :math:`\theta`.

    ``p_value`` is that of :math:`H_0: \theta \le \delta`, by :math:`\delta`; ``lower_bound`` and
    ``upper_bound`` are one-sided, by :math:`\alpha`: beyond :math:`\theta` with probability
    :math:`\alpha`.
    """

    def __init__(
        self,
        p_value: Callable[[float], float],
        lower_bound: Callable[[float], float],
        upper_bound: Callable[[float], float],
    ) -> None:
        self.p_value, self.lower_bound, self.upper_bound = p_value, lower_bound, upper_bound

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the equal-tailed two-sided interval, half of alpha on either side."""
        return self.lower_bound(alpha / 2), self.upper_bound(alpha / 2)


UNKNOWN = Bounds(lambda delta: 1.0, lambda alpha: 0.0, lambda alpha: math.inf)
"""The bounds of a sample that says nothing: no spread, or no errors."""


def wider(*parts: Bounds) -> Bounds:
    """Return the widest of several bounds on either side: it holds if one of them does."""
    return Bounds(
        lambda delta: max(part.p_value(delta) for part in parts),
        lambda alpha: min(part.lower_bound(alpha) for part in parts),
        lambda alpha: max(part.upper_bound(alpha) for part in parts),
    )


def inversion(
    pivot: Callable[[float], float], solve: Callable[[float], float], degrees: float = math.inf
) -> Bounds:
    """Return bounds by inverting a test: a pivot near N(0, 1) at the true ratio, falling in it.

    ``pivot`` is how far the sample lies above what a ratio predicts, in standard errors with so
    many ``degrees`` of freedom; ``solve`` returns the ratio that has a given pivot.
    """
    return Bounds(
        lambda delta: upper_tail(pivot(delta), degrees),
        lambda alpha: solve(quantile(1 - alpha, degrees)),
        lambda alpha: solve(quantile(alpha, degrees)),
    )


@final
@dataclasses.dataclass(frozen=True)
class Estimate(Bounds):
    r"""A point estimate :math:`S_n` with its standard error; its bounds are the paper's (Wald).

    Theorems 3.1 and C.1 both say :math:`(S_n - \theta) / \text{se} \to N(0, 1)`, with different
    standard errors. Intervals, tests and p-values follow from that alone.

    Parameters
    ----------
    skewness
        Of the estimate itself, :math:`\gamma / \sqrt n` with :math:`\gamma` that of one person; the
        paper does not use it, `hall` does.
    degrees
        Degrees of freedom of the standard error: infinite, unless there are few units.
    effective_n
        Kish's number: how many independent people of equal weight would tell as much.
    linear_error
        With weights or clusters, where ``std_error`` is the jackknife's: the one of the linearised
        estimate, which the skewness belongs to.

    Examples
    --------
    >>> estimate = Estimate(1.5, 0.1, 400)
    >>> round(estimate.lower_bound(0.05), 4)
    1.3355
    """

    value: float
    std_error: float
    n: int
    skewness: float = 0.0
    degrees: float = math.inf
    effective_n: float = math.nan
    linear_error: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.effective_n):
            object.__setattr__(self, "effective_n", float(self.n))

    def studentised(self, delta: float) -> float:
        r"""Return :math:`(S_n - \delta) / \text{se}`, infinite where there is no spread."""
        distance = self.value - delta
        if self.std_error == 0:
            return math.copysign(math.inf, distance) if distance else -math.inf
        return distance / self.std_error

    @override
    def p_value(self, delta: float) -> float:
        return upper_tail(self.studentised(delta), self.degrees)

    @override
    def lower_bound(self, alpha: float) -> float:
        """Return the bound of (17), which is the paper's statistic (19), or (22)."""
        return self.value - quantile(1 - alpha, self.degrees) * self.std_error

    @override
    def upper_bound(self, alpha: float) -> float:
        return self.value + quantile(1 - alpha, self.degrees) * self.std_error


def upper_tail(t: float, degrees: float = math.inf) -> float:
    """Return P(T > t): Student's t, or the normal for infinitely many degrees of freedom."""
    # The survival function at t is the distribution function at -t: no 1 - p, no cancellation.
    return float(ndtr(-t)) if math.isinf(degrees) else float(stdtr(degrees, -t))


def scheffe_tail(t: float, degrees: float, directions: int = 1) -> float:
    """Return Scheffé's p-value: t is that of the worst of so many directions."""
    if directions < 2 or t <= 0:
        return upper_tail(t, degrees)
    return float(fdtrc(directions, degrees, t**2 / directions))


def quantile(q: float, degrees: float = math.inf) -> float:
    """Return the q-quantile of Student's t, or of the normal."""
    return float(ndtri(q)) if math.isinf(degrees) else float(stdtrit(degrees, q))


def check_alpha(alpha: float) -> None:
    """Refuse an error rate outside (0, 1)."""
    if not 0 < alpha < 1:
        raise InvalidSettings(f"alpha must lie between 0 and 1 (got {alpha:g}).")


def check_delta(delta: float) -> None:
    """Refuse a limit on the ratio below one, or infinite."""
    if not 1 <= delta < math.inf:
        raise InvalidSettings(f"delta must be a number of at least 1 (got {delta:g}).")


def growth_needed(gap: float, errors: float, shrinks: float, stays: float = 0.0) -> float:
    """Return the growth of a sample at which a gap is so many standard errors wide.

    ``shrinks`` is the part of the variance that the sample divides, ``stays`` the other part.
    """
    left = (gap / errors) ** 2 - stays
    return shrinks / left if gap > 0 and left > 0 else math.inf


def ratio_of_sums(sums: RatioSums, n: int, *, printed: bool = False) -> Estimate:
    r"""Ratio of totals over independent units: (13), a mean of loss ratios, and (21)--(22), A/B.

    The squares are those of :math:`B_n a_i - A_n b_i`, which cannot come out negative; the printed
    formula, with uncentred second moments, gives the same. With zero before, the ratio is
    infinite, or not defined, and has no standard error. ``printed`` divides by n, as (22) does,
    where a variance would divide by n - 1.
    """
    if not sums.before > 0:
        return Estimate(sums.ratio, math.nan, n)
    _, squares, cubes = sums.moments(sums.ratio)
    units, scale = sums.units, sums.units / sums.before
    if printed:
        squares *= (units - 1) / units
    return from_powers(sums.ratio, n, units, squares * scale**2, cubes * scale**3)


def jackknife_error(after: Float[np.ndarray, " g"], before: Float[np.ndarray, " g"]) -> float:
    r"""Return the delete-one-cluster jackknife's standard error (CR3) of a ratio of totals.

    Leaving out one cluster at a time, :math:`\text{se}^2 = \frac{G-1}{G} \sum_g (S_{(g)} - S)^2`:
    unlike linearised terms it does not forget that a large cluster draws the estimate to itself. A
    ratio that hangs on a single cluster is not known at all.
    """
    total, units = float(before.sum()), len(before)
    if not (before < total).all():
        return math.inf
    terms = (after - float(after.sum()) / total * before) / (total - before)
    return math.sqrt((units - 1) / units * float(np.square(terms).sum()))


def from_powers(value: float, n: int, units: int, squares: float, cubes: float) -> Estimate:
    r"""Return the estimate whose influences have these sums of squares and cubes.

    Its standard error is :math:`V/\sqrt G` and its skewness :math:`\gamma/\sqrt G`. A spread that
    rounding explains is none.
    """
    spread = math.sqrt(max(squares, 0.0) / (units - 1)) if units > 1 else 0.0
    if spread == 0 or spread <= ROUNDING * abs(value):
        return Estimate(value, 0.0, n)
    skewness = cubes / units / (spread * spread * spread) / math.sqrt(units)
    return Estimate(value, spread / math.sqrt(units), n, skewness)


def hall(estimate: Estimate) -> Bounds:
    r"""Hall's bounds: a cubic transformation makes the studentised mean nearly normal.

    Loss ratios are skewed to the right, so :math:`t = (S - \theta)/\text{se}` is skewed to the
    left, and normal quantiles reject too rarely and certify too often. Hall (1992, "On the removal
    of skewness by transformation", J. R. Stat. Soc. B 54, 221--228) takes

    .. math:: g(t) = t + g' t^2 / 3 + g'^2 t^3 / 27 + g'/6, \qquad g' = \gamma / \sqrt n,

    which is increasing and can be inverted in closed form. Without any spread nothing is known.

    With weights or clusters, of which few may hold most of the weight, the bounds are the widest of
    three on either side: Student's t with the jackknife's standard error and
    :math:`G_\text{eff} - 1` degrees of freedom; Hall's with the linearised one; and above also t on
    the scale of :math:`\log(S - 1)`, since an excess that few units share is skewed.
    """
    if not estimate.std_error > 0:
        return UNKNOWN
    design, error = not math.isnan(estimate.linear_error), estimate.std_error
    linear = dataclasses.replace(estimate, std_error=estimate.linear_error) if design else estimate
    skewness, excess = estimate.skewness, estimate.value - 1
    bounds = inversion(
        lambda delta: transformed(linear.studentised(delta), skewness),
        lambda z: linear.value - linear.std_error * restored(z, skewness),
        linear.degrees,
    )
    if not design:
        return bounds
    either = wider(estimate, bounds)

    def upper(alpha: float) -> float:
        found = either.upper_bound(alpha)
        if excess <= 0:
            return found
        t = quantile(1 - alpha, estimate.degrees)
        return max(found, 1 + excess * math.exp(min(t * error / excess, 700.0)))

    return Bounds(either.p_value, lambda alpha: max(0.0, either.lower_bound(alpha)), upper)


def transformed(t: float, skewness: float) -> float:
    """Return Hall's g(t), which is nearly standard normal."""
    return t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6


def restored(z: float, skewness: float) -> float:
    """Return the t for which Hall's g(t) is z."""
    if abs(skewness) < 1e-6:  # the closed form divides by it
        return z - skewness * (2 * z**2 + 1) / 6
    # The *real* cube root: the bracket is often negative.
    root = float(np.cbrt(1 + skewness * (z - skewness / 6)))
    return 3 / skewness * (root - 1)


def fieller(sums: RatioSums, degrees: float = math.inf) -> Bounds:
    r"""Fieller bounds for a ratio of totals: which :math:`\delta` the units do not contradict.

    At the true ratio :math:`D_g = a_g - \delta b_g` has mean zero, so
    :math:`p(\delta) = \Phi(-g(t(\delta)))`, with Hall's g for the skewness of :math:`D_g` and
    :math:`t = \sum D_g / \sqrt{\frac{G}{G-1} \sum (D_g - \bar D)^2}`. Where the units do not differ
    nothing is known, and the pivot is very small.
    """

    def pivot(theta: float) -> float:
        total, squares, cubes = sums.moments(theta)
        mean = from_powers(total / sums.units, sums.units, sums.units, squares, cubes)
        return transformed(mean.studentised(0), mean.skewness) if mean.std_error > 0 else -1e6

    return searched(pivot, sums.ratio, degrees)


def searched(pivot: Callable[[float], float], centre: float, degrees: float = math.inf) -> Bounds:
    """Return the bounds that a falling pivot gives; zero or infinity if they are nowhere.

    The search goes outwards from ``centre`` in steps that double, on a logarithmic scale.
    """

    def solve(z: float) -> float:
        def excess(s: float) -> float:
            return pivot(math.exp(s)) - z

        near, step = math.log(centre) if 0 < centre < math.inf else 0.0, 0.25
        direction = 1.0 if excess(near) > 0 else -1.0
        while True:
            far = near + direction * step
            if abs(far) > FARTHEST:
                return math.inf if direction > 0 else 0.0
            if (excess(far) > 0) != (direction > 0):
                break
            near, step = far, 2 * step
        return math.exp(float(brentq(excess, near, far, xtol=1e-14, rtol=1e-14)))

    return inversion(pivot, solve, degrees)
