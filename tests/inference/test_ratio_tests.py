import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest, MeanLossRatioTest
from likewise.outcomes import Outcomes, Status
from likewise.record import TestRecord

EVERY_TEST = [
    LossRatioTest(),
    LossRatioTest(interval="bootstrap_t", repetitions=199),
    LossRatioTest(interval="paper"),
    ErrorRateRatioTest(),
    ErrorRateRatioTest(interval="score"),
    ErrorRateRatioTest(interval="paper"),
    MeanLossRatioTest(),
    MeanLossRatioTest(interval="paper"),
]


@pytest.fixture
def sample(rng, outcomes_of):
    """Losses and errors of 500 people, some of them harmed."""

    def make(n=500, **columns):
        before = rng.exponential(size=n) + 0.05
        wrong = rng.random(n) < 0.2
        return outcomes_of(
            before=before,
            after=before * (1 + rng.exponential(0.6, size=n)),
            wrong_before=wrong,
            wrong_after=wrong | (rng.random(n) < 0.1),
            **columns,
        )

    return make


@pytest.mark.parametrize("test", EVERY_TEST)
def test_a_verdict_is_made_of_plain_numbers(test, sample):
    verdict = test(sample())
    assert all(
        type(getattr(verdict, name)) is float
        for name in ("estimate", "std_error", "statistic", "p_value", "lower_bound", "upper_bound")
    )
    assert type(verdict.rejected) is bool
    assert verdict.n == 500
    assert verdict.test == test.name
    assert verdict.statistic == verdict.lower_bound
    assert verdict.interval[0] < verdict.lower_bound < verdict.estimate < verdict.upper_bound
    assert verdict.upper_bound < verdict.interval[1]
    assert json.loads(json.dumps(verdict.to_dict()))["outcome"] == verdict.outcome
    assert TestRecord(map="flow", **verdict.to_dict()).lower_bound == verdict.lower_bound


