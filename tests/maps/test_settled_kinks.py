"""Kinks that are followed: where tiny steps would put people, with few steps."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from likewise.maps.flow import GradientFlow
from likewise.metrics.quadratic import ignoring
from likewise.models import as_model

FOLLOWED = GradientFlow(lam=50.0, time=2.0, solver="settled_adams", steps=16)
METRIC = ignoring(np.eye(4)[:1])
UNIT = [0.1, 4.0, 0.0, 0.0]


def network(own_sign: float):
    """One free direction that raises the loss of class 0, and a unit that comes alive on the way.

    That unit is alive above 0.1 x0 + 4 x1 = 0.1, and raises the loss, too, or lowers it.
    """
    net = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0, 0.3, 0.0], UNIT]))
        net[0].bias.copy_(torch.tensor([5.0, -0.1]))
        net[2].weight.copy_(torch.tensor([[1.0, own_sign]]))
        net[2].bias.zero_()
    return as_model(net)


def moved(flow, model, n=12):
    x = np.random.default_rng(0).normal(scale=0.01, size=(n, 4))
    return flow.bind(model, METRIC)(x, np.zeros(n, dtype=np.int64)).x


def solved(flow, solver, steps):
    return dataclasses.replace(flow, solver=solver, steps=steps)


def test_people_who_follow_a_kink_are_where_tiny_steps_put_them():
    model = network(-1.0)
    exact = moved(solved(FOLLOWED, "exponential2", 4000), model)
    entry = exact @ UNIT - 0.1
    assert np.abs(entry).max() < 0.005  # they do follow it, to the width of a step
    errors = {
        solver: np.abs(moved(solved(FOLLOWED, solver, 16), model) - exact).mean()
        for solver in ("settled_adams", "exponential_adams", "exponential2")
    }
    # What is left is of the order of the time in which the penalty acts, 1/100.
    assert errors["settled_adams"] < 0.001
    assert errors["settled_adams"] < 0.2 * min(errors["exponential_adams"], errors["exponential2"])


def test_the_error_falls_as_the_penalty_grows():
    model = network(-1.0)

    def error(lam):
        flow = dataclasses.replace(FOLLOWED, lam=lam, steps=100)
        return np.abs(moved(flow, model) - moved(solved(flow, "exponential2", 3000), model)).mean()

    assert error(400.0) < 0.5 * error(50.0)


def test_units_that_push_themselves_on_are_crossed_as_ever():
    model = network(1.0)
    plain = moved(solved(FOLLOWED, "exponential_adams", 16), model)
    np.testing.assert_array_equal(moved(FOLLOWED, model), plain)


@pytest.mark.parametrize(("outputs", "activation"), [(1, nn.Tanh), (3, nn.ReLU)])
def test_elsewhere_it_is_the_second_order_method(outputs, activation):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, outputs)).double()
    model = as_model(net)
    assert not FOLLOWED.can_settle(model, METRIC)
    plain = moved(solved(FOLLOWED, "exponential2", 16), model)
    np.testing.assert_array_equal(moved(FOLLOWED, model), plain)


def test_a_flow_along_free_directions_alone_has_nothing_to_settle():
    free = dataclasses.replace(FOLLOWED, free_only=True)
    model = network(-1.0)
    assert FOLLOWED.can_settle(model, METRIC)
    assert not free.can_settle(model, METRIC)
    plain = moved(solved(free, "exponential2", 16), model)
    np.testing.assert_array_equal(moved(free, model), plain)
