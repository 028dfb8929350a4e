"""Tests of a ratio against a limit: what the sample says, and one of three outcomes."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, final

import numpy as np

from likewise.errors import InvalidSample, InvalidSettings, nearest
from likewise.outcomes import Outcomes
from likewise.record import TestRecord, VerdictName
from likewise.stats.estimate import ROUNDING, Bounds, Estimate, check_alpha, check_delta
from likewise.stats.frame import Frame
from likewise.stats.tally import Tally


@dataclasses.dataclass(frozen=True)
class Evidence:
    r"""What a sample says about one ratio, before :math:`\delta` and :math:`\alpha` are chosen.

    Parameters
    ----------
    estimate, bounds
        The ratio, and confidence bounds for it; ``None`` where the sample does not define it.
    capped_estimate, capped
        The same with a ``cap`` on what one person can add, for findings within tolerance; ``None``
        where no cap is needed.
    spread
        Whether people differ at all, so that an upper bound means something.
    numerical_error
        How far the estimate may be off because the flow was solved in steps: added to every bound
        that decides.
    held_back
        Why there is no evidence even if the lower bound exceeds the limit, after "but".
    """

    test: str
    method: str
    estimate: Estimate
    bounds: Bounds | None
    capped_estimate: Estimate | None = None
    capped: Bounds | None = None
    cap: float | None = None
    spread: bool = True
    notes: tuple[str, ...] = ()
    details: Mapping[str, float] = dataclasses.field(default_factory=dict)
    numerical_error: float = 0.0
    held_back: str = ""

    def allowing(self, numerical_error: float) -> "Evidence":
        """Return the evidence of an estimate that may be off by this much in itself."""
        error = math.inf if math.isnan(numerical_error) else float(numerical_error)
        return dataclasses.replace(self, numerical_error=error)

    @property
    def unmoved(self) -> bool:
        """Whether nobody's loss changes: all ratios are one, but for rounding.

        Not said of the paper's interval, which is kept as printed.
        """
        if self.capped_estimate is None or isinstance(self.bounds, Estimate):
            return False
        return self.estimate.std_error == 0 and abs(self.estimate.value - 1) <= ROUNDING

    def turning_points(self, alpha: float) -> tuple[float, float]:
        """Return the limit below which there is evidence, and the one from which none is exceeded.

        No correction is needed for looking at many limits: both come from inverting one interval.
        """
        if self.bounds is None:
            return math.nan, math.inf
        lower = max(self.bounds.lower_bound(alpha) - self.numerical_error, 0.0)
        return min(lower, 1.0) if self.held_back else lower, max(self.within_from(alpha), lower)

    def within_from(self, alpha: float) -> float:
        r"""Return the smallest limit that the people are found within.

        The upper bound (on the capped mean, where there is a cap) and the estimate itself lie below
        it, people differ, and harm too rare to be seen could not matter: with capped estimate S,
        :math:`n_\text{eff} \ge \ln(1/\alpha)(c - S)/(\delta - S)`. Where nobody's loss changes,
        rare harm is all there is to fear.
        """
        if self.bounds is None or not (self.spread or self.unmoved):
            return math.inf
        if self.capped is None:
            return self.bounds.upper_bound(alpha) + self.numerical_error
        rare = self.rare_harm(alpha)
        upper = rare if self.unmoved else self.capped.upper_bound(alpha)
        return max(upper, self.estimate.value, rare) + self.numerical_error

    def rare_harm(self, alpha: float) -> float:
        r"""Return the limit above which harm too rare to be seen could not reach.

        If most people have ratio S and a share :math:`p = (\delta - S)/(c - S)` is harmed by the
        full cap c, the mean is :math:`\delta`, and a sample may well show none of them:
        :math:`(1 - p)^n > \alpha` unless :math:`\delta \ge S + \ln(1/\alpha)(c - S)/n`.
        """
        if self.cap is None or self.capped_estimate is None:
            return 0.0
        mean, n = self.capped_estimate.value, self.estimate.effective_n
        return mean + math.log(1 / alpha) * (self.cap - mean) / n

    def result(self, delta: float, alpha: float) -> TestRecord:
        r"""Compare with the limit ``delta`` at level ``alpha``.

        Evidence of unfairness: the lower bound exceeds :math:`\delta`, and nothing holds that back
        (under a learned metric, negative controls may). Within tolerance: as `within_from` says.
        Evidence wins if both hold; all else is inconclusive.
        """
        error, alike = self.numerical_error, self.estimate.std_error == 0
        lower = upper = capped_upper = p_value = math.nan
        interval: tuple[float, float] = (math.nan, math.nan)
        if self.bounds is not None:
            lower = self.bounds.lower_bound(alpha) - error
            upper = self.bounds.upper_bound(alpha) + error
            interval = self.bounds.interval(alpha)
            # Where people do not differ nothing is known, whatever a formula makes of it.
            p_value = 1.0 if alike else self.bounds.p_value(delta + error)
            if self.unmoved:
                upper = capped_upper = self.rare_harm(alpha) + error
            elif self.capped is not None:
                capped_upper = self.capped.upper_bound(alpha) + error
        above, notes = lower > delta and not alike, self.notes
        outcome: VerdictName = "inconclusive"
        if above and not self.held_back:
            outcome = "evidence"
        elif above:
            notes += (f"The lower bound is above the tolerance, but {self.held_back}.",)
        elif self.within_from(alpha) <= delta:
            outcome = "within_tolerance"
        elif delta > self.estimate.value if self.unmoved else self.spread and capped_upper <= delta:
            notes += (self._reservation(delta, alpha),)
        # No ratio is below zero, or above its cap.
        shown = np.maximum((lower, upper, *interval), 0.0).tolist()
        return TestRecord(
            test=self.test,
            method="",
            interval_method=self.method,
            estimate=self.estimate.value,
            std_error=self.estimate.std_error,
            statistic=lower,
            p_value=p_value,
            rejected=outcome == "evidence",
            interval=(shown[2], shown[3]),
            lower_bound=shown[0],
            upper_bound=shown[1],
            delta=float(delta),
            alpha=float(alpha),
            n=self.estimate.n,
            outcome=outcome,
            held_back=self.held_back if above else "",
            capped_upper_bound=capped_upper if self.cap is None else min(capped_upper, self.cap),
            cap=math.nan if self.cap is None else self.cap,
            notes=notes,
            details=dict(self.details),
        )

    def _reservation(self, delta: float, alpha: float) -> str:
        """Say why a capped upper bound within the limit is no finding within tolerance."""
        within = "Nothing moves it" if self.unmoved else "The upper bound is within the tolerance"
        why = "without the cap the estimate itself is above it: nothing is certified"
        capped, rare = self.capped_estimate, self.rare_harm(alpha) + self.numerical_error > delta
        if self.cap is not None and capped is not None and rare:
            needed = math.log(1 / alpha) * (self.cap - capped.value) / (delta - capped.value)
            why = (
                f"harm too rare to be seen could hide in fewer than {math.ceil(needed)} people, so "
                "nothing is certified"
            )
        return f"{within}, but {why}."


@dataclasses.dataclass(frozen=True)
class RatioTest(abc.ABC):
    r"""A test of :math:`H_0`: some ratio of after to before is at most :math:`\delta`.

    ``name`` is what the record calls it, ``claim`` what it is about, in words, ``task`` what kind
    of model it is for, and ``intervals`` the methods it knows; its fields are its parameters.

    Parameters
    ----------
    delta
        Limit on the ratio, chosen by the auditor beforehand; 1.25 follows the four-fifths rule.
    alpha
        How often a model just at the limit may be flagged by chance.
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
        interval = getattr(self, "interval", None)
        if interval is not None and interval not in self.intervals:
            raise InvalidSettings(
                f"There is no interval {interval!r}; there are {', '.join(self.intervals)}."
                f"{nearest(interval, self.intervals)}"
            )

    @abc.abstractmethod
    def evidence(self, tally: Tally) -> Evidence:
        """Return what the sums of everyone say, whatever limit they are held against."""

    def check_sums(self, frame: Frame) -> None:
        """Refuse sums that were made for another task."""
        if frame.task != self.task:
            raise InvalidSample(
                f"The {self.name.replace('_', ' ')} is tested in a {self.task}, and these people's "
                f"outcomes are of a {frame.task}."
            )

    @final
    def evidence_of(self, outcomes: Outcomes) -> Evidence:
        """Return what the outcomes in memory say."""
        frame = Frame.from_outcomes(outcomes, getattr(self, "cap", 10.0)).bare()
        if self.task == "regression":
            frame = dataclasses.replace(frame, task=self.task)
        return self.evidence(Tally.from_outcomes(outcomes, frame))

    @final
    def __call__(self, outcomes: Outcomes) -> TestRecord:
        """Hold the outcomes of an audit against the limit."""
        return self.evidence_of(outcomes).result(self.delta, self.alpha)


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
    r"""Theorem A.1: how far a wrong metric can move any loss ratio.

    .. math:: \sqrt{\lambda \delta_d / L} \; L_0 D e^{LT} / c

    for a flow with penalty :math:`\lambda` and stopping time T, with :math:`\delta_d` the
    ``metric_error`` (for quadratic metrics twice the spectral norm of the difference), L the
    Lipschitz constant of the gradient of the penalised loss, :math:`L_0` that of the loss itself,
    c the smallest loss, and D the diameter of the space of features.
    """
    moved = math.sqrt(lam * metric_error / lipschitz) * diameter * math.exp(lipschitz * time)
    return moved * loss_lipschitz / smallest_loss
