"""Power of the tests on perturbed people, and how many people they need."""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from likewise.errors import InvalidSettings
from likewise.stats.error_rate_ratio import mid_p_value

MOST_ROWS = 10**9
"""A plan for more people than this is refused."""


def normal_power(n: float, effect: float, delta: float, sd: float, alpha: float) -> float:
    r"""Power of the loss-ratio test in the limit, :math:`\Phi(\sqrt n (\mu-\delta)/\sigma - z)`."""
    return float(ndtr(math.sqrt(n) * (effect - delta) / sd - ndtri(1 - alpha)))


def normal_rows(effect: float, delta: float, sd: float, alpha: float, power: float) -> int:
    r"""Rows for the loss-ratio test: :math:`((z_{1-\alpha} + z_{power}) \sigma/(\mu-\delta))^2`."""
    return whole(((ndtri(1 - alpha) + ndtri(power)) * sd / (effect - delta)) ** 2)


def mid_p_power(n: int, effect: float, delta: float, base_error: float, alpha: float) -> float:
    r"""Power of the mid-P test of error rates, by going through all tables: no simulation.

    The number M of people wrong after the perturbation is Binomial(n, :math:`\theta \cdot` base
    error); given M, the test rejects up to some number of people wrong before, who are
    Binomial(M, :math:`1/\theta`). Tables left out have a probability below 1e-12 together.
    """
    from scipy.stats import binom  # takes long to import, and only plans need it

    after = binom(n, min(effect * base_error, 1.0))
    wrong = np.arange(int(after.ppf(5e-13)), int(after.isf(5e-13)) + 1)
    # The mid-P value grows with the count; at this count the plain one passes alpha, and the
    # mid-P value may or may not.
    both = np.asarray(binom.ppf(alpha, wrong, 1 / delta)).astype(np.int64)
    both -= mid_p_value(both, wrong, delta) > alpha
    return float(after.pmf(wrong) @ binom.cdf(both, wrong, 1 / effect))


def mid_p_rows(effect: float, delta: float, base_error: float, alpha: float, power: float) -> int:
    r"""Rows for the error-rate test: about the smallest number whose enumerated power is enough.

    It starts at the normal formula: of the M people wrong after the perturbation a share
    :math:`p_1 = 1/\theta` was wrong before, against :math:`p_0 = 1/\delta` at the limit, so
    :math:`M = ((z_{1-\alpha}\sqrt{p_0 q_0} + z_{power}\sqrt{p_1 q_1})/(p_0 - p_1))^2`.
    """
    p0, p1 = 1 / delta, 1 / effect
    spread = ndtri(1 - alpha) * math.sqrt(p0 * (1 - p0)) + ndtri(power) * math.sqrt(p1 * (1 - p1))
    enough = whole((spread / (p0 - p1)) ** 2 / (effect * base_error))
    while mid_p_power(enough, effect, delta, base_error, alpha) < power:
        enough = whole(2 * enough)
    short = 1
    while enough - short > max(1, enough // 200):
        middle = (short + enough) // 2
        found = mid_p_power(middle, effect, delta, base_error, alpha)
        short, enough = (short, middle) if found >= power else (middle, enough)
    return enough


def whole(rows: float) -> int:
    """Return rows as a number of people that somebody could audit."""
    if not rows <= MOST_ROWS:
        raise InvalidSettings(
            f"To find this effect would take more than {MOST_ROWS:,} people. Plan for a ratio "
            "further above delta."
        )
    return max(2, math.ceil(rows))
