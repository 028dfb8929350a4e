import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

import likewise
from likewise.errors import InvalidMetric, InvalidModel, InvalidSettings
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import (
    FairMetric,
    QuadraticMetric,
    ignoring,
)
from likewise.methods.numerical_error import choose_steps
from likewise.methods.observe import observe
from likewise.models import as_model
from likewise.outcomes import Status

from .conftest import network

FREE = ignoring(np.eye(6)[:2])
EVERY_SOLVER = ["euler", "rk4", "exponential", "exponential_euler"]


def move(flow, model, metric, people):
    return flow.bind(model, metric)(*people)


def losses(model, x, y):
    return model.loss(model(x), y)


@likewise.metric
def cityblock(x, x0):
    """Not quadratic: a smooth city-block distance, in torch, without free directions."""
    return ((x - x0).square() + 1e-2).sqrt().sum(1).square()


@pytest.mark.parametrize("solver", ["auto", "euler", "rk4"])
def test_a_metric_that_is_not_quadratic_works_by_automatic_gradients(solver, smooth, people):
    x, y = people
    flow = GradientFlow(lam=0.05, time=1, solver=solver, steps=200)
    moved = move(flow, smooth, cityblock, people)
    assert (losses(smooth, moved.x, y) >= losses(smooth, x, y)).all()
    assert np.abs(moved.x - x).max() > 0.01


@pytest.mark.parametrize("solver", EVERY_SOLVER)
def test_a_solver_that_somebody_named_is_the_one_that_is_used(solver, smooth, metric, people):
    chosen, found = choose_steps(GradientFlow(20, 0.5, solver), smooth, metric, *people)
    assert chosen.solver == found.method == solver


@pytest.mark.parametrize("solver", EVERY_SOLVER)
def test_the_penalised_loss_never_falls_at_stable_steps(solver, smooth, metric, people):
    x, y = people
    flows = (GradientFlow(20, k / 4, solver, steps=25 * k) for k in range(1, 9))
    places = (x, *(move(flow, smooth, metric, people).x for flow in flows))
    values = [losses(smooth, at, y) - 20 * metric.squared_distance(at, x) for at in places]
    for earlier, later in itertools.pairwise(values):
        assert (later - earlier).min() > -1e-9


@pytest.mark.parametrize("single", [False, True], ids=["float64", "float32"])
def test_people_stay_put_where_a_coarse_solver_would_lower_their_loss(single, metric, people):
    # A steep network and five Euler steps: some overshoot, and are left where they were.
    torch.manual_seed(1)
    model = network(6, 32, 2)
    with torch.no_grad():
        model.function.double[0].weight.mul_(8)
        model.function.double[2].weight.mul_(8)
    x, y = people
    bold = GradientFlow(solver="euler", steps=5, free_only=True, time=5)
    bound = (bold.single() if single else bold).bind(model, metric)
    loose, kept = (
        observe(model, bound, metric, x, y, keeps_start=keeps) for keeps in (False, True)
    )
    fell = losses(model, loose.x, y) < losses(model, x, y)
    assert 0 < fell.sum() == loose.below_one == kept.below_one < len(fell)
    assert np.array_equal(kept.x[fell], x[fell])
    assert np.array_equal(kept.x[~fell], loose.x[~fell])
    assert (kept.outcomes.loss_after >= kept.outcomes.loss_before).all()


@pytest.mark.parametrize("solver", EVERY_SOLVER)
def test_free_only_moves_along_free_directions_alone(solver, smooth, metric, people):
    flow = GradientFlow(time=2, solver=solver, steps=100, free_only=True)
    moved = move(flow, smooth, metric, people)
    assert metric.squared_distance(moved.x, people[0]).max() < 1e-25
    assert np.linalg.norm(moved.x - people[0], axis=1).min() > 1e-3


def test_a_row_depends_neither_on_its_block_nor_on_the_order(smooth, metric, people):
    x, y = people
    flow = GradientFlow(steps=8)
    bound = flow.bind(smooth, metric)
    whole = bound(x, y).x
    order = np.random.default_rng(0).permutation(len(x))
    # Matrix products round differently for other shapes; on a smooth network that is all.
    assert np.abs(bound(x[order], y[order]).x - whole[order]).max() < 1e-9
    for rows in (slice(0, 1), slice(7, 20), slice(20, 60)):
        assert np.abs(bound(x[rows], y[rows]).x - whole[rows]).max() < 1e-9


