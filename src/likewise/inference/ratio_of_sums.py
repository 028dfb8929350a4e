"""The ratio of two totals over independent units: weights and clusters, errors or losses."""

import dataclasses
import math
from typing import final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.inference.estimate import Estimate
from likewise.inference.estimators import error_and_skewness
from likewise.inference.hall import transformed
from likewise.inference.inversion import Inversion


@dataclasses.dataclass(frozen=True)
class UnitSums:
    r"""Power sums :math:`\sum_g a_g^i b_g^j`, up to the third order, over independent units.

    Sums of parts add up to the sums of the whole, and any :math:`D_g = a_g - \delta b_g` has its
    first three moments in them, whatever :math:`\delta`.

    Parameters
    ----------
    sums
        Entry (i, j) belongs to :math:`a^i b^j`; (0, 0) is the number of units.
    """

    sums: Float[np.ndarray, "4 4"]

    @classmethod
    def of(cls, after: Float[np.ndarray, " g"], before: Float[np.ndarray, " g"]) -> "UnitSums":
        """Sum up the (weighted) errors or losses of each unit, after and before the map."""
        powers = np.arange(4)[:, None]
        return cls(after**powers @ (before**powers).T)

    def __add__(self, other: "UnitSums") -> "UnitSums":
        return UnitSums(self.sums + other.sums)

    @property
    def units(self) -> int:
        """Number of units G."""
        return int(self.sums[0, 0])

    @property
    def ratio(self) -> float:
        """The ratio of the totals; infinite, or undefined, without anything before the map."""
        after, before = float(self.sums[1, 0]), float(self.sums[0, 1])
        if before == 0:
            return math.inf if after else math.nan
        return after / before

    def moments(self, delta: float) -> tuple[float, float, float]:
        """Return the sum of the D, and the sums of their squares and cubes about their mean."""
        s = self.sums
        first = float(s[1, 0] - delta * s[0, 1])
        second = float(s[2, 0] - 2 * delta * s[1, 1] + delta**2 * s[0, 2])
        third = float(s[3, 0] - 3 * delta * s[2, 1] + 3 * delta**2 * s[1, 2] - delta**3 * s[0, 3])
        mean = first / self.units
        squares = second - mean * first
        cubes = third - 3 * mean * second + 2 * mean**2 * first
        # What rounding leaves of a difference of equal sums is nothing.
        return first, squares if squares > 1e-14 * second else 0.0, cubes

    def standardised(self, delta: float) -> tuple[float, float]:
        r"""Return t and its skewness for :math:`D_g = a_g - \delta b_g`.

        :math:`t = \sum D_g / \sqrt{\frac{G}{G-1} \sum (D_g - \bar D)^2}`; very small where the
        units do not differ, since nothing is known then.
        """
        total, squares, cubes = self.moments(delta)
        if squares == 0:
            return -1e6, 0.0
        std_error, skewness = error_and_skewness(self.units, squares, cubes)
        return total / self.units / std_error, skewness

    def estimate(self, n: int, degrees: float = math.inf) -> Estimate:
        """Return the ratio with its delta-method standard error: CR1, as for weighted people."""
        before = float(self.sums[0, 1])
        if before == 0:
            return Estimate(self.ratio, math.nan, n)
        squares = self.moments(self.ratio)[1]
        std_error = math.sqrt(squares * self.units / (self.units - 1)) / before
        return Estimate(self.ratio, std_error, n, degrees=degrees)


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
        return transformed(*self.sums.standardised(theta))

    @property
    @override
    def centre(self) -> float:
        return self.sums.ratio
