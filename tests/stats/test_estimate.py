"""Estimates and bounds: closed forms, statsmodels, Hall's transformation, inversion of a test."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from helpers import mean_of_ratios, outcomes_of, ratio_of_means
from likewise.errors import InvalidSample
from likewise.stats.estimate import (
    Estimate,
    hall,
    ratio_of_sums,
    restored,
    transformed,
)
from likewise.stats.sums import RatioSums
from likewise.stats.tally import Sample, Tally


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


def test_tiny_p_values_do_not_round_to_zero():
    p = Estimate(2.0, 0.02, 1000).p_value(1.25)
    assert p == pytest.approx(stats.norm.sf(37.5), rel=1e-9)
    assert p > 0


def test_few_degrees_of_freedom_mean_students_t():
    estimate = Estimate(1.5, 0.1, 200, degrees=9.0)
    assert estimate.lower_bound(0.05) == pytest.approx(1.5 - 0.1 * stats.t.ppf(0.95, 9), rel=1e-12)
    assert estimate.p_value(1.25) == pytest.approx(stats.t.sf(2.5, 9), rel=1e-12)


@pytest.mark.parametrize(("delta", "p"), [(1.2, 0.0), (1.3, 1.0), (1.25, 1.0)])
def test_without_spread_the_papers_p_value_agrees_with_its_bound(delta, p):
    estimate = Estimate(1.25, 0.0, 10)
    assert estimate.p_value(delta) == p
    assert (estimate.lower_bound(0.05) > delta) == (p == 0)


def printed_formula(before, after, *, centred):
    """Equation (22), term by term."""
    a, b = after.mean(), before.mean()
    both = np.stack([after, before]).astype(float)
    v = np.cov(both, ddof=0) if centred else both @ both.T / len(before)
    variance = a**2 * v[1, 1] + b**2 * v[0, 0] - 2 * a * b * v[0, 1]
    return math.sqrt(variance / len(before)) / b**2


@given(st.integers(0, 2**32 - 1), st.integers(10, 200))
def test_uncentred_and_centred_variance_are_the_same(seed, n):
    rng = np.random.default_rng(seed)
    before, after = rng.exponential(size=n), rng.exponential(1.5, size=n)
    estimate = ratio_of_means(before, after)
    # Rounding: the quadratic form cancels terms a few times larger than itself.
    assert estimate.std_error == pytest.approx(
        printed_formula(before, after, centred=False), rel=1e-10
    )
    assert estimate.std_error == pytest.approx(
        printed_formula(before, after, centred=True), rel=1e-10
    )


def test_weights_agree_with_weighted_least_squares(rng):
    ratio, weight = 1 + rng.exponential(size=80), rng.lognormal(size=80)
    fit = sm.WLS(ratio, np.ones(80), weights=weight).fit(cov_type="HC1")
    estimate = mean_of_ratios(ratio, weight)
    assert estimate.value == pytest.approx(fit.params[0], rel=1e-12)
    assert estimate.linear_error == pytest.approx(fit.bse[0], rel=1e-12)
    jackknife = sm.WLS(ratio, np.ones(80), weights=weight).fit(cov_type="HC3").bse[0]
    # Leverages are averaged, which at one of 6 % costs less than one in a thousand.
    assert estimate.std_error == pytest.approx(jackknife * math.sqrt(79 / 80), rel=2e-3)


def test_clusters_agree_with_cluster_robust_least_squares(rng):
    cluster = rng.integers(12, size=120)
    ratio = 1 + rng.exponential(size=120) + rng.exponential(size=12)[cluster]
    weight = rng.lognormal(size=120)
    fit = sm.WLS(ratio, np.ones(120), weights=weight).fit(
        cov_type="cluster", cov_kwds={"groups": cluster}
    )
    estimate = mean_of_ratios(ratio, weight, cluster)
    assert estimate.value == pytest.approx(fit.params[0], rel=1e-12)
    assert estimate.linear_error == pytest.approx(fit.bse[0], rel=1e-12)
    total = np.bincount(cluster, weights=weight)
    assert estimate.degrees == pytest.approx(total.sum() ** 2 / np.square(total).sum() - 1)
    without = [np.average(ratio[cluster != g], weights=weight[cluster != g]) for g in range(12)]
    by_hand = math.sqrt(11 / 12 * np.square(np.array(without) - estimate.value).sum())
    assert estimate.std_error == pytest.approx(by_hand, rel=1e-12)


def test_a_clustered_ratio_of_means_agrees_with_least_squares_through_the_origin(rng):
    # A/B is the weighted mean of a/b with weights b, so the same routine knows its error.
    cluster = rng.integers(60, size=300)
    before, after = rng.exponential(size=300) + 0.1, rng.exponential(1.4, size=300)
    fit = sm.WLS(after / before, np.ones(300), weights=before).fit(
        cov_type="cluster", cov_kwds={"groups": cluster}
    )
    estimate = ratio_of_means(before, after, cluster)
    assert estimate.value == pytest.approx(fit.params[0], rel=1e-12)
    assert estimate.linear_error == pytest.approx(fit.bse[0], rel=1e-12)
    assert estimate.linear_error < estimate.std_error < 1.02 * estimate.linear_error
    sums = RatioSums.from_units(*(np.bincount(cluster, weights=loss) for loss in (after, before)))
    assert ratio_of_sums(sums, 300).std_error == pytest.approx(fit.bse[0], rel=1e-10)


def test_design_effects_say_what_weights_and_clusters_cost(rng):
    weighted = Sample(
        Tally.from_outcomes(outcomes_of(np.ones(4), weight=np.array([1.0, 1.0, 2.0, 4.0])))
    )
    assert weighted.effective_n == pytest.approx(64 / 22)
    assert "design effect 1.38" in weighted.notes[0]  # 4 × 22 / 64
    # Everybody twice, in clusters of two: twice the variance.
    once = 1 + rng.exponential(size=400)
    twice = mean_of_ratios(np.repeat(once, 2), cluster=np.repeat(np.arange(400), 2))
    assert twice.std_error == pytest.approx(mean_of_ratios(once).std_error, rel=0.005)
    assert twice.effective_n == 400


@pytest.mark.parametrize(
    ("weight", "cluster", "message"),
    [
        (np.array([1.0, 0.0, 1.0]), None, "1 of 3 weights are not positive"),
        (np.array([np.nan, np.inf, 1.0]), None, "2 of 3 weights are not positive"),
        (None, np.array(["a", None, "b"], dtype=object), "no cluster"),
        (None, np.array(["a", "a", "a"]), "one cluster"),
    ],
)
def test_an_impossible_design_is_refused(weight, cluster, message):
    with pytest.raises(InvalidSample, match=message):
        mean_of_ratios(np.ones(3), weight, cluster)


skewness = st.floats(-1.5, 1.5)


@given(st.floats(-8, 8), skewness)
def test_the_transformation_is_undone(t, g):
    # The cube root loses digits where the bracket is near zero: (1e-16)^(1/3) is 5e-6, and the
    # factor 3/g enlarges it.
    assert restored(transformed(t, g), g) == pytest.approx(t, abs=1e-4 if abs(g) > 1e-6 else 1e-3)


@given(st.floats(0.8, 3), skewness, st.floats(0.001, 0.499), st.floats(1.0, 2.0))
def test_a_p_value_below_alpha_is_a_lower_bound_above_delta(value, g, alpha, delta):
    bounds = hall(Estimate(value, 0.1, 100, skewness=g))
    p, lower = bounds.p_value(delta), bounds.lower_bound(alpha)
    if abs(p - alpha) > 1e-6:
        assert (p < alpha) == (lower > delta)


def test_without_skewness_hall_is_the_paper():
    estimate = Estimate(1.5, 0.1, 100)
    assert hall(estimate).interval(0.05) == pytest.approx(estimate.interval(0.05), rel=1e-14)
    assert hall(estimate).p_value(1.3) == pytest.approx(estimate.p_value(1.3), rel=1e-12)


def test_the_delta_method_agrees_with_a_bootstrap(rng):
    n = 2000
    before = rng.random(n) < 0.2
    after = before | (rng.random(n) < 0.1)
    estimate = ratio_of_means(before, after)
    drawn = rng.integers(n, size=(4000, n))
    resampled = after[drawn].mean(axis=1) / before[drawn].mean(axis=1)
    # 4000 resamples give a standard error to 1.1 %; one alarm in 10 000 beyond four times that,
    # and the delta method's own error at n = 2000 is below 1 %.
    assert estimate.std_error == pytest.approx(resampled.std(), rel=0.055)
