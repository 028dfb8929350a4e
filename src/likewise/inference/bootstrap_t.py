"""The bootstrap-t interval: the distribution of the studentised mean, from resampling."""

import dataclasses
import math
from typing import final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.inference.estimate import Bounds, Estimate, Unknown
from likewise.inference.sampling import Design

CELLS = 2**17
"""Resampled rows held at once: they stay in the cache."""


@final
@dataclasses.dataclass(frozen=True)
class BootstrapT(Bounds):
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

    estimate: Estimate
    resampled: Float[np.ndarray, " b"]

    @override
    def p_value(self, delta: float) -> float:
        t = self.estimate.studentised(delta)
        beyond = len(self.resampled) - int(np.searchsorted(self.resampled, t, side="left"))
        return (1 + beyond) / (1 + len(self.resampled))

    @override
    def lower_bound(self, alpha: float) -> float:
        return self._solve(1 - alpha)

    @override
    def upper_bound(self, alpha: float) -> float:
        return self._solve(alpha)

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
