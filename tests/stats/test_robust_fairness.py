"""Distributionally robust fairness, against closed forms.

If the loss of person i is linear with slope :math:`a_i` and distance is squared Euclidean, the
c-transform is :math:`\\ell_i + a_i^2/(4\\lambda)`, the value :math:`\\sqrt{\\epsilon\\,E a^2}` and
:math:`\\lambda^* = \\sqrt{E a^2} / (2\\sqrt\\epsilon)`.
"""

import math

import numpy as np
import pytest

from likewise.checks.robust import robust_fairness
from likewise.errors import InvalidSettings


def linear(slope, loss, reach, steps=2000):
    """Return losses and costs of people with linear losses, at many places within a reach."""
    far = np.linspace(0, reach, steps)
    return loss[:, None] + np.abs(slope)[:, None] * far, np.tile(far**2, (len(loss), 1))


def sample(rng, n=400):
    return rng.normal(1, 0.5, n), rng.exponential(size=n)


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0])
def test_linear_losses_have_the_closed_form(rng, epsilon):
    slope, loss = sample(rng)
    got = robust_fairness(*linear(slope, loss, 4 * math.sqrt(epsilon)), epsilon)
    mean = (slope**2).mean()
    # Places are 1/500 of the usual step apart: an error of second order.
    assert got.value == pytest.approx(math.sqrt(epsilon * mean), rel=1e-5)
    assert got.lam == pytest.approx(math.sqrt(mean) / (2 * math.sqrt(epsilon)), rel=0.01)
    # Delta method for the square root of a mean.
    spread = (slope**2).std(ddof=1) * math.sqrt(epsilon / (4 * mean) / len(slope))
    assert got.std_error == pytest.approx(spread, rel=0.01)
    assert got.interval[0] < got.value < got.interval[1]


def test_a_budget_beyond_use_has_no_price(rng):
    slope, loss = sample(rng)
    got = robust_fairness(*linear(slope, loss, 1.0), 2.0)
    assert got.lam == 0
    assert got.value == pytest.approx(np.abs(slope).mean(), rel=1e-12)
    assert got.std_error == pytest.approx(np.abs(slope).std(ddof=1) / 20, rel=1e-12)


def test_weights_count_like_copies(rng):
    slope, loss = sample(rng, 100)
    weight = rng.integers(1, 4, 100)
    rows = np.repeat(np.arange(100), weight)
    losses, costs = linear(slope, loss, 1.0)
    weighted = robust_fairness(losses, costs, 0.01, weight=weight.astype(float))
    copied = robust_fairness(losses[rows], costs[rows], 0.01, cluster=rows)
    assert weighted.value == pytest.approx(copied.value, rel=1e-12)
    assert weighted.std_error == pytest.approx(copied.std_error, rel=1e-12)


def test_a_budget_of_nothing_is_refused(rng):
    with pytest.raises(InvalidSettings, match="epsilon must be a positive number"):
        robust_fairness(*linear(*sample(rng, 10), 1.0), 0.0)
