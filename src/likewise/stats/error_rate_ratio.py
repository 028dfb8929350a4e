"""The error-rate ratio: mid-P test, score test, and the paper's Wald.

The mid-P test holds where wrong never turns right, by construction of the perturbation.
"""

import dataclasses
import math
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import betaincc
from typing_extensions import override

from likewise.stats.estimate import UNKNOWN, Bounds, Estimate, fieller, searched, wider
from likewise.stats.ratio_test import Evidence, RatioTest
from likewise.stats.sums import ErrorTable, RatioSums
from likewise.stats.tally import Sample, Tally


def mid_p_bounds(table: ErrorTable) -> Bounds:
    r"""Mid-P bounds for the ratio of nested error rates, conditional on those wrong after.

    If nobody who was wrong can turn right, those wrong before are among the M wrong after, and
    given M their number is Binomial(M, :math:`1/\theta`). This needs to hold *by construction*
    (two classes, a fixed threshold, a map that stays put when the loss would fall): choosing the
    test because the table shows no such person has size up to .085.

    Exact tests of counts are cautious because counts jump; the mid-P value (Lancaster 1961), in
    which only half of the observed table's own probability counts, takes most of that caution away
    and stays within a hair of the nominal level.
    """

    def root(probability: float) -> float:
        def excess(share: float) -> float:
            return float(_mid(table.both, table.after, share)) - probability

        # In 1/θ, which lies between 0 and 1 whatever the table.
        return 1 / float(brentq(excess, 0.0, 1.0, xtol=1e-300, rtol=1e-14))

    return Bounds(
        lambda delta: float(mid_p_value(table.both, table.after, delta)),
        lambda alpha: root(alpha) if table.newly_wrong else 1.0,
        lambda alpha: root(1 - alpha) if table.both else math.inf,
    )


def mid_p_value(both: Any, after: Any, delta: float) -> Any:
    r"""Return :math:`P(\text{Bin}(M, 1/\delta) < n_{11}) + P(= n_{11})/2`; 1 if M is 0.

    For counts or arrays of counts.
    """
    k, m = np.asarray(both), np.asarray(after)
    return np.where(m == 0, 1.0, _mid(k, m, 1 / delta))


def _mid(k: Any, m: Any, share: float) -> Any:
    return (_at_most(k, m, share) + _at_most(k - 1, m, share)) / 2


def _at_most(k: Any, m: Any, share: float) -> Any:
    """Return P(Bin(m, share) ≤ k); scipy.stats says the same, a hundred times slower."""
    inside = (k >= 0) & (k < m)
    beta = betaincc(np.where(inside, k + 1, 1), np.where(inside, m - k, 1), share)
    return np.where(inside, beta, k >= m)


def score_bounds(table: ErrorTable) -> Bounds:
    r"""Score bounds for the ratio of two paired proportions; without any error nothing is known.

    Nam and Blackwelder (2002), Tang, Tang and Chan (2003): :math:`a - \theta b` is standardised
    with the variance that is most likely *under* :math:`\theta`, so the bounds stay valid when
    there are few errors before, or none.
    """
    if not (table.before or table.after):
        return UNKNOWN
    return searched(lambda theta: float(score(theta, *table)), table.ratio)


def score(theta: float, both: Any, newly_wrong: Any, newly_right: Any, neither: Any) -> Any:
    r"""Return the score statistic :math:`Z(\theta)`, for counts or arrays of counts.

    .. math:: Z = (a - \theta b) / \sqrt{n (1 + \theta) q + m (\theta - 1)},

    with a, b wrong after and before, m wrong at all, and q the most likely probability of being
    newly right if the ratio is :math:`\theta`. At 1 it is McNemar's statistic. Without errors it
    is 0.
    """
    n11, n10, n01 = (np.asarray(c, dtype=np.float64) for c in (both, newly_wrong, newly_right))
    n = n11 + n10 + n01 + np.asarray(neither)
    a, b, m = n11 + n10, n11 + n01, n11 + n10 + n01
    quadratic = n * (1 + theta)
    linear = b * theta**2 - (a + 2 * n01)
    constant = n01 * (1 - theta) * m / n
    q = (-linear + np.sqrt(np.maximum(linear**2 - 4 * quadratic * constant, 0))) / (2 * quadratic)
    variance = quadratic * q + m * (theta - 1)
    # Where nothing changed at θ = 1, or nobody was wrong at all, both are zero.
    known = variance > 0
    return np.where(known, (a - theta * b) / np.sqrt(np.where(known, variance, 1.0)), 0.0)[()]


