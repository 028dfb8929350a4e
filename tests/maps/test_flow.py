import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from likewise.maps.flow import GradientFlow
from likewise.metrics.base import FairMetric
from likewise.metrics.quadratic import QuadraticMetric, ignoring
from likewise.metrics.reach import Ellipsoid
from likewise.models import as_model
from likewise.models.base import Model
from likewise.outcomes import Status

from .conftest import network

EVERY_SOLVER = ["euler", "rk4", "exponential2", "exponential4"]


def move(flow, model, metric, people):
    return flow.bind(model, metric)(*people)


def losses(model, x, y):
    with torch.no_grad():
        return model.loss(model(x), y)


@pytest.mark.parametrize(
    ("solver", "steps"),
    [("euler", 2000), ("rk4", 100), ("exponential2", 100), ("exponential4", 20)],
)
def test_every_solver_ends_at_the_same_place(solver, steps, smooth, metric, people):
    flow = GradientFlow(lam=20, time=2, solver=solver, steps=steps)
    exact = move(GradientFlow(lam=20, time=2, steps=100), smooth, metric, people).x
    # Euler at h = 0.001 is the least accurate.
    assert (move(flow, smooth, metric, people).x - exact).abs().max().item() < 1e-3


def test_a_projection_is_the_quadratic_metric_of_its_matrix(smooth, metric, people):
    free = metric.free
    same = QuadraticMetric(torch.eye(6, dtype=torch.float64) - free.T @ free)
    flow = GradientFlow(lam=30, time=3, steps=12)
    gap = move(flow, smooth, metric, people).x - move(flow, smooth, same, people).x
    assert gap.abs().max().item() < 1e-12


def test_a_metric_written_by_a_user_takes_the_same_way(smooth, metric, people):
    @dataclasses.dataclass(frozen=True, eq=False)
    class Own(type(metric).__mro__[1]):
        free: torch.Tensor
        features: tuple[str, ...] = ()
        largest_eigenvalue = 1.0

        def squared_distance(self, x, x0):
            return metric.squared_distance(x, x0)

        def function(self, f, v):
            return metric.function(f, v)

    flow = GradientFlow(lam=30, time=3, steps=12)
    gap = move(flow, smooth, Own(metric.free), people).x - move(flow, smooth, metric, people).x
    assert gap.abs().max().item() < 1e-12


class Cityblock(FairMetric):
    """Not quadratic: a smooth city-block distance, without free directions."""

    def squared_distance(self, x, x0):
        return ((x - x0).square() + 1e-2).sqrt().sum(1).square()


@pytest.mark.parametrize("solver", ["auto", "euler", "rk4"])
def test_a_metric_that_is_not_quadratic_works_by_automatic_gradients(solver, smooth, people):
    x, y = people
    flow = GradientFlow(lam=0.05, time=1, solver=solver, steps=200)
    moved = move(flow, smooth, Cityblock(), people)
    assert (losses(smooth, moved.x, y) >= losses(smooth, x, y)).all()
    assert (moved.x - x).abs().max().item() > 0.01


def test_a_quadratic_metric_may_also_be_treated_as_any_metric(smooth, metric, people):
    class Disguised(FairMetric):
        def squared_distance(self, x, x0):
            return metric.squared_distance(x, x0)

    flow = GradientFlow(lam=20, time=2, solver="rk4", steps=200)
    gap = move(flow, smooth, Disguised(), people).x - move(flow, smooth, metric, people).x
    assert gap.abs().max().item() < 1e-11


@pytest.mark.parametrize("solver", EVERY_SOLVER)
def test_the_penalised_loss_never_falls_at_stable_steps(solver, smooth, metric, people):
    x, y = people
    times = tuple(0.25 * k for k in range(1, 9))
    flow = GradientFlow(lam=20, time=2, solver=solver, steps=200, horizons=times, keeps_start=False)
    moved = move(flow, smooth, metric, people)
    values = [
        losses(smooth, at, y) - 20 * metric.squared_distance(at, x)
        for at in (x, *(moved.horizons[t] for t in times))
    ]
    for earlier, later in itertools.pairwise(values):
        assert (later - earlier).min().item() > -1e-9


