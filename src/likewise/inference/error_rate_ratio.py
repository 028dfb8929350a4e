"""The test of the ratio of error rates.

It is exact, or mid-P, where wrong never turns right.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import betaincc, betaincinv
from typing_extensions import override

from likewise.errors import InvalidSample
from likewise.inference.estimate import Bounds, Estimate, Unknown
from likewise.inference.estimators import error_rate_ratio, ratio_of_totals
from likewise.inference.ratio_test import RatioTest, check_interval, check_task
from likewise.inference.sampling import Sampling, ratio_of_people
from likewise.inference.score_test import Score, design_bounds
from likewise.inference.verdict import Evidence
from likewise.outcomes import Outcomes
from likewise.statistics.moments import ErrorTable
from likewise.statistics.ratio import UnitSums
from likewise.statistics.tally import Tally


@final
@dataclasses.dataclass(frozen=True)
class Exact(Bounds):
    r"""Exact conditional bounds (Clopper and Pearson) for the ratio of nested error rates.

    If nobody who was wrong can turn right, those wrong before are among the M wrong after, and
    given M their number is Binomial(M, :math:`1/\theta`). This needs to hold *by construction*
    (two classes, a fixed threshold, a map that stays put when the loss would fall): choosing the
    test because the table shows no such person has size up to .085.
    """

    table: ErrorTable

    @override
    def p_value(self, delta: float) -> float:
        return float(exact_p_value(self.table.both, self.table.after, delta))

    @override
    def lower_bound(self, alpha: float) -> float:
        both, new = self.table.both, self.table.newly_wrong
        return 1 / float(betaincinv(both + 1, new, 1 - alpha)) if new else 1.0

    @override
    def upper_bound(self, alpha: float) -> float:
        both, new = self.table.both, self.table.newly_wrong
        return 1 / float(betaincinv(both, new + 1, alpha)) if both else math.inf


@final
@dataclasses.dataclass(frozen=True)
class MidP(Bounds):
    """Mid-P bounds: as `Exact`, but only half of the observed table's own probability counts.

    Exact tests of counts are cautious because counts jump; the mid-P value (Lancaster 1961) takes
    most of that caution away and stays within a hair of the nominal level.
    """

    table: ErrorTable

    @override
    def p_value(self, delta: float) -> float:
        return float(mid_p_value(self.table.both, self.table.after, delta))

    @override
    def lower_bound(self, alpha: float) -> float:
        if self.table.newly_wrong == 0:
            return 1.0
        return self._solve(lambda share: self._mid(share) - alpha)

    @override
    def upper_bound(self, alpha: float) -> float:
        if self.table.both == 0:
            return math.inf
        return self._solve(lambda share: 1 - self._mid(share) - alpha)

    def _mid(self, share: float) -> float:
        return float(_mid_distribution(self.table.both, self.table.after, share))

    def _solve(self, excess: Callable[[float], float]) -> float:
        # In 1/θ, which lies between 0 and 1 whatever the table.
        return 1 / float(brentq(excess, 0.0, 1.0, xtol=1e-300, rtol=1e-14))


def exact_p_value(both: Any, after: Any, delta: float) -> Any:
    r"""Return :math:`P(\text{Bin}(M, 1/\delta) \le n_{11})`, for counts or arrays of counts."""
    return _at_most(np.asarray(both), np.asarray(after), 1 / delta)


def mid_p_value(both: Any, after: Any, delta: float) -> Any:
    r"""Return :math:`P(\text{Bin}(M, 1/\delta) < n_{11}) + P(= n_{11})/2`; 1 if M is 0."""
    return np.where(np.asarray(after) == 0, 1.0, _mid_distribution(both, after, 1 / delta))


def _mid_distribution(both: Any, after: Any, share: float) -> Any:
    k, m = np.asarray(both), np.asarray(after)
    return (_at_most(k, m, share) + _at_most(k - 1, m, share)) / 2


def _at_most(k: Any, m: Any, share: float) -> Any:
    """Return P(Bin(m, share) ≤ k); scipy.stats says the same, a hundred times slower."""
    inside = (k >= 0) & (k < m)
    beta = betaincc(np.where(inside, k + 1, 1), np.where(inside, m - k, 1), share)
    return np.where(inside, beta, k >= m)


@final
@dataclasses.dataclass(frozen=True)
class ErrorRateRatioTest(RatioTest):
    r"""Test of the ratio of error rates, equations (20)--(22).

    Parameters
    ----------
    interval
        ``auto`` is the mid-P test where wrong cannot turn right by construction of the map, and
        the score test otherwise: never chosen by looking at the table. ``midp``, ``exact`` and
        ``score`` ask for one of them, ``paper`` for the delta method as printed. With weights or
        clusters none of the first four holds, and :math:`a - \delta b` is tested in their place,
        unit by unit.
    """

    name: ClassVar[str] = "error_rate_ratio"
    claim: ClassVar[str] = "the error rate of similar people over that of the people themselves"

    intervals: ClassVar[tuple[str, ...]] = ("auto", "midp", "exact", "score", "paper")

    interval: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, self.intervals)

    @property
    @override
    def beside(self) -> "tuple[ErrorRateRatioTest, ...]":
        other = "auto" if self.interval == "paper" else "paper"
        return (dataclasses.replace(self, interval=other),)

    @override
    def evidence(self, tally: Tally, rows: Outcomes | None = None) -> Evidence:
        check_task(self, tally.frame)
        stats, sampling = tally.ratio, Sampling.of(tally)
        if sampling.simple:
            return self.weigh(stats.errors, monotone=tally.frame.monotone)
        sums = stats.pairs
        if sampling.clusters is not None:
            after, before = tally.by_cluster("wrong_after"), tally.by_cluster("wrong_before")
            sums = UnitSums.of(after, before)
            estimate = ratio_of_totals(after, before, stats.n, sampling.effective_n)
        else:
            estimate = ratio_of_people(sums, sampling)
        return self.on_design(stats.errors, sums, stats.error_weights, estimate, sampling)

    def on_design(
        self,
        table: ErrorTable,
        sums: UnitSums,
        weights: Float[np.ndarray, "4"],
        estimate: Estimate,
        sampling: Sampling,
    ) -> Evidence:
        """Return the evidence of people with weights or in clusters.

        Parameters
        ----------
        sums
            Power sums of weighted errors after and before the map, over independent units.
        weights
            Weights of the people wrong both times, newly wrong, newly right and never.
        estimate
            The ratio, with the jackknife's standard error.
        """
        paper = self.interval == "paper"
        bounds: Bounds | None = estimate if table.before else None
        notes = _no_base_errors(table) + sampling.notes
        if not paper:
            bounds = design_bounds(sums, weights, estimate, sampling.degrees)
        if self.interval in ("midp", "exact", "score"):
            notes += (
                f"The {self.interval} test does not hold with weights or clusters; one that does "
                "took its place.",
            )
        return Evidence(
            test=self.name,
            method=sampling.named("paper" if paper else "Hall and score"),
            estimate=estimate,
            bounds=bounds,
            spread=not paper or estimate.std_error > 0,
            notes=notes,
            details={**table.details, **sampling.details},
            largest=_largest(
                sampling.effective_n * float((weights[0] + weights[2]) / weights.sum()),
                sampling.effective_n,
            ),
        )

    def weigh(self, table: ErrorTable, *, monotone: bool) -> Evidence:
        """Return the evidence of a table of errors; ``monotone``: wrong could not turn right."""
        interval, notes = self._chosen(table, monotone)
        estimate = error_rate_ratio(table)
        bounds: dict[str, Bounds | None] = {
            "midp": MidP(table),
            "exact": Exact(table),
            "score": Score(table) if table.before or table.after else Unknown(),
            "paper": estimate if table.before else None,
        }
        return Evidence(
            test=self.name,
            method={"midp": "mid-P"}.get(interval, interval),
            estimate=estimate,
            bounds=bounds[interval],
            # The paper's interval shrinks to a point where nobody's decision changes.
            spread=interval != "paper" or estimate.std_error > 0,
            notes=notes + _no_base_errors(table),
            details=table.details,
            largest=_largest(table.before, estimate.n),
        )

    def _chosen(self, table: ErrorTable, monotone: bool) -> tuple[str, tuple[str, ...]]:
        interval = self.interval
        if interval in ("midp", "exact") and not monotone:
            raise InvalidSample(
                f"The {interval} test needs a map that cannot turn wrong decisions right, and "
                "this one can. Use interval 'score'."
            )
        if interval == "auto":
            interval = "midp" if monotone else "score"
        if interval in ("midp", "exact") and table.newly_right:
            return "score", (
                f"{table.newly_right} wrong decisions turned right, which the map was said never "
                "to do; the score test took the place of the exact one.",
            )
        return interval, ()


def _largest(wrong: float, n: float) -> float:
    """Return one over an error rate, which no ratio exceeds: all are wrong after the move.

    Over its lower bound, that is (Clopper and Pearson), which fails once in ten thousand samples.
    """
    return 1 / float(betaincinv(wrong, n - wrong + 1, 1e-4)) if wrong > 0 else math.inf


def _no_base_errors(table: ErrorTable) -> tuple[str, ...]:
    if table.before:
        return ()
    return ("Nobody is decided wrongly before the map, so the ratio has no upper bound.",)
