"""The error-rate ratio: mid-P and score tests, enumerated and by outside authorities."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom
from statsmodels.stats.contingency_tables import mcnemar

from helpers import outcomes_of
from likewise.stats.error_rate_ratio import ErrorRateRatioTest, mid_p_bounds, score, score_bounds
from likewise.stats.estimate import fieller
from likewise.stats.sums import ErrorTable, RatioSums

count = st.integers(0, 60)
tables = st.builds(ErrorTable, count, count, count, st.integers(1, 300))
nested = st.builds(ErrorTable, count, count, st.just(0), st.integers(1, 300))
levels = st.floats(0.001, 0.499)


@given(nested, levels)
def test_mid_p_bounds_solve_their_equations(table, alpha):
    bounds, m = mid_p_bounds(table), table.after
    lower, upper = bounds.lower_bound(alpha), bounds.upper_bound(alpha)
    assert 1 <= lower <= upper
    if table.newly_wrong:
        half = binom.pmf(table.both, m, 1 / lower) / 2
        assert binom.cdf(table.both - 1, m, 1 / lower) + half == pytest.approx(alpha, rel=1e-6)
    else:
        assert lower == 1
    if table.both:
        half = binom.pmf(table.both, m, 1 / upper) / 2
        assert binom.sf(table.both, m, 1 / upper) + half == pytest.approx(alpha, rel=1e-6)
    else:
        assert upper == math.inf


def test_the_score_interval_of_the_published_table():
    # Tang, Tang and Chan (2003): 59, 6, 16, 80 has the 95 % interval .7476 to .9876.
    low, high = score_bounds(ErrorTable(59, 6, 16, 80)).interval(0.05)
    assert (round(low, 4), round(high, 4)) == (0.7476, 0.9876)


@given(tables)
def test_at_one_the_score_test_is_mcnemars(table):
    assume(table.newly_wrong + table.newly_right)
    square = [[table.both, table.newly_right], [table.newly_wrong, table.neither]]
    expected = mcnemar(square, exact=False, correction=False).statistic
    assert score(1.0, *table) ** 2 == pytest.approx(expected, rel=1e-9)


@given(tables, levels)
def test_swapping_before_and_after_turns_the_score_interval_over(table, alpha):
    swapped = table._replace(newly_wrong=table.newly_right, newly_right=table.newly_wrong)
    lower, upper = score_bounds(table).lower_bound(alpha), score_bounds(swapped).upper_bound(alpha)
    if lower == 0 or math.isinf(lower):
        assert upper == (math.inf if lower == 0 else 0)
    else:
        assert upper == pytest.approx(1 / lower, rel=1e-6)


@given(tables, levels, st.floats(1.0, 4.0))
def test_p_values_and_bounds_never_disagree(table, alpha, delta):
    kinds = [score_bounds(table)]
    if not table.newly_right:
        kinds.append(mid_p_bounds(table))
    for bounds in kinds:
        p, lower = bounds.p_value(delta), bounds.lower_bound(alpha)
        if abs(p - alpha) > 1e-9:
            assert (p < alpha) == (lower > delta)


@pytest.mark.parametrize(
    ("table", "lower", "upper"),
    [
        ((0, 0, 0, 100), 0, math.inf),
        ((0, 5, 0, 95), 5 / 1.6448536**2, math.inf),  # no base errors: Z = √(a/θ)
        ((0, 0, 5, 95), 0, 1.6448536**2 / 5),  # all turned right: Z = -√(bθ)
        ((9, 0, 0, 91), 9 / (9 + 1.6448536**2), 1 + 1.6448536**2 / 9),  # nobody changed
    ],
)
def test_the_score_bounds_of_empty_cells_are_honest(table, lower, upper):
    bounds = score_bounds(ErrorTable(*table))
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-6)
    assert bounds.upper_bound(0.05) == pytest.approx(upper, rel=1e-6)


def test_few_weighted_errors_certify_nothing(rng):
    # Four people wrong before, on average: the mean of a - δb alone certifies a model at the
    # tolerance in more than a third of samples, whenever nobody happens to be newly wrong.
    runs, alone, ours = 100, 0, 0
    for _ in range(runs):
        rank, weight = rng.random(200), rng.lognormal(0, 0.7, size=200)
        before, after = rank < 0.02, rank < 0.025
        if before.any():
            alone += (
                fieller(RatioSums.from_units(after * weight, before * weight)).p_value(1.25) > 0.95
            )
        people = outcomes_of(wrong_before=before, wrong_after=after, weight=weight)
        ours += ErrorRateRatioTest().evidence_of(people).bounds.upper_bound(0.05) <= 1.25
    assert alone > 0.25 * runs
    # At most 5 %, exceeded once in 10 000 seeds.
    assert ours <= 14
