import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import InvalidSample
from likewise.inference.estimators import ratio_of_sums
from likewise.inference.loss_ratio import LossRatioTest
from likewise.inference.sampling import Design, mean_of_ratios, ratio_of_means
from likewise.statistics.ratio import UnitSums


def test_the_mean_of_ratios_is_the_papers(rng):
    ratio = 1 + rng.exponential(size=50)
    estimate = mean_of_ratios(ratio)
    assert estimate.value == pytest.approx(ratio.mean(), rel=1e-14)
    assert estimate.std_error == pytest.approx(ratio.std(ddof=1) / math.sqrt(50), rel=1e-14)
    skewness = ((ratio - ratio.mean()) ** 3).mean() / ratio.std(ddof=1) ** 3
    assert estimate.skewness == pytest.approx(skewness / math.sqrt(50), rel=1e-12)


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


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_both_ratios_are_free_of_the_scale_of_the_loss(seed, scale):
    rng = np.random.default_rng(seed)
    before, after = rng.exponential(size=30) + 0.01, rng.exponential(1.5, size=30)
    plain, scaled = (ratio_of_means(c * before, c * after) for c in (1, scale))
    assert scaled.value == pytest.approx(plain.value, rel=1e-12)
    assert scaled.std_error == pytest.approx(plain.std_error, rel=1e-9)
    plain, scaled = (mean_of_ratios((c * after) / (c * before)) for c in (1, scale))
    assert scaled.value == pytest.approx(plain.value, rel=1e-12)
    assert scaled.std_error == pytest.approx(plain.std_error, rel=1e-9)


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


def test_no_errors_before_give_no_ratio():
    nobody, somebody = np.zeros(5, dtype=bool), np.array([True, False, False, False, False])
    assert ratio_of_means(nobody, somebody).value == math.inf
    assert math.isnan(ratio_of_means(nobody, nobody).value)


def test_weights_agree_with_weighted_least_squares(rng):
    ratio, weight = 1 + rng.exponential(size=80), rng.lognormal(size=80)
    fit = sm.WLS(ratio, np.ones(80), weights=weight).fit(cov_type="HC1")
    estimate = mean_of_ratios(ratio, Design.make(80, weight))
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
    estimate = mean_of_ratios(ratio, Design.make(120, weight, cluster))
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
    design = Design.make(300, None, cluster)
    estimate = ratio_of_means(before, after, design)
    assert estimate.value == pytest.approx(fit.params[0], rel=1e-12)
    assert estimate.linear_error == pytest.approx(fit.bse[0], rel=1e-12)
    assert estimate.linear_error < estimate.std_error < 1.02 * estimate.linear_error
    sums = UnitSums.of(design.totals(after), design.totals(before))
    assert ratio_of_sums(sums, 300).std_error == pytest.approx(fit.bse[0], rel=1e-10)


def test_equal_weights_and_clusters_of_one_are_no_design():
    design = Design.make(5, np.full(5, 3.0), np.array(list("abcde")))
    assert design.simple
    assert design.sampling.named("Hall") == "Hall"
    assert design.sampling.notes == ()


def test_design_effects_say_what_weights_and_clusters_cost(rng, outcomes_of):
    weight = np.array([1.0, 1.0, 2.0, 4.0])
    design = Design.make(4, weight)
    assert design.sampling.kish == pytest.approx(4 * 22 / 64)
    assert design.sampling.effective_n == pytest.approx(64 / 22)
    # Everybody twice, in clusters of two: twice the variance, but for the n - 1.
    once = 1 + rng.exponential(size=400)
    twice, cluster = np.repeat(once, 2), np.repeat(np.arange(400), 2)
    evidence = LossRatioTest().evidence_of(outcomes_of(twice, cluster=cluster))
    assert evidence.details["design_effect"] == pytest.approx(2, rel=0.005)
    assert evidence.estimate.effective_n == 400


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
        Design.make(3, weight, cluster)


def test_one_person_is_no_sample():
    with pytest.raises(InvalidSample, match="at least 2"):
        mean_of_ratios(np.array([1.5]))


def test_clusters_may_be_named_by_anything(rng):
    ratio = 1 + rng.exponential(size=6)
    numbers = Design.make(6, None, np.array([3, 3, 7, 7, 9, 9]))
    names = Design.make(6, None, np.array(["x", "x", "é", "é", "", ""], dtype=object))
    assert mean_of_ratios(ratio, numbers) == mean_of_ratios(ratio, names)
