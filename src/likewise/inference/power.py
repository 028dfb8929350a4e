"""How often a test finds an effect of a given size, and how many rows that takes."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from likewise.errors import InvalidSettings
from likewise.inference.error_rate_ratio import mid_p_value
from likewise.inference.estimate import check_alpha, check_delta

LARGEST = 1e6
"""Larger ratios are not planned for: whoever looks finds them."""

MOST_ROWS = 10**9
"""Nobody audits more people; a plan beyond this is refused."""


def normal_power(n: float, effect: float, delta: float, sd: float, alpha: float) -> float:
    r"""Power of the loss-ratio test in the limit, :math:`\Phi(\sqrt n (\mu-\delta)/\sigma - z)`."""
    return float(ndtr(math.sqrt(n) * (effect - delta) / sd - ndtri(1 - alpha)))


def normal_rows(effect: float, delta: float, sd: float, alpha: float, power: float) -> int:
    r"""Rows for the loss-ratio test: :math:`((z_{1-\alpha} + z_{power}) \sigma/(\mu-\delta))^2`."""
    with np.errstate(over="ignore"):
        return _whole(((ndtri(1 - alpha) + ndtri(power)) * sd / (effect - delta)) ** 2)


def error_rows(effect: float, delta: float, base_error: float, alpha: float, power: float) -> int:
    r"""Rows for the error-rate test by the normal formula: where the enumeration starts.

    Of the M people wrong after the map a share :math:`1/\theta` was wrong before, so

    .. math:: M = \Bigl(\frac{z_{1-\alpha}\sqrt{p_0 q_0} + z_{power}\sqrt{p_1 q_1}}{p_0 - p_1}
              \Bigr)^2, \qquad p_0 = 1/\delta,\ p_1 = 1/\theta,

    and :math:`n = M / (\theta \cdot \text{base error})`.
    """
    p0, p1 = 1 / delta, 1 / effect
    spread = ndtri(1 - alpha) * math.sqrt(p0 * (1 - p0)) + ndtri(power) * math.sqrt(p1 * (1 - p1))
    with np.errstate(over="ignore", divide="ignore"):
        return _whole((spread / np.float64(p0 - p1)) ** 2 / (effect * base_error))


def mid_p_power(
    n: Int[np.ndarray, " k"], effect: float, delta: float, base_error: float, alpha: float
) -> Float[np.ndarray, " k"]:
    r"""Power of the mid-P test, by going through all tables: no simulation.

    The number M of people wrong after the map is Binomial(n, :math:`\theta \cdot` base error);
    given M, the test rejects up to some number of people wrong before, who are
    Binomial(M, :math:`1/\theta`). Tables left out have a probability below 1e-12 together.
    """
    from scipy.stats import binom  # takes long to import, and only plans need it

    share = min(effect * base_error, 1.0)
    low, high = binom.ppf(5e-13, n.min(), share), binom.isf(5e-13, n.max(), share)
    after = np.arange(int(low), int(high) + 1)
    # The mid-P value grows with the count; at this count the plain one passes alpha, and the
    # mid-P value may or may not.
    both = np.asarray(binom.ppf(alpha, after, 1 / delta)).astype(np.int64)
    both -= mid_p_value(both, after, delta) > alpha
    found = binom.cdf(both, after, 1 / effect)
    return np.array([float(binom.pmf(after, rows, share) @ found) for rows in n.tolist()])


def fewest_rows(
    power_at: Callable[[int], float], start: int, target: float, precision: float = 0.005
) -> int:
    """Return about the smallest number of rows that reaches a power, near a first guess.

    By doubling and halving; right up to ``precision``, relatively, if power grows with the rows.
    """
    enough = max(2, start)
    while power_at(enough) < target:
        enough = _whole(2 * enough)
    short = enough // 2
    while short >= 2 and power_at(short) >= target:
        short, enough = short // 2, short
    while enough - short > max(1, round(enough * precision)):
        middle = (short + enough) // 2
        short, enough = (short, middle) if power_at(middle) >= target else (middle, enough)
    return enough


def _whole(rows: float) -> int:
    """Return rows as a number of people that somebody could audit."""
    if not rows <= MOST_ROWS:
        raise InvalidSettings(
            f"To find this effect would take more than {MOST_ROWS} people. Plan for a ratio "
            "further above delta."
        )
    return max(2, math.ceil(rows))


def check_goal(effect: float | None, delta: float, alpha: float, power: float) -> None:
    """Refuse what no audit can be planned for."""
    check_delta(delta)
    check_alpha(alpha)
    if not alpha < power < 1:
        raise InvalidSettings(
            f"power must lie between alpha = {alpha:g} and 1 (got {power:g}): no audit finds "
            "everything, and even chance finds alpha."
        )
    if effect is not None and not delta < effect <= LARGEST:
        raise InvalidSettings(
            f"The effect to be found must be a number above delta = {delta:g} and at most "
            f"{LARGEST:g} (got {effect:g}): less is within tolerance, and more is found in anybody."
        )
