"""A point estimate, its standard error, and what follows from the two."""

import abc
import dataclasses
import math
from typing import final

from scipy.special import ndtr, ndtri, stdtr, stdtrit
from typing_extensions import override

from likewise.errors import InvalidSettings

ROUNDING = 1e-12
"""A spread of ratios below this, relative to them, is what rounding leaves of none."""


class Bounds(abc.ABC):
    r"""Confidence bounds and p-values for one unknown number :math:`\theta`.

    Every method of this room (the paper's z, Hall, bootstrap-t, mid-P, the score test, refits of
    the metric) is one of these; what a test does with them is written once, in `Evidence`.
    """

    @abc.abstractmethod
    def p_value(self, delta: float) -> float:
        r"""Return the p-value of :math:`H_0: \theta \le \delta`."""

    @abc.abstractmethod
    def lower_bound(self, alpha: float) -> float:
        r"""Return the one-sided lower bound: below :math:`\theta` with confidence 1 - alpha."""

    @abc.abstractmethod
    def upper_bound(self, alpha: float) -> float:
        r"""Return the one-sided upper bound: above :math:`\theta` with confidence 1 - alpha."""

    @final
    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the equal-tailed two-sided interval, half of alpha on either side."""
        return self.lower_bound(alpha / 2), self.upper_bound(alpha / 2)


@final
@dataclasses.dataclass(frozen=True)
class Unknown(Bounds):
    """The bounds of a sample that says nothing: people who all fare the same, or no errors."""

    least: float = 0.0

    @override
    def p_value(self, delta: float) -> float:
        return 1.0

    @override
    def lower_bound(self, alpha: float) -> float:
        return self.least

    @override
    def upper_bound(self, alpha: float) -> float:
        return math.inf


@final
@dataclasses.dataclass(frozen=True)
class Estimate(Bounds):
    r"""A point estimate :math:`S_n` with its standard error; its bounds are the paper's.

    Theorems 3.1 and C.1 both say :math:`(S_n - \theta) / \text{se} \to N(0, 1)`, with different
    standard errors. Intervals, tests and p-values follow from that alone.

    Parameters
    ----------
    value, std_error
        :math:`S_n` and :math:`V_n / \sqrt n`, or their counterparts for error rates, weights
        and clusters.
    n
        Number of people.
    skewness
        Skewness of the estimate itself, :math:`\gamma / \sqrt n` with :math:`\gamma` that of one
        person; the paper does not use it, `Hall` does.
    degrees
        Degrees of freedom of the standard error: infinite, unless there are few clusters.
    effective_n
        How many independent people of equal weight would tell as much about rare events.
    linear_error
        With weights or clusters, where ``std_error`` is a jackknife's, the one of the linearised
        estimate, which the skewness belongs to.
    more
        With weights or clusters, the estimate with one more unit that is harmed more than any seen:
        upper ends stay above it.

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
    more: "Estimate | None" = None

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


def quantile(q: float, degrees: float = math.inf) -> float:
    """Return the q-quantile of Student's t, or of the normal."""
    return float(ndtri(q)) if math.isinf(degrees) else float(stdtrit(degrees, q))


def check_alpha(alpha: float, most: float = 1.0) -> None:
    """Refuse an error rate outside (0, 1), or above ``most``."""
    if not 0 < alpha < 1 or alpha > most:
        raise InvalidSettings(f"alpha must lie between 0 and {most:g} (got {alpha:g}).")


def check_delta(delta: float) -> None:
    """Refuse a tolerance below one: nobody's worst similar person fares better."""
    if not 1 <= delta < math.inf:
        raise InvalidSettings(f"delta must be a number of at least 1 (got {delta:g}).")
