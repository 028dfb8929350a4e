"""From evidence to one of three outcomes, for any test of this room."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from likewise.inference.estimate import ROUNDING, Bounds, Estimate, quantile

Outcome = Literal["evidence_of_unfairness", "within_tolerance", "inconclusive"]

AS_SENSITIVE = "the model is as sensitive to a trait that means nothing"
"""Why a learned metric does not accuse."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    r"""What a test concludes, and everything it concluded it from.

    Parameters
    ----------
    test, method
        Which quantity was tested (``loss_ratio``, ``error_rate_ratio``, …), and how.
    estimate, std_error
        The point estimate and its standard error; ``nan`` where it is not defined.
    statistic
        The paper's :math:`T_n`: the lower bound, to be compared with ``delta``.
    p_value
        Of :math:`H_0`: at most ``delta``.
    rejected
        Whether the lower bound exceeds ``delta``, people differ at all, and nothing holds an
        accusation back.
    interval
        Two-sided, for reading; it does not decide.
    lower_bound, upper_bound
        One-sided, each at level ``alpha``: they decide.
    n
        Number of people; none is ever left out.
    outcome
        ``evidence_of_unfairness``, ``within_tolerance`` or ``inconclusive``.
    capped_upper_bound, cap
        Upper bound on the mean of ratios capped at ``cap``, by which a mean loss ratio is
        certified; ``None`` where nothing needs a cap.
    held_back
        Why a lower bound above ``delta`` accuses nobody; empty if there is no such bound.
    notes
        What a reader should know, in sentences.
    details
        Diagnostics by name: tail index, design effect, error counts, …
    """

    test: str
    method: str
    estimate: float
    std_error: float
    statistic: float
    p_value: float
    rejected: bool
    interval: tuple[float, float]
    lower_bound: float
    upper_bound: float
    delta: float
    alpha: float
    n: int
    outcome: Outcome
    capped_upper_bound: float | None = None
    cap: float | None = None
    held_back: str = ""
    notes: tuple[str, ...] = ()
    details: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; not-a-number is ``None``, and infinity is text."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


@dataclasses.dataclass(frozen=True)
class Evidence:
    r"""What a sample says about one quantity, before :math:`\delta` and :math:`\alpha` are chosen.

    Parameters
    ----------
    estimate, bounds
        The quantity, and confidence bounds for it; ``None`` where the sample does not define it.
    capped_estimate, capped
        The same with a ``cap`` on what one person can add, for findings within tolerance; ``None``
        where no cap is needed.
    spread
        Whether people differ at all, so that an upper bound means something.
    strict_at, log_e_value
        For a strict finding within tolerance: the tolerance it was asked for, and the logarithm of
        the e-value against a capped mean above it; not numbers if none was asked for.
    numerical_error
        How far the estimate may be off because the map was computed in steps. It is added to every
        bound that decides.
    held_back
        Why nobody is accused even if the lower bound exceeds the tolerance, after "but"; empty if
        nothing holds an accusation back.
    largest
        What the ratio cannot exceed, for certain. Bounds are shown up to it; no decision uses it.
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
    strict_at: float = math.nan
    log_e_value: float = math.nan
    numerical_error: float = 0.0
    held_back: str = ""
    largest: float = math.inf

    @classmethod
    def undefined(
        cls, test: str, method: str, n: int, note: str, cap: float | None = None
    ) -> "Evidence":
        """Return the evidence of a sample that does not define the quantity, and say why."""
        nothing = Estimate(math.nan, math.nan, n)
        return cls(test, method, nothing, None, cap=cap, spread=False, notes=(note,))

    def allowing(self, numerical_error: float) -> "Evidence":
        """Return the evidence of an estimate that may be off by this much in itself."""
        error = math.inf if math.isnan(numerical_error) else float(numerical_error)
        return dataclasses.replace(self, numerical_error=error)

    @property
    def unmoved(self) -> bool:
        """Whether nobody's loss changes: all ratios are one, but for rounding.

        Not said of the paper's interval, which is kept as printed.
        """
        known = self.capped_estimate is not None and not isinstance(self.bounds, Estimate)
        alike = self.estimate.std_error == 0 and abs(self.estimate.value - 1) <= ROUNDING
        return known and alike

    def tolerable_from(self, alpha: float) -> float:
        r"""Return the smallest tolerance that the people are found within.

        The upper bound (on the capped mean, where there is a cap) and the estimate itself lie below
        it, people differ, and harm too rare to be seen could not matter: with capped estimate S,
        :math:`n_\text{eff} \ge \ln(1/\alpha)(c - S)/(\delta - S)`. If a strict finding was asked
        for, its e-value must reach :math:`1/\alpha` too. Where nothing moves anybody, rare harm is
        all there is to fear.
        """
        if self.bounds is None or not (self.spread or self.unmoved):
            return math.inf
        if self.capped is None or self.capped_estimate is None or self.cap is None:
            return self.bounds.upper_bound(alpha) + self.numerical_error
        rare = self.rare_harm(alpha)
        upper = rare if self.unmoved else self.capped.upper_bound(alpha)
        smallest = max(upper, self.estimate.value, rare) + self.numerical_error
        if math.isnan(self.strict_at):
            return smallest
        strict = self.strict_at if self.log_e_value >= math.log(1 / alpha) else math.inf
        return max(smallest, strict)

    def rare_harm(self, alpha: float) -> float:
        r"""Return the tolerance above which harm too rare to be seen could not reach.

        If most people have ratio S and a share :math:`p = (\delta - S)/(c - S)` is harmed by the
        full cap c, the mean is :math:`\delta`, and a sample may well show none of them:
        :math:`(1 - p)^n > \alpha` unless :math:`\delta \ge S + \ln(1/\alpha)(c - S)/n`.
        """
        if self.cap is None or self.capped_estimate is None:
            return 0.0
        mean, n = self.capped_estimate.value, self.estimate.effective_n
        return mean + math.log(1 / alpha) * (self.cap - mean) / n

    def verdict(self, delta: float, alpha: float) -> Verdict:
        r"""Compare with the tolerance ``delta`` at level ``alpha``.

        Evidence of unfairness: the lower bound exceeds :math:`\delta`, and nothing holds that back
        (under a learned metric, placebos may). Within tolerance: as
        `tolerable_from` says. Unfairness wins if both hold; all else is inconclusive: a failure to
        reject certifies nothing.
        """
        error, capped_upper = self.numerical_error, None if self.cap is None else math.nan
        if self.bounds is None:
            lower = upper = p_value = math.nan
            interval = (math.nan, math.nan)
        else:
            lower = self.bounds.lower_bound(alpha) - error
            upper = self.bounds.upper_bound(alpha) + error
            interval, p_value = self.bounds.interval(alpha), self.bounds.p_value(delta + error)
            if self.unmoved:
                upper = capped_upper = self.rare_harm(alpha) + error
            elif self.capped is not None:
                capped_upper = self.capped.upper_bound(alpha) + error
        # Where nobody differs from anybody nothing is known, whatever a formula makes of it.
        alike = self.estimate.std_error == 0
        p_value = 1.0 if alike and self.bounds is not None else p_value
        above = lower > delta and not alike
        rejected = above and not self.held_back
        outcome: Outcome = "inconclusive"
        notes = self.notes
        if rejected:
            outcome = "evidence_of_unfairness"
        elif above:
            notes += (f"The lower bound is above the tolerance, but {self.held_back}.",)
        elif self.tolerable_from(alpha) <= delta:
            outcome = "within_tolerance"
        elif (self.unmoved and delta > self.estimate.value) or (
            self.spread and (upper if capped_upper is None else capped_upper) <= delta
        ):
            notes += (self._reservation(delta, alpha),)
        # No ratio is below zero, above what is possible, or above its cap.
        largest = self.largest if self.largest > delta else math.inf
        shown = np.clip((lower, upper, *interval), 0.0, largest).tolist()
        if capped_upper is not None and self.cap is not None:
            capped_upper = min(capped_upper, self.cap)
        details = {**self.details, "minimum_detectable": self.minimum_detectable(delta, alpha)}
        if math.isfinite(self.largest):
            details["largest_possible"] = self.largest
        return Verdict(
            test=self.test,
            method=self.method,
            estimate=self.estimate.value,
            std_error=self.estimate.std_error,
            statistic=lower,
            p_value=p_value,
            rejected=rejected,
            interval=(shown[2], shown[3]),
            lower_bound=shown[0],
            upper_bound=shown[1],
            delta=float(delta),
            alpha=float(alpha),
            n=self.estimate.n,
            outcome=outcome,
            held_back=self.held_back if above else "",
            capped_upper_bound=capped_upper,
            cap=self.cap,
            notes=notes,
            details=details,
        )

    def minimum_detectable(self, delta: float, alpha: float, power: float = 0.8) -> float:
        r"""Return the ratio that such a sample finds with this power.

        .. math:: \delta + (z_{1-\alpha} + z_\text{power}) \, \text{se}
        """
        degrees = self.estimate.degrees
        reach = quantile(1 - alpha, degrees) + quantile(power, degrees)
        return delta + reach * self.estimate.std_error + self.numerical_error

    def _reservation(self, delta: float, alpha: float) -> str:
        """Say why an upper bound within the tolerance certifies nothing."""
        within = "The upper bound is within the tolerance, but"
        if self.unmoved:
            within = "Nothing moves it, but"
        if self.rare_harm(alpha) + self.numerical_error > delta:
            mean = math.nan if self.capped_estimate is None else self.capped_estimate.value
            cap = math.nan if self.cap is None else self.cap
            needed = math.log(1 / alpha) * (cap - mean) / (delta - mean)
            return (
                f"{within} harm too rare to be seen could hide in fewer than {math.ceil(needed)} "
                "people, so nothing is certified."
            )
        if self.estimate.value + self.numerical_error > delta:
            return (
                f"{within} without the cap the estimate itself is above it, so nothing is "
                "certified."
            )
        return f"{within} the strict e-value does not reach {1 / alpha:g}: nothing is certified."


def placebos_against(tried: Sequence[float], alpha: float) -> str:
    """Say why a learned metric cannot accuse, given the p-values of its audits' placebos."""
    if not tried:
        return "no placebo was tried (audit again with --checks full)"
    worst = max(tried)
    return "" if worst <= alpha else f"{AS_SENSITIVE} (traits shuffled: p = {worst:.2g})"


def placebos_tried(about: Mapping[str, Any], test: str) -> tuple[float, ...] | None:
    """Return what outcomes say of a test's placebos, as p-values; None if none is needed."""
    shuffled = about.get("placebo")
    if not isinstance(shuffled, Mapping):
        return None
    p = shuffled.get(test)
    return (float(p),) if isinstance(p, int | float) and p == p else ()


def plain(value: Any) -> Any:
    """Return a value as JSON has it: not-a-number is ``None``, and infinity is text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    return value
