import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from likewise.engine.certificate import certify
from likewise.maps.flow import GradientFlow
from likewise.maps.observe import observe
from likewise.metrics.quadratic import ignoring
from likewise.models import as_model


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
    x = rng.normal(size=(1500, 8))
    return x, rng.integers(0, 2, size=1500)


def ratios(flow, model, metric, people):
    return observe(model, flow.bind(model, metric), metric, *people).outcomes.ratio


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("seed", range(5))
def test_the_certificate_exceeds_the_true_error(seed, activation, metric, people):
    model = network(seed, activation)
    flow, certificate = certify(GradientFlow(), model, metric, *people)
    ours = ratios(flow, model, metric, people)
    # Where the network has kinks, fewer steps are all off by the same.
    exact = ratios(GradientFlow(steps=1500), model, metric, people)
    error = abs(ours.mean() - exact.mean())
    assert error <= certificate.error_bound
    assert error <= 0.15 * exact.std() / math.sqrt(len(exact))
    # A tenth of a standard error for the difference, which counts twice, and for its chance part.
    assert certificate.error_in_se <= 0.3
    assert not certificate.cap_reached


def test_the_steps_are_doubled_until_they_are_enough(metric, people):
    flow, certificate = certify(GradientFlow(), network(0), metric, *people)
    assert flow.steps == certificate.steps
    assert certificate.steps in [4, 8, 16, 32, 64]
    assert certificate.method == "exponential4"
    assert certificate.evaluations == 5 * certificate.steps
    assert certificate.subsample == 1000
    stricter, _ = certify(GradientFlow(), network(0), metric, *people, target=0.01)
    assert stricter.steps > flow.steps


def test_a_larger_audit_needs_more_steps(metric, people):
    few, _ = certify(GradientFlow(), network(0), metric, *people)
    many, _ = certify(GradientFlow(), network(0), metric, *people, n=100_000)
    assert many.steps > few.steps


def test_the_standard_error_never_asks_for_more_than_anyone_needs(metric, people):
    huge, certificate = certify(GradientFlow(), network(0, nn.Tanh), metric, *people, n=10**12)
    assert not certificate.cap_reached
    assert certificate.error_in_se > 0.1
    assert "0.05%" in certificate.note  # and it says so
    exact = ratios(GradientFlow(steps=200), network(0, nn.Tanh), metric, people).mean()
    ours = ratios(huge, network(0, nn.Tanh), metric, people).mean()
    assert abs(ours - exact) < 1e-3 * (exact - 1)


def test_the_cap_is_kept_and_said(metric, people):
    flow, certificate = certify(GradientFlow(), network(0), metric, *people, target=1e-9, most=100)
    assert certificate.cap_reached
    assert certificate.evaluations <= 100
    assert flow.steps == certificate.steps


def test_steps_that_were_given_are_certified_and_kept(metric, people):
    for given in (GradientFlow.paper(n_steps=50), GradientFlow(steps=12, solver="exponential2")):
        flow, certificate = certify(given, network(0), metric, *people)
        assert flow is given
        assert certificate.steps == len(given.grid(metric))
        exact = dataclasses.replace(given, solver="exponential4", steps=200)
        error = ratios(given, network(0), metric, people).mean()
        error -= ratios(exact, network(0), metric, people).mean()
        assert abs(error) <= certificate.error_bound


def test_the_paper_s_simulation_can_be_certified(metric, people):
    x, y = people
    _, certificate = certify(GradientFlow.paper_simulation(), network(0), metric, x[:50], y[:50])
    assert certificate.method == "euler"
    assert certificate.steps == 400
    assert 0 < certificate.error_bound < math.inf


def test_free_flows_and_explicit_solvers_are_certified_too(metric, people):
    free, certificate = certify(GradientFlow(free_only=True), network(0), metric, *people)
    assert free.free_only
    assert not certificate.cap_reached
    explicit, certificate = certify(
        GradientFlow(solver="rk4", lam=5, time=1), network(0), metric, *people
    )
    assert certificate.method == "rk4"
    assert explicit.steps >= 16


def test_float32_is_checked_against_float64(metric, people):
    double, single = (
        certify(GradientFlow(steps=64, precision=p), network(0), metric, *people)[1]
        for p in ("float64", "float32")
    )
    extra = single.error_bound - double.error_bound
    flows = (GradientFlow(steps=64, precision=p) for p in ("float64", "float32"))
    gap = np.subtract(*(ratios(flow, network(0), metric, people).mean() for flow in flows))
    assert 0 < extra < 1e-4
    assert abs(gap) < 1e-4


def test_horizons_stay_where_they_were(metric, people):
    flow, certificate = certify(GradientFlow(horizons=(1.0, 2.5)), network(0), metric, *people)
    assert flow.horizons == (1.0, 2.5)
    assert certificate.steps == len(flow.grid(metric))


def test_a_model_that_moves_nobody_has_no_error(people):
    free = ignoring(np.eye(8)[:1])
    blind = nn.Linear(8, 2, dtype=torch.float64)
    with torch.no_grad():
        blind.weight[:, 0] = 0
    flow = GradientFlow(free_only=True)
    _, certificate = certify(flow, as_model(blind), free, *people)
    assert certificate.error_bound == 0
    assert certificate.error_in_se == 0


def test_people_without_a_ratio_do_not_stop_the_certificate(metric, people):
    x, y = people
    far = np.concatenate([x[:400], 1e6 * np.ones((2, 8))])
    labels = np.concatenate([y[:400], [0, 1]])
    _, certificate = certify(GradientFlow(), network(0, nn.ReLU), metric, far, labels)
    assert math.isfinite(certificate.error_bound)


def test_regressions_are_certified_by_the_ratio_of_mean_losses(metric, people):
    x, _ = people
    net = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1)).double()
    model = as_model(net, output="values")
    y = model(x)[:, 0] + np.random.default_rng(3).normal(size=1500)
    flow, certificate = certify(GradientFlow(time=1), model, metric, x, y)
    before, after = (
        observe(model, f.bind(model, metric), metric, x, y).outcomes.loss_after.mean()
        for f in (flow, GradientFlow(time=1, steps=300))
    )
    base = observe(model, flow.bind(model, metric), metric, x, y).outcomes.loss_before.mean()
    assert abs(before - after) / base <= certificate.error_bound


def test_the_same_seed_gives_the_same_certificate(metric, people):
    first, second = (certify(GradientFlow(), network(3), metric, *people)[1] for _ in range(2))
    assert first == second


def test_theorem_2_2_is_quoted(metric, people):
    x, y = people
    _, certificate = certify(GradientFlow(steps=4), network(0), metric, x[:50], y[:50])
    assert "10^217" in certificate.note  # e^(2 · 50 · 5)
    assert certificate.record().note == certificate.note
