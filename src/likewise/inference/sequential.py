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
    """

    delta: float
    alpha: float
    lo: float
    planned: int

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
        Logarithm of each gambler's purse.
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
    log_peak: float = 0.0
    rejected_at: int | None = None
    sequence_rejected_at: int | None = None


def play(game: Game, purse: Purse, ratios: Float[np.ndarray, " n"]) -> Purse:
    r"""Let the gamblers bet on more rows, one after the other.

    .. math:: K_t = \tfrac{1}{10} \sum_j \prod_{i \le t}
              \Bigl(1 + f_j \frac{R_i - \delta}{\delta - \text{lo}}\Bigr)

    Sums run strictly from row to row, so rows fed in pieces give the same bits as rows fed at once.
    """
    for start in range(0, len(ratios), BLOCK):
        purse = _play_block(game, purse, ratios[start : start + BLOCK])
    return purse


def log_mean_wealth(log_wealth: Float[np.ndarray, "t 10"]) -> Float[np.ndarray, " t"]:
    r"""Return :math:`\log K_t` from the logarithms of the purses."""
    return logsumexp(log_wealth, axis=1) - math.log(len(BETS))


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
    log_wealth = _running(np.array(purse.log_wealth), np.log1p(excess[:, None] * stakes))
    sums = _running(np.array([purse.excess, purse.squares]), np.stack([excess, excess**2], axis=1))
    rows = purse.n + 1 + np.arange(len(ratios))
    log_k = log_mean_wealth(log_wealth)
    bounds = lower_end(game, rows.astype(np.float64), sums[:, 0], sums[:, 1])
    return Purse(
        n=int(rows[-1]),
        excess=float(sums[-1, 0]),
        squares=float(sums[-1, 1]),
        log_wealth=tuple(log_wealth[-1].tolist()),
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
