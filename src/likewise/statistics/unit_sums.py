"""Power sums of two totals over independent units: errors or losses, after and before the map."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Shaped

from likewise.statistics.additive import Additive

ROUNDING = 1e-14
"""What is left of a difference of sums, relative to them, may be rounding."""


@dataclasses.dataclass(frozen=True)
class UnitSums(Additive):
    r"""Power sums :math:`\sum_g (a_g - b_g)^i b_g^j`, up to the third order, over units.

    Any :math:`D_g = a_g - \delta b_g = (a_g - b_g) - (\delta - 1) b_g` has its first three moments
    in them, whatever :math:`\delta`. Of what is the same after as before nothing is left to
    cancel.

    Parameters
    ----------
    sums
        Entry (i, j) belongs to :math:`(a - b)^i b^j`; (0, 0) is the number of units.
    """

    sums: Float[np.ndarray, "4 4"]

    @classmethod
    def of(cls, after: Shaped[np.ndarray, " g"], before: Shaped[np.ndarray, " g"]) -> "UnitSums":
        """Sum up the (weighted) errors or losses of each unit, after and before the map."""
        powers = np.arange(4)[:, None]
        base = before.astype(np.float64)
        return cls((after - base) ** powers @ (base**powers).T)

    @classmethod
    def none(cls) -> "UnitSums":
        """Return the sums over nobody."""
        return cls(np.zeros((4, 4)))

    @property
    def units(self) -> int:
        """Number of units G."""
        return int(self.sums[0, 0])

    @property
    def before(self) -> float:
        """The total before the map."""
        return float(self.sums[0, 1])

    @property
    def ratio(self) -> float:
        """The ratio of the totals; infinite, or undefined, without anything before the map."""
        if self.before == 0:
            return math.inf if self.sums[1, 0] else math.nan
        return 1 + float(self.sums[1, 0]) / self.before

    def moments(self, delta: float) -> tuple[float, float, float]:
        """Return the sum of the D, and the sums of their squares and cubes about their mean."""
        s, c = self.sums, delta - 1
        first = float(s[1, 0] - c * s[0, 1])
        second = float(s[2, 0] - 2 * c * s[1, 1] + c**2 * s[0, 2])
        third = float(s[3, 0] - 3 * c * s[2, 1] + 3 * c**2 * s[1, 2] - c**3 * s[0, 3])
        mean = first / self.units
        squares = second - mean * first
        cubes = third - 3 * mean * second + 2 * mean**2 * first
        size = float(s[2, 0] + c**2 * s[0, 2])
        return first, squares if squares > ROUNDING * size else 0.0, cubes
