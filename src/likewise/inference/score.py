"""The score test of the error-rate ratio, where wrong may turn right."""

import dataclasses
from typing import Any, final

import numpy as np
from typing_extensions import override

from likewise.inference.error_rates import ErrorTable
from likewise.inference.inversion import Inversion


@final
@dataclasses.dataclass(frozen=True)
class Score(Inversion):
    r"""Score bounds for the ratio of two paired proportions.

    Nam and Blackwelder (2002), Tang, Tang and Chan (2003): :math:`a - \theta b` is standardised
    with the variance that is most likely *under* :math:`\theta`, so the bounds stay honest when
    there are few errors before, or none.
    """

    table: ErrorTable

    @override
    def pivot(self, theta: float) -> float:
        return float(score(theta, *dataclasses.astuple(self.table)))

    @property
    @override
    def centre(self) -> float:
        return self.table.ratio


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
