"""Planning: formulas, enumeration, and the promise that the power is there."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm
from statsmodels.stats.power import NormalIndPower

from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.error_rate_ratio import MidP
from likewise.inference.power import error_rows, mid_p_power
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest
from likewise.inference.sample_size import plan
from likewise.outcomes import Outcomes
from likewise.statistics.moments import ErrorTable


def pilot(rng, n=600, *, monotone=True, **extra):
    """A small audit: mean ratio 1.5, a fifth wrong before, errors up by half."""
    ratio = 1 + rng.exponential(0.5, n)
    before = rng.random(n) < 0.2
    after = before | (rng.random(n) < 0.125)
    if not monotone:
        after &= ~before | (rng.random(n) < 0.9)
    about = {"monotone": monotone, "task": "classification"} | extra.pop("about", {})
    ones, zeros = np.ones(n), np.zeros(n, dtype=np.int64)
    decisions = before.astype(np.int64), after.astype(np.int64)
    return Outcomes(
        np.arange(n), zeros, ones, ratio, *decisions, ones, ones, ones, zeros, about=about, **extra
    )  # fmt: skip


def test_rows_for_the_loss_ratio_are_those_of_statsmodels():
    row = plan(1.4, 1.25, 0.05, 0.8, sd=0.9).rows[0]
    expected = NormalIndPower(ddof=0).solve_power(
        effect_size=0.15 / 0.9, alpha=0.05, power=0.8, ratio=0, alternative="larger"
    )
    assert row.n == math.ceil(expected)
    assert row.power >= 0.8
    assert dict(row.curve)[row.n] == row.power
    assert [power for _, power in row.curve] == sorted(power for _, power in row.curve)


def test_skewed_ratios_need_fewer_people_than_the_normal_limit(rng, outcomes_of):
    row = plan(1.4, sd=0.4, skewness=2.0, repetitions=1000).rows[0]
    assert row.n < plan(1.4, sd=0.4).rows[0].n
    # An exponential excess has skewness 2. A power of .80 is below .70 in 300 samples once in
    # 10 000 times; its distribution, and 1000 repetitions, leave another .03.
    found = sum(
        LossRatioTest()(outcomes_of(1 + rng.exponential(0.4, row.n))).rejected for _ in range(300)
    )
    assert 0.7 <= found / 300 <= 0.9


@pytest.mark.parametrize(
    ("n", "effect", "base", "power"), [(100, 1.75, 0.05, 0.41), (1000, 1.75, 0.01, 0.67)]
)
def test_the_enumerated_power_is_the_known_one(n, effect, base, power):
    got = mid_p_power(np.array([n]), effect, 1.25, base, 0.05)[0]
    assert got == pytest.approx(power, abs=0.005)  # known to two digits


def test_the_enumeration_is_that_of_the_test_itself():
    n, effect, base = 60, 1.6, 0.2
    power = 0.0
    for after in range(n + 1):
        chance = binom.pmf(after, n, effect * base)
        for both in range(after + 1):
            table = ErrorTable(both, after - both, 0, n - after)
            if chance > 1e-14 and MidP(table).p_value(1.25) <= 0.05:
                power += chance * binom.pmf(both, after, 1 / effect)
    got = mid_p_power(np.array([n]), effect, 1.25, base, 0.05)[0]
    assert got == pytest.approx(power, abs=1e-9)


def test_the_size_of_the_test_is_its_power_without_an_effect():
    size = mid_p_power(np.array([100, 1000, 5000]), 1.25, 1.25, 0.05, 0.05)
    assert (size <= 0.055).all()
    assert size[0] == pytest.approx(0.034, abs=0.001)


@pytest.mark.parametrize(
    ("effect", "delta", "base", "power"),
    [(1.75, 1.25, 0.01, 0.8), (1.4, 1.25, 0.19, 0.9), (1.5, 1.0, 0.3, 0.8), (1.25, 1.1, 0.8, 0.8)],
)
def test_rows_for_error_rates_keep_their_power_and_are_not_too_many(effect, delta, base, power):
    row = plan(effect, delta, 0.05, power, base_error=base).rows[0]
    ahead = mid_p_power(np.arange(row.n, row.n + 100), effect, delta, base, 0.05)
    assert ahead.min() >= power
    assert mid_p_power(np.array([row.n - 1]), effect, delta, base, 0.05)[0] < power


def test_the_formula_alone_would_be_too_few():
    start = error_rows(1.75, 1.25, 0.01, 0.05, 0.8)
    reached = mid_p_power(np.array([start]), 1.75, 1.25, 0.01, 0.05)[0]
    assert reached == pytest.approx(0.76, abs=0.005)
    assert plan(1.75, base_error=0.01).rows[0].n > start


def test_an_effect_near_the_tolerance_takes_many_rows_and_little_time():
    row = plan(1.26, base_error=0.1).rows[0]
    assert row.power == pytest.approx(0.8, abs=0.001)
    assert row.n > 150_000


def test_both_tests_are_planned_when_both_are_known():
    both = plan(1.4, sd=0.9, base_error=0.2)
    assert [row.test for row in both.rows] == ["loss_ratio", "error_rate_ratio"]
    assert both.rows[0].n < both.rows[1].n


def test_a_pilot_of_nested_errors_is_enumerated(rng):
    small = pilot(rng)
    rows = {row.test: row for row in plan(1.4, pilot=small).rows}
    base = float(small.error_before.mean())
    assert rows["error_rate_ratio"].n == plan(1.4, base_error=base).rows[0].n
    assert rows["loss_ratio"].method == "Hall, resampled"


def test_a_pilot_plans_for_its_own_ratio_unless_told(rng):
    small = pilot(rng)
    rows = plan(pilot=small).rows
    assert rows[0].effect == pytest.approx(small.ratio.mean())
    assert rows[1].effect == pytest.approx(small.error_after.sum() / small.error_before.sum())
    told = plan(1.35, pilot=small).rows
    assert told[0].effect == 1.35
    assert told[0].n > rows[0].n


def test_a_normal_pilot_needs_what_the_formula_says(rng):
    # Ratios without skewness, so that the limit is near: sd .6, effect 1.35, n about 220.
    n = 4000
    ratio = 1.35 + 0.6 * norm.ppf((np.arange(n) + 0.5) / n)
    small = pilot(rng, n)
    small = Outcomes(**{**vars(small), "loss_after": ratio})
    resampled = plan(1.35, pilot=small, repetitions=4000).rows[0]
    formula = plan(1.35, sd=float(ratio.std())).rows[0]
    # Resampled power has an error of .006, which is 2 % of the rows; the search adds 2 %.
    assert resampled.n == pytest.approx(formula.n, rel=0.08)


def test_clusters_of_copies_need_as_many_times_the_people(rng):
    small = pilot(rng, 400)
    copies = small.take(np.repeat(np.arange(400), 3))
    clustered = Outcomes(**{**vars(copies), "cluster": np.repeat(np.arange(400), 3)})
    # Many clusters are needed at this effect, so that Student's t plays no part.
    alone = plan(1.3, 1.25, pilot=small, repetitions=2000).rows[0]
    together = plan(1.3, 1.25, pilot=clustered, repetitions=2000).rows[0]
    assert together.n / alone.n == pytest.approx(3, rel=0.1)
    assert "400 clusters" in together.method


def test_a_regression_is_planned_for_its_mean_losses(rng):
    small = pilot(rng, about={"task": "regression"})
    rows = plan(1.4, pilot=small).rows
    assert [row.test for row in rows] == ["mean_loss_ratio"]
    assert rows[0].power >= 0.8


def test_the_same_seed_plans_the_same(rng):
    small = pilot(rng, monotone=False)
    assert plan(1.4, pilot=small, seed=3) == plan(1.4, pilot=small, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["loss", "score", "weighted"])
def test_the_power_is_there_when_the_audit_comes(kind):
    # 250 audits of the planned size, drawn from the population the pilot came from: .8, with a
    # Monte-Carlo error of .025, and .02 from the pilot and its resampling: .1 is three in 10 000.
    rng = np.random.default_rng(20210330)

    def audited(n):
        weight = rng.exponential(size=n) + 0.2 if kind == "weighted" else None
        return pilot(rng, n, monotone=kind == "loss", weight=weight)

    test = LossRatioTest(1.4) if kind == "loss" else ErrorRateRatioTest()
    effect = 1.5 if kind == "loss" else 1.4  # the population's own
    rows = {row.test: row for row in plan(effect, test.delta, pilot=audited(20_000)).rows}
    row = rows[test.name]
    p_values = [test.evidence_of(audited(row.n)).bounds.p_value(test.delta) for _ in range(250)]
    found = sum(p <= 0.05 for p in p_values)
    assert found / 250 == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"effect": 1.2, "sd": 1.0}, "above delta = 1.25"),
        ({"effect": 1.25, "sd": 1.0}, "above delta = 1.25"),
        ({"effect": math.inf, "sd": 1.0}, "above delta"),
        ({"effect": 1.4}, "How much do people differ"),
        ({"sd": 1.0}, "Which ratio"),
        ({"effect": 1.4, "sd": 0.0}, "sd must be a positive number"),
        ({"effect": 1.4, "base_error": 1.0}, "base_error must lie between 0 and 1"),
        ({"effect": 4.0, "base_error": 0.3}, "cannot grow 4 times as large: that would be 1.2"),
        ({"effect": 1.4, "sd": 1.0, "power": 1.0}, "power must lie between alpha"),
        ({"effect": 1.4, "sd": 1.0, "power": 0.01}, "power must lie between alpha"),
        ({"effect": 1.4, "sd": 1.0, "alpha": 0.0}, "alpha must lie"),
        ({"effect": 1.4, "sd": 1.0, "delta": 0.9}, "delta must be a number of at least 1"),
        ({"effect": 1.25000001, "base_error": 0.2}, "take more than 1000000000 people"),
        ({"effect": math.nextafter(1.25, 2), "base_error": 0.2}, "take more than"),
        ({"effect": 1.25000001, "sd": 1.0}, "take more than"),
        ({"effect": 1.4, "sd": 1e300}, "take more than"),
        ({"effect": 1e300, "sd": 1.0}, "at most 1e\\+06"),
        ({"effect": 1.4, "sd": 1.0, "skewness": -1.0}, "skewness must lie above 0"),
        ({"effect": 1.4, "base_error": 0.2, "skewness": 1.0}, "with sd"),
        ({"effect": 1.4, "base_error": 1e-12}, "take more than"),
    ],
)
def test_bad_input_is_a_sentence(wrong, says):
    with pytest.raises(InvalidSettings, match=says):
        plan(**wrong)


def test_a_pilot_that_cannot_help_says_why(rng):
    with pytest.raises(InvalidSample, match="The pilot has 10 people"):
        plan(1.4, pilot=pilot(rng, 10))
    with pytest.raises(InvalidSettings, match="either a pilot"):
        plan(1.4, pilot=pilot(rng), sd=1.0)
    small = pilot(rng)
    still = Outcomes(**{**vars(small), "loss_after": small.loss_before,
                        "decision_after": small.decision_before})  # fmt: skip
    with pytest.raises(InvalidSample, match=r"loss-ratio is 1: not an effect.*Give --effect"):
        plan(1.4, pilot=still)
    clean = Outcomes(**{**vars(small), "decision_before": small.y})
    kept = plan(1.4, pilot=clean)
    assert [row.test for row in kept.rows] == ["loss_ratio"]
    assert "error-rate ratio is not defined" in kept.notes[0]
    undefined = Outcomes(**{**vars(small), "loss_after": small.loss_after * np.nan})
    assert [row.test for row in plan(1.4, pilot=undefined).rows] == ["error_rate_ratio"]
    with pytest.raises(InvalidSettings, match="cannot grow 9 times"):
        plan(9.0, pilot=small)
