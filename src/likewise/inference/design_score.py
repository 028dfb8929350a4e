"""Error-rate ratios with weights and clusters: honest also when errors are few."""

import dataclasses
import math
from typing import final

import numpy as np
from jaxtyping import Bool, Float
from typing_extensions import override

from likewise.inference.design import Design
from likewise.inference.estimate import Bounds, Unknown
from likewise.inference.estimators import ratio_of_means
from likewise.inference.inversion import Inversion, Wider
from likewise.inference.ratio_of_sums import Inverted, UnitSums
from likewise.inference.score import score


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


def design_bounds(
    before: Bool[np.ndarray, " n"], after: Bool[np.ndarray, " n"], design: Design
) -> Bounds:
    r"""Return the bounds for the ratio of error rates, people weighted or in clusters.

    Neither mid-P nor the plain score test holds then. The mean of :math:`D_g = a_g - \delta b_g`
    does, given enough errors; with few of them it certifies, or at large :math:`\delta` accuses,
    far too often, and the score test on an effective number of people is the wider one. With few
    clusters both accuse somewhat too often, and the delta method bounds them.
    """
    cells = (before & after, after & ~before, before & ~after, ~before & ~after)
    weights = np.array([design.totals(cell).sum() for cell in cells])
    total = float(weights.sum())
    if weights[:3].sum() == 0:
        return Unknown()
    sums = UnitSums.of(design.totals(after), design.totals(before))
    by_score = DesignScore(weights * (design.n / total), sums, total, design.degrees)
    if not before.any():
        return by_score
    bounds = Wider(Inverted(sums, design.degrees), by_score)
    few = math.isfinite(design.degrees)
    return Wider(bounds, ratio_of_means(before, after, design)) if few else bounds
