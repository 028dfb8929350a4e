"""The delete-group jackknife: bounds under a learned metric, and whom a group leaves out."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers import outcomes_of, people
from likewise.audit_data import AuditData
from likewise.methods.jackknife import (
    JackknifeBounds,
    cut_points,
    groups_between,
    unit_hashes,
    with_jackknife,
)
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.estimate import UNKNOWN
from likewise.stats.loss_ratio import LossRatioTest

REPLICATES = np.array([1.4, 1.5, 1.6, 1.7])


def evidence_of(ratio):
    return LossRatioTest().evidence_of(outcomes_of(ratio))


def refitted(evidence, values):
    """Return the evidence with refits that found these values."""
    found = [dataclasses.replace(evidence.estimate, value=value) for value in values]
    return with_jackknife(evidence, [dataclasses.replace(evidence, estimate=e) for e in found])


def jackknife(values):
    return math.sqrt(3 / 4 * np.square(values - values.mean()).sum())


@pytest.mark.parametrize("directions", [1, 2, 3])
def test_bounds_allow_for_the_worst_direction_below_and_for_skewness_above(directions):
    bounds = JackknifeBounds(1.55, REPLICATES, directions=directions)
    t = far = stats.t.ppf(0.95, 3)
    if directions > 1:
        far = math.sqrt(directions * stats.f.ppf(0.95, directions, 3))
    assert bounds.std_error == pytest.approx(jackknife(REPLICATES), rel=1e-14)
    lower = 1.55 - far * bounds.std_error
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-12)
    assert bounds.p_value(lower) == pytest.approx(0.05, rel=1e-9)
    on_log_scale = jackknife(np.log(REPLICATES - 1))
    assert bounds.upper_bound(0.05) == pytest.approx(1 + 0.55 * math.exp(t * on_log_scale))


def test_a_replicate_at_one_keeps_the_natural_scale_and_a_separate_sample_adds_its_error():
    bounds = JackknifeBounds(1.02, np.array([1.0, 1.02, 1.04]))
    upper = 1.02 + stats.t.ppf(0.95, 2) * bounds.std_error
    assert bounds.upper_bound(0.05) == pytest.approx(upper, rel=1e-12)
    alone, both = (JackknifeBounds(1.55, REPLICATES, separate=own) for own in (0.0, 0.2))
    assert both.std_error == pytest.approx(math.hypot(alone.std_error, 0.2))
    assert both.upper_bound(0.05) > alone.upper_bound(0.05)


@pytest.mark.parametrize("spread", [1e-6, 0.2])
def test_nothing_is_narrower_than_with_the_metric_fixed(rng, spread):
    # Replicates that happen to agree say less than the people themselves do.
    evidence = evidence_of(1.2 + rng.exponential(0.3, size=500))
    value = evidence.estimate.value
    wider = refitted(evidence, [value - spread, value, value + spread])
    fixed, after = (e.result(1.25, 0.05) for e in (evidence, wider))
    rise = [getattr(after, name) - getattr(fixed, name) for name in ("upper_bound", "p_value")]
    rise += [fixed.lower_bound - after.lower_bound, after.std_error - fixed.std_error]
    assert min(rise) >= 0 if spread < 1e-3 else min(rise) > 0


def test_a_verdict_with_jackknife_says_so_and_keeps_both_errors(rng):
    evidence = evidence_of(1.3 + rng.exponential(0.3, size=500))
    assert evidence.result(1.25, 0.05).outcome == "evidence"
    values = 1 + (evidence.estimate.value - 1) * np.linspace(0.3, 1.7, 10)
    verdict = refitted(evidence, values).result(1.25, 0.05)
    assert verdict.interval_method == "Hall; jackknife of 10 metric refits"
    assert verdict.outcome == "inconclusive"
    assert verdict.std_error > 5 * verdict.details["std_error_fixed_metric"]


def test_refits_that_never_differ_or_are_undefined_tell_nothing(rng):
    evidence = evidence_of(np.array([1.0, 2.0, 3.0] * 40))
    for rounding in (0.0, 4e-18):
        same = refitted(evidence, 2 + rounding * np.arange(10))
        assert same.bounds is UNKNOWN
        assert same.result(1.25, 0.05).outcome == "inconclusive"
    broken = evidence_of(np.append(1 + rng.random(49), np.inf))
    verdict = with_jackknife(evidence, [evidence, broken, evidence]).result(1.25, 0.05)
    assert verdict.outcome == "inconclusive"
    assert math.isnan(verdict.lower_bound)
    assert "1 of 3 refits" in verdict.notes[-1]


def test_no_bound_is_shown_below_zero_and_all_decide_as_they_are():
    wild = np.array([1.01, 1.2, 3.0, 9.0])  # refits of a metric that knows next to nothing
    people = np.arange(800)
    found = ErrorRateRatioTest().evidence_of(
        outcomes_of(wrong_before=people < 200, wrong_after=people < 260, monotone=True)
    )
    raw = JackknifeBounds(found.estimate.value, wild, directions=3)
    far = dataclasses.replace(found, bounds=raw)
    said = far.result(1.25, 0.05)
    assert raw.lower_bound(0.05) < 0 < 100 < raw.upper_bound(0.05)
    assert (said.lower_bound, said.interval[0], said.outcome) == (0.0, 0.0, "inconclusive")
    assert said.statistic == raw.lower_bound(0.05)
    assert far.within_from(0.05) == raw.upper_bound(0.05)


def dealt(data, groups):
    units = unit_hashes([data])
    return groups_between(units, cut_points(units, groups))


@settings(max_examples=50)
@given(st.integers(2, 300), st.integers(2, 25), st.integers(0, 2**31))
def test_groups_are_equal_never_more_than_people_and_know_no_order_of_rows(n, groups, seed):
    data, order = people(n, seed), np.random.default_rng(seed).permutation(n)
    found = dealt(data, groups)
    assert len(np.bincount(found)) == min(groups, n)
    assert np.ptp(np.bincount(found)) <= 1
    np.testing.assert_array_equal(dealt(data.take(order), groups), found[order])
    parts = [data.take(slice(0, 1)), data.take(slice(1, n))]
    np.testing.assert_array_equal(unit_hashes(parts), unit_hashes([data]))


def test_clusters_stay_whole_sizes_nearly_equal_and_groups_no_more_than_clusters(rng):
    sizes = rng.integers(1, 8, size=300)
    cluster = np.repeat([f"house {i}" for i in range(300)], sizes)
    order = rng.permutation(len(cluster))
    groups = dealt(people(len(cluster), cluster=cluster[order]), 10)
    for name in np.unique(cluster):
        assert len(set(groups[cluster[order] == name])) == 1
    assert np.ptp(np.bincount(groups)) <= 14  # at most one of the largest clusters on either side
    assert set(dealt(people(60, cluster=np.repeat([1, 2, 3], 20)), 10)) == {0, 1, 2}


def test_equal_rows_are_dealt_at_random_not_together_nor_evenly(rng):
    # One in ten rows is the same: 400 people in 20 groups. Together they would all be in one
    # group; evenly they would be 20 in each. At random the variance of their number is 20 · .9.
    x = rng.normal(size=(4000, 1))
    x[:400] = 0.0
    groups = dealt(AuditData.from_arrays(x, (x[:, 0] == 0) * 1), 20)
    count = np.bincount(groups[:400], minlength=20)
    assert count.sum() == 400
    # A chi-squared of 19 degrees divided by 19 lies in here but for one draw in 10 000.
    assert 0.25 < count.var(ddof=1) / 18 < 2.6
