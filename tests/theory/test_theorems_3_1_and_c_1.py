"""Theorems 3.1 and C.1: standardised loss and error-rate ratios are normal in the limit."""

import numpy as np
import pytest
from scipy.stats import kstest

from helpers import outcomes_of
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.loss_ratio import LossRatioTest

WRONG, THETA = 0.3, 1.5


def losses(rng):
    return outcomes_of(1 + (THETA - 1) * rng.exponential(size=2000))


def errors(rng):
    rank = rng.random(4000)
    # Some become right again, so that no error rate holds the other.
    after = (rank < THETA * WRONG) ^ (rng.random(4000) < 0.1)
    return outcomes_of(wrong_before=rank < WRONG, wrong_after=after)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "draw", "truth"),
    [
        (LossRatioTest, losses, THETA),
        (ErrorRateRatioTest, errors, (0.1 + 0.8 * THETA * WRONG) / WRONG),
    ],
)
def test_the_standardised_estimate_is_normal(kind, draw, truth, rng):
    test, runs = kind(interval="paper"), 1000
    found = [test(draw(rng)) for _ in range(runs)]
    scores = [(one.estimate - truth) / one.std_error for one in found]
    # Kolmogorov's distance exceeds 2.23/√runs in one of 10 000 seeds; skewness adds 0.01 at this n.
    assert kstest(scores, "norm").statistic <= 2.23 / np.sqrt(runs) + 0.01
    # The spread alone is sharper: the standard deviation of 1000 scores is known to 2.2 %.
    assert abs(np.std(scores) - 1) <= 3.9 * 0.0224 + 0.005
