"""Theorem C.1: the standardised error-rate ratio (22) is standard normal in the limit."""

import numpy as np
import pytest
from scipy.stats import kstest

from helpers import outcomes_of
from likewise.stats.error_rate_ratio import ErrorRateRatioTest


@pytest.mark.slow
def test_the_standardised_ratio_of_error_rates_is_normal(rng):
    test = ErrorRateRatioTest(interval="paper")
    runs, n = 1000, 4000
    wrong, theta = 0.3, 1.5
    scores = []
    for _ in range(runs):
        rank = rng.random(n)
        before, after = rank < wrong, rank < theta * wrong
        # Some become right again, so that no error rate holds the other.
        after ^= rng.random(n) < 0.1
        truth = (0.9 * theta * wrong + 0.1 * (1 - theta * wrong)) / wrong
        found = test(outcomes_of(wrong_before=before, wrong_after=after))
        scores.append((found.estimate - truth) / found.std_error)
    # Kolmogorov's distance exceeds 2.23/√runs in one of 10 000 seeds; skewness adds 0.01 at this n.
    assert kstest(scores, "norm").statistic <= 2.23 / np.sqrt(runs) + 0.01
    assert abs(np.std(scores) - 1) <= 3.9 * 0.0224 + 0.005
