"""Evidence that may be looked at any number of times: a betting game and a confidence sequence.

Pure functions of sums that grow row by row; `likewise.inference.monitor` keeps them.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

BETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.75, 0.95)
"""Shares of their purse that the ten gamblers stake on each row."""

FROM_THE_START = 0.6
"""Share of the coins that bet from the first row on; the others join later."""

FIRST_LOOK = 100
"""The confidence sequence is a limit: it says nothing about fewer rows than this."""

BLOCK = 65_536
"""Rows worked on at a time, so that memory does not grow with what is fed."""


@dataclasses.dataclass(frozen=True)
class Game:
    r"""The rules, fixed before the first row.

    Parameters
    ----------
    delta, alpha
        Tolerance, and how often a model at the tolerance may ever be accused.
    lo
        The smallest ratio that can occur.
    planned
        The number of rows :math:`t^*` at which the confidence sequence is tightest.
    restarts
        Whether some coins are kept for gamblers who join later; monitors that were saved before
        there were any go on without them.
    """

    delta: float
    alpha: float
    lo: float
    planned: int
    restarts: bool = True

    @property
    def rho_squared(self) -> float:
        r"""Return :math:`\rho^2`, which makes the confidence sequence tightest at ``planned``."""
        doubt = -2 * math.log(2 * self.alpha)
        return (doubt + math.log(doubt) + 1) / self.planned


@dataclasses.dataclass(frozen=True)
class Purse:
    r"""All that is kept of the rows: sums, and what latched.

    Parameters
    ----------
    excess, squares
        Sums of :math:`R_i - \delta` and of its square.
    log_wealth
        Logarithm of each gambler's purse, had they bet from the first row on.
    log_joined
        Logarithm of :math:`\sum_{s \le t} w_s / \prod_{i < s} (\cdot)` for each way to bet: times
        ``log_wealth``'s purse it is what all have who joined at any row s with :math:`w_s` coins.
        Empty before the first row.
    log_peak
        The largest :math:`\log K_t` so far.
    rejected_at, sequence_rejected_at
        The row at which :math:`K_t` first reached :math:`1/\alpha`, and the one at which the
        confidence sequence first lay above the tolerance.
    """

    n: int = 0
    excess: float = 0.0
    squares: float = 0.0
    log_wealth: tuple[float, ...] = (0.0,) * len(BETS)
    log_joined: tuple[float, ...] = ()
    log_peak: float = 0.0
    rejected_at: int | None = None
    sequence_rejected_at: int | None = None


def play(game: Game, purse: Purse, ratios: Float[np.ndarray, " n"]) -> Purse:
    r"""Let the gamblers bet on more rows, one after the other.

    .. math:: K_t^{(s)} = \tfrac{1}{10} \sum_j \prod_{i = s}^t
              \Bigl(1 + f_j \frac{R_i - \delta}{\delta - \text{lo}}\Bigr), \qquad
              K_t = .6 \, K_t^{(1)} + .4 \sum_s w_s K_t^{(s)}

    Gamblers who bet from the first row on are poor by the time a model gets worse, so others join
    at every row s, with :math:`w_s = G(s-1) - G(s)` of a coin, :math:`G(t) = (1 + t/1000)^{-1/5}`:
    a mixture of martingales is one, whatever the weights. It has a recursion, so two numbers a
    gambler are all that is kept.

    Sums run strictly from row to row, so rows fed in pieces give the same bits as rows fed at once.
    """
    for start in range(0, len(ratios), BLOCK):
        purse = _play_block(game, purse, ratios[start : start + BLOCK])
    return purse


def log_mean_wealth(
    game: Game,
    rows: Float[np.ndarray, " t"],
    log_wealth: Float[np.ndarray, "t 10"],
    log_joined: Float[np.ndarray, "t 10"],
) -> Float[np.ndarray, " t"]:
    r"""Return :math:`\log K_t` after so many rows from the logarithms of the purses."""
    first = logsumexp(log_wealth, axis=1) - math.log(len(BETS))
    if not game.restarts:
        return first
    joined = logsumexp(log_wealth + log_joined, axis=1) - math.log(len(BETS))
    joined = np.logaddexp(joined, np.log(_yet_to_join(rows)))
    return np.logaddexp(math.log(FROM_THE_START) + first, math.log1p(-FROM_THE_START) + joined)


def _yet_to_join(rows: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Return which part of a coin gamblers hold who join after so many rows."""
    return (1 + rows / 1000) ** -0.2


def lower_end(
    game: Game,
    n: Float[np.ndarray, " t"],
    excess: Float[np.ndarray, " t"],
    squares: Float[np.ndarray, " t"],
) -> Float[np.ndarray, " t"]:
    r"""Lower end of the asymptotic confidence sequence for :math:`E R` (Waudby-Smith et al., 2024).

    .. math:: \hat\mu - \hat\sigma \sqrt{\frac{2 (t \rho^2 + 1)}{t^2 \rho^2}
              \log\Bigl(1 + \frac{\sqrt{t \rho^2 + 1}}{2 \alpha}\Bigr)}

    Minus infinity before row 100, and while all rows are equal: without spread there is no limit
    theorem to lean on.
    """
    spread = squares - excess**2 / n
    # Equal rows leave a rest of rounding errors of this size.
    known = (n >= FIRST_LOOK) & (spread > 1e-12 * squares)
    sigma = np.sqrt(np.maximum(spread, 0) / np.maximum(n - 1, 1))
    grown = n * game.rho_squared + 1
    width = np.sqrt(
        2 * grown / (n**2 * game.rho_squared) * np.log1p(np.sqrt(grown) / (2 * game.alpha))
    )
    return np.where(known, game.delta + excess / n - sigma * width, -np.inf)


def _play_block(game: Game, purse: Purse, ratios: Float[np.ndarray, " n"]) -> Purse:
    excess = ratios - game.delta
    stakes = np.array(BETS) / (game.delta - game.lo)
    before = np.array(purse.log_wealth)
    log_wealth = _running(before, np.log1p(excess[:, None] * stakes))
    sums = _running(np.array([purse.excess, purse.squares]), np.stack([excess, excess**2], axis=1))
    rows = purse.n + 1 + np.arange(len(ratios))
    count = rows.astype(np.float64)
    join = np.log(_yet_to_join(count - 1) - _yet_to_join(count))
    log_joined = join[:, None] - np.concatenate([before[None], log_wealth[:-1]])
    if purse.log_joined:
        log_joined[0] = np.logaddexp(np.array(purse.log_joined), log_joined[0])
    log_joined = np.logaddexp.accumulate(log_joined, axis=0)
    log_k = log_mean_wealth(game, count, log_wealth, log_joined)
    bounds = lower_end(game, count, sums[:, 0], sums[:, 1])
    return Purse(
        n=int(rows[-1]),
        excess=float(sums[-1, 0]),
        squares=float(sums[-1, 1]),
        log_wealth=tuple(log_wealth[-1].tolist()),
        log_joined=tuple(log_joined[-1].tolist()),
        log_peak=max(purse.log_peak, float(log_k.max())),
        rejected_at=purse.rejected_at or _first(rows, log_k >= -math.log(game.alpha)),
        sequence_rejected_at=purse.sequence_rejected_at or _first(rows, bounds > game.delta),
    )


def _running(
    start: Float[np.ndarray, " k"], terms: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    return np.cumsum(np.concatenate([start[None], terms]), axis=0)[1:]


def _first(rows: np.ndarray, hit: np.ndarray) -> int | None:
    return int(rows[hit.argmax()]) if hit.any() else None
