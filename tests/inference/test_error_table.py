import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest
from statsmodels.stats.contingency_tables import mcnemar

from likewise.inference.error_rate_ratio import Exact, MidP, exact_p_value, mid_p_value
from likewise.inference.estimators import error_rate_ratio
from likewise.inference.sampling import ratio_of_means
from likewise.inference.score_test import Score, score
from likewise.statistics.moments import ErrorTable

count = st.integers(0, 60)
tables = st.builds(ErrorTable, count, count, count, st.integers(1, 300))
nested = st.builds(ErrorTable, count, count, st.just(0), st.integers(1, 300))
levels = st.floats(0.001, 0.499)


def rows(table):
    """Return the errors of each person, before and after."""
    cells = dataclasses.astuple(table)
    return np.repeat([True, False, True, False], cells), np.repeat(
        [True, True, False, False], cells
    )


@given(tables)
def test_a_table_says_what_its_rows_say(table):
    before, after = rows(table)
    assert ErrorTable.of(before, after) == table
    assert (table.n, table.before, table.after) == (len(before), before.sum(), after.sum())
    assume(table.n >= 2 and table.before)
    by_rows, by_table = ratio_of_means(before, after), error_rate_ratio(table)
    assert by_table.value == pytest.approx(by_rows.value, rel=1e-14)
    assert by_table.std_error == pytest.approx(by_rows.std_error, rel=1e-10, abs=1e-15)


@given(tables, st.integers(0, 2**32 - 1))
def test_tables_of_parts_add_up(table, seed):
    before, after = rows(table)
    part = np.random.default_rng(seed).random(table.n) < 0.5
    assert (
        ErrorTable.of(before[part], after[part]) + ErrorTable.of(before[~part], after[~part])
        == table
    )


@given(nested, levels)
def test_exact_bounds_are_one_over_those_of_clopper_and_pearson(table, alpha):
    assume(table.after)
    share = binomtest(table.both, table.after, alternative="two-sided").proportion_ci(1 - 2 * alpha)
    bounds = Exact(table)
    assert bounds.lower_bound(alpha) == pytest.approx(1 / share.high, rel=1e-7)
    assert bounds.upper_bound(alpha) == pytest.approx(
        1 / share.low if share.low else math.inf, rel=1e-7
    )


@given(nested, st.floats(1.0, 3.0))
def test_the_exact_p_value_is_that_of_a_binomial_test(table, delta):
    assume(table.after)
    test = binomtest(table.both, table.after, 1 / delta, alternative="less")
    assert Exact(table).p_value(delta) == pytest.approx(test.pvalue, rel=1e-7, abs=1e-300)


@given(nested, levels)
def test_mid_p_bounds_solve_their_equations(table, alpha):
    bounds, m = MidP(table), table.after
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


def test_mid_p_lies_inside_exact():
    table = ErrorTable(12, 6, 0, 80)
    assert MidP(table).lower_bound(0.05) > Exact(table).lower_bound(0.05)
    assert MidP(table).upper_bound(0.05) < Exact(table).upper_bound(0.05)
    assert MidP(table).p_value(1.25) < Exact(table).p_value(1.25)


def test_p_values_of_many_tables_at_once_are_those_of_each():
    both, after = [0, 3, 10], [0, 5, 12]
    for k in range(3):
        table = ErrorTable(both[k], after[k] - both[k], 0, 50)
        assert mid_p_value(both, after, 1.25)[k] == MidP(table).p_value(1.25)
        assert exact_p_value(both, after, 1.25)[k] == Exact(table).p_value(1.25)


@pytest.mark.parametrize("kind", [MidP, Exact])
def test_without_any_error_nothing_is_known(kind):
    bounds = kind(ErrorTable(0, 0, 0, 100))
    assert bounds.p_value(1.25) == 1
    assert bounds.interval(0.05) == (1, math.inf)


def test_the_score_interval_of_the_published_table():
    # Tang, Tang and Chan (2003): 59, 6, 16, 80 has the 95 % interval .7476 to .9876.
    low, high = Score(ErrorTable(59, 6, 16, 80)).interval(0.05)
    assert (round(low, 4), round(high, 4)) == (0.7476, 0.9876)


@given(tables)
def test_at_one_the_score_test_is_mcnemars(table):
    assume(table.newly_wrong + table.newly_right)
    square = [[table.both, table.newly_right], [table.newly_wrong, table.neither]]
    expected = mcnemar(square, exact=False, correction=False).statistic
    assert score(1.0, *dataclasses.astuple(table)) ** 2 == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("theta", [0.6, 1.25, 2.5])
