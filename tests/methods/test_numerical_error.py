import dataclasses
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import likewise
from certificate import Audit
from likewise.methods import numerical_error
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ignoring
from likewise.methods.numerical_error import MIN_STEPS, SAMPLE_PART, choose_steps
from likewise.methods.observe import observe
from likewise.methods.solvers import SOLVERS
from likewise.models import as_model

pytestmark = pytest.mark.slow


def network(seed, activation=nn.ReLU):
    """A random network steep enough that ratios differ."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, 24), activation(), nn.Linear(24, 2)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
    return as_model(net)


@pytest.fixture(scope="module")
def metric():
    return ignoring(np.random.default_rng(1).normal(size=(2, 8)))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(600, 8))
    return x, rng.integers(0, 2, size=600)


def ratios(flow, model, metric, people):
    return observe(model, flow.bind(model, metric), metric, *people).outcomes.ratio


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("seed", range(2))
def test_the_bound_exceeds_the_true_error(seed, activation, metric, people):
    model = network(seed, activation)
    flow, found = choose_steps(GradientFlow(), model, metric, *people)
    assert (flow.steps, found.subsample) == (found.steps, 600)
    assert found.evaluations == found.steps + SOLVERS[found.method].at_start
    ours = ratios(flow, model, metric, people)
    # Where the network has kinks, fewer steps are all off by the same.
    exact = GradientFlow(solver="exponential_euler", steps=2000)
    exact = ratios(exact, model, metric, people)
    error = abs(ours.mean() - exact.mean())
    assert error <= found.error_bound
    assert error <= 0.15 * exact.std() / math.sqrt(len(exact))
    # Twice .075 standard errors for the difference, .15 for chance, and .15 for the fine solution.
    assert found.error_in_se <= 0.5


def test_no_error_is_smaller_than_anyone_needs_and_some_are_not_bounded(
    metric, people, monkeypatch
):
    model = network(0, nn.Tanh)
    huge, precise = choose_steps(GradientFlow(), model, metric, *people, n=10**12)
    assert precise.error_in_se > 0.1
    exact = ratios(GradientFlow(steps=400), model, metric, people).mean()
    assert abs(ratios(huge, model, metric, people).mean() - exact) < 1e-3 * (exact - 1)
    # With 128 steps at most this network cannot be told from one whose paths depend on the steps.
    monkeypatch.setattr(numerical_error, "MAX_STEPS", 128)
    monkeypatch.setattr(numerical_error, "TARGET", 1e-4)
    _, unknown = choose_steps(GradientFlow(), network(0), metric, *people)
    assert unknown.error_bound == unknown.error_in_se == math.inf
    assert "cannot be bounded" in unknown.note


def test_steps_that_were_given_are_certified_and_kept(metric, people):
    euler, few = GradientFlow.paper(n_steps=50), GradientFlow(steps=12, solver="exponential_euler")
    for given in (euler, few):
        flow, found = choose_steps(given, network(0), metric, *people)
        assert flow is given
        assert found.steps == len(given.grid(metric))
        assert found.precision == "float64"
        exact = GradientFlow(time=given.time, solver="exponential_euler", steps=1000)
        error = ratios(given, network(0), metric, people).mean()
        error -= ratios(exact, network(0), metric, people).mean()
        assert abs(error) <= found.error_bound


@pytest.mark.parametrize(
    ("flow", "method", "fewest"),
    [
        (GradientFlow.paper_simulation(), "euler", 400),
        (GradientFlow(free_only=True), "exponential", MIN_STEPS),
        (GradientFlow(solver="rk4", lam=5, time=1), "rk4", 16),
    ],
)
def test_simulations_free_flows_and_explicit_solvers_are_certified_too(
    flow, method, fewest, metric, people
):
    chosen, found = choose_steps(flow, network(0), metric, people[0][:200], people[1][:200])
    assert (chosen.free_only, found.method) == (flow.free_only, method)
    assert found.steps >= fewest
    assert 0 < found.error_bound < math.inf


def test_a_model_that_moves_nobody_has_no_error(people):
    free = ignoring(np.eye(8)[:1])
    blind = nn.Linear(8, 2, dtype=torch.float64)
    with torch.no_grad():
        blind.weight[:, 0] = 0
    flow = GradientFlow(free_only=True)
    _, found = choose_steps(flow, as_model(blind), free, *people)
    assert found.error_bound == 0
    assert found.error_in_se == 0


def test_people_without_a_ratio_do_not_stop_the_bound(metric, people):
    x, y = people
    far = np.concatenate([x[:400], 1e6 * np.ones((2, 8))])
    labels = np.concatenate([y[:400], [0, 1]])
    _, found = choose_steps(GradientFlow(), network(0, nn.ReLU), metric, far, labels)
    assert math.isfinite(found.error_bound)
    assert "Theorem 2.2's own bound has the factor exp(LT) > 10^217" in found.note  # e^(2 · 50 · 5)


def test_steps_left_open_are_taken_in_float32_where_that_is_enough(metric, people):
    flow, found = choose_steps(GradientFlow(), network(0), metric, *people)
    assert str(flow.dtype) == found.precision == "float32"
    x, y = people
    far = x + 3e6  # float32 knows such people to about a quarter
    flow, found = choose_steps(GradientFlow(), network(0, nn.Tanh), metric, far, y)
    assert str(flow.dtype) == found.precision
    assert found.precision == "float64" or found.error_in_se < 0.1


@pytest.mark.parametrize("number", range(4))
def test_claims_hold_over_the_grid_of_the_benchmark(number):
    audit = Audit.drawn(np.random.default_rng([11, number]), largest=50)
    # At most four times as fine as its own fine solution: for speed.
    short = dataclasses.replace(audit, lam=50.0, time=2.0)
    assert short.run()["held"]


def test_in_pieces_the_bound_sees_the_same_people_as_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    n = 10_600  # a survey keeps ten thousand
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 2)) + np.outer(group, [1.0, 0.5])
    y = (x.sum(axis=1) + rng.normal(size=n) > 0).astype(int)
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "g": group, "y": y})
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path, rows in zip(paths, (table[:6000], table[6000:]), strict=True):
        pq.write_table(rows, path)
    settings = likewise.Settings(checks="core").changed(
        columns__label="y", columns__protected=("g",), method__lam=50.0
    )
    whole, pieces = (
        likewise.audit(
            LogisticRegression().fit(x, y),
            people,
            metric=ignoring([[1.0, 0.5]]),
            settings=settings,
            executor=likewise.executors.Inline(),
        ).record.numerical_error
        for people in (likewise.read(table, label="y", protected="g"), paths)
    )
    assert whole == pieces
    assert whole.subsample == n // SAMPLE_PART
