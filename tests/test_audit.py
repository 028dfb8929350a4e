"""The whole walk, in memory: every kind of model and data, and what the result promises."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise
import likewise.metrics.fair_metric
from helpers import people
from likewise.errors import InvalidData, InvalidModel, InvalidSettings, Untrustworthy
from likewise.metrics.torch_metric import TorchMetric
from likewise.settings import Settings

# Most networks here are as they were drawn.
pytestmark = pytest.mark.filterwarnings("ignore:The model is no better than a constant")

CORE = Settings(checks="core")


def network(outputs=2, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, outputs))


def test_the_paper_run_by_hand_gives_the_same_numbers():
    data, model = people(), network().double()
    metric = likewise.ignoring([[1.0, 0.5, 0.0, 0.0]])
    tests = [
        likewise.LossRatioTest(interval="paper"),
        likewise.ErrorRateRatioTest(interval="paper"),
    ]
    flow = likewise.GradientFlow.paper(lam=10, step=0.02, n_steps=50)
    result = likewise.audit(model, data, metric=metric, map=flow, tests=tests)

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

    found = result.record.tests
    assert found["loss_ratio"].statistic == pytest.approx(t_n, rel=1e-10)
    assert found["error_rate_ratio"].estimate == pytest.approx(wrong.item(), rel=1e-12)


def test_the_users_model_is_not_changed():
    model = network().train()
    model[0].weight.requires_grad_(False)
    model[2].weight.grad = torch.ones_like(model[2].weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    likewise.audit(model, people(), settings=CORE)
    assert model.training
    assert not model[0].weight.requires_grad
    assert model[2].weight.requires_grad
    assert torch.equal(model[2].weight.grad, torch.ones_like(model[2].weight))
    assert model[0].bias.grad is None
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_any_number_of_classes_can_be_audited(classes):
    result = likewise.audit(network(classes), people(classes=classes), settings=CORE)
    assert set(result.record.tests) == {"loss_ratio", "error_rate_ratio"}
    assert len(result.record.model.classes) == classes
    # Among several classes a wrong decision may turn right even if the loss rises.
    method = result.record.tests["error_rate_ratio"].method
    assert ("mid-P" in method) == (classes == 2)


def test_one_logit_is_two_classes():
    result = likewise.audit(network(1), people(), settings=CORE)
    assert result.record.model.classes == ("0", "1")


def test_a_regression_is_judged_by_the_ratio_of_mean_losses():
    data = people()
    data = dataclasses.replace(data, y=data.x @ [1.0, 1, 0, 0] + 0.1)
    model = Ridge().fit(data.x, data.x @ [1.0, 0.5, 0.2, 0])
    result = likewise.audit(model, data, settings=CORE)
    found = result.verdict("mean_loss_ratio")
    assert (found.S_n, found.T_n) == (found.estimate, found.statistic)
    assert set(result.record.tests) == {"mean_loss_ratio"}
    assert result.record.decided_by.test == "mean_loss_ratio"
    assert result.record.decided_by.interval == "hall"


def test_probabilities_are_clipped_and_the_error_rates_decide():
    class Sure(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            return torch.softmax(30 * self.inner(x), dim=1)

    metric = likewise.ignoring([[1.0, 0.5, 0.0, 0.0]])
    result = likewise.audit(Sure(), people(), metric=metric, settings=CORE, output="probabilities")
    assert result.record.settings.columns.output == "probabilities"
    assert result.record.decided_by.test == "error_rate_ratio"
    assert result.record.decided_by.interval == "midp"
    outside = [
        (p < 0.001) | (p > 0.999)
        for p in (result.outcomes.probability_before, result.outcomes.probability_after)
    ]
    assert (outside[1] & ~outside[0]).sum() > 0  # the move made some of them sure
    assert result.record.model.clipped == (outside[0] | outside[1]).sum()
    assert result.outcomes.loss_before.max() == pytest.approx(-np.log(0.001))


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), MLPClassifier((5,), max_iter=200, random_state=0)],
    ids=["logistic", "mlp"],
)
def test_a_pipeline_on_raw_columns_is_audited_in_front_of_its_last_step(estimator):
    rng = np.random.default_rng(1)
    n = 400
    sex = rng.choice(["f", "m"], n)
    table = pa.table(
        {
            "age": rng.integers(20, 60, n),
            "job": rng.choice(["a", "b", "c"], n),
            "sex": sex,
            "y": np.where(rng.normal(size=n) + (sex == "m") > 0.5, "yes", "no"),
        }
    )
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["age"]), ("c", OneHotEncoder(), ["job", "sex"])]
    )
    frame = table.to_pandas()
    model = make_pipeline(columns, estimator).fit(frame.drop(columns="y"), frame["y"])
    data = likewise.read(table, label="y", protected=["sex"], raw=True)
    result = likewise.audit(model, data, settings=CORE)
    assert len(result.record.data.features) == 6
    assert result.record.model.classes == ("no", "yes")
    accuracy = next(m.value for m in result.record.measures if m.name == "accuracy")
    assert accuracy == pytest.approx(model.score(frame.drop(columns="y"), frame["y"]))


def test_an_exactly_invariant_model_is_found_within_tolerance():
    model = torch.nn.Linear(4, 1).double()
    with torch.no_grad():
        model.weight[:] = torch.tensor([[0.0, 0.0, 2.0, 1.0]])
    metric = likewise.ignoring(np.eye(4)[:2])
    result = likewise.audit(model, people(), metric=metric)
    assert result.outcome == "within_tolerance"
    assert "fair " not in result.record.sentence.replace("unfair", "")


def test_a_constant_model_is_within_tolerance_because_nothing_moves_it():
    model = torch.nn.Linear(4, 2).double()
    torch.nn.init.zeros_(model.weight)
    metric = likewise.ignoring(np.eye(4)[:2])
    result = likewise.audit(model, people(), metric=metric, settings=CORE)
    assert result.record.sentence.startswith("Within tolerance (nothing moves it)")
    assert "Within tolerance (nothing moves it)</h1>" in result.to_html()


def test_the_numerical_error_of_the_flow_counts_in_the_bounds_that_decide():
    model, metric = network(), likewise.ignoring([[1.0, 0.5, 0.0, 0.0]])
    flow = likewise.GradientFlow(steps=1)
    result = likewise.audit(model, people(), metric=metric, map=flow, settings=CORE)
    found, off = result.record.tests["loss_ratio"], result.record.certificate.error_bound
    bounds = likewise.LossRatioTest().evidence_of(result.outcomes).bounds
    assert off > 0
    assert found.lower_bound == pytest.approx(bounds.lower_bound(0.05) - off, rel=1e-12)
    assert found.upper_bound == pytest.approx(bounds.upper_bound(0.05) + off, rel=1e-12)


def test_weights_of_two_are_the_same_person_twice():
    data = people(200)
    twice = data.take(np.repeat(np.arange(200), 2))
    clusters = dataclasses.replace(twice, cluster=np.repeat(np.arange(200), 2))
    weighted = dataclasses.replace(data, weight=np.full(200, 2.0))
    metric = likewise.ignoring(np.eye(4)[:1])
    one, two = (
        likewise.audit(network(), d, metric=metric, settings=CORE).record.tests["loss_ratio"]
        for d in (weighted, clusters)
    )
    assert one.estimate == pytest.approx(two.estimate, rel=1e-9)
    assert one.std_error == pytest.approx(two.std_error, rel=1e-9)


def test_a_metric_learned_from_the_audited_people_brings_its_own_uncertainty():
    data = people(300)
    own = likewise.audit(network(), data)
    assert own.record.metric.same_sample
    assert own.record.decided_by.metric == "refitted"
    refits = own.record.refits["loss_ratio"]
    assert refits.used
    assert len(refits.replicates) == 10
    assert own.record.tests["loss_ratio"].std_error == refits.std_error_refitted

    metric = likewise.sensitive_subspace(people(300, 1))
    other = likewise.audit(network(), data, metric=metric)
    assert not other.record.metric.same_sample
    assert other.record.decided_by.metric == "refitted"
    refits = other.record.refits["loss_ratio"]
    assert other.record.tests["loss_ratio"].std_error == refits.std_error_refitted

    fixed = Settings(decide={"metric": "fixed"})
    this = likewise.audit(network(), data, metric=metric, settings=fixed)
    assert this.record.tests["loss_ratio"].std_error == pytest.approx(refits.std_error_fixed)
    assert "under this metric" in this.record.sentence


def test_bootstrap_refits_on_demand():
    result = likewise.audit(network(), people(200), settings=Settings(metric={"refits": 20}))
    assert len(result.record.refits["loss_ratio"].replicates) == 20
    assert "bootstrap" in result.record.refits["loss_ratio"].method


def test_a_metric_of_other_people_cannot_be_bootstrapped():
    metric = likewise.sensitive_subspace(people(200, 1))
    with pytest.raises(InvalidSettings, match="people that the metric was learned from"):
        likewise.audit(
            network(), people(200), metric=metric, settings=Settings(metric={"refits": 20})
        )


@pytest.mark.parametrize("test", ["loss_ratio", "error_rate_ratio"])
def test_the_result_says_what_other_tolerances_would_have_given(test):
    settings = CORE.changed(decide__test=test)
    metric = likewise.ignoring(np.eye(4)[:1])
    record = likewise.audit(network(), people(), metric=metric, settings=settings).record
    curve, decided = record.delta_curve, record.tests[test]
    assert curve.unfair_below == decided.lower_bound
    assert curve.tolerable_from >= decided.lower_bound
    assert 20 <= len(curve.points) <= 30
    for point in curve.points[1:]:
        expected = "inconclusive"
        if point.delta < curve.unfair_below:
            expected = "evidence_of_unfairness"
        elif point.delta >= curve.tolerable_from:
            expected = "within_tolerance"
        assert point.outcome == expected
    again = point.delta
    other = likewise.audit(
        network(), people(), metric=metric, settings=settings.changed(delta=again)
    ).record.tests[test]
    assert (other.outcome, other.p_value) == (point.outcome, pytest.approx(point.p_value))


def test_the_worst_come_first_and_show_what_moved():
    result = likewise.audit(network(), people(), settings=CORE)
    worst = result.worst(20)
    assert len(worst) == 20
    ratios = [case.ratio for case in worst]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == pytest.approx(result.outcomes.ratio.max())
    assert set(worst[0].before) == set(result.record.data.features)
    assert worst[0].before != worst[0].after


def test_the_audit_of_a_subset_is_the_subset_of_the_audit():
    data, metric = people(1000), likewise.ignoring(np.eye(4)[:1])
    flow = likewise.GradientFlow(solver="exponential4", steps=8)
    rows = np.random.default_rng(3).permutation(1000)[:137]
    whole = likewise.audit(network(), data, metric=metric, map=flow, settings=CORE)
    part = likewise.audit(network(), data.take(rows), metric=metric, map=flow, settings=CORE)
    assert part.outcomes.loss_after == pytest.approx(whole.outcomes.loss_after[rows], rel=1e-9)


def test_the_number_of_threads_changes_nothing():
    data = people(9000)
    metric = likewise.ignoring(np.eye(4)[:1])
    one, two = (
        likewise.audit(network(), data, metric=metric, settings=CORE, run=likewise.Threads(threads))
        for threads in (1, 2)
    )
    assert np.array_equal(one.outcomes.loss_after, two.outcomes.loss_after)
    assert one.record.tests == two.record.tests


def test_diverged_people_make_the_result_untrustworthy():
    class Explosive(torch.nn.Module):
        def forward(self, x):
            return torch.stack([-x[:, 0].square().square(), x[:, 0].square().square()], dim=1)

    metric = likewise.ignoring(np.eye(4)[:1])
    flow = likewise.GradientFlow(solver="exponential4", steps=40, time=20)
    result = likewise.audit(Explosive(), people(), metric=metric, map=flow, settings=CORE)
    assert result.record.rows["diverged"] > 0
    assert not result.record.trustworthy
    assert result.record.rows["n"] == len(result.outcomes) == 300
    assert issubclass(Untrustworthy, likewise.LikewiseError)


def test_without_metric_or_traits_there_is_nothing_to_go_by():
    data = dataclasses.replace(people(), protected={})
    with pytest.raises(InvalidData, match="protected"):
        likewise.audit(network(), data)


def test_a_random_model_is_refused():
    model = torch.nn.Sequential(network())
    model.forward = lambda x: model[0](x) + torch.randn(len(x), 2)
    with pytest.raises(InvalidModel, match="random"):
        likewise.audit(model, people())


def test_the_record_is_read_back_as_it_was():
    result = likewise.audit(network(), people(), settings=CORE)
    again = likewise.Record.from_json(result.to_json())
    assert again.to_json() == result.to_json()


def test_a_summary_fits_on_the_page_and_ends_with_the_verdict():
    text = likewise.audit(network(), people()).summary()
    assert max(map(len, text.splitlines())) <= 80
    last = " ".join(text.split("=" * 78)[-1].split())
    assert last.startswith(("Evidence of unfairness", "Within tolerance", "Inconclusive"))


def test_a_metric_of_ones_own_works_without_a_quadratic_form():
    class Quartic(TorchMetric):
        def squared_distance_torch(self, x, x0):
            return (x - x0)[:, 1:].square().square().sum(1)

    # A small price and a short time: explicit solvers take steps as short as these ask for.
    settings = Settings(flow={"lam": 2.0, "time": 1.0})
    result = likewise.audit(network(), people(), metric=Quartic(), settings=settings)
    assert not result.record.metric.learned
    assert len(result.record.metric.sha256) == 64
    assert result.outcomes.ratio.min() >= 1


def test_cross_fitting_moves_nobody_under_a_metric_learned_from_them():
    data = people(200)
    metric = likewise.sensitive_subspace(data)
    settings = Settings(checks="core", metric={"crossfit": True})
    flow = likewise.GradientFlow(solver="exponential4", steps=8)
    crossed = likewise.audit(network(), data, metric=metric, map=flow, settings=settings)
    assert crossed.outcomes.row.tolist() == list(range(200))
    rows = np.flatnonzero(metric.groups == 3)
    alone = likewise.audit(
        network(), data.take(rows), metric=metric.refits[3], map=flow, settings=CORE
    )
    assert crossed.outcomes.loss_after[rows] == pytest.approx(alone.outcomes.loss_after, rel=1e-9)
    with pytest.raises(likewise.LikewiseError, match="crossfit"):
        likewise.audit(network(), people(200, 1), metric=metric, settings=settings)


def test_people_of_a_single_class_are_audited_where_the_model_knows_its_classes():
    everyone, metric = people(), likewise.ignoring([[1.0, 0.5, 0.0, 0.0]])
    settings = CORE.changed(map__solver="exponential4", map__steps=8)
    model = LogisticRegression().fit(everyone.x, everyone.y)
    few = everyone.take(np.flatnonzero(everyone.y == 1))
    with pytest.warns(match="Everyone has the same label"):
        record = likewise.audit(model, few, metric=metric, settings=settings).record
    assert record.model.classes == ("0", "1")
    assert record.data.classes == {"1": len(few)}
    moved = likewise.audit(model, everyone, metric=metric, settings=settings).outcomes
    expected = moved.take(np.flatnonzero(everyone.y == 1)).ratio.mean()
    assert record.verdict("loss_ratio").S_n == pytest.approx(expected, rel=1e-9)
    with pytest.raises(InvalidData, match=r"one class only .* does not say which others"):
        likewise.audit(network().double(), few, metric=metric, settings=settings)