@pytest.mark.parametrize("table", [(59, 6, 16, 80), (3, 9, 2, 50), (20, 5, 0, 75)])
def test_the_score_variance_is_the_most_likely_one(table, theta):
    """Maximise the likelihood under the ratio by brute force, and standardise with that."""
    n11, n10, n01, _ = table
    n = sum(table)

    def shares(b, q):
        # P(before) = b, P(after) = θb, P(newly right) = q.
        return b - q, theta * b - b + q, q, 1 - theta * b - q

    def cost(b):
        def inner(q):
            p = np.array(shares(b, q))
            if (p <= 0).any():
                return 1e9 + max(0.0, -p.min()) * 1e9
            return -float(np.array(table) @ np.log(p))

        low, high = max(0.0, b * (1 - theta)), min(b, 1 - theta * b)
        best = minimize_scalar(
            inner, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
        )
        return best.fun, best.x

    grid = minimize_scalar(
        lambda b: cost(b)[0],
        bounds=(1e-9, min(1, 1 / theta) - 1e-9),
        method="bounded",
        options={"xatol": 1e-12},
    )
    both, new, right, _ = shares(grid.x, cost(grid.x)[1])
    # Var(a - θb) for n people, whose mean is zero under θ.
    variance = n * (both * (1 - theta) ** 2 + new + right * theta**2)
    expected = (n11 + n10 - theta * (n11 + n01)) / math.sqrt(variance)
    # A nested search is good to about five digits.
    assert score(theta, *table) == pytest.approx(expected, rel=2e-4)


@given(tables, levels)
def test_swapping_before_and_after_turns_the_score_interval_over(table, alpha):
    swapped = dataclasses.replace(
        table, newly_wrong=table.newly_right, newly_right=table.newly_wrong
    )
    lower, upper = Score(table).lower_bound(alpha), Score(swapped).upper_bound(alpha)
    if lower == 0 or math.isinf(lower):
        assert upper == (math.inf if lower == 0 else 0)
    else:
        assert upper == pytest.approx(1 / lower, rel=1e-6)


@given(tables, levels, st.floats(1.0, 4.0))
def test_p_values_and_bounds_never_disagree(table, alpha, delta):
    kinds = [Score] if table.newly_right else [Score, MidP, Exact]
    for kind in kinds:
        bounds = kind(table)
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
    bounds = Score(ErrorTable(*table))
    assert bounds.lower_bound(0.05) == pytest.approx(lower, rel=1e-6)
    assert bounds.upper_bound(0.05) == pytest.approx(upper, rel=1e-6)


def enumerated(n, base, theta, delta, alpha=0.05):
    """Size, false certification and power of nested tables, summed over all of them."""
    # More people wrong than this have a chance of 1e-12 together.
    most = int(binom.isf(1e-12, n, theta * base)) + 1
    wrong, both = np.arange(most)[:, None], np.arange(most)[None, :]
    chance = binom.pmf(wrong, n, theta * base) * binom.pmf(both, wrong, 1 / theta)
    mid = mid_p_value(both, wrong, delta)
    # The p-value of the other side: an upper bound at most δ.
    other = np.where(wrong == 0, 1.0, 1 - mid)
    z = score(delta, both, np.maximum(wrong - both, 0), 0, n - wrong)
    chance = np.where(both <= wrong, chance, 0.0)
    return {
        "mid_rejects": float(chance[mid < alpha].sum()),
        "mid_certifies": float(chance[other < alpha].sum()),
        "score_rejects": float(chance[z > 1.6448536].sum()),
        "score_certifies": float(chance[z < -1.6448536].sum()),
    }


@pytest.mark.parametrize(
    ("base", "n", "size", "certified", "power"),
    [(0.05, 100, 0.034, 0.004, 0.41), (0.01, 1000, 0.044, 0.037, 0.67)],
)
def test_the_enumerated_mid_p_figures(base, n, size, certified, power):
    at_boundary = enumerated(n, base, 1.25, 1.25)
    beyond = enumerated(n, base, 1.75, 1.25)
    assert at_boundary["mid_rejects"] == pytest.approx(size, abs=0.0006)
    assert at_boundary["mid_certifies"] == pytest.approx(certified, abs=0.0006)
    assert beyond["mid_rejects"] == pytest.approx(power, abs=0.006)
