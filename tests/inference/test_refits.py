import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from likewise.errors import InvalidSample
from likewise.inference.estimate import Unknown
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest
from likewise.inference.refits import RefitBounds, with_refits
from likewise.statistics.moments import ErrorTable


def delete_one_group(ratio, groups, test, outcomes_of):
    """Return the evidence without each of the groups; the metric never changes."""
    member = np.arange(len(ratio)) % groups
    return [test.evidence_of(outcomes_of(ratio[member != g])) for g in range(groups)]


def test_a_metric_that_never_changes_adds_no_uncertainty(rng, outcomes_of):
    # The delete-group jackknife of a mean estimates V²/n; over 200 samples its average error
    # is within four standard errors, 4·√(2/9)/√200 of the variance.
    test, shares = LossRatioTest(), []
    for _ in range(200):
        ratio = 1 + rng.exponential(size=100)
        evidence = test.evidence_of(outcomes_of(ratio))
        refitted = with_refits(evidence, delete_one_group(ratio, 10, test, outcomes_of))
        shares.append((refitted.estimate.std_error / evidence.estimate.std_error) ** 2)
    assert np.mean(shares) == pytest.approx(1, abs=0.14)


REPLICATES = np.array([1.4, 1.5, 1.6, 1.7])


def jackknife(values):
    return math.sqrt(3 / 4 * np.square(values - values.mean()).sum())


def test_a_flow_is_bounded_on_the_scale_of_roots_and_logarithms():
    bounds, t = RefitBounds(1.55, REPLICATES, root=True), stats.t.ppf(0.95, 3)
    assert bounds.std_error == pytest.approx(jackknife(REPLICATES), rel=1e-14)
    error = jackknife(np.sqrt(REPLICATES - 1))
    lower = 1 + (math.sqrt(0.55) - t * error) ** 2
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-12)
    assert bounds.p_value(lower) == pytest.approx(0.05, rel=1e-9)
    on_log_scale = jackknife(np.log(REPLICATES - 1))
    assert bounds.upper_bound(0.05) == pytest.approx(1 + 0.55 * math.exp(t * on_log_scale))
    # Where even one is within the error nothing is below it.
    assert RefitBounds(1.01, np.array([1.001, 1.05, 1.2]), root=True).lower_bound(0.05) == 1


@pytest.mark.parametrize("directions", [1, 2, 3])
def test_a_reach_is_bounded_for_the_worst_of_its_directions(directions):
    bounds = RefitBounds(1.55, REPLICATES, directions=directions)
    t = stats.t.ppf(0.95, 3)
    if directions > 1:
        t = math.sqrt(directions * stats.f.ppf(0.95, directions, 3))
    lower = 1.55 - t * jackknife(REPLICATES)
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-12)
    assert bounds.p_value(lower) == pytest.approx(0.05, rel=1e-9)


def test_a_replicate_at_one_keeps_the_natural_scale():
    bounds = RefitBounds(1.02, np.array([1.0, 1.02, 1.04]))
    assert bounds.upper_bound(0.05) == pytest.approx(
        1.02 + stats.t.ppf(0.95, 2) * bounds.std_error, rel=1e-12
    )


def test_a_separate_sample_adds_the_sampling_error():
    replicates = np.array([1.4, 1.5, 1.6, 1.7])
    alone, both = RefitBounds(1.55, replicates), RefitBounds(1.55, replicates, separate=0.2)
    assert both.std_error == pytest.approx(math.hypot(alone.std_error, 0.2))
    assert both.upper_bound(0.05) > alone.upper_bound(0.05)


def test_bootstrap_refits_have_a_standard_deviation_and_ten_groups_degrees(rng):
    replicates = rng.normal(1.5, 0.1, size=199)
    bounds = RefitBounds(1.5, replicates, directions=1, bootstrap=True)
    assert bounds.std_error == pytest.approx(replicates.std(ddof=1), rel=1e-12)
    lower = 1.5 - stats.t.ppf(0.95, 9) * bounds.std_error
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-12)
    assert bounds.p_value(lower) == pytest.approx(0.05, rel=1e-9)


