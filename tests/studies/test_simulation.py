"""The simulation: the published grids, the corrected counts, and the public flow behind them."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from likewise import audit
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import QuadraticMetric
from likewise.run.executors import Threads
from likewise.stats.loss_ratio import LossRatioTest
from likewise_studies import simulation
from likewise_studies.datasets import simulated_people
from likewise_studies.published import published_grid
from likewise_studies.simulation import THETA, VARIANTS, fitted_bias, metric_matrix

people = simulated_people()


@pytest.mark.parametrize("angle", [0, 10])
def test_the_published_grid_is_the_authors_and_is_met(angle, reference):
    saved = np.load(reference / "simulation.npz")
    np.testing.assert_array_equal(published_grid(angle), saved[f"T_{angle}"])
    np.testing.assert_allclose(THETA, saved["theta"], atol=1e-12)
    grid = simulation.statistic_grid(people, angle, VARIANTS["published"])
    # The authors' bias is the optimum to seven digits, ours to sixteen.
    np.testing.assert_allclose(grid, published_grid(angle), atol=1e-6)


@pytest.mark.parametrize(
    ("variant", "angle", "row", "column"),
    [("corrected", 0, 2, 5), ("corrected", 20, 18, 3), ("as_printed", 10, 16, 12)],
)
def test_one_cell_is_the_public_audit(variant, angle, row, column):
    theta = np.array([[THETA[row], THETA[column]]])
    bias = fitted_bias(people.x, people.y.astype(float), theta)
    model = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(theta))
        model.bias.copy_(torch.from_numpy(bias))
    sigma = metric_matrix(VARIANTS[variant].metric, angle)
    outcomes = audit(
        model,
        people,
        metric=QuadraticMetric(sigma),
        method=GradientFlow.paper_simulation(),
        checks="core",
        executor=Threads(1),
    ).outcomes
    expected = simulation.statistic_grid(people, angle, VARIANTS[variant])[row, column]
    # 400 float64 steps in other coordinates: rounding only.
    assert LossRatioTest(interval="paper")(outcomes).statistic == pytest.approx(expected, rel=1e-9)


def test_the_bias_leaves_no_slope_and_the_rotated_metric_its_direction_free(rng):
    theta = rng.normal(size=(20, 2)) * 3
    bias = fitted_bias(people.x, people.y.astype(float), theta)
    slope = expit(theta @ people.x.T + bias[:, None]).mean(axis=1) - people.y.mean()
    assert np.abs(slope).max() < 1e-14
    free = np.array([math.cos(math.radians(10)), math.sin(math.radians(10))])
    assert free @ metric_matrix("rotated", 10) @ free == pytest.approx(0, abs=1e-15)
    assert free @ metric_matrix("diagonal", 10) @ free > 0.05  # as printed, it is not


def test_progress_is_told_from_none_to_all(monkeypatch):
    monkeypatch.setattr(simulation, "statistic_grid", lambda *_: np.ones((21, 21)))
    told: list[tuple[str, int, int]] = []
    simulation.all_grids(lambda *one: told.append(one))
    assert (told[0], told[-1]) == (("heat maps", 0, 12), ("heat maps", 12, 12))
