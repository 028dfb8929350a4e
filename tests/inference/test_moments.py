import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import InvalidSample
from likewise.inference.cluster_totals import ClusterTotals
from likewise.inference.design import Design
from likewise.inference.error_rates import ErrorTable
from likewise.inference.estimators import mean_of_ratios, ratio_of_means
from likewise.inference.loss_ratio import LossRatioTest
from likewise.inference.moments import Moments, RatioMoments
from likewise.inference.ratio_of_sums import Inverted, UnitSums

FIELDS = ("value", "std_error", "skewness", "effective_n", "degrees", "n")


def blocks(rng, n):
    """Cut n rows into blocks at random places, in random order."""
    cuts = np.unique(rng.integers(1, n, size=rng.integers(1, 9)))
    parts = np.split(np.arange(n), cuts)
    rng.shuffle(parts)
    return parts


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1e-4, 5.0, 1e3]))
def test_merged_blocks_give_the_estimate_of_all_rows(seed, weighted, offset):
    rng = np.random.default_rng(seed)
    n = 300
    ratio = offset + rng.exponential(size=n)
    weight = rng.lognormal(size=n) if weighted else None
    whole = mean_of_ratios(ratio, Design.make(n, weight))
    merged = RatioMoments.merge(
        RatioMoments.of(ratio[rows], None if weight is None else weight[rows])
        for rows in blocks(rng, n)
    ).estimate()
    for name in FIELDS:
        # Rounding of the mean, relative to the spread, is what an offset of 1000 costs.
        assert getattr(merged, name) == pytest.approx(
            getattr(whole, name), rel=1e-12 + 1e-15 * offset
        )


def test_merging_does_not_cancel_where_everybody_is_nearly_the_same(rng):
    ratio = 7.0 + 1e-7 * rng.exponential(size=1000)
    merged = RatioMoments.merge(RatioMoments.of(part) for part in np.split(ratio, 10))
    whole = mean_of_ratios(ratio)
    # Ratios of 7 carry 1e-15, that is 1e-8 of their spread.
    assert merged.estimate().std_error == pytest.approx(whole.std_error, rel=1e-7)


def test_moments_about_another_centre(rng):
    values, weight = rng.normal(size=50), rng.random(50)
    squares, cubes = Moments.of(values, weight).about(0.3)
    assert squares == pytest.approx((weight * (values - 0.3) ** 2).sum(), rel=1e-12)
    assert cubes == pytest.approx((weight * (values - 0.3) ** 3).sum(), rel=1e-12)


def test_a_verdict_from_merged_moments_is_that_of_the_rows(rng, outcomes_of):
    ratio = 1 + rng.exponential(0.4, size=1000)
    for interval in ("hall", "paper"):
        test = LossRatioTest(interval=interval)
        whole = test(outcomes_of(ratio))
        parts = np.split(ratio, [10, 400])
        estimate = RatioMoments.merge(RatioMoments.of(p) for p in parts).estimate()
        capped = RatioMoments.merge(RatioMoments.of(np.minimum(p, 10)) for p in parts).estimate()
        merged = test.weigh(estimate, capped).verdict(test.delta, test.alpha)
        assert merged.outcome == whole.outcome
        for name in ("lower_bound", "upper_bound", "capped_upper_bound", "p_value", "estimate"):
            assert getattr(merged, name) == pytest.approx(getattr(whole, name), rel=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_merged_clusters_give_the_estimate_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    n, cluster = 200, rng.integers(30, size=200)
    ratio, weight = 1 + rng.exponential(size=n), rng.lognormal(size=n)
    wrong = rng.random((n, 2)) < 0.3
    values = np.column_stack([ratio, wrong])
    merged = ClusterTotals.merge(
        [ClusterTotals.of(cluster[r], values[r], weight[r]) for r in blocks(rng, n)]
    )
    design = Design.make(n, weight, cluster)
    whole = mean_of_ratios(ratio, design)
    for name in FIELDS:
        assert getattr(merged.mean(0), name) == pytest.approx(getattr(whole, name), rel=1e-11)
    sums = UnitSums.of(merged.totals[:, 2], merged.totals[:, 1])
    expected = ratio_of_means(wrong[:, 0], wrong[:, 1], design)
    assert sums.estimate(n).std_error == pytest.approx(expected.std_error, rel=1e-11)


@given(st.integers(0, 2**32 - 1))
def test_merged_errors_give_the_bounds_of_all_rows(seed):
    rng = np.random.default_rng(seed)
    n, weight = 400, rng.lognormal(size=400)
    before = rng.random(n) < 0.2
    after = before | (rng.random(n) < 0.1)
    parts = blocks(rng, n)
    whole = UnitSums.of(after * weight, before * weight)
    merged = UnitSums.of(after[parts[0]] * weight[parts[0]], before[parts[0]] * weight[parts[0]])
    table = ErrorTable(0, 0, 0, 0)
    for rows in parts[1:]:
        merged += UnitSums.of(after[rows] * weight[rows], before[rows] * weight[rows])
    for rows in parts:
        table += ErrorTable.of(before[rows], after[rows])
    assert table == ErrorTable.of(before, after)
    assert Inverted(merged).p_value(1.25) == pytest.approx(Inverted(whole).p_value(1.25), rel=1e-9)
    assert Inverted(merged).lower_bound(0.05) == pytest.approx(
        Inverted(whole).lower_bound(0.05), rel=1e-11
    )


def test_one_person_is_no_sample():
    with pytest.raises(InvalidSample, match="at least 2"):
        RatioMoments.of(np.array([1.0])).estimate()
