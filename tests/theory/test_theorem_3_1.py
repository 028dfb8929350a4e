"""Theorem 3.1: √n (S_n − θ) / V_n is standard normal in the limit."""

import numpy as np
import pytest
from scipy.stats import kstest

from helpers import outcomes_of
from likewise.stats.loss_ratio import LossRatioTest


@pytest.mark.slow
def test_the_standardised_estimate_is_normal(rng):
    test = LossRatioTest(interval="paper")
    runs, n, theta = 1000, 2000, 1.5
    scores = []
    for _ in range(runs):
        found = test(outcomes_of(1 + (theta - 1) * rng.exponential(size=n)))
        scores.append((found.estimate - theta) / found.std_error)
    # Kolmogorov's distance exceeds 2.23/√runs in one of 10 000 seeds; skewness adds 0.01 at this n.
    assert kstest(scores, "norm").statistic <= 2.23 / np.sqrt(runs) + 0.01
    # The spread alone is sharper: the standard deviation of 1000 scores is known to 2.2 %.
    assert abs(np.std(scores) - 1) <= 3.9 * 0.0224 + 0.005
