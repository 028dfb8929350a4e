"""The metric is estimated too: bounds that include the uncertainty of learning it."""

import dataclasses
import math
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidSample
from likewise.inference.estimate import Bounds, Estimate, Unknown, quantile, upper_tail
from likewise.inference.verdict import Evidence


@final
@dataclasses.dataclass(frozen=True)
class Jackknife(Bounds):
    r"""Bounds from a delete-group jackknife over refits of the metric.

    Each of G replicates leaves out one random group, refits metric and reach on the others and
    averages anew over them. Then :math:`\text{se}^2 = \frac{G-1}{G} \sum (S_{(g)} - \bar S)^2` is
    the *total* standard error, sampling of people included, with G - 1 degrees of freedom. The
    error of a learned metric is skewed, so the upper bound is taken on the scale of
    :math:`\log(S - 1)`, if all replicates exceed 1.

    Parameters
    ----------
    value
        The estimate with everybody.
    replicates
        The estimate of each refit.
    separate
        Standard error under the metric as it is, to be added if the metric was learned from other
        people than the audited ones; 0 if the replicates left out audited people too.
    """

    value: float
    replicates: Float[np.ndarray, " g"]
    separate: float = 0.0

    @property
    def degrees(self) -> float:
        """Degrees of freedom."""
        return len(self.replicates) - 1.0

    @property
    def std_error(self) -> float:
        """Total standard error, with the metric refitted."""
        return math.hypot(_jackknife_error(self.replicates), self.separate)

    @override
    def p_value(self, delta: float) -> float:
        return upper_tail((self.value - delta) / self.std_error, self.degrees)

    @override
    def lower_bound(self, alpha: float) -> float:
        return self.value - quantile(1 - alpha, self.degrees) * self.std_error

    @override
    def upper_bound(self, alpha: float) -> float:
        t = quantile(1 - alpha, self.degrees)
        if min(self.value, self.replicates.min()) <= 1:
            return self.value + t * self.std_error
        excess = self.value - 1
        on_log_scale = _jackknife_error(np.log(self.replicates - 1))
        return 1 + excess * math.exp(t * math.hypot(on_log_scale, self.separate / excess))


@final
@dataclasses.dataclass(frozen=True)
class Percentile(Bounds):
    r"""Percentile bounds from bootstrap refits of the metric.

    Parameters
    ----------
    replicates
        The estimate of each refit on a resample.
    """

    replicates: Float[np.ndarray, " b"]

    @property
    def std_error(self) -> float:
        """Total standard error, with the metric refitted."""
        return float(self.replicates.std(ddof=1))

    @override
    def p_value(self, delta: float) -> float:
        below = int((self.replicates <= delta).sum())
        return (1 + below) / (1 + len(self.replicates))

    @override
    def lower_bound(self, alpha: float) -> float:
        return float(np.quantile(self.replicates, alpha))

    @override
    def upper_bound(self, alpha: float) -> float:
        return float(np.quantile(self.replicates, 1 - alpha))


def with_refits(
    evidence: Evidence,
    replicates: Sequence[Evidence],
    *,
    bootstrap: bool = False,
    separate: bool = False,
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
    total = _refitted(evidence.estimate, [r.estimate for r in replicates], bootstrap, separate)
    held = [r.capped_estimate for r in replicates if r.capped_estimate is not None]
    capped = evidence.capped_estimate
    return dataclasses.replace(
        evidence,
        method=method,
        estimate=dataclasses.replace(evidence.estimate, std_error=total.std_error),
        bounds=_known(total),
        capped=None if capped is None else _known(_refitted(capped, held, bootstrap, separate)),
        details={**evidence.details, "std_error_fixed_metric": evidence.estimate.std_error},
    )


def _refitted(
    estimate: Estimate, replicates: Sequence[Estimate], bootstrap: bool, separate: bool
) -> Jackknife | Percentile:
    values = np.array([r.value for r in replicates])
    if bootstrap:
        return Percentile(values)
    return Jackknife(estimate.value, values, estimate.std_error if separate else 0.0)


def _known(bounds: Jackknife | Percentile) -> Bounds:
    return bounds if bounds.std_error > 0 else Unknown()


def _jackknife_error(replicates: Float[np.ndarray, " g"]) -> float:
    groups = len(replicates)
    return math.sqrt((groups - 1) / groups * float(np.square(replicates - replicates.mean()).sum()))
