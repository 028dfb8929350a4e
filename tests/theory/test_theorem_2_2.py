"""Theorem 2.2: Euler's error is at most h m √d (e^{LT} − 1) / (2L)."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from likewise.methods.solvers import EULER, RK4, SemilinearField, integrate


class Field(SemilinearField):
    """x' = g(x), without a linear part."""

    def __init__(self, function, width=1):
        self.function, self.rates = function, np.zeros(width)

    def nonlinear(self, x, out):
        np.copyto(out, self.function(x))


def bound(h: float, m: float, d: int, lipschitz: float, time: float) -> float:
    return h * m * math.sqrt(d) / (2 * lipschitz) * math.expm1(lipschitz * time)


@settings(max_examples=25)
@given(
    st.floats(0.01, 1.0), st.floats(0.1, 1.0) | st.just(0.0), st.integers(1, 60), st.integers(1, 6)
)
def test_the_bound_holds_for_equal_and_for_falling_steps_by_the_largest(first, power, n_steps, d):
    # g(x) = -x has L = 1, and J g(x) = x, so m = max |x0|: everything is known.
    x0 = np.linspace(-1, 1, d + 1)[1:, None]
    steps = tuple(first / k**power for k in range(1, n_steps + 1))
    time = math.fsum(steps)
    x = integrate(Field(np.negative, d), x0, steps, EULER).x
    error = float(np.linalg.norm(x - x0 * math.exp(-time)))
    assert 0 < error <= bound(first, 1.0, d, 1.0, time) * (1 + 1e-12)


@settings(max_examples=25)
@given(st.floats(0.05, 3.0), st.integers(2, 80))
def test_the_bound_holds_for_a_loss_with_known_curvature(slope, n_steps):
    # The flow of log(1 + e^{-m}) with m = θx: |g'| ≤ θ²/4 = L and |g'g| ≤ θ³/4 = m.
    x0 = np.linspace(-3, 3, 13)[None]
    field = Field(lambda x: -slope * expit(-slope * x))
    time, lipschitz = 2.0, slope**2 / 4
    steps = (time / n_steps,) * n_steps
    coarse = integrate(field, x0, steps, EULER).x
    exact = integrate(field, x0, (time / 200,) * 200, RK4).x
    limit = bound(time / n_steps, slope**3 / 4, 1, lipschitz, time)
    # The allowance is the error of the reference: order four at h = 0.01.
    assert np.abs(coarse - exact).max() <= limit + 1e-6
