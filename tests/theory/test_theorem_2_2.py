"""Theorem 2.2: Euler's error is at most h m √d (e^{LT} − 1) / (2L)."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.methods.solvers import EULER, SemilinearField, integrate


class Decay(SemilinearField):
    """x' = -x, of which everything is known: L = 1, and J g(x) = x, so m = max |x0|."""

    def __init__(self, width):
        self.rates = np.zeros(width)

    def nonlinear(self, x, out):
        np.negative(x, out=out)


@settings(max_examples=25)
@given(
    st.floats(0.01, 1.0), st.floats(0.1, 1.0) | st.just(0.0), st.integers(1, 60), st.integers(1, 6)
)
def test_the_bound_holds_for_equal_and_for_falling_steps_by_the_largest(first, power, n_steps, d):
    x0 = np.linspace(-1, 1, d + 1)[1:, None]
    steps = tuple(first / k**power for k in range(1, n_steps + 1))
    time = math.fsum(steps)
    error = integrate(Decay(d), x0, steps, EULER).x - x0 * math.exp(-time)
    assert 0 < np.linalg.norm(error) <= first * math.sqrt(d) / 2 * math.expm1(time) * (1 + 1e-12)