def test_the_ratio_is_at_least_one_at_stable_steps(smooth, metric, people):
    x, y = people
    flow = dataclasses.replace(GradientFlow.paper(lam=50, step=0.01, n_steps=300), steps=300)
    moved = move(flow, smooth, metric, people)
    assert (losses(smooth, moved.x, y) / losses(smooth, x, y)).min().item() >= 1 - 1e-12


def test_people_stay_put_where_a_coarse_solver_would_lower_their_loss(metric, people):
    # A steep network and five Euler steps: some overshoot, and are left where they were.
    torch.manual_seed(1)
    model = network(6, 32, 2)
    with torch.no_grad():
        model.module[0].weight.mul_(8)
        model.module[2].weight.mul_(8)
    x, y = people
    bold = GradientFlow(solver="euler", steps=5, free_only=True, time=5, keeps_start=False)
    loose = move(bold, model, metric, people)
    fell = losses(model, loose.x, y) < losses(model, x, y)
    assert 0 < fell.sum() < len(fell)
    kept = move(dataclasses.replace(bold, keeps_start=True), model, metric, people)
    assert kept.below_one == fell.sum()
    assert torch.equal(kept.x[fell], x[fell])
    assert torch.equal(kept.x[~fell], loose.x[~fell])
    assert (losses(model, kept.x, y) >= losses(model, x, y)).all()


@pytest.mark.parametrize("solver", EVERY_SOLVER)
def test_free_only_moves_along_free_directions_alone(solver, smooth, metric, people):
    flow = GradientFlow(time=2, solver=solver, steps=100, free_only=True)
    moved = move(flow, smooth, metric, people)
    assert metric.squared_distance(moved.x, people[0]).max().item() < 1e-25
    assert (moved.x - people[0]).norm(dim=1).min().item() > 1e-3


def test_free_only_is_the_limit_of_a_dear_penalty(smooth, metric, people):
    free = move(GradientFlow(time=2, steps=64, free_only=True), smooth, metric, people).x
    gaps = [
        (move(GradientFlow(lam=lam, time=2, steps=64), smooth, metric, people).x - free)
        .abs()
        .max()
        .item()
        for lam in (1e2, 1e3, 1e4)
    ]
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]  # the gap falls like 1/λ


def test_without_free_directions_free_only_moves_nobody(smooth, people):
    full = QuadraticMetric(torch.eye(6, dtype=torch.float64))
    moved = move(GradientFlow(free_only=True), smooth, full, people)
    assert torch.equal(moved.x, people[0])


def test_a_model_that_ignores_the_free_directions_moves_nobody_along_them(metric, people):
    linear = torch.nn.Linear(6, 2, dtype=torch.float64)
    with torch.no_grad():
        linear.weight -= linear.weight @ metric.free.T @ metric.free
    moved = move(GradientFlow(free_only=True), as_model(linear), metric, people)
    assert (moved.x - people[0]).abs().max().item() < 1e-12


def test_a_row_depends_neither_on_its_block_nor_on_the_order(smooth, metric, people):
    x, y = people
    flow = GradientFlow(steps=8)
    bound = flow.bind(smooth, metric)
    whole = bound(x, y).x
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x)))
    # Matrix products round differently for other shapes; on a smooth network that is all.
    assert (bound(x[order], y[order]).x - whole[order]).abs().max().item() < 1e-9
    for rows in (slice(0, 1), slice(7, 20), slice(20, 60)):
        assert (bound(x[rows], y[rows]).x - whole[rows]).abs().max().item() < 1e-9


def test_the_user_s_module_keeps_its_weights_flags_and_gradients(metric, people):
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(), torch.nn.Linear(4, 2))
    module[0].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    move(GradientFlow(steps=4), as_model(module), metric, people)
    assert module.training
    assert [p.requires_grad for p in module.parameters()] == [False, True, True, True]
    assert all(p.grad is None for p in module.parameters())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_the_flow_works_under_no_grad(smooth, metric, people):
    with torch.no_grad():
        inside = move(GradientFlow(steps=4), smooth, metric, people).x
    assert torch.equal(inside, move(GradientFlow(steps=4), smooth, metric, people).x)


