"""Audits under learned metrics: whom they are learned from, and their own uncertainty."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from helpers import run, survey_of
from likewise.audit_data import AuditData
from likewise.data.source import Blocks
from likewise.errors import StatisticalWarning
from likewise.handle import as_seen
from likewise.methods import learn_metric as learning
from likewise.methods.unfair_map import Moved, UnfairMap
from likewise.models import save_model
from likewise.run.journal import Memory
from likewise.session import Session
from likewise.settings import Settings
from likewise.setup import prepare

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

CORE = Settings(checks="core", method="reach", metric={"controls": 0})


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4))
    sex = (x[:, 0] + rng.logistic(size=600) > 0).astype(int)
    y = (x[:, 0] + x[:, 1] + rng.logistic(size=600) > 0).astype(int)
    people = AuditData.from_arrays(x, y, {"sex": sex})
    model = LogisticRegression().fit(x, y)
    return model, people, likewise.metrics.sensitive_subspace(people, controls=0)


def audit(model, people, metric=None, **changed):
    return likewise.audit(model, people, metric=metric, settings=CORE.changed(**changed)).record


def refits(model, people, metric):
    record = audit(model, people, metric)
    return record.metric.same_sample, record.jackknife["error_rate_ratio"].std_error_refitted


def test_the_same_people_are_recognised_in_any_order_and_without_a_row(world, tmp_path):
    model, people, metric = world
    likewise.metrics.save_metric(metric, tmp_path / "metric.safetensors")
    again = likewise.metrics.load_metric(tmp_path / "metric.safetensors")
    same, error = refits(model, people, metric)
    assert same
    order = np.random.default_rng(0).permutation(600)
    assert refits(model, people.take(order), again) == (True, pytest.approx(error, rel=1e-6))
    fewer = people.take(np.arange(1, 600))
    assert refits(model, fewer, metric) == (True, pytest.approx(error, rel=0.1))
    assert not refits(model, dataclasses.replace(people, x=people.x + 0.01), metric)[0]


@pytest.mark.slow
def test_bounds_know_no_seed_and_are_never_narrower_than_with_the_metric_fixed(world):
    model, people, metric = world
    one, other = (audit(model, people, seed=seed) for seed in (0, 1))
    assert one.jackknife == other.jackknife
    assert one.metric.same_sample
    refitted, fixed = (audit(model, people, metric, decide__metric=m) for m in ("auto", "fixed"))
    for name, test in fixed.tests.items():
        wider = refitted.tests[name]
        assert wider.lower_bound <= test.lower_bound <= test.upper_bound <= wider.upper_bound
        assert wider.p_value >= test.p_value
        refits = refitted.jackknife[name]
        assert wider.std_error == refits.std_error_refitted
        assert test.std_error == pytest.approx(refits.std_error_fixed)
    assert refitted.decided_by.metric == "refitted"
    # Error rates have ten groups and losses twenty.
    assert len(refitted.jackknife["error_rate_ratio"].replicates) == 10
    losses = audit(model, people, metric, decide__test="loss_ratio")
    assert len(losses.jackknife["loss_ratio"].replicates) == 20


def test_v_n_is_the_papers_whatever_the_bounds_allow_for(world):
    model, people, learned = world
    for metric in ("auto", "fixed"):
        flow = CORE.changed(method="gradient_flow", decide__metric=metric)
        found = likewise.audit(model, people, metric=learned, settings=flow)
        test, ratio = found.record.tests["loss_ratio"], found.outcomes.ratio
        assert bool(found.record.jackknife) == (metric == "auto")
        assert test.V_n == pytest.approx(ratio.std(ddof=1), rel=1e-12)
        assert test.std_error > test.V_n / np.sqrt(test.n) or metric == "fixed"


def test_beyond_the_limit_a_seeded_sample_is_learned_from_and_it_is_said(monkeypatch):
    monkeypatch.setattr("likewise.methods.learn_metric.MAX_SAMPLE", 1000)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + frame["b"] + rng.normal(size=3000) > 0).astype(int)
    model = LogisticRegression().fit(frame[["a", "b", "c"]], frame["y"])
    frame["sex"] = np.where(frame["a"] + rng.normal(size=3000) > 0, "m", "f")

    def learned(seed):
        settings = CORE.changed(seed=seed, columns__label="y", columns__protected=("sex",))
        with Session(likewise.executors.Inline(), Memory()) as session:
            setup = prepare(session, model, frame, settings)
            known = survey_of(setup.source, seed, 500)  # of more people only some are kept
            setup = dataclasses.replace(setup, survey=known)
            wrapped, _ = setup.adapt()
            seen = as_seen(wrapped, known.sample)
            with pytest.warns(StatisticalWarning, match="random sample of 1,000 of 3,000 people"):
                metric = learning.learn_metric(setup, wrapped, seen)
            read = (people for _, people in Blocks(setup.source, 700).read(range(5)))
            groups = learning.groups_between(learning.unit_hashes(read), metric.cuts)
        assert "drawn at random from 3,000" in str(metric)
        # People beyond the sample are dealt to the groups as well: 150 are expected in each.
        assert 75 < np.bincount(groups, minlength=20).min() <= np.bincount(groups).max() < 250
        return metric.free

    np.testing.assert_array_equal(learned(0), learned(0))
    assert not np.allclose(learned(0), learned(1), atol=1e-6)


def test_a_function_is_audited_named_and_found_again_by_its_name(world):
    model, people, _ = world
    settings = Settings(checks="core", method={"name": "gradient_flow", "lam": 5.0, "time": 0.5})
    found = likewise.audit(model, people, metric=sum_of_differences, settings=settings).record
    name = f"{__name__}:sum_of_differences"
    assert found.settings.metric.name == name
    assert found.metric.kind == "FunctionMetric"
    assert found.metric.directions == ({"x2": 1.0, "x0": 0.0, "x1": 0.0, "x3": 0.0},)
    with pytest.raises(likewise.errors.InvalidSettings, match="trust"):
        likewise.audit(model, people, settings=found.settings)
    again = likewise.audit(model, people, settings=found.settings, trust=True).record
    assert again.tests == found.tests
    assert again.metric.sha256 == found.metric.sha256


@likewise.metric
def sum_of_differences(x, x0):
    """Return a rounded sum of absolute differences, but for the third column."""
    return (np.sqrt(1 + (x - x0) ** 2) - 1)[:, [0, 1, 3]].sum(axis=1)


def test_the_command_line_names_a_function_too(world, tmp_path):
    model, people, _ = world
    save_model(model, tmp_path / "model.safetensors")
    frame = pd.DataFrame(people.x[:100], columns=list(people.features)).assign(y=people.y[:100])
    frame.to_csv(tmp_path / "people.csv", index=False)
    name = f"{__name__}:sum_of_differences"
    asked = ["audit", tmp_path / "model.safetensors", tmp_path / "people.csv", "--label", "y"]
    asked += ["--metric", name, "--dry-run", "--set", "method.name=gradient_flow"]
    assert run(*asked).exit_code == 2
    found = run(*asked, "--trust", "--set", "method.time=0.1")
    assert f"the function {name}; columns that cost nothing: x2" in found.stdout
    assert "is not a quadratic form: an explicit solver takes about" in found.stdout


@dataclasses.dataclass(frozen=True)
class Nudge(UnfairMap):
    """Adds one to the first feature, or follows the first free direction."""

    follows: bool = False

    def bind(self, model, metric):
        step = metric.free[0] if self.follows else np.eye(metric.free.shape[1])[0]
        return lambda x0, y: Moved(x0 - step, np.zeros(len(x0), dtype=int), 1)


@pytest.mark.parametrize("follows", [False, True])
def test_a_method_that_ignores_the_metric_is_told_by_what_it_does(world, follows):
    model, people, _ = world
    settings = Settings(checks="core", decide={"test": "loss_ratio"})
    record = likewise.audit(model, people, method=Nudge(follows), settings=settings).record
    # Everyone is not above the limit, but a group is: that needs the control too.
    assert record.tests["loss_ratio"].outcome == ("inconclusive" if follows else "evidence")
    assert bool(record.jackknife) == bool(record.control) == follows
    flagged = not follows or record.control["loss_ratio"].p_value <= 0.05
    assert record.verdict == ("evidence" if flagged else "inconclusive")
    assert any(group.rejected for group in record.groups) == flagged
