"""The written-out gradient of plain networks, against automatic gradients."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from torch import nn

from likewise.methods.flow_field import GeneralField
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import QuadraticMetric, ignoring
from likewise.methods.network_gradient import InplaceBackprop, PlainNetwork
from likewise.models import as_model

BASIS = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(1)))[0].T


def removing(basis):
    """Return a layer that removes directions, as Project's first."""
    layer = nn.Linear(basis.shape[1], basis.shape[1], bias=False)
    layer.weight.data = torch.eye(basis.shape[1], dtype=basis.dtype) - basis.T @ basis
    return layer


NETWORKS = {
    "logistic, one logit": lambda: nn.Linear(6, 1),
    "logistic, two logits": lambda: nn.Linear(6, 2),
    "relu": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)),
    "wide relu": lambda: nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 1)),
    "tanh": lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 2)),
    "deep": lambda: nn.Sequential(
        nn.Linear(6, 9), nn.Sigmoid(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 2)
    ),
    "projected": lambda: nn.Sequential(
        removing(BASIS), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)
    ),
    "one unit in between": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1), nn.Tanh(), nn.Linear(1, 1)
    ),
    "two linear layers": lambda: nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2)),
    "dropout": lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 2)),
}
OTHERS = {
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 2)),
    "gelu": lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)),
    "activation first": lambda: nn.Sequential(nn.Tanh(), nn.Linear(6, 2)),
    "activation last": lambda: nn.Sequential(nn.Linear(6, 2), nn.Tanh()),
    "three classes": lambda: nn.Linear(6, 3),
    "leaky": lambda: nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 2)),
}


def gradient(network, x, y):
    """The gradient with respect to x, by way of the first layer."""
    backprop = InplaceBackprop(network, y)
    first = network.layers[0]
    backprop.entry[:] = first.weight @ x.T + first.bias
    slope = np.empty_like(backprop.entry)
    backprop.gradient(slope)
    return (slope.T * network.factor) @ first.weight


def automatic(model, x, y):
    """The gradient that torch finds through the module and torch's own loss."""
    rows = torch.from_numpy(x).requires_grad_()
    out = model.function.double(rows)
    if out.shape[1] == 1:
        out = torch.hstack([torch.zeros_like(out), out])
    loss = nn.functional.cross_entropy(out, torch.from_numpy(y), reduction="sum")
    return torch.autograd.grad(loss, rows)[0].numpy()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_written_gradient_is_the_automatic_one(name, people):
    model, x = as_model(NETWORKS[name]()), people[0]
    y = np.arange(60) % 2
    network = PlainNetwork.from_model(model, np.float64)
    assert network is not None
    for found in (gradient(network, x, y), model.loss_gradient(x, y)):
        assert np.abs(found - automatic(model, x, y)).max() < 1e-14


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_take_the_general_way(name):
    assert PlainNetwork.from_model(as_model(OTHERS[name]()), np.float64) is None


def test_probabilities_and_changed_losses_take_the_general_way(monkeypatch):
    squashed = nn.Sequential(nn.Linear(6, 1), nn.Hardsigmoid())  # a last Sigmoid is cut off
    assert PlainNetwork.from_model(as_model(squashed, output="probabilities"), np.float64) is None
    plain = as_model(nn.Linear(6, 1))
    monkeypatch.setattr(type(plain), "loss", property(lambda self: lambda out, y: out[:, 0]))
    assert PlainNetwork.from_model(plain, np.float64) is None


METRICS = {
    "two free": ignoring(BASIS),
    "none free": ignoring(np.zeros((1, 6))),
    "quadratic": QuadraticMetric(np.diag([0.0, 0, 0.5, 1, 1, 2])),
}


@pytest.mark.parametrize("free_only", [False, True], ids=["all", "free only"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_flow_of_a_network_is_the_general_flow(name, metric, free_only, people):
    model = as_model(NETWORKS[name]())
    x, y = people[0], np.arange(60) % 2
    flow = GradientFlow(lam=20, time=2, solver="exponential", steps=4, free_only=free_only)
    fast = flow.bind(model, METRICS[metric])
    field = functools.partial(GeneralField, model, fast.field.args[0].coordinates)
    general = dataclasses.replace(fast, field=field)
    assert np.abs(fast(x, y).x - general(x, y).x).max() < 1e-12
