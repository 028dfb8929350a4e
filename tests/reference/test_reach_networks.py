"""The three published networks: what is within reach of them is known."""

import numpy as np
import pytest
import torch

from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ProjectionMetric
from likewise.methods.observe import observe
from likewise.methods.plausible_region import Ellipsoid
from likewise.methods.reach import Reach
from likewise.models import as_model
from likewise_studies.datasets import adult as read_adult

# At least these, with at most 60 calls; 360 calls give 2.716, 2.278 and 1.153.
EXPECTED = {"baseline": (2.70, 1.77), "project": (2.27, 1.66), "sensr": (1.151, 1.20)}


@pytest.fixture(scope="module")
def split(adult):
    return read_adult(98539)


@pytest.fixture(scope="module")
def fixture(reference):
    with np.load(reference / "adult_split_98539.npz") as arrays:
        return {name: arrays[name].astype(np.float64) for name in arrays}


def published(fixture, name):
    parts = (fixture[f"{name}_{part}"] for part in ("W1", "b1", "W2", "b2"))
    w1, b1, w2, b2 = map(torch.from_numpy, parts)
    removed = torch.from_numpy(fixture["project_proj"][: None if name == "project" else 0])

    def logits(x):
        x = x - (x @ removed.T) @ removed
        return torch.relu(x @ w1 + b1) @ w2 + b2

    return as_model(logits, output="logits", classes=("<=50K", ">50K"))


@pytest.mark.parametrize("name", EXPECTED)
def test_the_published_networks_have_their_known_value_within_reach(split, fixture, name):
    basis = fixture["basis"]
    reach = Ellipsoid.of(split.train.x @ basis.T)
    metric = ProjectionMetric(basis, reach=reach)
    model = published(fixture, name)
    y, _ = model.targets(split.test.y)
    x = split.test.x
    seen = observe(model, Reach().bind(model, metric), metric, x, y)
    outcomes = seen.outcomes
    ratio, errors = EXPECTED[name]
    assert seen.moved.evaluations <= 60
    assert outcomes.ratio.mean() >= ratio
    # The exact supremum: nothing can be found beyond it (360 calls, plus their rounding).
    assert outcomes.ratio.mean() < 1.01 * ratio
    assert outcomes.error_after.mean() / outcomes.error_before.mean() >= errors
    assert outcomes.fair_distance.max() < 1e-25


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_the_flow_within_the_same_reach_comes_near_the_search_and_not_beyond(split, fixture, name):
    basis = fixture["basis"]
    reach = Ellipsoid.of(split.train.x @ basis.T)
    metric = ProjectionMetric(basis, reach=reach)
    model = published(fixture, name)
    rows = np.arange(0, len(split.test), 18)
    y, _ = model.targets(split.test.y[rows])
    x = split.test.x[rows]
    flow = GradientFlow(time=100.0, steps=400, free_only=True, bounded=True)
    searched, flowed = (
        observe(model, map.bind(model, metric), metric, x, y).outcomes for map in (Reach(), flow)
    )
    # The search is global and the flow is not: it may end in a local maximum, never above.
    assert 0.9 * searched.ratio.mean() < flowed.ratio.mean() < 1.01 * searched.ratio.mean()
    assert (flowed.loss_after < 1.01 * searched.loss_after).all()
