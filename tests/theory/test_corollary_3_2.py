"""Corollary 3.2: two-sided intervals hold the audit value in 95 % of samples."""

import pytest
from scipy.stats import binom

from helpers import outcomes_of
from likewise.stats.loss_ratio import LossRatioTest

VALUE = 1.25


@pytest.mark.parametrize("interval", ["hall", "paper"])
def test_two_sided_intervals_cover(interval, rng):
    runs, missed = 1000, 0
    for _ in range(runs):
        ratio = 1 + (VALUE - 1) * rng.exponential(size=500)
        low, high = LossRatioTest(VALUE, interval=interval)(outcomes_of(ratio)).interval
        missed += not low <= VALUE <= high
    # A limit theorem: 5.5 % are allowed at n = 500. One alarm in 10 000 seeds; and not idle.
    assert binom.ppf(0.0001, runs, 0.04) <= missed <= binom.ppf(0.9999, runs, 0.055)
