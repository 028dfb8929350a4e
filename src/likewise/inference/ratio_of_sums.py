"""The ratio of two totals over independent units: weights and clusters, errors or losses."""

import dataclasses
import math
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from typing_extensions import override

from likewise.inference.design import Design
from likewise.inference.estimate import Bounds, Estimate, quantile, upper_tail
from likewise.inference.hall import transformed
from likewise.inference.verdict import Evidence


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

    def standardised(self, delta: float) -> tuple[float, float]:
        r"""Return t and its skewness for :math:`D_g = a_g - \delta b_g`.

        :math:`t = \sum D_g / \sqrt{\frac{G}{G-1} \sum (D_g - \bar D)^2}`; very small where the
        units do not differ, since nothing is known then.
        """
        s, units = self.sums, self.units
        first = float(s[1, 0] - delta * s[0, 1])
        second = float(s[2, 0] - 2 * delta * s[1, 1] + delta**2 * s[0, 2])
        third = float(s[3, 0] - 3 * delta * s[2, 1] + 3 * delta**2 * s[1, 2] - delta**3 * s[0, 3])
        mean = first / units
        squares = second - mean * first
        if squares <= 1e-14 * second:
            return -1e6, 0.0
        spread = math.sqrt(squares / (units - 1))
        cubes = third - 3 * mean * second + 2 * mean**2 * first
        skewness = cubes / units / spread**3 / math.sqrt(units)
        return first / (spread * math.sqrt(units)), skewness

    def estimate(self, design: Design) -> Estimate:
        """Return the ratio with its delta-method standard error, as `ratio_of_means` does."""
        s, r, units = self.sums, self.ratio, self.units
        if s[0, 1] == 0:
            return Estimate(r, math.nan, design.n)
        squares = max(0.0, float(s[2, 0] - 2 * r * s[1, 1] + r**2 * s[0, 2]))
        # (22) divides by n; a variance of weighted or clustered units by G - 1.
        correction = 1.0 if design.simple else units / (units - 1)
        std_error = math.sqrt(squares * correction) / float(s[0, 1])
        return Estimate(
            r, std_error, design.n, degrees=design.degrees, effective_n=design.effective_n
        )


@final
@dataclasses.dataclass(frozen=True)
class Inverted(Bounds):
    r"""Bounds for a ratio of totals, by asking which :math:`\delta` the units do not contradict.

    At the true ratio :math:`D_g = a_g - \delta b_g` has mean zero, so
    :math:`p(\delta) = \Phi(-g(t(\delta)))`, with Hall's g for the skewness of :math:`D_g`, and the
    bounds are where p crosses the level (Fieller's way, which needs no division by a random
    number). Mid-P and score tests do not hold with weights or clusters; this does.
    """

    sums: UnitSums
    degrees: float = math.inf

    @override
    def p_value(self, delta: float) -> float:
        return upper_tail(self._pivot(delta), self.degrees)

    @override
    def lower_bound(self, alpha: float) -> float:
        z = quantile(1 - alpha, self.degrees)
        return self._solve(z, 0.0) if self._pivot(0.0) > z else 0.0

    @override
    def upper_bound(self, alpha: float) -> float:
        z = quantile(alpha, self.degrees)
        far = 2 * self.sums.ratio + 1
        while self._pivot(far) >= z:
            far *= 2
            if far > 1e12:
                return math.inf
        return self._solve(z, far)

    def _solve(self, z: float, far: float) -> float:
        """Return the place between the estimate and ``far`` where the pivot is z."""
        centre = self.sums.ratio
        # At the estimate itself t is 0, also where all units agree and it is not defined.
        root = brentq(
            lambda d: (self._pivot(d) if d != centre else 0.0) - z, centre, far, rtol=1e-14
        )
        return float(root)

    def _pivot(self, delta: float) -> float:
        t, skewness = self.sums.standardised(delta)
        return transformed(t, skewness)


def weigh_totals(test: str, sums: UnitSums, design: Design, *, paper: bool) -> Evidence:
    """Return the evidence of a ratio of totals, by inversion or by the paper's delta method."""
    estimate = sums.estimate(design)
    method = design.named("paper" if paper else "Hall, inverted")
    if sums.sums[0, 1] == 0:
        note = "There is nothing before the map to compare with: no error, no loss."
        return Evidence.undefined(test, method, design.n, note)
    return Evidence(
        test=test,
        method=method,
        estimate=estimate,
        bounds=estimate if paper else Inverted(sums, design.degrees),
        spread=estimate.std_error > 0,
        notes=design.notes,
        details={} if design.simple else {"kish": design.kish},
    )
