"""The test of the mean loss ratio, the paper's audit value, and how heavy the ratios' tail is."""

import dataclasses
import math
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from typing_extensions import override

from likewise.errors import InvalidSample
from likewise.inference.estimate import ROUNDING, Bounds, Estimate
from likewise.inference.estimators import (
    mean_of_moments,
    ratio_of_totals,
    with_one_more,
    with_one_more_cluster,
)
from likewise.inference.hall import bootstrap_t, hall
from likewise.inference.ratio_test import (
    RatioTest,
    check_cap,
    check_held,
    check_interval,
    check_task,
)
from likewise.inference.sampling import Design, Sampling
from likewise.inference.verdict import Evidence
from likewise.outcomes import Outcomes
from likewise.statistics.order_statistics import hill_count, top_count
from likewise.statistics.tally import Tally


@dataclasses.dataclass(frozen=True)
class Tail:
    r"""Diagnostics of the largest loss ratios.

    Parameters
    ----------
    hill_index
        Hill's estimate of the tail index: moments of this order and above do not exist. Hall's
        interval needs three moments, the central limit theorem two.
    top_share
        Share of the variance that is held by the 1 % of people with the largest ratios.
    largest
        How many of the largest ratios the index was estimated from.
    """

    hill_index: float
    top_share: float
    largest: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What to warn about, in sentences."""
        index = f"Hill index {self.hill_index:.1f}, from the {self.largest} largest"
        if self.hill_index < 2:
            return (
                f"The tail of the loss ratios looks so heavy ({index}) that their variance may not "
                "exist, and with it no interval for their mean: compare the error-rate ratio.",
            )
        if self.hill_index < 3:
            return (
                f"The tail of the loss ratios looks heavy ({index}), so the bounds may be somewhat "
                "off: compare the bootstrap-t and the error-rate ratio.",
            )
        return ()


def tail_from(largest: Float[np.ndarray, " m"], n: int, mean: float, squares: float) -> Tail:
    r"""Return the tail diagnostics of n ratios from the largest of them.

    Hill (1975): one over the mean of :math:`\log\{(R_{(i)} - 1)/(R_{(k+1)} - 1)\}` over the k
    largest; k is the larger of 10 and :math:`n^{1/2}`, at most a tenth of the sample. Of R - 1, not
    of R: the one would make any tail look light until ratios are far above it.

    Parameters
    ----------
    largest
        The `largest_needed` largest ratios, largest first.
    mean, squares
        Of all ratios: their mean, and the sum of squared distances from it.
    """
    k = hill_count(n)
    threshold = float(largest[k]) - 1
    excess = float(np.log((largest[:k] - 1) / threshold).mean()) if threshold > 0 else 0.0
    top = float(np.square(largest[: top_count(n)] - mean).sum())
    index = 1 / excess if excess > 0 else math.inf
    return Tail(index, top / squares if squares else 0.0, k)


METHODS = {"hall": "Hall", "bootstrap_t": "bootstrap-t", "paper": "paper"}
"""The intervals it knows, in the order in which others are shown."""


@final
@dataclasses.dataclass(frozen=True)
class LossRatioTest(RatioTest):
    r"""Test of the mean loss ratio, equations (12)--(19).

    Parameters
    ----------
    interval
        ``hall`` corrects for skewed ratios; ``bootstrap_t`` resamples; ``paper`` is the normal
        limit exactly as printed, :math:`T_n = S_n - z_{1-\alpha} V_n/\sqrt n`.
    cap
        A model is found within tolerance by an upper bound on the mean of ratios capped at this:
        no finite sample can bound an uncapped mean from above.
    seed, repetitions
        Of the bootstrap.
    strict
        Whether a finding within tolerance needs an e-value of :math:`1/\alpha` against a capped
        mean above the tolerance, too: valid in samples of any size, whatever the ratios.
    """

    name: ClassVar[str] = "loss_ratio"
    claim: ClassVar[str] = "the mean loss ratio of similar people"

    intervals: ClassVar[tuple[str, ...]] = tuple(METHODS)

    interval: str = "hall"
    cap: float = 10.0
    seed: int = 0
    repetitions: int = 1999
    strict: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, tuple(METHODS))
        check_cap(self.cap, self.delta)

    @property
    @override
    def needs_rows(self) -> bool:
        return self.interval == "bootstrap_t"

    @override
    def without_rows(self) -> "LossRatioTest":
        return dataclasses.replace(self, interval="hall") if self.needs_rows else self

    @property
    @override
    def beside(self) -> "tuple[LossRatioTest, ...]":
        others = [interval for interval in METHODS if interval != self.interval]
        return tuple(dataclasses.replace(self, interval=interval) for interval in others)

    @override
    def evidence(self, tally: Tally, rows: Outcomes | None = None) -> Evidence:
        check_task(self, tally.frame)
        check_held(self.cap, tally.frame)
        stats, sampling = tally.ratio, Sampling.of(tally)
        method = sampling.named(METHODS[self.interval])
        if stats.undefined:
            note = (
                f"{stats.undefined} of {stats.n} people have no finite loss ratio, so the mean is "
                "not defined; nobody is left out."
            )
            return Evidence.undefined(self.name, method, stats.n, note, self.cap)
        estimate, capped = (mean_ratio(tally, column) for column in ("ratio", "held"))
        plain = stats.unweighted.plain
        tail = tail_from(stats.largest.values, stats.n, float(plain.mean), float(plain.squares))
        details = {
            "hill_index": tail.hill_index,
            "top_share": tail.top_share,
            "at_cap": float(stats.at_cap),
        }
        if not sampling.simple:
            variance = float(plain.squares) / (stats.n - 1)
            effect = estimate.std_error**2 * stats.n / variance if variance > 0 else math.nan
            details |= {**sampling.details, "design_effect": effect}
        evidence = dataclasses.replace(
            self.weigh(estimate, capped),
            method=method,
            notes=_spread_note(estimate) + tail.notes + sampling.notes,
            details=details,
        )
        if self.strict:
            evidence = self._strict(evidence, tally, sampling)
        if not self.needs_rows:
            return evidence
        bounds, capped_bounds = self._resampled(rows, estimate, capped)
        return dataclasses.replace(evidence, bounds=bounds, capped=capped_bounds)

    def _strict(self, evidence: Evidence, tally: Tally, sampling: Sampling) -> Evidence:
        r"""Add the e-value of ten gamblers who bet that ratios stay below the tolerance.

        .. math:: E = \tfrac1{10} \sum_f \prod_i (1 + f (\delta - \min(R_i, c))/(c - \delta))

        At a capped mean of :math:`\delta` or more its expectation is at most one, so that it
        reaches :math:`1/\alpha` with probability at most :math:`\alpha` (Markov).
        """
        at = tally.frame.strict_at
        if at != self.delta:
            raise InvalidSample(
                f"The sums were made for strict findings at a tolerance of {at:g}, and the test's "
                f"is {self.delta:g}."
            )
        log_wealth = tally.ratio.log_wealth
        log_e = float(logsumexp(log_wealth)) - math.log(len(log_wealth))
        if not sampling.simple:  # the bets are on independent people who count alike
            log_e = -math.inf
        details = {**evidence.details, "log_e_value": log_e}
        return dataclasses.replace(
            evidence, strict_at=self.delta, log_e_value=log_e, details=details
        )

    def weigh(self, estimate: Estimate, capped: Estimate) -> Evidence:
        """Return the evidence of a mean ratio and a mean capped ratio: Hall's, or the paper's."""
        return Evidence(
            test=self.name,
            method=METHODS[self.interval],
            estimate=estimate,
            bounds=self._bounds(estimate),
            capped_estimate=capped,
            capped=self._bounds(capped),
            cap=float(self.cap),
            spread=capped.std_error > 0,
            notes=_spread_note(estimate),
        )

    def _bounds(self, estimate: Estimate) -> Bounds:
        return estimate if self.interval == "paper" else hall(estimate)

    def _resampled(
        self, rows: Outcomes | None, estimate: Estimate, capped: Estimate
    ) -> tuple[Bounds, Bounds]:
        if rows is None:
            raise InvalidSample("The bootstrap-t resamples everyone's ratios; sums do not do.")
        ratio, design = rows.ratio, Design.of(rows)
        rng = np.random.default_rng(self.seed)
        one, other = (
            bootstrap_t(values, mean, design, rng, self.repetitions)
            for values, mean in ((ratio, estimate), (np.minimum(ratio, self.cap), capped))
        )
        return one, other


def mean_ratio(tally: Tally, column: str = "ratio") -> Estimate:
    """Return the mean loss ratio (``ratio``), or that of ratios held down to the cap (``held``)."""
    more, weighted = None, tally.frame.weighted
    if not tally.clustered:
        moments = tally.ratio.ratio if column == "ratio" else tally.ratio.held
        estimate = mean_of_moments(moments, weighted=weighted)
        if weighted and column == "ratio":
            more = with_one_more(moments, float(tally.ratio.largest.values.max()), weighted=True)
    else:
        totals, sampling = (
            (tally.by_cluster(column), tally.by_cluster("weight")),
            Sampling.of(tally),
        )
        estimate = ratio_of_totals(*totals, sampling.n, sampling.effective_n)
        if column == "ratio":
            more = with_one_more_cluster(*totals, sampling.n, sampling.effective_n)
    return dataclasses.replace(estimate, more=more)


def _spread_note(estimate: Estimate) -> tuple[str, ...]:
    if estimate.std_error > 0 or abs(estimate.value - 1) <= ROUNDING:
        return ()
    return ("All ratios are the same, so nothing says how much they vary.",)
