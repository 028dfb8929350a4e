import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from likewise.inference.estimate import Estimate, Unknown
from likewise.inference.hall import Hall, hall, restored, transformed

skewness = st.floats(-1.5, 1.5)


@given(st.floats(-8, 8), skewness)
def test_the_transformation_is_undone(t, g):
    # The cube root loses digits where the bracket is near zero: (1e-16)^(1/3) is 5e-6, and the
    # factor 3/g enlarges it.
    assert restored(transformed(t, g), g) == pytest.approx(t, abs=1e-4 if abs(g) > 1e-6 else 1e-3)


@given(st.floats(-8, 8), st.floats(-8, 8), skewness)
def test_the_transformation_keeps_the_order(s, t, g):
    if s < t:
        assert transformed(s, g) <= transformed(t, g) + 1e-12


@pytest.mark.parametrize("g", [1e-7, 9.99e-7, 1.01e-6, -1.01e-6, 1e-5])
@pytest.mark.parametrize("z", [-2.5, 0.0, 1.645])
def test_small_skewness_is_met_without_a_jump(g, z):
    # Second-order terms are below 1e-9 here, and the closed form rounds to about 3 * 1e-16 / g.
    expansion = z - g * (2 * z**2 + 1) / 6
    assert restored(z, g) == pytest.approx(expansion, abs=2e-9)


def test_the_cube_root_is_real_where_the_bracket_is_negative():
    z, g = -1.645, 0.9
    assert 1 + g * (z - g / 6) < 0
    t = restored(z, g)
    assert isinstance(t, float)
    assert transformed(t, g) == pytest.approx(z, abs=1e-9)


@given(st.floats(0.8, 3), skewness, st.floats(0.001, 0.499), st.floats(1.0, 2.0))
def test_a_p_value_below_alpha_is_a_lower_bound_above_delta(value, g, alpha, delta):
    bounds = Hall(Estimate(value, 0.1, 100, skewness=g))
    p, lower = bounds.p_value(delta), bounds.lower_bound(alpha)
    if abs(p - alpha) > 1e-6:
        assert (p < alpha) == (lower > delta)


def test_without_skewness_hall_is_the_paper():
    estimate = Estimate(1.5, 0.1, 100)
    assert Hall(estimate).interval(0.05) == pytest.approx(estimate.interval(0.05), rel=1e-14)
    assert Hall(estimate).p_value(1.3) == pytest.approx(estimate.p_value(1.3), rel=1e-12)


def test_skewed_ratios_move_both_bounds_up():
    estimate = Estimate(1.5, 0.1, 100, skewness=0.3)
    bounds = Hall(estimate)
    assert bounds.lower_bound(0.05) > estimate.lower_bound(0.05)
    assert bounds.upper_bound(0.05) > estimate.upper_bound(0.05)


def test_without_spread_nothing_is_known():
    assert hall(Estimate(2.0, 0.0, 100)) == Unknown()


def studentised(samples, mean):
    """Return t and γ/√n of many samples at once: rows are samples."""
    n = samples.shape[1]
    value, spread = samples.mean(axis=1), samples.std(axis=1, ddof=1)
    gamma = ((samples - value[:, None]) ** 3).mean(axis=1) / spread**3
    return (value - mean) * math.sqrt(n) / spread, gamma / math.sqrt(n)


def test_hall_repairs_both_error_rates_of_a_lognormal(rng):
    runs, n, sigma = 4000, 400, 1.5
    samples = np.exp(rng.normal(-(sigma**2) / 2, sigma, size=(runs, n)))
    t, g = studentised(samples, 1.0)
    p = ndtr([-transformed(a, b) for a, b in zip(t.tolist(), g.tolist(), strict=True)])
    # INFERENCE: z .014/.142, Hall .046/.095. Intervals hold all but one seed in 10 000.
    for rejections, rate in [
        ((t > 1.645).sum(), 0.014),
        ((t < -1.645).sum(), 0.142),
        ((p < 0.05).sum(), 0.046),
        ((p > 0.95).sum(), 0.095),
    ]:
        low, high = binom.ppf([0.00005, 0.99995], runs, rate)
        assert low - 0.004 * runs <= rejections <= high + 0.004 * runs