@pytest.mark.parametrize("test", EVERY_TEST)
def test_weights_and_clusters_are_taken_up_and_said(test, sample, rng):
    verdict = test(sample(weight=rng.lognormal(size=500), cluster=np.arange(500) // 20))
    assert "weighted, 25 clusters" in verdict.method
    assert any("25 clusters" in note for note in verdict.notes)
    assert any("weights" in note for note in verdict.notes)
    assert verdict.details["kish"] > 1


def test_an_exact_test_gives_way_to_one_that_knows_weights(sample, rng):
    verdict = ErrorRateRatioTest(interval="exact")(sample(weight=rng.lognormal(size=500)))
    assert verdict.method == "Hall and score, weighted"
    assert "does not hold with weights" in verdict.notes[-1]


@pytest.mark.parametrize("test", EVERY_TEST)
def test_equal_weights_change_nothing(test, sample):
    outcomes = sample()
    weighted = dataclasses.replace(outcomes, weight=np.full(500, 2.5), cluster=np.arange(500))
    assert test(weighted) == test(outcomes)


def test_the_papers_loss_ratio_is_exactly_the_papers(sample):
    outcomes = sample()
    ratio = outcomes.loss_after / outcomes.loss_before
    verdict = LossRatioTest(interval="paper")(outcomes)
    spread = ratio.std(ddof=1) / math.sqrt(500)
    assert verdict.estimate == pytest.approx(ratio.mean(), rel=1e-14)
    assert verdict.statistic == pytest.approx(ratio.mean() - 1.6448536269514722 * spread, rel=1e-14)
    assert verdict.interval[1] == pytest.approx(
        ratio.mean() + 1.959963984540054 * spread, rel=1e-14
    )


def test_the_papers_error_rates_are_exactly_the_papers(outcomes_of):
    # The networks of the reference, n = 9045: the printed S and T of errors before and after.
    for before, after, both, ratio, statistic in [
        (1703, 4732, 1703, 2.778626, 2.690017),
        (2245, 2655, 2245, 1.182628, 1.166495),
    ]:
        wrong_before, wrong_after = np.arange(9045) < before, np.arange(9045) < after
        assert (wrong_before & wrong_after).sum() == both
        verdict = ErrorRateRatioTest(interval="paper")(
            outcomes_of(wrong_before=wrong_before, wrong_after=wrong_after)
        )
        assert verdict.estimate == pytest.approx(ratio, abs=1e-6)
        # That nobody turned right is all but true of the reference; it costs some 1e-4.
        assert verdict.statistic == pytest.approx(statistic, abs=1e-3)


@pytest.mark.parametrize("interval", ["hall", "paper", "bootstrap_t"])
def test_three_outcomes(interval, rng, outcomes_of):
    test = LossRatioTest(interval=interval)
    noise = rng.exponential(0.1, size=400)
    assert test(outcomes_of(1.5 + noise)).outcome == "evidence_of_unfairness"
    assert test(outcomes_of(1.0 + noise)).outcome == "within_tolerance"
    assert test(outcomes_of(1.15 + noise * 10 - 0.8)).outcome == "inconclusive"


def test_too_few_people_certify_nothing(rng, outcomes_of):
    ratio = 1 + rng.exponential(0.05, size=160)
    assert LossRatioTest()(outcomes_of(ratio)).outcome == "within_tolerance"
    few = ratio[:100]
    verdict = LossRatioTest()(outcomes_of(few))
    assert verdict.outcome == "inconclusive"
    needed = math.ceil(math.log(20) * (10 - few.mean()) / (1.25 - few.mean()))
    assert f"fewer than {needed} people" in verdict.notes[0]


def test_clusters_count_as_few_people(rng, outcomes_of):
    ratio, cluster = 1 + rng.exponential(0.05, size=300), np.arange(300) // 3
    assert LossRatioTest()(outcomes_of(ratio)).outcome == "within_tolerance"
    assert LossRatioTest()(outcomes_of(ratio, cluster=cluster)).outcome == "inconclusive"


def test_the_cap_bounds_what_one_person_can_say_against_certifying(rng, outcomes_of):
    ratio = 1 + rng.exponential(0.05, size=1000)
    ratio[0] = 150
    verdict = LossRatioTest()(outcomes_of(ratio))
    assert verdict.outcome == "within_tolerance"
    assert verdict.upper_bound > 1.25 > verdict.capped_upper_bound
    assert verdict.cap == 10


def test_evidence_of_unfairness_beats_a_capped_upper_bound(outcomes_of):
    # Fifty of a thousand are harmed two hundredfold: the mean is 11, the capped one 1.1.
    ratio = np.where(np.arange(1000) < 50, 200.0, 1.0)
    verdict = LossRatioTest(cap=3.0)(outcomes_of(ratio))
    assert verdict.capped_upper_bound <= 1.25
    assert verdict.outcome == "evidence_of_unfairness"


def test_equal_ratios_are_inconclusive(outcomes_of):
    verdict = LossRatioTest()(outcomes_of(np.full(200, 2.0)))
    assert verdict.outcome == "inconclusive"
    assert not verdict.rejected
    assert verdict.p_value == 1
    assert verdict.to_dict()["upper_bound"] == "Infinity"
    assert "the same" in verdict.notes[0]


@pytest.mark.parametrize("rounding", [0.0, 4e-16])
def test_where_nothing_moves_anybody_only_rare_harm_is_to_be_feared(outcomes_of, rng, rounding):
    ratio = 1 + rounding * rng.normal(size=200)
    verdict = LossRatioTest()(outcomes_of(ratio))
    assert verdict.outcome == "within_tolerance"
    assert not verdict.rejected
    # All of 200 are unharmed with probability .05 if a share 1 - .05^(1/200) is harmed.
    assert verdict.upper_bound == pytest.approx(1 + 9 * (1 - 0.05 ** (1 / 200)), rel=2e-3)
    few = LossRatioTest()(outcomes_of(ratio[:107]))
    assert few.outcome == "inconclusive"
    assert "fewer than 108 people" in few.notes[-1]


def test_equal_ratios_never_certify_by_the_paper_either(outcomes_of):
    verdict = LossRatioTest(interval="paper")(outcomes_of(np.ones(200)))
    assert (verdict.lower_bound, verdict.upper_bound) == (1, 1)
    assert verdict.outcome == "inconclusive"


def test_a_ratio_that_is_not_finite_is_counted_and_nobody_is_dropped(outcomes_of, rng):
    ratio = 1 + rng.exponential(size=50)
    ratio[[3, 7]] = np.inf, np.nan
    for test in (LossRatioTest(), LossRatioTest(interval="paper"), MeanLossRatioTest()):
        verdict = test(outcomes_of(ratio))
        assert math.isnan(verdict.estimate)
        assert math.isnan(verdict.lower_bound)
        assert verdict.n == 50
        assert not verdict.rejected
        assert verdict.outcome == "inconclusive"
        assert verdict.notes[0].startswith("2 of 50 people")
        assert verdict.to_dict()["p_value"] is None


def test_a_diverged_row_counts_as_it_stands(outcomes_of, rng):
    ratio = 1 + rng.exponential(size=50)
    status = np.where(np.arange(50) == 3, Status.DIVERGED, Status.MOVED).astype(np.int64)
    assert LossRatioTest()(outcomes_of(ratio, status=status)) == LossRatioTest()(outcomes_of(ratio))


def test_mid_p_is_chosen_by_construction_never_by_the_table(outcomes_of):
    wrong_before, wrong_after = np.arange(200) < 30, np.arange(200) < 50
    nested = {"wrong_before": wrong_before, "wrong_after": wrong_after}
    assert ErrorRateRatioTest()(outcomes_of(**nested, monotone=True)).method == "mid-P"
    assert ErrorRateRatioTest()(outcomes_of(**nested)).method == "score"
    assert ErrorRateRatioTest(interval="exact")(outcomes_of(**nested, monotone=True)).method == (
        "exact"
    )
    with pytest.raises(InvalidSample, match="cannot turn wrong decisions right"):
        ErrorRateRatioTest(interval="midp")(outcomes_of(**nested))


def test_a_broken_promise_of_the_map_is_said(outcomes_of):
    verdict = ErrorRateRatioTest()(
        outcomes_of(wrong_before=np.arange(90) < 30, wrong_after=np.arange(90) > 25, monotone=True)
    )
    assert verdict.method == "score"
    assert verdict.notes[0].startswith("26 wrong decisions turned right")


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("interval", ["auto", "paper"])
@pytest.mark.parametrize("harmed", [0, 7])
def test_no_errors_before_are_an_honest_wide_answer(monotone, interval, harmed, outcomes_of):
    verdict = ErrorRateRatioTest(interval=interval)(
        outcomes_of(
            wrong_before=np.zeros(100), wrong_after=np.arange(100) < harmed, monotone=monotone
        )
    )
    assert "Nobody is decided wrongly before" in verdict.notes[0]
    assert not verdict.upper_bound < math.inf
    assert verdict.outcome == (
        "evidence_of_unfairness" if harmed and interval == "auto" else "inconclusive"
    )
    if harmed == 0 and interval == "auto":
        assert verdict.p_value == 1


def test_no_errors_before_with_weights_are_an_honest_wide_answer(outcomes_of, rng):
    verdict = ErrorRateRatioTest()(
        outcomes_of(
            wrong_before=np.zeros(100),
            wrong_after=np.arange(100) < 3,
            weight=rng.lognormal(size=100),
        )
    )
    assert verdict.upper_bound == math.inf
    # Three people at most: z² is 2.7, so no tolerance above 3/2.7 can be excluded.
    assert verdict.lower_bound < 1.25
    nothing = ErrorRateRatioTest()(
        outcomes_of(wrong_before=np.zeros(9), wrong_after=np.zeros(9), weight=np.arange(9) + 1.0)
    )
    assert nothing.p_value == 1


def test_a_regression_has_no_error_rates(outcomes_of, rng):
    outcomes = outcomes_of(1 + rng.random(20), about={"task": "regression"})
    with pytest.raises(InvalidSample, match="regression"):
        ErrorRateRatioTest()(outcomes)


def test_no_loss_at_all_before_is_said(outcomes_of):
    verdict = MeanLossRatioTest()(outcomes_of(before=np.zeros(20), after=np.ones(20)))
    assert verdict.outcome == "inconclusive"
    assert "no ratio" in verdict.notes[0]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_no_test_depends_on_the_scale_of_the_loss(seed, scale):
    rng = np.random.default_rng(seed)
    before, factor = rng.exponential(size=60) + 0.01, 1 + rng.exponential(0.4, size=60)
    empty = np.zeros(60)
    plain, scaled = (
        Outcomes(
            np.arange(60),
            empty,
            c * before,
            c * before * factor,
            *[empty] * 5,
            np.zeros(60, dtype=np.int64),
        )
        for c in (1.0, scale)
    )
    for test in (LossRatioTest(), LossRatioTest(interval="paper"), MeanLossRatioTest()):
        one, other = test(plain), test(scaled)
        assert other.outcome == one.outcome
        assert other.lower_bound == pytest.approx(one.lower_bound, rel=1e-7)
        assert other.p_value == pytest.approx(one.p_value, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("kind", [LossRatioTest, ErrorRateRatioTest, MeanLossRatioTest])
@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"alpha": 0.0}, "alpha must lie between 0 and 1"),
        ({"alpha": 1.0}, "alpha must lie between 0 and 1"),
        ({"alpha": math.nan}, "alpha"),
        ({"delta": 0.99}, "delta must be a number of at least 1"),
        ({"delta": math.inf}, "delta"),
        ({"interval": "bayes"}, "no interval 'bayes'"),
        ({"interval": "papr"}, "Did you mean 'paper'"),
    ],
)
def test_impossible_choices_are_refused(kind, choices, message):
    with pytest.raises(InvalidSettings, match=message):
        kind(**choices)


@pytest.mark.parametrize("kind", [LossRatioTest, MeanLossRatioTest])
def test_a_cap_below_the_tolerance_is_refused(kind):
    with pytest.raises(InvalidSettings, match="above delta"):
        kind(delta=2.0, cap=2.0)


@pytest.mark.parametrize("test", EVERY_TEST)
def test_one_person_is_no_audit(test, outcomes_of):
    with pytest.raises(InvalidSample, match="at least 2"):
        test(outcomes_of([1.5]))


def test_a_bootstrap_is_repeatable(sample):
    outcomes = sample()
    test = LossRatioTest(interval="bootstrap_t", seed=3, repetitions=199)
    assert test(outcomes) == test(outcomes)
    other = LossRatioTest(interval="bootstrap_t", seed=4, repetitions=199)
    assert other(outcomes).lower_bound != test(outcomes).lower_bound
