"""The score test of the error-rate ratio, where wrong may turn right; on designs too."""

import dataclasses
import math
from typing import Any, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.inference.estimate import Bounds, Estimate, Unknown
from likewise.inference.inversion import Inversion, Inverted, Wider
from likewise.statistics.moments import ErrorTable
from likewise.statistics.ratio import UnitSums


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


@final
@dataclasses.dataclass(frozen=True)
class DesignScore(Inversion):
    r"""The score test on as many people as the sample is worth.

    Weighted shares of the four cells of the error table, with n divided by the design effect of
    :math:`D = a - \theta b`: the variance of its total over what independent people of equal
    weight would give. (Korn and Graubard, 1998, do so for one proportion.)

    Parameters
    ----------
    counts
        Weighted shares of the people wrong both times, newly wrong, newly right and never, times
        their number.
    sums
        Power sums of weighted errors over independent units.
    total_weight
        Of all people.
    """

    counts: Float[np.ndarray, "4"]
    sums: UnitSums
    total_weight: float
    degrees: float = math.inf

    @override
    def pivot(self, theta: float) -> float:
        return float(score(theta, *self.counts.tolist())) / math.sqrt(self.design_effect(theta))

    @property
    @override
    def centre(self) -> float:
        return self.sums.ratio

    def design_effect(self, theta: float) -> float:
        """Return the design effect of the sum that the test is about."""
        n = float(self.counts.sum())
        shares, values = self.counts / n, np.array([1 - theta, 1.0, -theta, 0.0])
        simple = float(shares @ values**2 - (shares @ values) ** 2) * self.total_weight**2 / n
        units = self.sums.units
        actual = self.sums.moments(theta)[1] * units / (units - 1)
        return actual / simple if actual > 0 and simple > 0 else 1.0


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


def design_bounds(
    sums: UnitSums, weights: Float[np.ndarray, "4"], estimate: Estimate, degrees: float
) -> Bounds:
    r"""Return the bounds for the ratio of error rates, people weighted or in clusters.

    Neither mid-P nor the plain score test holds then. The mean of :math:`D_g = a_g - \delta b_g`
    does, given enough errors; with few of them it certifies, or at large :math:`\delta` accuses,
    far too often, and the score test on an effective number of people is the wider one. Where few
    units hold most of the weight both accuse too often, and the jackknife bounds them.

    Parameters
    ----------
    sums
        Power sums of weighted errors over independent units.
    weights
        Weights of the people wrong both times, newly wrong, newly right and never.
    estimate
        The ratio, with the jackknife's standard error.
    """
    total = float(weights.sum())
    if weights[:3].sum() == 0:
        return Unknown()
    by_score = DesignScore(weights * (estimate.n / total), sums, total, degrees)
    if weights[0] + weights[2] == 0:
        return by_score
    return Wider(Wider(Inverted(sums, degrees), by_score), estimate)
