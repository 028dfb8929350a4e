"""The metric is estimated too: bounds that include the uncertainty of learning it."""

import dataclasses
import math
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.special import fdtrc, fdtri
from typing_extensions import override

from likewise.errors import InvalidSample
from likewise.inference.estimate import ROUNDING, Bounds, Estimate, Unknown, quantile, upper_tail
from likewise.inference.verdict import Evidence

MOST_GROUPS = 10
"""Replicates beyond this number do not make Student's t narrower: error rates jump, and the
distribution of a learned direction is not known better with more of them."""


@final
@dataclasses.dataclass(frozen=True)
class RefitBounds(Bounds):
    r"""Bounds from refits of the metric: a delete-group jackknife, or bootstrap resamples.

    Each of G jackknife replicates leaves out one random group, refits metric and reach on the
    others and averages anew over them:
    :math:`\text{se}^2 = \frac{G-1}{G} \sum (S_{(g)} - \bar S)^2`
    is the *total* standard error, sampling of people included. Of bootstrap resamples it is their
    standard deviation. Either is compared with Student's t of ten groups' 9 degrees at most.

    The error of a learned metric is skewed, and errors in any of k free directions make the model
    look steeper. So the lower bound allows for the worst of them, as Scheffé's:
    :math:`L = S - \sqrt{k F_{k,G-1}(1-\alpha)}\,\text{se}` (Student's t for one); of a flow, whose
    excess grows with the square of how far a direction is off, on the scale of
    :math:`\sqrt{S - 1}`. The upper bound is taken on the scale of :math:`\log(S - 1)`. Scales are
    changed only if all replicates exceed 1.

    Parameters
    ----------
    value
        The estimate with everybody.
    replicates
        The estimate of each refit.
    separate
        Standard error under the metric as it is, to be added if the metric was learned from other
        people than the audited ones; 0 if the replicates left out audited people too.
    directions
        Number of free directions k.
    root
        Whether the lower bound is taken on the scale of the root: for flows.
    bootstrap
        Whether the replicates are bootstrap resamples.
    """

    value: float
    replicates: Float[np.ndarray, " g"]
    separate: float = 0.0
    directions: int = 1
    root: bool = False
    bootstrap: bool = False

    @property
    def degrees(self) -> float:
        """Degrees of freedom."""
        return float(min(len(self.replicates), MOST_GROUPS) - 1)

    @property
    def std_error(self) -> float:
        """Total standard error, with the metric refitted."""
        return math.hypot(self._spread(self.replicates), self.separate)

    @override
    def p_value(self, delta: float) -> float:
        t = (self.value - delta) / self.std_error
        if self.root and self._skewed:
            gap = math.sqrt(self.value - 1) - math.sqrt(max(delta, 1.0) - 1)
            t = gap / self._root_error
        if self.directions < 2 or t <= 0:
            return upper_tail(t, self.degrees)
        return float(fdtrc(self.directions, self.degrees, t**2 / self.directions))

    @override
    def lower_bound(self, alpha: float) -> float:
        t = quantile(1 - alpha, self.degrees)
        if self.directions > 1:
            far = float(fdtri(self.directions, self.degrees, 1 - alpha))
            t = math.sqrt(self.directions * far)
        if self.root and self._skewed:
            return 1 + max(math.sqrt(self.value - 1) - t * self._root_error, 0.0) ** 2
        return self.value - t * self.std_error

    @override
    def upper_bound(self, alpha: float) -> float:
        t = quantile(1 - alpha, self.degrees)
        if not self._skewed:
            return self.value + t * self.std_error
        excess = self.value - 1
        on_log_scale = self._spread(np.log(self.replicates - 1))
        return 1 + excess * math.exp(t * math.hypot(on_log_scale, self.separate / excess))

    @property
    def _skewed(self) -> bool:
        return min(self.value, float(self.replicates.min())) > 1

    @property
    def _root_error(self) -> float:
        own = self.separate / (2 * math.sqrt(self.value - 1))
        return math.hypot(self._spread(np.sqrt(self.replicates - 1)), own)

    def _spread(self, values: Float[np.ndarray, " g"]) -> float:
        groups, squares = len(values), float(np.square(values - values.mean()).sum())
        factor = 1 / (groups - 1) if self.bootstrap else (groups - 1) / groups
        return math.sqrt(factor * squares)


def with_refits(
    evidence: Evidence,
    replicates: Sequence[Evidence],
    *,
    bootstrap: bool = False,
    separate: bool = False,
    directions: int = 1,
    root: bool = False,
) -> Evidence:
    """Return the evidence for the population's metric, of which the one used is an estimate.

    Parameters
    ----------
    evidence
        The evidence under the metric as it is.
    replicates
        The evidence of the same test from each refit of the metric.
    bootstrap
        Whether the refits are bootstrap resamples of the audited people, not the groups of a
        jackknife.
    separate
        Whether the metric was learned from other people than the audited ones, so that replicates
        differ by the metric alone.
    directions, root
        Number of free directions of the metric, and whether the map is a flow along them.
    """
    if len(replicates) < 2:
        raise InvalidSample(f"{len(replicates)} refits of the metric are too few; 2 at least.")
    if bootstrap and separate:
        raise InvalidSample("Bootstrap refits resample the audited people: they are not separate.")
    kind = "bootstrap" if bootstrap else "jackknife"
    method = f"{evidence.method}; {kind} of {len(replicates)} metric refits"
    undefined = sum(not math.isfinite(r.estimate.value) for r in replicates)
    if undefined or evidence.bounds is None:
        note = f"{undefined} of {len(replicates)} refits of the metric leave the ratio undefined."
        return dataclasses.replace(
            evidence,
            method=method,
            estimate=dataclasses.replace(evidence.estimate, std_error=math.nan),
            bounds=None,
            capped=None,
            notes=(*evidence.notes, note),
        )

    def refitted(estimate: Estimate, parts: Sequence[Estimate | None]) -> RefitBounds:
        values = np.array([part.value for part in parts if part is not None])
        own = estimate.std_error if separate else 0.0
        return RefitBounds(estimate.value, values, own, directions, root, bootstrap)

    total = refitted(evidence.estimate, [r.estimate for r in replicates])
    capped = evidence.capped_estimate
    held = None if capped is None else refitted(capped, [r.capped_estimate for r in replicates])
    return dataclasses.replace(
        evidence,
        method=method,
        estimate=dataclasses.replace(
            evidence.estimate, std_error=total.std_error, degrees=total.degrees
        ),
        bounds=_known(total, evidence.estimate, evidence.bounds),
        capped=held and _known(held, evidence.estimate, evidence.capped),
        details={**evidence.details, "std_error_fixed_metric": evidence.estimate.std_error},
    )


def _known(bounds: RefitBounds, estimate: Estimate, own: Bounds | None) -> Bounds | None:
    """Return the bounds, unless refits differ by rounding only: nothing is known, or moved."""
    if bounds.std_error > ROUNDING * abs(bounds.value):
        return bounds
    return own if estimate.std_error == 0 else Unknown()
