"""What would have to be different for the verdict to be another."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from likewise.errors import InvalidSettings
from likewise.inference.verdict import Evidence, Outcome


@dataclasses.dataclass(frozen=True)
class AtTolerance:
    """The verdict that another tolerance would have given, on the same evidence."""

    delta: float
    p_value: float
    outcome: Outcome


@dataclasses.dataclass(frozen=True)
class DeltaCurve:
    """How the verdict depends on the tolerance.

    No correction is needed for looking at all of them: the turning points come from inverting one
    interval.

    Parameters
    ----------
    points
        p-value and outcome, tolerance by tolerance.
    unfair_below
        Every tolerance below this gives evidence of unfairness.
    tolerable_from
        Every tolerance from here on is kept to.
    """

    points: tuple[AtTolerance, ...]
    unfair_below: float
    tolerable_from: float


def delta_curve(evidence: Evidence, alpha: float, deltas: Sequence[float] = ()) -> DeltaCurve:
    """Return verdicts at many tolerances; by default from 1 to beyond where they last change."""
    one = evidence.verdict(1.0, alpha)
    lower = one.lower_bound
    upper = max(evidence.tolerable_from(alpha), lower)
    if not deltas:
        last = max((v for v in (lower, upper) if math.isfinite(v)), default=1.0)
        deltas = np.linspace(1.0, max(2.0, 1.2 * last), 101).tolist()
    if evidence.held_back:  # no tolerance is accused of anything
        lower = min(lower, 1.0)
    # Bounds do not depend on the tolerance, and some take long: they are computed once.
    bounds, error = evidence.bounds, evidence.numerical_error
    points = tuple(
        AtTolerance(
            delta=float(delta),
            p_value=math.nan if bounds is None else bounds.p_value(delta + error),
            outcome=_outcome(delta, lower, upper),
        )
        for delta in deltas
    )
    return DeltaCurve(points, lower, upper)


def _outcome(delta: float, unfair_below: float, tolerable_from: float) -> Outcome:
    if delta < unfair_below:
        return "evidence_of_unfairness"
    return "within_tolerance" if delta >= tolerable_from else "inconclusive"


def metric_error_bound(
    *,
    lam: float,
    time: float,
    metric_error: float,
    lipschitz: float,
    loss_lipschitz: float,
    diameter: float,
    smallest_loss: float,
) -> float:
    r"""Return how far a wrong metric can move any loss ratio, by Theorem A.1.

    .. math:: \sqrt{\lambda \delta_d / L} \; L_0 D e^{LT} / c

    Parameters
    ----------
    lam, time
        :math:`\lambda` and the stopping time T of the flow.
    metric_error
        :math:`\delta_d`: for quadratic metrics twice the spectral norm of the difference.
    lipschitz
        L, of the gradient of the penalised loss.
    loss_lipschitz, smallest_loss
        :math:`L_0` and c, of the loss itself.
    diameter
        D, of the space of features.
    """
    positive = {"lam": lam, "lipschitz": lipschitz, "smallest_loss": smallest_loss}
    for name, value in positive.items():
        if not value > 0:
            raise InvalidSettings(f"{name} must be positive for Theorem A.1, and {value:g} is not.")
    moved = math.sqrt(lam * metric_error / lipschitz) * diameter * math.exp(lipschitz * time)
    return moved * loss_lipschitz / smallest_loss
