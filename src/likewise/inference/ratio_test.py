"""What every test has: a tolerance, a level, one way from evidence to verdict, and to others."""

import abc
import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from likewise.errors import InvalidSample, InvalidSettings, nearest
from likewise.inference.estimate import check_alpha, check_delta
from likewise.inference.verdict import Evidence, Outcome, Verdict
from likewise.outcomes import Outcomes
from likewise.statistics.frame import Frame
from likewise.statistics.tally import Tally


@dataclasses.dataclass(frozen=True)
class RatioTest(abc.ABC):
    r"""A test of :math:`H_0`: some ratio of after to before is at most :math:`\delta`.

    ``name`` is what the result file calls it, ``claim`` what it is about, in words, ``task``
    what kind of model it is for, and ``intervals`` the methods it knows, if it has a parameter
    ``interval``; its fields are its parameters.

    Parameters
    ----------
    delta
        Tolerance, chosen by the auditor beforehand; 1.25 follows the four-fifths rule.
    alpha
        How often a model just at the tolerance may be accused by chance.
    """

    name: ClassVar[str]
    claim: ClassVar[str]
    task: ClassVar[str] = "classification"
    intervals: ClassVar[tuple[str, ...]] = ()

    delta: float = 1.25
    alpha: float = 0.05

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        check_delta(self.delta)

    @property
    def needs_rows(self) -> bool:
        """Whether sums are not enough, and every person's outcome is needed."""
        return False

    def without_rows(self) -> "RatioTest":
        """Return the nearest test that sums are enough for."""
        return self

    @property
    def beside(self) -> "tuple[RatioTest, ...]":
        """The same test by other methods, which are shown beside this one."""
        return ()

    @abc.abstractmethod
    def evidence(self, tally: Tally, rows: Outcomes | None = None) -> Evidence:
        """Return what the people say, whatever tolerance and level they are held against.

        Parameters
        ----------
        tally
            The sums of everyone.
        rows
            Everyone's outcomes, if the test `needs_rows`.
        """

    @final
    def evidence_of(self, outcomes: Outcomes) -> Evidence:
        """Return what the outcomes in memory say."""
        frame = Frame.of(outcomes, getattr(self, "cap", 10.0)).bare()
        if self.task == "regression":
            frame = dataclasses.replace(frame, task=self.task)
        if getattr(self, "strict", False):
            frame = dataclasses.replace(frame, strict_at=self.delta)
        return self.evidence(Tally.of(outcomes, frame), outcomes)

    @final
    def __call__(self, outcomes: Outcomes) -> Verdict:
        """Hold the outcomes of an audit against the tolerance."""
        return self.evidence_of(outcomes).verdict(self.delta, self.alpha)


def check_interval(interval: str, known: Sequence[str]) -> None:
    """Refuse an interval that a test does not have."""
    if interval not in known:
        raise InvalidSettings(
            f"There is no interval {interval!r}; there are {', '.join(known)}."
            f"{nearest(interval, known)}"
        )


def check_cap(cap: float, delta: float) -> None:
    """Refuse a cap at which nobody could ever be found outside the tolerance."""
    if not delta < cap < math.inf:
        raise InvalidSettings(f"cap must be a number above delta ({delta:g}); {cap:g} is not.")


def check_task(test: RatioTest, frame: Frame) -> None:
    """Refuse sums that were made for another task."""
    if frame.task != test.task:
        raise InvalidSample(
            f"The {test.name.replace('_', ' ')} is tested in a {test.task}, and these people's "
            f"outcomes are of a {frame.task}."
        )


def check_held(cap: float, frame: Frame) -> None:
    """Refuse sums of ratios that were held down to another cap than the test's."""
    if cap != frame.cap:
        raise InvalidSample(
            f"The sums were made with ratios capped at {frame.cap:g}, and the test caps them at "
            f"{cap:g}."
        )


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
