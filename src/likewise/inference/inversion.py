"""Bounds from inverting a test: which ratios does the sample not contradict."""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import final

from scipy.optimize import brentq
from typing_extensions import override

from likewise.inference.estimate import Bounds, quantile, upper_tail
from likewise.inference.estimators import from_powers
from likewise.inference.hall import transformed
from likewise.statistics.ratio import UnitSums

FARTHEST = 50.0
"""Ratios beyond exp(±50) count as infinite, or zero."""


@dataclasses.dataclass(frozen=True)
class Inversion(Bounds):
    r"""Bounds from a pivot: a number near N(0, 1) at the true ratio, that falls as the ratio grows.

    Subclasses give the pivot; it is compared with Student's quantiles where they say so.
    """

    @abc.abstractmethod
    def pivot(self, theta: float) -> float:
        """Return how far the sample lies above what ``theta`` predicts, in standard errors."""

    @property
    @abc.abstractmethod
    def centre(self) -> float:
        """The estimate, from which the search for bounds starts."""

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the pivot."""
        return math.inf

    @final
    @override
    def p_value(self, delta: float) -> float:
        return upper_tail(self.pivot(delta), self.degrees)

    @final
    @override
    def lower_bound(self, alpha: float) -> float:
        return crossing(self.pivot, quantile(1 - alpha, self.degrees), self.centre)

    @final
    @override
    def upper_bound(self, alpha: float) -> float:
        return crossing(self.pivot, quantile(alpha, self.degrees), self.centre)


@final
@dataclasses.dataclass(frozen=True)
class Inverted(Inversion):
    r"""Bounds for a ratio of totals, by asking which :math:`\delta` the units do not contradict.

    At the true ratio :math:`D_g = a_g - \delta b_g` has mean zero, so
    :math:`p(\delta) = \Phi(-g(t(\delta)))`, with Hall's g for the skewness of :math:`D_g`, and the
    bounds are where p crosses the level (Fieller's way, which needs no division by a random
    number).
    """

    sums: UnitSums
    degrees: float = math.inf

    @override
    def pivot(self, theta: float) -> float:
        return transformed(*standardised(self.sums, theta))

    @property
    @override
    def centre(self) -> float:
        return self.sums.ratio


@final
@dataclasses.dataclass(frozen=True)
class Wider(Bounds):
    """The wider of two bounds on either side: it holds if one of the two does."""

    one: Bounds
    other: Bounds

    @override
    def p_value(self, delta: float) -> float:
        return max(self.one.p_value(delta), self.other.p_value(delta))

    @override
    def lower_bound(self, alpha: float) -> float:
        return min(self.one.lower_bound(alpha), self.other.lower_bound(alpha))

    @override
    def upper_bound(self, alpha: float) -> float:
        return max(self.one.upper_bound(alpha), self.other.upper_bound(alpha))


def crossing(pivot: Callable[[float], float], z: float, centre: float) -> float:
    """Return where a falling function of a positive number crosses z; zero or infinity if nowhere.

    The search goes outwards from ``centre`` in steps that double, on a logarithmic scale.
    """
    near = math.log(centre) if 0 < centre < math.inf else 0.0

    def excess(s: float) -> float:
        return pivot(math.exp(s)) - z

    direction = 1.0 if excess(near) > 0 else -1.0
    step = 0.25
    while True:
        far = near + direction * step
        if abs(far) > FARTHEST:
            return math.inf if direction > 0 else 0.0
        if (excess(far) > 0) != (direction > 0):
            break
        near, step = far, 2 * step
    return math.exp(float(brentq(excess, near, far, xtol=1e-14, rtol=1e-14)))


def standardised(sums: UnitSums, delta: float) -> tuple[float, float]:
    r"""Return t and its skewness for :math:`D_g = a_g - \delta b_g`.

    :math:`t = \sum D_g / \sqrt{\frac{G}{G-1} \sum (D_g - \bar D)^2}`; very small where the units do
    not differ, since nothing is known then.
    """
    total, squares, cubes = sums.moments(delta)
    if squares == 0:
        return -1e6, 0.0
    mean = from_powers(total / sums.units, sums.units, sums.units, squares, cubes)
    return (mean.value / mean.std_error, mean.skewness) if mean.std_error > 0 else (-1e6, 0.0)
