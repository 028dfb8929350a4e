import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from likewise.checks.gather import gather
from likewise.checks.introduce import introduce
from likewise.checks.ladder import doubled, free_only, ladder, with_rungs
from likewise.maps.flow import GradientFlow
from likewise.metrics.quadratic import QuadraticMetric, ignoring
from likewise.models import as_model
from likewise.people import AuditData
from likewise.settings import Settings
from likewise.statistics.tally import Tally

SETTINGS = Settings()


@pytest.fixture(scope="module")
def metric():
    return ignoring(np.random.default_rng(1).normal(size=(2, 5)))


@pytest.fixture(scope="module")
def who(metric):
    torch.manual_seed(4)
    rng = np.random.default_rng(3)
    net = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 2)).double()
    data = AuditData.from_arrays(rng.normal(size=(1200, 5)), rng.integers(0, 2, size=1200))
    return introduce(as_model(net), data, metric, SETTINGS)


def value(who, metric, flow):
    return float(gather(who, metric, flow, threads=1).outcomes.ratio.mean())


def test_the_ladder_equals_separate_runs(who, metric):
    flow = with_rungs(GradientFlow(steps=16))
    assert flow.horizons == (1.25, 2.5, 3.75, 5.0)
    rungs = ladder(Tally.of(gather(who, metric, flow, threads=1).outcomes), SETTINGS)
    assert [rung.time for rung in rungs] == [1.25, 2.5, 3.75, 5.0]
    for rung, steps in zip(rungs, (4, 8, 12, 16), strict=True):
        alone = GradientFlow(time=rung.time, steps=steps)
        # The same steps, so the same digits.
        assert rung.loss_ratio == pytest.approx(value(who, metric, alone), rel=1e-12)
        assert rung.n == 1200
        assert rung.band_lower <= rung.lower_bound <= rung.loss_ratio


def test_rungs_cost_nothing(who, metric):
    plain = gather(who, metric, GradientFlow(steps=16), threads=1)
    rungs = gather(who, metric, with_rungs(GradientFlow(steps=16)), threads=1)
    assert plain.evaluations == rungs.evaluations


def test_given_steps_keep_the_nearest_times(metric):
    flow = with_rungs(GradientFlow.paper_simulation())
    flow.bind(as_model(nn.Linear(5, 2)), metric)
    shares = np.array(flow.horizons) / flow.time
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.75, 1.0], atol=0.02)


def test_twice_the_time_is_twice_the_time(who, metric):
    for flow in (GradientFlow(steps=16), GradientFlow.paper(n_steps=100)):
        rung = doubled(who, metric, flow, SETTINGS, threads=1)
        assert rung.time == pytest.approx(2 * flow.time)
        assert rung.n == 1000
        assert rung.loss_ratio > value(who, metric, flow)


def test_the_simulation_s_schedule_can_be_doubled(who, metric):
    flow = GradientFlow.paper_simulation()
    rung = doubled(who, metric, flow, SETTINGS, threads=1)
    assert rung.time == pytest.approx(2 * flow.time)


def test_free_directions_only_are_the_limit_of_a_dear_price(who, metric):
    dear = dataclasses.replace(GradientFlow(steps=32), lam=1e5)
    free = free_only(who, metric, GradientFlow(), SETTINGS, threads=1)
    # 1000 of 1200 people: the difference is chance, a few standard errors of the others.
    assert free == pytest.approx(value(who, metric, dear), rel=0.05)
    assert free < value(who, metric, GradientFlow(lam=1.0, steps=32))


def test_without_free_directions_there_is_no_such_number(who):
    full = QuadraticMetric(np.eye(5))
    assert np.isnan(free_only(who, full, GradientFlow(), SETTINGS, threads=1))
