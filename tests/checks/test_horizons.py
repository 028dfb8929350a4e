"""The value at other times of the flow."""

import numpy as np
import pytest
import torch
from torch import nn

import likewise
from likewise.audit_data import AuditData
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ignoring
from likewise.methods.numerical_error import with_horizons
from likewise.models import as_model

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")


@pytest.fixture(scope="module")
def metric():
    return ignoring(np.random.default_rng(1).normal(size=(2, 5)))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(4)
    return as_model(nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 2)).double())


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(1200, 5)), rng.integers(0, 2, size=1200)
    return AuditData.from_arrays(x, y)


@pytest.fixture(scope="module")
def record(model, people, metric):
    """Return a function that audits with a flow, the horizons alone being asked for."""

    def run(flow, metric=metric, checks=("horizons",)):
        return likewise.audit(model, people, metric=metric, method=flow, checks=checks).record

    return run


def value(record, flow):
    return record(flow, checks="core").tests["loss_ratio"].estimate


def test_the_ladder_equals_separate_runs(record):
    flow = with_horizons(GradientFlow(steps=16))
    assert flow.horizons == (1.25, 2.5, 3.75, 5.0)
    given = with_horizons(GradientFlow.paper_simulation())
    shares = np.array(given.horizons) / given.time
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.75, 1.0], atol=0.02)
    rungs = record(GradientFlow(steps=16)).stopping_times[:-1]
    assert [rung.time for rung in rungs] == [1.25, 2.5, 3.75, 5.0]
    for rung, steps in zip(rungs[:2], (4, 8), strict=True):
        alone = GradientFlow(time=rung.time, steps=steps)
        # The same steps, so the same digits.
        assert rung.loss_ratio == pytest.approx(value(record, alone), rel=1e-12)
        assert rung.n == 1200
        assert rung.band_lower <= rung.lower_bound <= rung.loss_ratio


@pytest.mark.parametrize(
    "flow",
    [GradientFlow(steps=16), GradientFlow.paper(n_steps=100), GradientFlow.paper_simulation()],
)
def test_twice_the_time_is_twice_the_time(record, flow):
    found = record(flow)
    rung = found.stopping_times[-1]
    assert rung.time == pytest.approx(2 * flow.time)
    assert rung.n == 1000
    assert rung.loss_ratio > found.tests["loss_ratio"].estimate