def design_bounds(
    sums: RatioSums, weights: Float[np.ndarray, "4"], estimate: Estimate, degrees: float
) -> Bounds:
    r"""Return the bounds for the ratio of error rates, people weighted or in clusters.

    Neither mid-P nor the plain score test holds then. The mean of :math:`D_g = a_g - \delta b_g`
    does, given enough errors; with few of them it errs far too often, and the score test on as many
    people as the sample is worth is the wider one: weighted shares of the four cells, with n
    divided by the design effect of D, its variance over what independent people of equal weight
    would give. (Korn and Graubard, 1998, do so for one proportion.) Where few units hold most of
    the weight both reject too often, and the jackknife bounds them.
    """
    if weights[:3].sum() == 0:
        return UNKNOWN
    total = float(weights.sum())
    counts = weights * (estimate.n / total)
    n = float(counts.sum())
    shares = counts / n

    def pivot(theta: float) -> float:
        values = np.array([1 - theta, 1.0, -theta, 0.0])
        simple = float(shares @ values**2 - (shares @ values) ** 2) * total**2 / n
        actual = sums.moments(theta)[1] * sums.units / (sums.units - 1)
        effect = actual / simple if actual > 0 and simple > 0 else 1.0
        return float(score(theta, *counts.tolist())) / math.sqrt(effect)

    by_score = searched(pivot, sums.ratio, degrees)
    if weights[0] + weights[2] == 0:
        return by_score
    return wider(fieller(sums, degrees), by_score, estimate)


@final
@dataclasses.dataclass(frozen=True)
class ErrorRateRatioTest(RatioTest):
    r"""Test of the ratio of error rates, equations (20)--(22).

    Parameters
    ----------
    interval
        ``auto`` is the mid-P test where wrong cannot turn right by construction of the map, and
        the score test otherwise: never chosen by looking at the table. With weights or clusters
        neither holds, and :math:`a - \delta b` is tested in their place, unit by unit. ``paper``
        is the delta method (Wald) as printed.
    """

    name: ClassVar[str] = "error_rate_ratio"
    claim: ClassVar[str] = "the error rate of similar people over that of the people themselves"

    intervals: ClassVar[tuple[str, ...]] = ("auto", "paper")

    interval: str = "auto"

    @override
    def evidence(self, tally: Tally) -> Evidence:
        self.check_sums(tally.frame)
        sample = Sample(tally)
        table, estimate, notes = sample.errors, sample.estimate("error"), sample.notes
        bounds: Bounds | None
        if self.interval == "paper":
            method, bounds = "paper", estimate if table.before else None
        elif not sample.simple:
            method, sums = "Hall and score", sample.sums("error")
            bounds = design_bounds(sums, sample.error_weights, estimate, sample.degrees)
        elif tally.frame.monotone and not table.newly_right:
            method, bounds = "mid-P", mid_p_bounds(table)
        else:
            method, bounds = "score", score_bounds(table)
        if not table.before:
            notes += ("No decision is wrong before the map: the ratio has no upper bound.",)
        if method == "score" and tally.frame.monotone:
            notes += (
                f"{table.newly_right} wrong decisions turned right, which the map was said never "
                "to do; the score test took the place of the mid-P test.",
            )
        counts = {name: float(count) for name, count in table._asdict().items()}
        return Evidence(
            test=self.name,
            method=sample.named(method),
            estimate=estimate,
            bounds=bounds,
            # The paper's interval shrinks to a point where nobody's decision changes.
            spread=method != "paper" or estimate.std_error > 0,
            notes=notes,
            details=counts,
        )
