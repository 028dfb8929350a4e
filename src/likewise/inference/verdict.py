"""From evidence to one of three outcomes, for any test of this room."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from likewise.inference.estimate import Bounds, Estimate

Outcome = Literal["evidence_of_unfairness", "within_tolerance", "inconclusive"]


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
        Whether the lower bound exceeds ``delta``, and people differ at all.
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
    notes: tuple[str, ...] = ()
    details: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; not-a-number is ``None``, and infinity is text."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


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

    @classmethod
    def undefined(
        cls, test: str, method: str, n: int, note: str, cap: float | None = None
    ) -> "Evidence":
        """Return the evidence of a sample that does not define the quantity, and say why."""
        nothing = Estimate(math.nan, math.nan, n)
        return cls(test, method, nothing, None, cap=cap, spread=False, notes=(note,))

    def verdict(self, delta: float, alpha: float) -> Verdict:
        r"""Compare with the tolerance ``delta`` at level ``alpha``.

        Evidence of unfairness: the lower bound exceeds :math:`\delta`. Within tolerance: the upper
        bound (on the capped mean, where there is a cap) does not, people differ, and there are
        enough of them that harm too rare to be seen could not matter. Unfairness wins if both
        hold; all else is inconclusive: a failure to reject certifies nothing.
        """
        if self.bounds is None:
            nan = math.nan
            lower = upper = p_value = nan
            interval, capped_upper = (nan, nan), None if self.cap is None else nan
        else:
            lower, upper = self.bounds.lower_bound(alpha), self.bounds.upper_bound(alpha)
            interval, p_value = self.bounds.interval(alpha), self.bounds.p_value(delta)
            capped_upper = None if self.capped is None else self.capped.upper_bound(alpha)
        deciding = upper if capped_upper is None else capped_upper
        # Where nobody differs from anybody nothing is known, whatever a formula makes of it.
        alike = self.estimate.std_error == 0
        p_value = 1.0 if alike and self.bounds is not None else p_value
        rejected = lower > delta and not alike
        needed = 0.0 if self.cap is None else rows_to_certify(delta, alpha, self.cap)
        enough = self.estimate.effective_n >= needed
        tolerable = deciding <= delta and self.spread
        outcome: Outcome = "inconclusive"
        notes = self.notes
        if rejected:
            outcome = "evidence_of_unfairness"
        elif tolerable and enough:
            outcome = "within_tolerance"
        elif tolerable:
            people = f"fewer than {math.ceil(needed)} people" if needed < math.inf else "any sample"
            notes += (
                f"The upper bound is within the tolerance, but harm too rare to be seen could hide "
                f"in {people}, so nothing is certified.",
            )
        return Verdict(
            test=self.test,
            method=self.method,
            estimate=self.estimate.value,
            std_error=self.estimate.std_error,
            statistic=lower,
            p_value=p_value,
            rejected=rejected,
            interval=interval,
            lower_bound=lower,
            upper_bound=upper,
            delta=float(delta),
            alpha=float(alpha),
            n=self.estimate.n,
            outcome=outcome,
            capped_upper_bound=capped_upper,
            cap=self.cap,
            notes=notes,
            details=self.details,
        )


def rows_to_certify(delta: float, alpha: float, cap: float) -> float:
    r"""Return how many people certifying takes: :math:`\ln(1/\alpha)(c - 1)/(\delta - 1)`.

    If a share :math:`p = (\delta - 1)/(c - 1)` of people is harmed by the full cap c and nobody
    else, the mean is just :math:`\delta`; with fewer rows than this, a sample may well show none
    of them: :math:`(1 - p)^n > \alpha`.
    """
    return math.log(1 / alpha) * (cap - 1) / (delta - 1) if delta > 1 else math.inf


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {name: _plain(v) for name, v in value.items()}
    return value