def test_a_verdict_with_refits_says_so_and_keeps_both_errors(rng, outcomes_of):
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(1.3 + rng.exponential(0.3, size=500)))
    assert evidence.verdict(1.25, 0.05).outcome == "evidence_of_unfairness"
    replicates = [
        test.evidence_of(outcomes_of(1 + (0.3 + rng.exponential(0.3, size=450)) * factor))
        for factor in np.linspace(0.3, 1.7, 10)
    ]
    refitted = with_refits(evidence, replicates)
    verdict = refitted.verdict(1.25, 0.05)
    assert verdict.method == "Hall; jackknife of 10 metric refits"
    assert verdict.outcome == "inconclusive"
    assert verdict.std_error > 5 * verdict.details["std_error_fixed_metric"]
    assert verdict.capped_upper_bound == verdict.cap < verdict.upper_bound
    bootstrap = with_refits(evidence, replicates, bootstrap=True)
    assert bootstrap.method == "Hall; bootstrap of 10 metric refits"
    with pytest.raises(InvalidSample, match="they are not separate"):
        with_refits(evidence, replicates, bootstrap=True, separate=True)


def test_error_rates_can_be_refitted_too(outcomes_of):
    test = ErrorRateRatioTest()

    def errors(after):
        return outcomes_of(wrong_before=np.arange(200) < 30, wrong_after=np.arange(200) < after)

    evidence = test.evidence_of(errors(45))
    verdict = with_refits(evidence, [test.evidence_of(errors(40 + g)) for g in range(10)]).verdict(
        1.25, 0.05
    )
    assert verdict.capped_upper_bound is None
    assert verdict.lower_bound < 1.5 < verdict.upper_bound


def test_refits_that_never_differ_tell_nothing(outcomes_of):
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(np.array([1.0, 2.0, 3.0] * 40)))
    refitted = with_refits(evidence, [evidence] * 10)
    assert refitted.bounds == Unknown()
    assert refitted.verdict(1.25, 0.05).outcome == "inconclusive"
    # A spread of 4e-18 is rounding, not evidence.
    almost = [
        dataclasses.replace(
            evidence, estimate=dataclasses.replace(evidence.estimate, value=2 + g * 4e-18)
        )
        for g in range(10)
    ]
    assert with_refits(evidence, almost).bounds == Unknown()


def test_an_undefined_refit_is_said(outcomes_of, rng):
    test = LossRatioTest()
    evidence = test.evidence_of(outcomes_of(1 + rng.random(50)))
    broken = test.evidence_of(outcomes_of(np.append(1 + rng.random(49), np.inf)))
    verdict = with_refits(evidence, [evidence, broken, evidence]).verdict(1.25, 0.05)
    assert verdict.outcome == "inconclusive"
    assert math.isnan(verdict.lower_bound)
    assert "1 of 3 refits" in verdict.notes[-1]


def test_one_refit_is_not_enough(outcomes_of, rng):
    evidence = LossRatioTest().evidence_of(outcomes_of(1 + rng.random(50)))
    with pytest.raises(InvalidSample, match="too few"):
        with_refits(evidence, [evidence])


def test_bounds_are_shown_within_what_is_possible_and_decide_as_they_are(outcomes_of):
    wild = np.array([1.01, 1.2, 3.0, 9.0])  # refits of a metric that knows next to nothing
    errors = ErrorRateRatioTest()
    table = ErrorTable(both=200, newly_wrong=60, newly_right=0, neither=540)
    found = errors.weigh(table, monotone=True)
    far = dataclasses.replace(found, bounds=RefitBounds(found.estimate.value, wild, directions=3))
    said, raw = far.verdict(1.25, 0.05), far.bounds
    assert raw.lower_bound(0.05) < 0 < 4 < 100 < raw.upper_bound(0.05)
    assert (said.lower_bound, said.interval[0]) == (0.0, 0.0)
    assert said.statistic == raw.lower_bound(0.05)
    # 200 of 800 are wrong, so that four times as many is everybody; a quarter more for chance.
    assert 4 < said.upper_bound == said.interval[1] == said.details["largest_possible"] < 5.2
    assert said.outcome == "inconclusive"
    assert far.tolerable_from(0.05) == raw.upper_bound(0.05)
    loss = LossRatioTest().evidence_of(outcomes_of(np.linspace(1, 2, 50)))
    loose = RefitBounds(loss.estimate.value, wild)
    capped = dataclasses.replace(loss, bounds=loose, capped=loose).verdict(1.25, 0.05)
    assert capped.capped_upper_bound == capped.cap < capped.upper_bound
