import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from likewise.inference.estimate import Estimate, Unknown, quantile, upper_tail
from likewise.inference.sampling import mean_of_ratios


def test_the_papers_interval_bounds_and_p_value_agree_with_statsmodels(rng):
    ratio = 1 + rng.exponential(0.5, size=300)
    estimate = mean_of_ratios(ratio)
    sample = DescrStatsW(ratio)

    assert estimate.interval(0.05) == pytest.approx(sample.zconfint_mean(0.05), rel=1e-12)
    assert estimate.lower_bound(0.05) == pytest.approx(
        sample.zconfint_mean(0.05, alternative="larger")[0], rel=1e-12
    )
    assert estimate.upper_bound(0.05) == pytest.approx(
        sample.zconfint_mean(0.05, alternative="smaller")[1], rel=1e-12
    )
    assert estimate.p_value(1.45) == pytest.approx(
        sample.ztest_mean(1.45, alternative="larger")[1], rel=1e-12
    )


def test_the_lower_bound_is_the_printed_statistic():
    # The baseline network of the reference: S_n, V_n and T_n to the printed digits.
    estimate = Estimate(6.112824, 8.263248 / math.sqrt(9045), 9045)
    assert estimate.lower_bound(0.05) == pytest.approx(5.969910, abs=2e-6)


def test_tiny_p_values_do_not_round_to_zero():
    p = Estimate(2.0, 0.02, 1000).p_value(1.25)
    assert p == pytest.approx(stats.norm.sf(37.5), rel=1e-9)
    assert p > 0


def test_few_degrees_of_freedom_mean_students_t():
    estimate = Estimate(1.5, 0.1, 200, degrees=9.0)
    assert estimate.lower_bound(0.05) == pytest.approx(1.5 - 0.1 * stats.t.ppf(0.95, 9), rel=1e-12)
    assert estimate.p_value(1.25) == pytest.approx(stats.t.sf(2.5, 9), rel=1e-12)


@pytest.mark.parametrize("degrees", [4.0, 49.0, math.inf])
@pytest.mark.parametrize("q", [1e-6, 0.05, 0.5, 0.975])
def test_a_quantile_and_its_tail_are_inverse(degrees, q):
    assert upper_tail(quantile(q, degrees), degrees) == pytest.approx(1 - q, rel=1e-9)


@pytest.mark.parametrize(("delta", "p"), [(1.2, 0.0), (1.3, 1.0), (1.25, 1.0)])
def test_without_spread_the_papers_p_value_agrees_with_its_bound(delta, p):
    estimate = Estimate(1.25, 0.0, 10)
    assert estimate.p_value(delta) == p
    assert (estimate.lower_bound(0.05) > delta) == (p == 0)


def test_what_is_unknown_is_neither_accused_nor_bounded():
    unknown = Unknown()
    assert unknown.p_value(1.25) == 1
    assert unknown.interval(0.05) == (0, math.inf)


def test_an_estimate_counts_everybody_unless_told_otherwise():
    assert Estimate(1.0, 0.1, 7).effective_n == 7
    assert Estimate(1.0, 0.1, 7, effective_n=3.5).effective_n == 3.5
    assert np.isnan(Estimate(math.nan, math.nan, 7).lower_bound(0.05))
