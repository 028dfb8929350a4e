import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from helpers import outcomes_of
from likewise.methods.jackknife import JackknifeBounds, with_jackknife
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.estimate import Estimate, Unknown
from likewise.stats.loss_ratio import LossRatioTest


def delete_one_group(ratio, groups, test):
    """Return the evidence without each of the groups; the metric never changes."""
    member = np.arange(len(ratio)) % groups
    return [test.evidence_of(outcomes_of(ratio[member != g])) for g in range(groups)]


def test_a_metric_that_never_changes_adds_no_uncertainty(rng):
    # The delete-group jackknife of a mean estimates V²/n; over 200 samples its average error
    # is within four standard errors, 4·√(2/9)/√200 of the variance.
    test, shares = LossRatioTest(), []
    for _ in range(200):
        ratio = 1 + rng.exponential(size=100)
        evidence = test.evidence_of(outcomes_of(ratio))
        refitted = with_jackknife(evidence, delete_one_group(ratio, 10, test))
        shares.append((refitted.bounds.std_error / evidence.estimate.std_error) ** 2)
    assert np.mean(shares) == pytest.approx(1, abs=0.14)


REPLICATES = np.array([1.4, 1.5, 1.6, 1.7])


def jackknife(values):
    return math.sqrt(3 / 4 * np.square(values - values.mean()).sum())


def test_a_flow_is_bounded_on_the_scale_of_roots_and_logarithms():
    bounds, t = JackknifeBounds(1.55, REPLICATES, root=True), stats.t.ppf(0.95, 3)
    assert bounds.std_error == pytest.approx(jackknife(REPLICATES), rel=1e-14)
    error = jackknife(np.sqrt(REPLICATES - 1))
    lower = 1 + (math.sqrt(0.55) - t * error) ** 2
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-12)
    assert bounds.p_value(lower) == pytest.approx(0.05, rel=1e-9)
    on_log_scale = jackknife(np.log(REPLICATES - 1))
    assert bounds.upper_bound(0.05) == pytest.approx(1 + 0.55 * math.exp(t * on_log_scale))
    # Where even one is within the error nothing is below it.
    assert JackknifeBounds(1.01, np.array([1.001, 1.05, 1.2]), root=True).lower_bound(0.05) == 1


@pytest.mark.parametrize("directions", [1, 2, 3])
def test_a_reach_is_bounded_for_the_worst_of_its_directions(directions):
    bounds = JackknifeBounds(1.55, REPLICATES, directions=directions)
    t = stats.t.ppf(0.95, 3)
    if directions > 1:
        t = math.sqrt(directions * stats.f.ppf(0.95, directions, 3))
    lower = 1.55 - t * jackknife(REPLICATES)
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-12)
    assert bounds.p_value(lower) == pytest.approx(0.05, rel=1e-9)


def test_a_replicate_at_one_keeps_the_natural_scale():
    bounds = JackknifeBounds(1.02, np.array([1.0, 1.02, 1.04]))
    assert bounds.upper_bound(0.05) == pytest.approx(
        1.02 + stats.t.ppf(0.95, 2) * bounds.std_error, rel=1e-12
    )


def test_a_separate_sample_adds_the_sampling_error():
    replicates = np.array([1.4, 1.5, 1.6, 1.7])
    alone, both = JackknifeBounds(1.55, replicates), JackknifeBounds(1.55, replicates, separate=0.2)
    assert both.std_error == pytest.approx(math.hypot(alone.std_error, 0.2))
    assert both.upper_bound(0.05) > alone.upper_bound(0.05)


def test_no_bound_is_narrower_than_with_the_metric_fixed():
    # Replicates that happen to agree say less than the people themselves do.
    lucky, fixed = np.array([1.499, 1.5, 1.501]), Estimate(1.5, 0.1, 400)
    bounds = JackknifeBounds(1.5, lucky, fixed)
    assert bounds.lower_bound(0.05) == fixed.lower_bound(0.05)
    assert bounds.upper_bound(0.05) == fixed.upper_bound(0.05)
    assert bounds.p_value(1.25) == fixed.p_value(1.25)
    wide = JackknifeBounds(1.5, REPLICATES, fixed)
    alone = JackknifeBounds(1.5, REPLICATES)
    assert wide.lower_bound(0.05) == alone.lower_bound(0.05)
    assert wide.p_value(1.25) == alone.p_value(1.25)


