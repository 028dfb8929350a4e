"""Hall's interval: the paper's, corrected for skewed ratios."""

import dataclasses
from typing import final

import numpy as np
from typing_extensions import override

from likewise.inference.estimate import Bounds, Estimate, Unknown, quantile, upper_tail


@final
@dataclasses.dataclass(frozen=True)
class Hall(Bounds):
    r"""Bounds from Hall's cubic transformation of the studentised mean.

    Loss ratios are skewed to the right, so :math:`t = (S - \theta)/\text{se}` is skewed to the
    left, and normal quantiles reject too rarely and certify too often. Hall (1992, "On the removal
    of skewness by transformation", J. R. Stat. Soc. B 54, 221--228) makes t nearly normal by

    .. math:: g(t) = t + g' t^2 / 3 + g'^2 t^3 / 27 + g'/6, \qquad g' = \gamma / \sqrt n,

    which is increasing and can be inverted in closed form. The standard error must not be zero:
    see `hall`.
    """

    estimate: Estimate

    @override
    def p_value(self, delta: float) -> float:
        t = self.estimate.studentised(delta)
        return upper_tail(transformed(t, self.estimate.skewness), self.estimate.degrees)

    @override
    def lower_bound(self, alpha: float) -> float:
        return self._solve(1 - alpha)

    @override
    def upper_bound(self, alpha: float) -> float:
        return self._solve(alpha)

    def _solve(self, q: float) -> float:
        z = quantile(q, self.estimate.degrees)
        return self.estimate.value - self.estimate.std_error * restored(z, self.estimate.skewness)


def hall(estimate: Estimate) -> Bounds:
    """Return Hall's bounds; without any spread nothing is known."""
    return Hall(estimate) if estimate.std_error > 0 else Unknown()


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
