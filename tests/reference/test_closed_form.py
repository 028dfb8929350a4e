"""Flows whose exact solution is known: m + e^m + c t is conserved along a logistic model."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.special import wrightomega

from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import QuadraticMetric, ignoring
from likewise.models import as_model


def closed_form(m0, c, time):
    """Return the margin at a time, moving along free directions only."""
    k = m0 + np.exp(np.minimum(m0, 700)) - c * time
    with np.errstate(divide="ignore"):
        m = np.where(k > 1, np.log(wrightomega(np.maximum(k, 1.0))), k - wrightomega(k))
    return np.where(m0 > 30, m0 - c * time * np.exp(-m0), m)


def logistic(theta, bias=0.3):
    linear = torch.nn.Linear(len(theta), 1, dtype=torch.float64)
    with torch.no_grad():
        linear.weight[0] = torch.tensor(theta)
        linear.bias.fill_(bias)
    return as_model(linear)


@pytest.mark.slow
@pytest.mark.parametrize("time", [0.1, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("solver", ["rk4", "exponential", "exponential_euler"])
def test_free_only_logistic_flows_follow_the_closed_form(time, solver, rng):
    theta = [1.2, -0.7, 0.4]
    model, metric = logistic(theta), ignoring(rng.normal(size=(2, 3)))
    x = rng.normal(size=(200, 3)) * 4
    y = rng.integers(0, 2, size=200)
    sign = 2 * y - 1
    c = float(np.square(metric.free @ np.array(theta)).sum())
    steps = {"rk4": 200, "exponential": 8000, "exponential_euler": 8000}[solver]
    flow = GradientFlow(time=time, solver=solver, steps=steps, free_only=True)
    moved = flow.bind(model, metric)(x, y).x
    before, after = (sign * model(at)[:, 0] for at in (x, moved))
    # The second-order method at h = 0.04 sets the tolerance.
    np.testing.assert_allclose(after, closed_form(before, c, time), rtol=0, atol=2e-4)


def test_surer_people_than_exponentials_can_hold_stay_put(rng):
    model, metric = logistic([1.0, 1.0]), ignoring([[1.0, 0.0]])
    x, y = np.array([[600.0, 600.0], [40.0, 0.0]]), np.array([1, 1])
    moved = GradientFlow(free_only=True).bind(model, metric)(x, y).x
    after = model(moved)[:, 0]
    np.testing.assert_allclose(after, closed_form(model(x)[:, 0], 1.0, 5.0))


@pytest.mark.parametrize(
    "sigma",
    [
        np.diag([0.0, 1.0, 1.0, 1.0]),
        np.diag([0.0, 0.3, 1.0, 4.0]),
        np.array([[2.0, 1, 0, 0], [1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]),
    ],
    ids=["projection", "several prices", "coupled"],
)
def test_the_penalised_flow_agrees_with_scipy(sigma, rng):
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    model, metric = as_model(net.double()), QuadraticMetric(sigma)
    x0 = rng.normal(size=(3, 4))
    y, lam, time = np.array([0, 1, 1]), 30.0, 3.0

    def velocity(t, flat):
        x = torch.from_numpy(flat.reshape(3, 4)).requires_grad_()
        v = x - torch.from_numpy(x0)
        price = ((v @ torch.from_numpy(sigma)) * v).sum()
        loss = torch.nn.functional.cross_entropy(net(x), torch.from_numpy(y), reduction="sum")
        return torch.autograd.grad(loss - lam * price, x)[0].numpy().ravel()

    exact = {"method": "LSODA", "rtol": 1e-10, "atol": 1e-12}
    theirs = solve_ivp(velocity, (0, time), x0.ravel(), **exact).y[:, -1]
    for steps in (16, 256):
        ours = GradientFlow(lam=lam, time=time, steps=steps).bind(model, metric)(x0, y).x
        # Across the penalty the order is lower than along free directions.
        limit = {16: 1e-4, 256: 1e-7}[steps]
        np.testing.assert_allclose(ours.ravel(), theirs, rtol=0, atol=limit)
