"""The paper's simulation: 441 linear models, all audited at once."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float
from scipy.special import expit

from likewise.loss import Loss
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import QuadraticMetric
from likewise.methods.observe import observe
from likewise.models.base import Model, ModelCard
from likewise.run.executors import run_blocks

THETA = np.round(np.arange(-4, 4.01, 0.4), 10)


@dataclasses.dataclass(frozen=True)
class AuthorsLoss:
    """-log(p + 1e-16), as the authors' scripts have it."""

    def __call__(self, out, y):
        return -np.log(expit((2 * y - 1) * out[:, 0]) + 1e-16)

    def gradient(self, out, y):
        sign = 2 * y - 1
        p = expit(sign * out[:, 0])
        return (-sign * p * (1 - p) / (p + 1e-16))[:, None]


@dataclasses.dataclass(frozen=True, eq=False)
class RowsOfLinearModels(Model):
    """Each row has coefficients of its own, so that 441 models are audited in one run."""

    theta: Float[np.ndarray, "n 2"]
    bias: Float[np.ndarray, " n"]
    own_loss: Any
    card = ModelCard("linear", "classification", "logits", (0, 1), 2)

    @property
    def loss(self):
        return self.own_loss

    def __call__(self, x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 1"]:
        return ((x * self.theta).sum(1) + self.bias)[:, None]

    def outputs_and_pullback(self, x: Float[np.ndarray, "n 2"]) -> Any:
        return self(x), lambda g: g * self.theta


def best_bias(x, y, theta):
    """Fit the intercept that goes with fixed slopes, by Newton's method."""
    score, sign, b = x @ theta.T, (2 * y - 1)[:, None], np.zeros(len(theta))
    for _ in range(100):
        p = 1 / (1 + np.exp(np.clip(sign * (score + b), -500, 500)))
        slope, curve = -(sign * p).sum(0), (p * (1 - p)).sum(0)
        step = np.clip(slope / np.maximum(curve, 1e-12), -1, 1)
        b -= step
    assert np.abs(slope).max() < 1e-9
    return b


def grid(people, degrees, *, bias_times, loss, ddof):
    """Return T_n for every model of the grid."""
    x, y = people
    theta = np.stack(np.meshgrid(THETA, THETA, indexing="ij"), axis=-1).reshape(-1, 2)
    bias = bias_times * best_bias(*people, theta)
    angle = np.radians(degrees)
    normal = np.array([-np.sin(angle), np.cos(angle)])
    metric = QuadraticMetric(np.outer(normal, normal))
    flow = GradientFlow.paper_simulation()

    def block(models):
        each = models.stop - models.start
        model = RowsOfLinearModels(
            np.repeat(theta[models], len(x), axis=0), np.repeat(bias[models], len(x)), loss
        )
        bound = flow.bind(model, metric)
        seen = observe(model, bound, metric, np.tile(x, (each, 1)), np.tile(y, each)).outcomes
        return seen.ratio.reshape(each, len(x))

    ratio = np.concatenate(run_blocks(block, len(theta), size=21, threads=1))
    spread = ratio.std(axis=1, ddof=ddof)
    return (ratio.mean(axis=1) - 1.645 * spread / np.sqrt(len(x))).reshape(21, 21)


@pytest.fixture(scope="module")
def published(reference):
    with np.load(reference / "simulation.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def people(published):
    return published["x"], published["y"].astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [0, 10])
def test_the_published_grids_are_reproduced(degrees, published, people):
    found = grid(people, degrees, bias_times=2, loss=AuthorsLoss(), ddof=0)
    np.testing.assert_allclose(found, published[f"T_{degrees}"], atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("degrees", "rejected"), [(5, 306)])  # a study has all four
def test_the_corrected_grids_reject_as_many_models_as_they_should(degrees, rejected, people):
    loss = Loss("cross_entropy", "logits")
    found = grid(people, degrees, bias_times=1, loss=loss, ddof=1)
    assert (found > 1.25).sum() == rejected