class WithShortcut(torch.nn.Module):
    """Not a plain chain of layers, so that torch has to find its gradients."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(6, 6), torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.outer(x + torch.tanh(self.inner(x)))


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_the_flow_works_under_no_grad(off, metric, people):
    model, flow = as_model(WithShortcut()), GradientFlow(steps=4)
    bound = flow.bind(model, metric)
    assert not model.network
    with off():
        inside = bound(*people).x
        also_bound_inside = move(flow, model, metric, people).x
    outside = bound(*people).x
    assert np.abs(outside - people[0]).max() > 0.01
    assert np.array_equal(inside, outside)
    assert np.array_equal(also_bound_inside, outside)


def test_a_row_that_leaves_all_bounds_is_marked(metric, people):
    def exploding(x):
        high = torch.where(x[:, :1] > 1.5, torch.exp(x[:, :1].abs() * 400), x[:, :1])
        return torch.cat([high, -high], dim=1)

    moved = move(GradientFlow(steps=8), as_model(exploding, output="logits"), metric, people)
    lost = moved.status == Status.DIVERGED
    assert 0 < lost.sum() < len(lost)
    assert np.isfinite(moved.x).all()


def test_the_paper_s_schedules_are_exact():
    falling = tuple(0.02 / k ** (2 / 3) for k in range(1, 401))
    for flow, lam, steps in (
        (GradientFlow.paper(), 50, (0.01,) * 500),
        (GradientFlow.paper_simulation(), 100, falling),
    ):
        assert (flow.lam, flow.solver, flow.keeps_start) == (lam, "euler", False)
        assert flow.steps == GradientFlow(steps=list(steps)).steps == steps
        assert flow.time == pytest.approx(math.fsum(steps))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"lam": 0.0}, r"lam \(λ\) must be a positive number, not 0"),
        ({"lam": float("nan")}, "not nan"),
        ({"time": 0.0}, "time must be a positive number"),
        ({"time": float("inf")}, "time must be a positive number, not inf"),
        ({"steps": 0}, "at least one step, not 0"),
        ({"steps": ()}, "at least one"),
        ({"steps": (0.1, -0.1)}, "positive"),
    ],
)
def test_bad_choices_are_refused_in_a_sentence(choices, words):
    with pytest.raises(InvalidSettings, match=words):
        GradientFlow(**choices)


def test_a_metric_moves_people_alike_whether_or_not_it_is_known_to_be_quadratic(
    smooth, metric, people
):
    class Disguised(FairMetric):
        def squared_distance(self, x, x0):
            return metric.squared_distance(x, x0)

        def gradient(self, x, x0):
            return metric.gradient(x, x0)

    flow = GradientFlow(lam=20, time=2, solver="rk4", steps=200)
    gap = move(flow, smooth, Disguised(), people).x - move(flow, smooth, metric, people).x
    assert np.abs(gap).max() < 1e-11


class Bare(FairMetric):
    """Neither a gradient nor torch to find it by."""

    def squared_distance(self, x, x0):
        return np.abs(x - x0).sum(axis=1)


@pytest.mark.parametrize(
    ("flow", "metric", "words"),
    [
        (GradientFlow(), Bare(), r"A Bare has no gradient.*likewise.metric"),
        (GradientFlow(solver="euler", steps=(0.001, 0.02)), FREE, "= 2, which must be below 2"),
        (GradientFlow(solver="rk4", steps=(0.02,)), FREE, "= 2, which must be below 2"),
        (GradientFlow.paper(), QuadraticMetric(4 * np.eye(6)), "= 4, which"),
        (GradientFlow(free_only=True), cityblock, "Only quadratic metrics have free directions"),
        (GradientFlow(solver="exponential"), cityblock, "needs a quadratic metric"),
    ],
)
def test_what_does_not_go_together_is_refused(flow, metric, words, smooth):
    with pytest.raises((InvalidSettings, InvalidMetric), match=words):
        flow.bind(smooth, metric)


@pytest.mark.parametrize(
    ("flow", "steps"),
    [
        (GradientFlow(solver="euler", steps=(0.0199,) * 10), 10),
        (GradientFlow(solver="exponential", steps=2), 2),
        (GradientFlow(solver="euler", steps=2, free_only=True), 2),
        (GradientFlow.paper_simulation(), 400),
        (GradientFlow(solver="euler"), 500),  # 2λη = 1, as in the paper
    ],
)
def test_stable_steps_are_taken_and_unstable_ones_if_that_was_asked_for(flow, steps, smooth):
    assert len(flow.bind(smooth, FREE).steps) == steps


def test_a_model_without_a_gradient_is_refused(smooth, metric):
    card = dataclasses.replace(smooth.card, differentiable=False)
    with pytest.raises(InvalidModel, match="no gradient"):
        GradientFlow().bind(dataclasses.replace(smooth, card=card), metric)
