"""Intervals for means of skewed ratios: Hall's, corrected for that, and the bootstrap-t."""

import abc
import dataclasses
import math
from typing import final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.inference.estimate import Bounds, Estimate, Unknown, quantile, upper_tail
from likewise.inference.sampling import Design


@dataclasses.dataclass(frozen=True)
class Studentised(Bounds):
    r"""Bounds that are where :math:`(S - \theta)/\text{se}` has one of its quantiles."""

    estimate: Estimate

    @override
    def lower_bound(self, alpha: float) -> float:
        return self._solve(1 - alpha)

    @override
    def upper_bound(self, alpha: float) -> float:
        return self._solve(alpha)

    @abc.abstractmethod
    def _solve(self, q: float) -> float:
        r"""Return the :math:`\theta` that puts the quantile for probability q where S is."""


@final
@dataclasses.dataclass(frozen=True)
class Hall(Studentised):
    r"""Bounds from Hall's cubic transformation of the studentised mean.

    Loss ratios are skewed to the right, so :math:`t = (S - \theta)/\text{se}` is skewed to the
    left, and normal quantiles reject too rarely and certify too often. Hall (1992, "On the removal
    of skewness by transformation", J. R. Stat. Soc. B 54, 221--228) makes t nearly normal by

    .. math:: g(t) = t + g' t^2 / 3 + g'^2 t^3 / 27 + g'/6, \qquad g' = \gamma / \sqrt n,

    which is increasing and can be inverted in closed form. The standard error must not be zero:
    see `hall`.
    """

    @override
    def p_value(self, delta: float) -> float:
        t = self.estimate.studentised(delta)
        return upper_tail(transformed(t, self.estimate.skewness), self.estimate.degrees)

    @override
    def _solve(self, q: float) -> float:
        z = quantile(q, self.estimate.degrees)
        return self.estimate.value - self.estimate.std_error * restored(z, self.estimate.skewness)


@final
@dataclasses.dataclass(frozen=True)
class OnDesign(Bounds):
    r"""Bounds for people with weights or in clusters, of which few may hold most of the weight.

    The widest of three, on either side: Student's t with the jackknife's standard error and
    :math:`G_\text{eff} - 1` degrees of freedom; Hall's with the linearised one; and above also t on
    the scale of :math:`\log(S - 1)`, since an excess that few units share is skewed, and the same
    with one more unit that is harmed more than any seen.
    """

    estimate: Estimate

    @override
    def p_value(self, delta: float) -> float:
        return max(self.estimate.p_value(delta), self._hall.p_value(delta))

    @override
    def lower_bound(self, alpha: float) -> float:
        return max(0.0, min(self.estimate.lower_bound(alpha), self._hall.lower_bound(alpha)))

    @override
    def upper_bound(self, alpha: float) -> float:
        t, excess = quantile(1 - alpha, self.estimate.degrees), self.estimate.value - 1
        upper = max(self.estimate.upper_bound(alpha), self._hall.upper_bound(alpha))
        if self.estimate.more is not None:
            upper = max(upper, hall(self.estimate.more).upper_bound(alpha))
        if excess <= 0:
            return upper
        return max(upper, 1 + excess * math.exp(min(t * self.estimate.std_error / excess, 700.0)))

    @property
    def _hall(self) -> Hall:
        return Hall(dataclasses.replace(self.estimate, std_error=self.estimate.linear_error))


def hall(estimate: Estimate) -> Bounds:
    """Return Hall's bounds, or those on a design; without any spread nothing is known."""
    if not estimate.std_error > 0:
        return Unknown()
    return Hall(estimate) if math.isnan(estimate.linear_error) else OnDesign(estimate)


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


CELLS = 2**17
"""Resampled rows held at once: they stay in the cache."""


@final
@dataclasses.dataclass(frozen=True)
class BootstrapT(Studentised):
    r"""Bounds from resampled values :math:`t^*` of :math:`(S - \theta) / \text{se}`.

    Efron and Tibshirani (1993), chapter 12. Order statistics are taken at
    :math:`\lceil (1 - \alpha)(B + 1) \rceil`, so that a bound and a p-value never disagree.

    Parameters
    ----------
    estimate
        The mean that was resampled.
    resampled
        The values of t*, sorted.
    """

    resampled: Float[np.ndarray, " b"]

    @override
    def p_value(self, delta: float) -> float:
        t = self.estimate.studentised(delta)
        beyond = len(self.resampled) - int(np.searchsorted(self.resampled, t, side="left"))
        return (1 + beyond) / (1 + len(self.resampled))

    @override
    def _solve(self, q: float) -> float:
        count = len(self.resampled)
        # From below for the upper bound, from above for the lower one: never too narrow.
        rank = math.ceil(q * (count + 1) - 1e-9) if q > 0.5 else math.floor(q * (count + 1) + 1e-9)
        if not 1 <= rank <= count:  # too few resamples to say
            return 0.0 if q > 0.5 else math.inf
        return self.estimate.value - self.estimate.std_error * float(self.resampled[rank - 1])


def bootstrap_t(
    ratio: Float[np.ndarray, " n"],
    estimate: Estimate,
    design: Design,
    rng: np.random.Generator,
    repetitions: int = 1999,
) -> Bounds:
    """Resample independent units (people, or whole clusters) and studentise each mean anew.

    Parameters
    ----------
    ratio
        Loss ratios.
    estimate
        Their mean, from `mean_of_ratios`.
    rng
        Where the randomness comes from.
    repetitions
        Number of resamples.
    """
    if estimate.std_error == 0:
        return Unknown()
    weights = design.total_weights
    terms = design.totals(ratio - estimate.value)
    units = design.units
    # All that a resampled mean and its standard error depend on.
    columns = np.stack([terms, weights, terms**2, terms * weights, weights**2], axis=1)
    at_once = max(1, CELLS // units)
    values = [
        _studentised(columns, rng, min(at_once, repetitions - start))
        for start in range(0, repetitions, at_once)
    ]
    return BootstrapT(estimate, np.sort(np.concatenate(values)))


def _studentised(
    columns: Float[np.ndarray, "g 5"], rng: np.random.Generator, repetitions: int
) -> Float[np.ndarray, " b"]:
    units = len(columns)
    drawn = rng.integers(units, size=(repetitions, units))
    drawn += units * np.arange(repetitions)[:, None]
    times = np.bincount(drawn.ravel(), minlength=repetitions * units).reshape(repetitions, units)
    term, weight, term2, cross, weight2 = (times @ columns).T
    shift = term / weight
    squares = term2 - 2 * shift * cross + shift**2 * weight2
    error = np.sqrt(np.maximum(squares, 0) * units / (units - 1)) / weight
    # A resample of one person repeated has no spread: as far out as can be.
    with np.errstate(divide="ignore", invalid="ignore"):
        t = shift / error
    return np.where(error > 0, t, np.copysign(np.inf, shift))
