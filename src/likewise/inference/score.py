"""The score test of the error-rate ratio, where wrong may turn right."""

import dataclasses
import math
from typing import Any, final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from typing_extensions import override

from likewise.inference.error_rates import ErrorTable
from likewise.inference.estimate import Bounds


@final
@dataclasses.dataclass(frozen=True)
class Score(Bounds):
    r"""Score bounds for the ratio of two paired proportions.

    Nam and Blackwelder (2002), Tang, Tang and Chan (2003): :math:`a - \theta b` is standardised
    with the variance that is most likely *under* :math:`\theta`, so the bounds stay honest when
    there are few errors, or none.
    """

    table: ErrorTable

    @override
    def p_value(self, delta: float) -> float:
        return float(score_p_value(delta, *dataclasses.astuple(self.table)))

    @override
    def lower_bound(self, alpha: float) -> float:
        z = float(ndtri(1 - alpha))
        if self.table.after == 0:
            return 0.0
        if self.table.before == 0:  # then Z = √(a/θ), which never falls below zero
            return self.table.after / z**2 if z > 0 else math.inf
        return self._solve(z)

    @override
    def upper_bound(self, alpha: float) -> float:
        z = float(ndtri(alpha))
        if self.table.before == 0:
            return math.inf
        if self.table.after == 0:  # then Z = -√(bθ)
            return z**2 / self.table.before if z < 0 else 0.0
        return self._solve(z)

    def _solve(self, z: float) -> float:
        counts = dataclasses.astuple(self.table)
        # Z falls from infinity to minus infinity.
        centre = math.log(self.table.ratio)
        width = 1.0
        while score(math.exp(centre - width), *counts) <= z:
            width *= 2
        low, width = centre - width, 1.0
        while score(math.exp(centre + width), *counts) >= z:
            width *= 2
        high = centre + width
        root = brentq(lambda s: score(math.exp(s), *counts) - z, low, high, rtol=1e-14)
        return math.exp(float(root))


def score(theta: float, both: Any, newly_wrong: Any, newly_right: Any, neither: Any) -> Any:
    r"""Return the score statistic :math:`Z(\theta)`, for counts or arrays of counts.

    .. math:: Z = (a - \theta b) / \sqrt{n (1 + \theta) q + m (\theta - 1)},

    with a, b wrong after and before, m wrong at all, and q the most likely probability of being
    newly right if the ratio is :math:`\theta`. At 1 it is McNemar's statistic. Without errors it
    is 0.
    """
    n11, n10, n01 = (np.asarray(c, dtype=np.float64) for c in (both, newly_wrong, newly_right))
    n = n11 + n10 + n01 + np.asarray(neither)
    a, b, m = n11 + n10, n11 + n01, n11 + n10 + n01
    quadratic = n * (1 + theta)
    linear = b * theta**2 - (a + 2 * n01)
    constant = n01 * (1 - theta) * m / n
    q = (-linear + np.sqrt(np.maximum(linear**2 - 4 * quadratic * constant, 0))) / (2 * quadratic)
    variance = quadratic * q + m * (theta - 1)
    distance = a - theta * b
    # Where nothing changed at θ = 1, or nobody was wrong at all, both are zero.
    return np.where(variance > 0, distance / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)[
        ()
    ]


def score_p_value(delta: float, both: Any, newly_wrong: Any, newly_right: Any, neither: Any) -> Any:
    """Return the one-sided p-value of the score test; 1 without a single error."""
    none = (np.asarray(both) + newly_wrong + newly_right) == 0
    z = score(delta, both, newly_wrong, newly_right, neither)
    return np.where(none, 1.0, ndtr(-z))[()]
