"""The whole audit in memory by gradient flow: models and data of every kind, what is promised."""

import dataclasses

import numpy as np
import pytest
import torch

import likewise
from helpers import people
from likewise.errors import InvalidData, InvalidMetric, InvalidModel, InvalidSettings
from likewise.metrics import ignoring
from likewise.settings import Settings
from likewise.stats.loss_ratio import LossRatioTest

CORE = Settings(checks="core")
FIRST = ignoring(np.eye(4)[:1])


def network(outputs=2, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, outputs))


def test_the_paper_run_by_hand_gives_the_same_numbers():
    data, model = people(), network().double()
    metric = ignoring([[1.0, 0.5, 0.0, 0.0]])
    flow = likewise.GradientFlow.paper(lam=10, step=0.02, n_steps=50)
    settings = CORE.changed(decide__interval="paper")
    result = likewise.audit(model, data, metric=metric, method=flow, settings=settings)

    # Algorithm 1, written out.
    x0, y = torch.tensor(data.x), torch.tensor(data.y)
    q = torch.from_numpy(metric.free[0])
    losses = torch.nn.CrossEntropyLoss(reduction="none")
    x = x0.clone()
    for _ in range(50):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(losses(model(x), y).sum(), x)
        v = x - x0
        x = x + 0.02 * (gradient - 20 * (v - torch.outer(v @ q, q)))
    ratio = (losses(model(x), y) / losses(model(x0), y)).detach().numpy()
    t_n = ratio.mean() - 1.6448536269514722 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    wrong = (model(x).argmax(1) != y).sum() / (model(x0).argmax(1) != y).sum()

    assert result.test("loss_ratio").T_n == pytest.approx(t_n, rel=1e-10)
    assert result.test("error_rate_ratio").S_n == pytest.approx(wrong.item(), rel=1e-12)
    how = {"metric": metric, "lam": 10, "step": 0.02, "steps": 50}
    apart = likewise.paper_test(model, x0, y, **how)
    assert apart.T_n == pytest.approx(t_n, rel=1e-10)
    with pytest.raises(InvalidSettings, match=r"returns shape \(\) for 10 rows"):
        likewise.paper_test(model, x0, y, loss=torch.nn.functional.cross_entropy, **how)
    with pytest.raises(InvalidMetric, match="of 2 features, and x has 4"):
        likewise.paper_test(model, x0, y, metric=ignoring([[1.0, 0.0]]))


def test_the_papers_test_of_a_regression_is_about_mean_losses():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = x.sum(axis=1) + 0.3 * x[:, 1] ** 2 + rng.normal(size=300)
    flat = ignoring([[0.0, 1.0]])
    net = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    found = likewise.paper_test(net.double(), x, y, metric=flat, output="values", steps=20)
    before, after = (
        ((y - net(torch.tensor(at))[:, 0].detach().numpy()) ** 2) for at in (x, found.perturbed)
    )
    assert found.S_n == pytest.approx(after.mean() / before.mean(), rel=1e-10)
    assert found.V_n > 0
    assert np.isnan(found.error_S_n)


def test_probabilities_are_clipped_and_the_error_rates_decide():
    class Sure(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            return torch.softmax(30 * self.inner(x), dim=1)

    metric = ignoring([[1.0, 0.5, 0.0, 0.0]])
    result = likewise.audit(Sure(), people(), metric=metric, settings=CORE, output="probabilities")
    assert result.record.decided_by.test == "error_rate_ratio"
    assert result.record.decided_by.interval == "mid-P"
    assert result.outcomes.loss_before.max() == pytest.approx(-np.log(0.001))


def test_an_exactly_invariant_model_is_found_within_tolerance_and_never_called_fair():
    model = torch.nn.Linear(4, 1).double()
    with torch.no_grad():
        model.weight[:] = torch.tensor([[0.0, 0.0, 2.0, 1.0]])
    result = likewise.audit(model, people(), metric=ignoring(np.eye(4)[:2]))
    assert result.verdict == "within_tolerance"
    assert "does not show that the model is fair" in result.sentence


def test_groups_that_are_not_shown_to_be_below_the_limit_are_named():
    model = torch.nn.Linear(4, 2).double()
    torch.nn.init.zeros_(model.weight)
    result = likewise.audit(model, people(), metric=ignoring(np.eye(4)[:2]), settings=CORE)
    assert (result.verdict, result.record.reason) == ("inconclusive", "groups")
    assert "not every group is shown to be below it" in result.sentence


def test_the_numerical_error_of_the_flow_counts_in_the_bounds_that_decide():
    flow = likewise.GradientFlow(steps=1)
    metric = ignoring([[1.0, 0.5, 0.0, 0.0]])
    result = likewise.audit(network(), people(), metric=metric, method=flow, settings=CORE)
    found, off = result.test("loss_ratio"), result.record.numerical_error.error_bound
    bounds = LossRatioTest().evidence_of(result.outcomes).bounds
    assert off > 0
    assert found.lower_bound == pytest.approx(bounds.lower_bound(0.05) - off, rel=1e-12)
    assert found.upper_bound == pytest.approx(bounds.upper_bound(0.05) + off, rel=1e-12)


@pytest.mark.parametrize("test", ["loss_ratio", "error_rate_ratio"])
def test_the_result_says_what_other_limits_would_have_given(test):
    settings = CORE.changed(decide__test=test)
    model, data = network(), dataclasses.replace(people(), protected={})
    record = likewise.audit(model, data, metric=FIRST, settings=settings).record
    curve = record.delta_curve
    assert curve.evidence_below == record.test(test).lower_bound
    for delta, verdict in (
        (max(0.99 * curve.evidence_below, 1.0), "evidence"),
        (1.01 * curve.within_from, "within_tolerance"),
    ):
        if 1 < delta < 9:
            other = settings.changed(delta=delta)
            assert likewise.audit(model, data, metric=FIRST, settings=other).verdict == verdict


def test_diverged_people_make_the_result_invalid():
    class Explosive(torch.nn.Module):
        def forward(self, x):
            return torch.stack([-x[:, 0].square().square(), x[:, 0].square().square()], dim=1)

    flow = likewise.GradientFlow(solver="exponential", steps=40, time=20)
    result = likewise.audit(Explosive(), people(), metric=FIRST, method=flow, settings=CORE)
    assert result.record.rows["diverged"] > 0
    assert result.verdict == "invalid"
    assert result.sentence.startswith("Do not use this result: ")
    assert result.record.rows["n"] == len(result.outcomes) == 300


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InvalidData, match="protected"):
        likewise.audit(network(), dataclasses.replace(people(), protected={}))
    model = torch.nn.Sequential(network())
    model.forward = lambda x: model[0](x) + torch.randn(len(x), 2)
    with pytest.raises(InvalidModel, match="random"):
        likewise.audit(model, people())
