"""A trait that means nothing accuses nobody; one that the model goes by still does."""

import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.report.html import to_html
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

CORE = Settings(checks="core", map="reach")


def world(rng, n=1500, d=12, coin=False):
    """People of two groups; a model that uses what tells them apart, among much else."""
    sex = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d))
    x[:, 0] += 2.5 * sex
    y = (2 * x[:, 0] + x[:, 1] + rng.logistic(size=n) > 2.5).astype(int)
    trait = rng.integers(0, 2, n) if coin else sex
    train, test = np.arange(n // 2, n), np.arange(n // 2)
    model = LogisticRegression().fit(x[train], y[train])
    learned_from = likewise.AuditData.from_arrays(x[train], y[train], {"sex": trait[train]})
    people = likewise.AuditData.from_arrays(x[test], y[test], {"sex": trait[test]})
    return model, people, learned_from


@pytest.fixture(scope="module")
def steep():
    model, people, train = world(np.random.default_rng(1))
    return model, people, likewise.sensitive_subspace(train)


@pytest.fixture(scope="module")
def coin():
    model, people, train = world(np.random.default_rng(4), coin=True)
    return model, people, likewise.sensitive_subspace(train)


def test_a_model_that_goes_by_the_trait_is_accused_with_placebos(steep):
    model, people, metric = steep
    result = likewise.audit(model, people, metric=metric, settings=CORE)
    assert result.outcome == "evidence_of_unfairness"
    placebo = result.record.placebo["loss_ratio"]
    assert placebo.p_value == pytest.approx(1 / 40)
    assert len(placebo.placebos) == placebo.planned == 39
    assert placebo.estimate == pytest.approx(result.record.tests["loss_ratio"].estimate)
    assert max(placebo.placebos) < placebo.estimate
    assert "With the traits shuffled: " in result.summary()


def test_a_coin_is_not_accused_and_the_sentence_says_why(coin):
    model, people, metric = coin
    this_metric = CORE.changed(decide__metric="fixed")
    result = likewise.audit(model, people, metric=metric, settings=this_metric)
    deciding = result.record.tests["loss_ratio"]
    assert deciding.lower_bound > 1.25
    assert not deciding.rejected
    assert result.outcome == "inconclusive"
    assert "the model is as sensitive to a trait that means nothing" in result.record.sentence
    assert "under this metric" in result.record.sentence
    placebo = result.record.placebo["loss_ratio"]
    assert placebo.p_value == pytest.approx(8 / len(placebo.placebos))
    assert result.record.delta_curve.unfair_below <= 1
    page = to_html(result.record)
    assert "A trait that means nothing" in page
    assert page.count('class="placebo"') == len(placebo.placebos)


def test_the_papers_procedure_shows_placebos_and_decides_without_them(coin):
    model, people, metric = coin
    settings = CORE.changed(decide__interval="paper")
    result = likewise.audit(model, people, metric=metric, settings=settings)
    assert result.outcome == "evidence_of_unfairness"
    assert not result.record.placebo["loss_ratio"].used
    assert result.record.decided_by.metric == "fixed"


def test_a_learned_metric_without_placebos_cannot_accuse(steep):
    model, people, metric = steep
    bare = dataclasses.replace(metric, placebos=())
    result = likewise.audit(model, people, metric=bare, settings=CORE)
    assert result.outcome == "inconclusive"
    assert "was learned without placebos" in result.record.sentence
    assert result.record.placebo == {}


def test_a_given_metric_needs_no_placebo(steep):
    model, people, metric = steep
    given = likewise.ignoring(metric.free).with_reach(people.x)
    result = likewise.audit(model, people, metric=given, settings=CORE)
    assert result.outcome == "evidence_of_unfairness"
    assert result.record.placebo == {}


def test_placebos_are_not_moved_where_nobody_may_be_accused(steep):
    model, people, metric = steep
    tolerant = CORE.changed(cap=1e4, delta=1e3)
    result = likewise.audit(model, people, metric=metric, settings=tolerant)
    assert result.outcome != "evidence_of_unfairness"
    assert result.record.placebo == {}
    assert "placebo" in result.record.skipped


def test_more_than_two_thousand_people_are_compared_on_a_sample(steep):
    model, people, metric = steep
    settings = CORE.changed(checks__placebo={"people": 300, "enough": 3})
    result = likewise.audit(model, people, metric=metric, settings=settings)
    placebo = result.record.placebo["loss_ratio"]
    assert placebo.n == 300
    assert placebo.estimate != result.record.tests["loss_ratio"].estimate


def test_a_constant_model_is_accused_of_nothing(steep):
    _, people, metric = steep
    constant = LogisticRegression().fit(np.zeros_like(people.x), people.y)
    result = likewise.audit(
        constant, people, metric=metric, settings=CORE.changed(checks__run=["placebo"])
    )
    assert result.outcome != "evidence_of_unfairness"
    assert result.record.placebo["loss_ratio"].p_value == 1.0


def test_searches_look_at_as_few_places_with_the_true_traits_as_with_shuffled_ones():
    # Two traits, and trees: with one direction, or a line, few places find what many do.
    rng = np.random.default_rng(2)
    x = rng.normal(size=(900, 5))
    traits = {"a": (x[:, 0] + rng.normal(size=900) > 0) * 1, "b": (x[:, 1] > 0.3) * 1}
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=900) > 0).astype(int)
    model = GradientBoostingClassifier(random_state=0).fit(x, y)
    people = likewise.AuditData.from_arrays(
        x[:400], y[:400], {k: v[:400] for k, v in traits.items()}
    )
    train = likewise.AuditData.from_arrays(
        x[400:], y[400:], {k: v[400:] for k, v in traits.items()}
    )
    metric = likewise.sensitive_subspace(train, groups=0, placebos=5)
    core = Settings(checks="core").changed(checks__run=["placebo"])

    def value(metric, budget=None):
        bare = dataclasses.replace(metric, placebos=())
        found = likewise.audit(
            model, people, metric=bare, map=likewise.Reach(budget=budget), settings=core
        )
        return found.record.tests["loss_ratio"].estimate

    result = likewise.audit(model, people, metric=metric, map=likewise.Reach(), settings=core)
    placebo = result.record.placebo["loss_ratio"]
    few = likewise.Reach().rough(metric).budget
    assert placebo.estimate == pytest.approx(value(metric, few))
    assert placebo.estimate < result.record.tests["loss_ratio"].estimate == value(metric)
    assert placebo.placebos[0] == pytest.approx(value(metric.placebos[0], few))
    assert likewise.Reach(budget=100).rough(metric).budget == 20
    assert likewise.Reach(budget=3).rough(metric).budget == 3
