import dataclasses

import numpy as np
import pytest

from likewise.errors import InvalidModel, InvalidSettings
from likewise.maps.flow import GradientFlow
from likewise.metrics.quadratic import QuadraticMetric
from likewise.metrics.reach import Ellipsoid

from .test_flow import Cityblock


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"lam": 0.0}, r"lam \(λ\) must be a positive number, not 0"),
        ({"lam": -1.0}, "not -1"),
        ({"lam": float("nan")}, "not nan"),
        ({"time": 0.0}, "time must be a positive number"),
        ({"time": float("inf")}, "time must be a positive number, not inf"),
        ({"steps": 0}, "at least one step, not 0"),
        ({"steps": ()}, "at least one"),
        ({"steps": (0.1, -0.1)}, "positive"),
        ({"horizons": (6.0,)}, r"Horizon 6 lies outside the flow's time \(0, 5\]"),
        ({"horizons": (0.0,)}, "Horizon 0"),
    ],
)
def test_bad_choices_are_refused_in_a_sentence(choices, words):
    with pytest.raises(InvalidSettings, match=words):
        GradientFlow(**choices)


@pytest.mark.parametrize("solver", ["euler", "rk4"])
def test_an_unstable_step_is_refused(solver, smooth, metric):
    stable = GradientFlow(solver=solver, steps=(0.0199,) * 10)
    stable.bind(smooth, metric)
    with pytest.raises(InvalidSettings, match=r"2 × λ .* = 2, which must be below 2"):
        dataclasses.replace(stable, steps=(0.001, 0.02)).bind(smooth, metric)


def test_the_largest_eigenvalue_counts_for_stability(smooth):
    steep = QuadraticMetric(4 * np.eye(6))
    with pytest.raises(InvalidSettings, match="= 4, which"):
        GradientFlow.paper().bind(smooth, steep)


def test_the_simulation_s_schedule_goes_by_its_name_only(smooth, metric):
    named = GradientFlow.paper_simulation()
    named.bind(smooth, metric)
    with pytest.raises(InvalidSettings, match="= 4, which"):
        dataclasses.replace(named, schedule="constant").bind(smooth, metric)


def test_exponential_solvers_and_free_steps_have_no_stability_limit(smooth, metric):
    for flow in (
        GradientFlow(solver="exponential2", steps=2),
        GradientFlow(solver="euler", steps=2, free_only=True),
    ):
        flow.bind(smooth, metric)
        assert len(flow.grid(metric)) == 2


def test_explicit_solvers_choose_a_stable_number_of_steps(smooth, metric):
    flow = GradientFlow(solver="euler")
    flow.bind(smooth, metric)
    assert len(flow.grid(metric)) == 500  # 2λη = 1, as in the paper


def test_a_horizon_between_given_steps_is_refused(smooth, metric):
    with pytest.raises(InvalidSettings, match="between two steps"):
        GradientFlow(steps=(1.0, 1.0), horizons=(1.5,)).bind(smooth, metric)


def test_only_a_quadratic_metric_has_free_directions(smooth):
    for flow in (GradientFlow(free_only=True), GradientFlow(solver="exponential4")):
        with pytest.raises(InvalidSettings, match="quadratic metric"):
            flow.bind(smooth, Cityblock())


def test_a_reach_of_another_dimension_is_refused(smooth, metric):
    reach = Ellipsoid(np.zeros(3), np.eye(3), 1.0)
    with pytest.raises(InvalidSettings, match="3 coordinates, but the metric has 2 free"):
        GradientFlow(reach=reach).bind(smooth, metric)


def test_a_model_without_a_gradient_is_refused(smooth, metric):
    card = dataclasses.replace(smooth.card, differentiable=False)
    with pytest.raises(InvalidModel, match="no gradient"):
        GradientFlow().bind(dataclasses.replace(smooth, card=card), metric)
