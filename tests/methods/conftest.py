"""Small models and people that the tests of maps share."""

import itertools

import numpy as np
import pytest
import torch

from likewise.methods.metric import ProjectionMetric, ignoring
from likewise.models import as_model
from likewise.models.base import Model


def network(*sizes: int, activation: type[torch.nn.Module] = torch.nn.Tanh) -> Model:
    """A network with random weights, the same for the same seed."""
    layers: list[torch.nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), activation()]
    return as_model(torch.nn.Sequential(*layers[:-1]))


@pytest.fixture
def smooth() -> Model:
    return network(6, 16, 2)


@pytest.fixture
def metric() -> ProjectionMetric:
    rng = np.random.default_rng(5)
    return ignoring(rng.normal(size=(2, 6)))


@pytest.fixture
def people() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 6))
    return x, rng.integers(0, 2, size=60)