def test_horizons_equal_separate_runs(smooth, metric, people):
    whole = move(GradientFlow(steps=8, horizons=(1.25, 2.5)), smooth, metric, people)
    for time, steps in ((1.25, 2), (2.5, 4)):
        alone = move(GradientFlow(time=time, steps=steps), smooth, metric, people)
        assert torch.equal(whole.horizons[time], alone.x)
    assert whole.evaluations == 40


def test_float32_agrees_with_float64(smooth, metric, people):
    double = move(GradientFlow(steps=8), smooth, metric, people).x
    single = move(GradientFlow(steps=8, precision="float32"), smooth, metric, people).x
    assert single.dtype == torch.float64
    assert 0 < (double - single).abs().max().item() < 1e-4


def test_a_row_that_leaves_all_bounds_is_marked(metric, people):
    class Exploding(Model):
        card = as_model(torch.nn.Linear(6, 2)).card

        def __call__(self, x):
            high = torch.where(x[:, :1] > 1.5, torch.exp(x[:, :1].abs() * 400), x[:, :1])
            return torch.cat([high, -high], dim=1)

    moved = move(GradientFlow(steps=8), Exploding(), metric, people)
    lost = moved.status == Status.DIVERGED
    assert 0 < lost.sum() < len(lost)
    assert moved.x.isfinite().all()


def test_a_reach_keeps_the_free_coordinates_within_its_ellipsoid(smooth, metric, people):
    x, y = people
    ellipsoid = Ellipsoid.of((x @ metric.free.T).numpy(), coverage=0.9)
    flow = GradientFlow(time=50, steps=50, free_only=True, reach=ellipsoid)
    moved = move(flow, smooth, metric, people)
    stayed = (moved.x == x).all(1)
    assert ellipsoid.contains(moved.x[~stayed] @ metric.free.T).all()
    assert (losses(smooth, moved.x, y) >= losses(smooth, x, y)).all()


def test_within_a_reach_the_flow_converges_to_the_worst_point_of_the_ellipsoid(metric, people):
    x, y = people
    linear = torch.nn.Linear(6, 1, dtype=torch.float64)
    ellipsoid = Ellipsoid.of((x @ metric.free.T).numpy(), coverage=1.0)
    flow = GradientFlow(time=200, steps=400, free_only=True, reach=ellipsoid)
    moved = move(flow, as_model(linear), metric, people)
    # A linear margin is worst where the ellipsoid ends in the direction of the slope.
    slope = metric.free @ linear.weight[0].detach()
    rise = ellipsoid.radius * (slope @ ellipsoid.covariance @ slope).sqrt()
    sign = 2 * y - 1
    worst = ellipsoid.mean @ slope - sign * rise
    assert (moved.x @ metric.free.T @ slope - worst).abs().max().item() < 1e-6


def test_the_paper_s_schedules_are_exact():
    flow = GradientFlow.paper()
    assert (flow.lam, flow.solver, flow.keeps_start) == (50, "euler", False)
    assert flow.steps == (0.01,) * 500
    assert flow.time == pytest.approx(5)
    simulation = GradientFlow.paper_simulation()
    assert (simulation.lam, simulation.solver, simulation.keeps_start) == (100, "euler", False)
    assert simulation.steps == tuple(0.02 / k ** (2 / 3) for k in range(1, 401))
    assert simulation.time == pytest.approx(math.fsum(simulation.steps))


def test_many_features_and_many_free_directions_work():
    torch.manual_seed(2)
    d, k = 10_000, 50
    model = network(d, 8, 2)
    metric = ignoring(torch.randn(k, d, dtype=torch.float64))
    x, y = torch.randn(20, d, dtype=torch.float64) / 10, torch.arange(20) % 2
    moved = GradientFlow(steps=4).bind(model, metric)(x, y)
    assert (losses(model, moved.x, y) > losses(model, x, y)).all()
