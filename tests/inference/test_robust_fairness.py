"""Distributionally robust fairness, against closed forms.

If the loss of person i is linear with slope :math:`a_i` and distance is squared Euclidean, the
c-transform is :math:`\\ell_i + a_i^2/(4\\lambda)`, the value :math:`\\sqrt{\\epsilon\\,E a^2}` and
:math:`\\lambda^* = \\sqrt{E a^2} / (2\\sqrt\\epsilon)`.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.robust_fairness import robust_fairness, tabulate
from likewise.inference.sampling import Design


def linear(slope, loss, reach=math.inf):
    """Return the c-transform of linear losses of people who may move by at most ``reach``."""

    def transform(lam):
        with np.errstate(divide="ignore", over="ignore"):
            step = np.minimum(np.abs(slope) / (2 * np.float64(lam)), reach)
        if math.isinf(step.max()):
            return np.full_like(loss, np.inf)
        return loss + np.abs(slope) * step - lam * step**2

    return transform


def sample(rng, n=400):
    return rng.normal(1, 0.5, n), rng.exponential(size=n)


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0, 50.0])
def test_linear_losses_have_the_closed_form(rng, epsilon):
    slope, loss = sample(rng)
    table = tabulate(linear(slope, loss), loss, epsilon)
    got = robust_fairness(loss, table, epsilon)
    mean = (slope**2).mean()
    exact = math.sqrt(epsilon * mean)
    assert exact <= got.value <= exact * (1 + 1e-3)  # the tolerance of tabulate
    assert got.value - exact <= got.gap + 1e-12
    assert got.lam == pytest.approx(math.sqrt(mean) / (2 * math.sqrt(epsilon)), rel=0.1)
    # Delta method for the square root of a mean; λ* is known to a few per cent.
    spread = (slope**2).std(ddof=1) * math.sqrt(epsilon / (4 * mean) / len(slope))
    assert got.std_error == pytest.approx(spread, rel=0.05)
    assert got.interval[0] < got.value < got.interval[1]
    assert got.notes == ()


def test_a_budget_beyond_use_is_said(rng):
    slope, loss = sample(rng)
    got = robust_fairness(loss, tabulate(linear(slope, loss, reach=1.0), loss, 2.0), 2.0)
    assert got.lam == 0
    assert got.value == pytest.approx(np.abs(slope).mean(), rel=1e-12)
    assert got.std_error == pytest.approx(np.abs(slope).std(ddof=1) / 20, rel=1e-12)
    assert any("λ* = 0" in note for note in got.notes)


def test_without_a_reach_free_directions_make_it_infinite(rng):
    slope, loss = sample(rng)
    free = {lam: np.where(slope > 2, np.inf, loss + 1) for lam in (0.0, 1.0, 10.0)}
    got = robust_fairness(loss, free, 0.1)
    assert got.value == math.inf
    assert got.interval[1] == math.inf
    assert "reach" in got.notes[0]
    assert tabulate(lambda lam: free[1.0], loss, 0.1, lams=(0.0, 1.0)).keys() == {0.0, 1.0}


def test_the_price_of_a_coarse_grid_is_bounded(rng):
    slope, loss = sample(rng)
    transform = linear(slope, loss, reach=2.0)
    fine = robust_fairness(
        loss, {lam: transform(lam) for lam in np.geomspace(1e-3, 1e3, 4000)}, 0.1
    )

    @given(st.lists(st.floats(0, 20), min_size=1, max_size=8, unique=True))
    @settings(max_examples=80, deadline=None)
    def check(lams):
        coarse = robust_fairness(loss, {lam: transform(lam) for lam in lams}, 0.1)
        assert coarse.value >= fine.value - fine.gap - 1e-9
        assert coarse.value - coarse.gap <= fine.value + 1e-9

    check()


def test_an_edge_of_the_grid_is_said_and_tabulate_goes_beyond_it(rng):
    slope, loss = sample(rng)
    transform = linear(slope, loss)
    edge = robust_fairness(loss, {lam: transform(lam) for lam in (0.1, 0.2)}, 0.01)
    assert any("largest one tried" in note for note in edge.notes)
    assert any("smaller by up to" in note for note in edge.notes)
    other = robust_fairness(loss, {lam: transform(lam) for lam in (50.0, 90.0)}, 0.01)
    assert any("smallest one tried" in note for note in other.notes)
    for lams in ((0.1,), (1000.0,), (0.0,)):
        found = tabulate(linear(slope, loss, reach=9.0), loss, 0.01, lams=lams)
        value = robust_fairness(loss, found, 0.01).value
        assert value == pytest.approx(math.sqrt(0.01 * (slope**2).mean()), rel=0.01)


def test_weights_count_like_copies(rng):
    slope, loss = sample(rng, 100)
    weight = rng.integers(1, 4, 100)
    rows = np.repeat(np.arange(100), weight)
    lams = (1.0, 3.0, 5.0, 7.0)
    weighted = robust_fairness(
        loss,
        {lam: linear(slope, loss)(lam) for lam in lams},
        0.01,
        design=Design.make(100, weight.astype(float)),
    )
    copied = robust_fairness(
        loss[rows],
        {lam: linear(slope, loss)(lam)[rows] for lam in lams},
        0.01,
        design=Design.make(len(rows), None, rows),
    )
    assert weighted.value == pytest.approx(copied.value, rel=1e-12)
    assert weighted.std_error == pytest.approx(copied.std_error, rel=1e-12)


def test_bad_input_is_a_sentence(rng):
    slope, loss = sample(rng, 10)
    table = {1.0: linear(slope, loss)(1.0)}
    with pytest.raises(InvalidSettings, match="epsilon must be a positive number"):
        robust_fairness(loss, table, 0.0)
    with pytest.raises(InvalidSample, match="no λ"):
        robust_fairness(loss, {}, 0.1)
    with pytest.raises(InvalidSample, match="-1 is not"):
        robust_fairness(loss, {-1.0: loss}, 0.1)
    with pytest.raises(InvalidSample, match=r"λ = 1 the c-transform of 10 of 10 people is below"):
        robust_fairness(loss, {1.0: loss - 1}, 0.1)
    with pytest.raises(InvalidSample, match="2 of 10"):
        robust_fairness(loss, {1.0: np.where(np.arange(10) < 2, np.nan, loss)}, 0.1)


@pytest.mark.slow
def test_the_population_value_is_covered_as_promised():
    # 500 runs at a true .95 fall below .92 once in 500 times, and here give .95; seeded.
    rng = np.random.default_rng(20210330)
    runs, epsilon = 500, 0.01
    truth = math.sqrt(epsilon * 1.25)  # E a² = 1 + .25
    lams = np.linspace(4, 7, 13)  # about λ* = 5.6
    covered = 0
    for _ in range(runs):
        slope, loss = sample(rng, 200)
        transform = linear(slope, loss)
        got = robust_fairness(loss, {lam: transform(lam) for lam in lams}, epsilon)
        covered += got.interval[0] <= truth <= got.interval[1]
    assert covered >= max(0.92 * runs, binom.ppf(1e-3, runs, 0.95))
