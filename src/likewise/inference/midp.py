"""Exact and mid-P tests of the error-rate ratio, where wrong never turns right."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, final

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincc, betaincinv
from typing_extensions import override

from likewise.inference.estimate import Bounds
from likewise.statistics.error_table import ErrorTable


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
