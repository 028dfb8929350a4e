"""A permuted attribute is no evidence of unfairness; one that the model goes by still is."""

import dataclasses
import math

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.audit_data import AuditData
from likewise.methods.negative_control import ControlComparison
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

CORE = Settings(checks="core", method="reach", decide={"test": "loss_ratio"})
DRAWN = (1.0, 2.0, 1.5, *[1.1] * 36)


@pytest.mark.parametrize(
    ("estimate", "drawn", "p"),
    [
        (3.0, DRAWN, 1 / 40),
        (2.0, DRAWN, 2 / 40),
        (1.4, DRAWN, 3 / 40),
        # What is not finite counts against evidence, and so do the ties of a constant model.
        (2.0, (math.nan, math.inf, *[1.0] * 37), 3 / 40),
        (math.nan, (1.0,) * 39, 1.0),
        (2.0, (2.0,) * 39, 1.0),
    ],
)
def test_the_p_value_counts_permutations_that_do_at_least_as_much(estimate, drawn, p):
    assert ControlComparison(estimate, drawn, 39).p_value == pytest.approx(p)


def test_it_ends_at_the_eighth_permutation_that_does_at_least_as_much():
    drawn = (*[1.0, 3.0] * 6, 9.0, 3.0, 3.0, 3.0, 0.0)
    # What was drawn beyond that, in the same wave, changes nothing.
    for compared in (ControlComparison(2.0, drawn, 39), ControlComparison(2.0, drawn[:14], 39)):
        assert compared.complete
        assert compared.needed == drawn[:14]
        assert compared.p_value == pytest.approx(8 / 14)
    assert "(1 to 9, p = 0.57; as they are 2)" in str(compared)
    assert not ControlComparison(2.0, drawn[:13], 39).complete


def test_under_exchangeability_p_is_small_no_more_often_than_it_says(rng):
    draws = rng.integers(0, 50, size=(3000, 40)).astype(float)  # with ties
    p = np.array([ControlComparison(row[0], tuple(row[1:]), 39).p_value for row in draws])
    for level in (0.025, 0.05, 0.1, 0.25, 0.5):
        # Four standard errors: all five levels hold but for one run in 6000.
        assert np.mean(p <= level) <= level + 4 * math.sqrt(level * (1 - level) / 3000)


def world(seed, n=1500, d=12, random=False):
    """People of two groups; a model that uses what tells them apart, among much else."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d))
    x[:, 0] += 2.5 * sex
    y = (2 * x[:, 0] + x[:, 1] + rng.logistic(size=n) > 2.5).astype(int)
    attribute = rng.integers(0, 2, n) if random else sex
    train, test = np.arange(n // 2, n), np.arange(n // 2)
    model = LogisticRegression().fit(x[train], y[train])
    sample = AuditData.from_arrays(x[train], y[train], {"sex": attribute[train]})
    people = AuditData.from_arrays(x[test], y[test], {"sex": attribute[test]})
    return model, people, likewise.metrics.sensitive_subspace(sample)


@pytest.fixture(scope="module")
def steep():
    return world(1)


def audit(world, **changed):
    model, people, metric = world
    metric = changed.pop("metric", metric)
    return likewise.audit(model, people, metric=metric, settings=CORE.changed(**changed)).record


def test_a_model_that_goes_by_the_attribute_is_evidence_with_permuted_ones_beside(steep):
    record = audit(steep, cap=1e4, delta=1e3)  # nothing to hold back
    assert record.verdict != "evidence"
    assert not record.control
    assert "negative control" in record.skipped
    record = audit(steep)
    assert record.verdict == "evidence"
    control = record.control["loss_ratio"]
    assert len(control.permuted) == control.planned == 39
    assert control.estimate == pytest.approx(record.tests["loss_ratio"].estimate)
    assert max(control.permuted) < control.estimate


def test_a_random_attribute_is_evidence_by_the_papers_procedure_alone_and_the_reason_is_said():
    random = world(4, random=True)
    record = audit(random, decide__metric="fixed")
    deciding = record.tests["loss_ratio"]
    assert deciding.lower_bound > 1.25
    assert record.verdict == "inconclusive"
    control = record.control["loss_ratio"]
    assert control.p_value == pytest.approx(8 / len(control.permuted))
    as_large = f"random attributes give ratios as large ({min(control.permuted):.3g} to"
    assert as_large in deciding.held_back
    record = audit(random, decide__interval="paper")
    assert record.verdict == "evidence"
    assert not record.control["loss_ratio"].used


def test_without_permuted_attributes_only_a_given_metric_gives_evidence(steep):
    record = audit(steep, metric=dataclasses.replace(steep[2], controls=()))
    assert record.verdict == "inconclusive"
    assert "was learned without permuted attributes" in record.tests["loss_ratio"].held_back
    given = audit(steep, metric=likewise.metrics.ignoring(steep[2].free).with_reach(steep[1].x))
    assert given.verdict == "evidence"
    assert not record.control
    assert not given.control


def test_searches_look_at_as_few_places_with_true_attributes_as_with_permuted_ones():
    # Two attributes, and trees: with one direction, or a line, few places find what many do.
    rng = np.random.default_rng(2)
    x = rng.normal(size=(900, 5))
    protected = {"a": (x[:, 0] + rng.normal(size=900) > 0) * 1, "b": (x[:, 1] > 0.3) * 1}
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=900) > 0).astype(int)
    model = GradientBoostingClassifier(random_state=0).fit(x, y)
    everyone = AuditData.from_arrays(x, y, protected)
    people, train = everyone.take(slice(0, 400)), everyone.take(slice(400, 900))
    metric = likewise.metrics.sensitive_subspace(train, groups=0, controls=5)

    def value(metric, budget=None):
        bare = dataclasses.replace(metric, controls=())
        return audit((model, people, bare), method__budget=budget).tests["loss_ratio"].estimate

    found = audit((model, people, metric))
    control = found.control["loss_ratio"]
    few = likewise.Reach().rough(metric).budget
    assert control.estimate == pytest.approx(value(metric, few))
    assert control.estimate < found.tests["loss_ratio"].estimate == value(metric)
    assert control.permuted[0] == pytest.approx(value(metric.controls[0], few))
