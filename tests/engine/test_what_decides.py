"""What decides under a learned metric: the same for every model, and people who could exist."""

import dataclasses

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import likewise
from helpers import serving
from likewise.engine.decide import deciding_map, judge_outcomes
from likewise.errors import InvalidSettings
from likewise.report.html import to_html
from likewise.report.redact import redact
from likewise.scale.executors import Inline
from likewise.settings import Choice, Settings, make_settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

CHECKS = ("groups", "flow_beside", "placebo")


@dataclasses.dataclass(frozen=True)
class World:
    people: likewise.AuditData
    metric: likewise.metrics.fair_metric.FairMetric
    model: LogisticRegression


def people(n, seed):
    """Return people whose children are counted; the model goes by what tells the sexes apart."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    children = rng.poisson(1.5, n).astype(float)
    x = np.column_stack([rng.normal(size=n) + 2 * sex, rng.normal(size=n), children])
    y = (1.5 * x[:, 0] + x[:, 1] + 0.3 * children + rng.logistic(size=n) > 2).astype(int)
    return likewise.AuditData.from_arrays(
        x, y, {"sex": np.where(sex == 1, "f", "m")}, features=("zone", "school", "children")
    )


@pytest.fixture(scope="module")
def world():
    train = people(300, 1)
    model = LogisticRegression().fit(train.x, train.y)
    metric = likewise.sensitive_subspace(train, placebos=19, groups=4)
    return World(people(250, 2), metric, model)


@pytest.fixture(scope="module")
def result(world):
    return likewise.audit(world.model, world.people, metric=world.metric, checks=CHECKS)


FEW = Settings(checks="core", map={"name": "auto", "budget": 12})  # the server is slow


def five_ways(model, features, folder, asked):
    """Return what is found of one model as an object, a file, a function, an endpoint, ONNX."""
    from skl2onnx import to_onnx

    joblib.dump(model, folder / "model.joblib")
    graph = to_onnx(
        model,
        np.zeros((1, len(features)), np.float32),
        options={"zipmap": False},
        target_opset=17,
    )
    (folder / "model.onnx").write_bytes(graph.SerializeToString())

    def probabilities(x):
        return model.predict_proba(np.asarray(x))

    with serving(probabilities, features) as url:
        return {
            "object": asked(model),
            "joblib": asked(str(folder / "model.joblib"), trust=True),
            "function": asked(probabilities, run=Inline()),
            "endpoint": asked(url, run=Inline()),
            "onnx": asked(str(folder / "model.onnx")),
        }


def assert_one_answer(ways):
    one = ways["object"]
    assert (one.decided_by.map, one.decided_by.test) == ("reach", "error_rate_ratio")
    names = ("estimate", "std_error", "lower_bound", "upper_bound", "p_value")
    for way, other in ways.items():
        assert other.decided_by == one.decided_by, way
        assert (other.outcome, other.sentence) == (one.outcome, one.sentence), way
        here, there = (
            [
                *(getattr(test, name) for test in record.tests.values() for name in names),
                *(p for part in record.placebo.values() for p in part.placebos),
            ]
            for record in (one, other)
        )
        # An ONNX file computes in single precision.
        close = 1e-4 if way == "onnx" else 1e-6
        np.testing.assert_allclose(there, here, rtol=close, atol=close, err_msg=way)


def test_one_model_handed_over_in_five_ways_gets_one_verdict_within_reach(world, tmp_path):
    some = world.people.take(np.arange(80))

    def asked(model, **more):
        return likewise.audit(model, some, metric=world.metric, settings=FEW, **more).record

    assert_one_answer(five_ways(world.model, some.features, tmp_path, asked))


def units(n, seed):
    """Return people of whom one column counts in dollars, and who are easy to tell apart."""
    some = people(n, seed)
    columns = dict(zip(some.features, some.x.T, strict=True))
    columns |= {"school": 30_000 + 9000 * columns["school"], "y": some.y, **some.protected}
    return pd.DataFrame(columns)


def test_neither_units_nor_a_scaler_nor_the_form_of_a_model_change_its_verdict(tmp_path):
    features = ["zone", "school", "children"]
    train, test = units(300, 1), units(80, 2)
    sure = LogisticRegression(C=1e4)  # of some people by more than 0.999
    model = make_pipeline(StandardScaler(), sure).fit(train[features].to_numpy(), train.y)
    settings = FEW.changed(
        columns__label="y", columns__protected=("sex",), metric__groups=3, metric__placebos=8
    )

    def asked(model, **more):
        return likewise.audit(model, test, settings=settings, **more).record

    ways = five_ways(model, features, tmp_path, asked)
    assert_one_answer(ways)
    assert ways["object"].model.clipped > 0
    # A metric takes its units along: into another audit, and into a file.
    first = likewise.audit(model, test, settings=settings)
    likewise.save_metric(first.metric, tmp_path / "metric.safetensors")
    for metric in (first.metric, likewise.load_metric(tmp_path / "metric.safetensors")):
        again = likewise.audit(model, test, metric=metric, settings=settings).record
        assert again.tests == ways["object"].tests
    # The worst cases are shown in dollars.
    assert ways["function"].worst[0].before["school"] > 1000
    # The metric is blind to the trait only if it is learned in units that can be compared.
    trait = ways["function"].metric.origin.traits[0]
    assert trait.after.auc < 0.65 < trait.before.auc


def test_the_map_that_decides_is_that_of_the_table(world):
    tree = DecisionTreeClassifier(max_depth=2).fit(world.people.x, world.people.y)
    tree = likewise.as_model(tree).card
    smooth = likewise.as_model(world.model).card
    given = likewise.ignoring(world.metric.free)

    def name(choice, card, metric):
        return deciding_map(Choice.model_validate(choice), card, metric).name

    for card in (smooth, tree):
        assert name({}, card, world.metric) == "reach"
        assert name({}, card, given.with_reach(world.people.x)) == "reach"
    assert name({}, smooth, given) == "flow"
    assert name({"name": "auto", "lam": 20.0}, smooth, world.metric) == "flow"
    assert name({"name": "auto", "budget": 20}, smooth, world.metric) == "reach"
    with pytest.raises(InvalidSettings, match="Neither the flow nor the reach"):
        name({"name": "auto", "colour": 1}, smooth, world.metric)
    # Settings of version 0.1 keep the map that they had.
    old = make_settings({"decide": {"map": "auto"}}).map
    assert deciding_map(old, smooth, world.metric).name == "flow"
    assert deciding_map(old, tree, world.metric).get("feasible") is False


def test_the_paper_in_one_word_is_its_flow_its_penalty_and_this_very_metric():
    paper = Settings().as_in_paper()
    assert paper.map == Choice.model_validate({"name": "flow", "solver": "euler", "steps": 500})
    assert paper.metric.C == 1.0
    chosen = paper.decide
    assert (chosen.interval, chosen.metric, chosen.certify) == ("paper", "fixed", False)


def test_the_flow_stands_beside_with_its_own_placebo(result):
    record = result.record
    shuffled = record.placebo_beside["error_rate_ratio"]
    (flow,) = (t for t in record.beside if (t.map, t.test) == ("flow", "error_rate_ratio"))
    assert shuffled.estimate == pytest.approx(flow.estimate)
    assert f"the gradient flow, error-rate ratio {flow.estimate:.3f}" in " ".join(
        result.summary().split()
    )
    assert "Beside the search" in to_html(record)


def test_a_flow_that_is_as_sensitive_to_nothing_does_not_accuse(world):
    steep = LogisticRegression(C=100).fit(*(getattr(people(400, 5), name) for name in ("x", "y")))
    rng = np.random.default_rng(3)
    coin = people(400, 6)
    coin = dataclasses.replace(coin, protected={"coin": rng.choice(["a", "b"], 400)})
    record = likewise.audit(
        steep, coin, settings=Settings(metric={"placebos": 19, "groups": 4}), checks=CHECKS
    ).record
    # The probability of a false alarm is one in twenty over seeds; this seed has none.
    assert record.outcome != "evidence_of_unfairness"
    flows = [test for test in record.beside if test.map == "flow"]
    assert flows
    assert all(test.outcome != "evidence_of_unfairness" for test in flows)


def test_worst_cases_are_people_who_could_exist_beside_one_who_does(world, result):
    whole = set(world.people.x[:, 2])
    rows = {int(row): i for i, row in enumerate(world.people.row)}
    assert result.record.worst
    for case in result.record.worst:
        assert case.after["children"] in whole
        real = world.people.x[rows[case.nearest_row]]
        assert case.nearest == dict(zip(world.people.features, real, strict=True))
        assert case.nearest_row != case.row
    hidden = redact(result.record).worst[0]
    assert set(hidden.nearest.values()) == {"hidden"}


def test_people_moved_beyond_what_was_observed_are_counted_and_named(world):
    record = likewise.audit(
        world.model,
        world.people,
        metric=world.metric,
        map=likewise.GradientFlow(time=30.0),
        checks="core",
    ).record
    low, high = world.people.x.min(axis=0), world.people.x.max(axis=0)
    for case in record.worst:
        after = np.array([case.after[name] for name in world.people.features])
        left = (after < low - 1e-9) | (after > high + 1e-9)
        assert case.outside == tuple(np.array(world.people.features)[left])
    assert record.rows["outside_observed_ranges"] > 0
    assert any(case.outside for case in record.worst)
    assert "outside observed ranges" in " ".join(redact(record).model_dump_json().split("_"))


def test_columns_that_may_matter_are_held_under_a_metric_too(world):
    table = pa.table(
        {name: world.people.x[:, j] for j, name in enumerate(world.people.features)}
        | {"sex": world.people.protected["sex"], "paid": world.people.y}
    )
    columns = {"label": "paid", "protected": ("sex",), "may_matter": ("school",)}
    settings = Settings(columns=columns, metric={"placebos": 0, "groups": 2}, checks="core")
    fitted = LogisticRegression().fit(
        pd.DataFrame(world.people.x, columns=world.people.features), world.people.y
    )
    found = likewise.audit(fitted, table, settings=settings)
    place = world.people.features.index("school")
    assert np.abs(found.metric.free[:, place]).max() < 1e-12
    before, after = (
        [case.model_dump()[when]["school"] for case in found.record.worst]
        for when in ("before", "after")
    )
    assert before == pytest.approx(after)


def test_impact_ratios_are_of_the_favourable_decision_and_refusals_are_described(world):
    chosen = Settings(checks="core", decide={"favourable": "0"})
    found = likewise.audit(world.model, world.people, metric=world.metric, settings=chosen)
    record = found.record
    known = {(m.name, m.group): m.value for m in record.measures}
    decision = world.model.predict(world.people.x)
    women = world.people.protected["sex"] == "f"
    shares = [np.mean(decision[part] == 0) for part in (women, ~women)]
    assert known["selection_rate", "sex: f"] == pytest.approx(shares[0])
    assert known["impact_ratio", "sex: f"] == pytest.approx(shares[0] / shares[1])
    assert known["refused_before", ""] == pytest.approx(np.mean(decision != 0))
    after = found.outcomes.decision_after
    assert known["refused_after", ""] == pytest.approx(np.mean(after != 0))
    assert "the favourable decision" in to_html(record)
    with pytest.raises(InvalidSettings, match="'2' is no decision of this model"):
        likewise.audit(
            world.model,
            world.people,
            metric=world.metric,
            settings=chosen.changed(decide__favourable="2"),
        )


def test_without_a_favourable_decision_nobody_is_called_harmed(result):
    page = to_html(result.record)
    assert "Served worse means a larger loss" in page
    assert "harmed" not in page + result.summary()


def test_tests_that_are_repeated_know_what_shuffled_traits_said(result):
    strict = Settings(delta=1.0)

    def repeated(p_value, settings=strict):
        about = {**result.outcomes.about, "placebo": {"error_rate_ratio": p_value}}
        return judge_outcomes(dataclasses.replace(result.outcomes, about=about), settings)

    assert set(result.outcomes.about["placebo"]) == {"loss_ratio", "error_rate_ratio"}
    assert repeated(0.02).deciding.outcome == "evidence_of_unfairness"
    found = repeated(0.5)
    assert found.deciding.outcome == "inconclusive"
    assert "as sensitive to a trait that means nothing" in found.deciding.held_back
    assert "no placebo was tried" in found.records["loss_ratio"].held_back
    assert repeated(0.5, strict.as_in_paper()).deciding.rejected