def test_the_standard_error_is_never_smaller_than_with_the_metric_fixed(rng):
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(1.2 + rng.exponential(0.3, size=500)))
    close = [
        dataclasses.replace(
            evidence,
            estimate=dataclasses.replace(evidence.estimate, value=evidence.estimate.value + e),
        )
        for e in (-1e-6, 0.0, 1e-6)
    ]
    refitted = with_jackknife(evidence, close)
    assert refitted.estimate.std_error == evidence.estimate.std_error
    fixed, after = (e.result(1.25, 0.05) for e in (evidence, refitted))
    assert after.lower_bound <= fixed.lower_bound
    assert after.upper_bound >= fixed.upper_bound
    assert after.p_value >= fixed.p_value


def test_a_verdict_with_jackknife_says_so_and_keeps_both_errors(rng):
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(1.3 + rng.exponential(0.3, size=500)))
    assert evidence.result(1.25, 0.05).outcome == "evidence"
    replicates = [
        test.evidence_of(outcomes_of(1 + (0.3 + rng.exponential(0.3, size=450)) * factor))
        for factor in np.linspace(0.3, 1.7, 10)
    ]
    refitted = with_jackknife(evidence, replicates)
    verdict = refitted.result(1.25, 0.05)
    assert verdict.interval_method == "Hall; jackknife of 10 metric refits"
    assert verdict.outcome == "inconclusive"
    assert verdict.std_error > 5 * verdict.details["std_error_fixed_metric"]
    assert verdict.capped_upper_bound == verdict.cap < verdict.upper_bound


def test_refits_that_never_differ_tell_nothing():
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(np.array([1.0, 2.0, 3.0] * 40)))
    refitted = with_jackknife(evidence, [evidence] * 10)
    assert refitted.bounds == Unknown()
    assert refitted.result(1.25, 0.05).outcome == "inconclusive"
    # A spread of 4e-18 is rounding, not evidence.
    almost = [
        dataclasses.replace(
            evidence, estimate=dataclasses.replace(evidence.estimate, value=2 + g * 4e-18)
        )
        for g in range(10)
    ]
    assert with_jackknife(evidence, almost).bounds == Unknown()


def test_an_undefined_refit_is_said(rng):
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(1 + rng.random(50)))
    broken = test.evidence_of(outcomes_of(np.append(1 + rng.random(49), np.inf)))
    verdict = with_jackknife(evidence, [evidence, broken, evidence]).result(1.25, 0.05)
    assert verdict.outcome == "inconclusive"
    assert math.isnan(verdict.lower_bound)
    assert "1 of 3 refits" in verdict.notes[-1]


def test_bounds_are_shown_within_what_is_possible_and_decide_as_they_are():
    wild = np.array([1.01, 1.2, 3.0, 9.0])  # refits of a metric that knows next to nothing
    people = np.arange(800)
    found = ErrorRateRatioTest().evidence_of(
        outcomes_of(wrong_before=people < 200, wrong_after=people < 260, monotone=True)
    )
    bounds = JackknifeBounds(found.estimate.value, wild, directions=3)
    far = dataclasses.replace(found, bounds=bounds)
    said, raw = far.result(1.25, 0.05), far.bounds
    assert raw.lower_bound(0.05) < 0 < 4 < 100 < raw.upper_bound(0.05)
    assert (said.lower_bound, said.interval[0]) == (0.0, 0.0)
    assert said.statistic == raw.lower_bound(0.05)
    # 200 of 800 are wrong, so that four times as many is everybody; a quarter more for chance.
    assert 4 < said.upper_bound == said.interval[1] == said.details["largest_possible"] < 5.2
    assert said.outcome == "inconclusive"
    assert far.within_from(0.05) == raw.upper_bound(0.05)
    loss = LossRatioTest().evidence_of(outcomes_of(np.linspace(1, 2, 50)))
    loose = JackknifeBounds(loss.estimate.value, wild)
    capped = dataclasses.replace(loss, bounds=loose, capped=loose).result(1.25, 0.05)
    assert capped.capped_upper_bound == capped.cap < capped.upper_bound
