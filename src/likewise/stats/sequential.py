"""A betting test (test martingale): evidence that may be looked at any number of times.

Pure functions of sums that grow row by row; `likewise.stats.monitor` keeps them.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

BETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.75, 0.95)
"""Shares of the wealth that the ten bets stake on each row."""

FROM_THE_START = 0.6
"""Share of the wealth that is bet from the first row on; the rest begins later."""

BLOCK = 65_536
"""Rows worked on at a time, so that memory does not grow with what is fed."""


@dataclasses.dataclass(frozen=True)
class BettingTest:
    """The rules, fixed beforehand: limit on the mean, error rate, and the smallest value."""

    delta: float
    alpha: float
    lo: float


@dataclasses.dataclass(frozen=True)
class WealthState:
    r"""All that is kept of the rows: sums, and what latched.

    Parameters
    ----------
    excess
        Sum of :math:`R_i - \delta`.
    log_wealth
        Logarithm of the wealth by each bet, made from the first row on.
    log_joined
        Logarithm of :math:`\sum_{s \le t} w_s / \prod_{i < s} (\cdot)` for each bet: times its
        wealth it is that of all bets begun at any row s with :math:`w_s`. Empty before the first
        row.
    log_peak
        The largest :math:`\log K_t` so far.
    rejected_at
        The row at which :math:`K_t` first reached :math:`1/\alpha`.
    """

    n: int = 0
    excess: float = 0.0
    log_wealth: tuple[float, ...] = (0.0,) * len(BETS)
    log_joined: tuple[float, ...] = ()
    log_peak: float = 0.0
    rejected_at: int | None = None


def play(test: BettingTest, state: WealthState, ratios: Float[np.ndarray, " n"]) -> WealthState:
    r"""Bet on more rows, one after the other.

    .. math:: K_t^{(s)} = \tfrac{1}{10} \sum_j \prod_{i = s}^t
              \Bigl(1 + f_j \frac{R_i - \delta}{\delta - \text{lo}}\Bigr), \qquad
              K_t = .6 \, K_t^{(1)} + .4 \sum_s w_s K_t^{(s)}

    Bets from the first row on have lost by the time a model gets worse, so others begin at every
    row s, with :math:`w_s = G(s-1) - G(s)`, :math:`G(t) = (1 + t/1000)^{-1/5}`: a mixture of
    martingales is one, whatever the weights. It has a recursion, so two numbers a bet are kept.

    Sums run strictly from row to row, so rows fed in pieces give the same bits as rows fed at once.
    """
    for start in range(0, len(ratios), BLOCK):
        state = _play_block(test, state, ratios[start : start + BLOCK])
    return state


def log_mean_wealth(
    rows: Float[np.ndarray, " t"],
    log_wealth: Float[np.ndarray, "t 10"],
    log_joined: Float[np.ndarray, "t 10"],
) -> Float[np.ndarray, " t"]:
    r"""Return :math:`\log K_t` after so many rows."""
    first = logsumexp(log_wealth, axis=1) - math.log(len(BETS))
    joined = logsumexp(log_wealth + log_joined, axis=1) - math.log(len(BETS))
    joined = np.logaddexp(joined, np.log(_yet_to_join(rows)))
    return np.logaddexp(math.log(FROM_THE_START) + first, math.log1p(-FROM_THE_START) + joined)


def _yet_to_join(rows: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Return the part that is bet later than after so many rows."""
    return (1 + rows / 1000) ** -0.2


def _play_block(
    test: BettingTest, state: WealthState, ratios: Float[np.ndarray, " n"]
) -> WealthState:
    excess = ratios - test.delta
    stakes = np.array(BETS) / (test.delta - test.lo)
    before = np.array(state.log_wealth)
    log_wealth = _running(before, np.log1p(excess[:, None] * stakes))
    rows = state.n + 1 + np.arange(len(ratios))
    count = rows.astype(np.float64)
    join = np.log(_yet_to_join(count - 1) - _yet_to_join(count))
    log_joined = join[:, None] - np.concatenate([before[None], log_wealth[:-1]])
    if state.log_joined:
        log_joined[0] = np.logaddexp(np.array(state.log_joined), log_joined[0])
    log_joined = np.logaddexp.accumulate(log_joined, axis=0)
    log_k = log_mean_wealth(count, log_wealth, log_joined)
    return WealthState(
        n=int(rows[-1]),
        excess=float(_running(np.array([state.excess]), excess[:, None])[-1, 0]),
        log_wealth=tuple(log_wealth[-1].tolist()),
        log_joined=tuple(log_joined[-1].tolist()),
        log_peak=max(state.log_peak, float(log_k.max())),
        rejected_at=state.rejected_at or _first(rows, log_k >= -math.log(test.alpha)),
    )


def _running(
    start: Float[np.ndarray, " k"], terms: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    return np.cumsum(np.concatenate([start[None], terms]), axis=0)[1:]


def _first(rows: np.ndarray, hit: np.ndarray) -> int | None:
    return int(rows[hit.argmax()]) if hit.any() else None
