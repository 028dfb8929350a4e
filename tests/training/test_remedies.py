"""Remedies for any estimator: scikit-learn's manners, parity, and less attention to a proxy."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import likewise
from likewise.engine.paired_audits import Margins
from likewise.errors import InvalidData, InvalidSettings
from likewise.improving import improve
from likewise.training import (
    CounterpartAugmentedClassifier,
    CounterpartAverage,
    FairBoostingClassifier,
    SenSeIClassifier,
)

FEATURES = ["age", "zone", "town"]


def population(n, seed):
    """Return people whose label leans on age, and on where they live, which goes with sex."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age, zone = rng.normal(size=n), rng.normal(size=n) + 1.2 * sex
    town = np.where(rng.random(n) < 0.3 + 0.4 * sex, "north", "south")
    y = rng.random(n) < 1 / (1 + np.exp(-(1.5 * age - 0.5 * zone)))
    return pd.DataFrame(
        {"age": age, "zone": zone, "town": town, "sex": sex, "paid": np.where(y, "yes", "no")}
    )


SMALL = [
    CounterpartAverage(may_matter=(), m=3),
    CounterpartAugmentedClassifier(may_matter=(), m=2),
    FairBoostingClassifier(max_iter=3, neighbours=4),
    FairBoostingClassifier(max_iter=3, neighbours=4, may_matter=(), engine="lightgbm"),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", SMALL, ids=lambda e: f"{type(e).__name__}")
def test_scikit_learn_accepts_the_estimator(estimator):
    results = check_estimator(estimator, on_fail="raise")
    assert sum(result["status"] == "passed" for result in results) > 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::likewise.errors.TrainingWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_sensei():
    results = check_estimator(SenSeIClassifier(max_iter=3, attack_steps=2), on_fail="raise")
    assert sum(result["status"] == "passed" for result in results) > 40


def test_the_average_is_one_number_for_people_alike_in_what_may_matter():
    people = population(400, 1)
    x, y = people[["age", "zone"]], people["paid"]
    model = CounterpartAverage(LogisticRegression(), may_matter=["age"]).fit(x, y, people["sex"])
    twins = pd.DataFrame({"age": [0.3, 0.3, 0.3], "zone": [-2.0, 0.0, 5.0]})
    found = model.predict_proba(twins)[:, 1]
    assert np.ptp(found) == 0
    own = model.set_params(weight=0.5).predict_proba(twins)[:, 1]
    plain = model.estimator_.predict_proba(twins)[:, 1]
    np.testing.assert_allclose(own, (found + plain) / 2)


def test_counterparts_in_training_unlearn_the_proxy():
    people = population(1500, 2)
    x, y = people[["age", "zone"]], people["paid"]
    weights = [
        CounterpartAugmentedClassifier(LogisticRegression(), may_matter=["age"], weight=w)
        .fit(x, y, people["sex"])
        .estimator_.coef_[0]
        for w in (0.0, 1.0, 5.0)
    ]
    zone = [abs(w[1]) for w in weights]
    assert zone[0] > 1.5 * zone[1] > 1.5 * zone[2]
    assert weights[2][0] > 0.8 * weights[0][0]


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm"])
def test_fair_boosting_pays_less_attention_to_the_proxy(engine):
    people = population(1200, 3)
    x, y = people[["age", "zone"]].to_numpy(), people["paid"].to_numpy()

    def swing(budget):
        model = FairBoostingClassifier(
            may_matter=[0], budget=budget, max_iter=30, neighbours=12, engine=engine
        ).fit(x, y, people["sex"])
        low, high = (
            model.decision_function(np.column_stack([x[:, 0], np.full(len(x), zone)]))
            for zone in (-1.0, 2.0)
        )
        return np.abs(high - low).mean(), model.score(x, y)

    (loose, score), (tight, fair_score) = swing(1e-6), swing(0.5)
    assert tight < 0.6 * loose
    assert fair_score > score - 0.1


def test_sensei_gives_alike_outputs_along_the_subspace():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(600, 3))
    y = (x[:, 0] + x[:, 1] > 0).astype(int)

    def swing(rho):
        model = SenSeIClassifier(
            [[1.0, 0.0, 0.0]],
            rho=rho,
            max_iter=150,
            attack_steps=5,
            learning_rate=0.01,
            random_state=0,
        ).fit(x, y)
        moved = x + np.array([2.0, 0.0, 0.0])
        return np.abs(model.predict_proba(moved) - model.predict_proba(x)).mean()

    assert swing(5.0) < 0.5 * swing(1e-6)


def test_bad_choices_are_refused_in_a_sentence():
    people = population(50, 5)
    x, y = people[["age", "zone"]], people["paid"]
    with pytest.raises(InvalidSettings, match="no column 'aeg' that could matter"):
        CounterpartAverage(may_matter=["aeg"]).fit(x, y)
    with pytest.raises(InvalidSettings, match="at most 1"):
        CounterpartAverage(weight=2.0).fit(x, y)
    with pytest.raises(InvalidData, match="one class only"):
        CounterpartAugmentedClassifier().fit(x, np.zeros(50))
    with pytest.raises(InvalidSettings, match="engine"):
        FairBoostingClassifier(engine="magic").fit(x, y)


def test_the_scorer_takes_counterparts_from_outside_the_fold():
    people = population(600, 6)
    scorer = likewise.make_scorer(people, label="paid", protected=["sex"], may_matter=["age"])
    x, y = people[["age", "zone"]], people["paid"]
    scores = cross_val_score(LogisticRegression(), x, y, scoring=scorer, cv=2)
    assert (scores < -1.0).all()
    fair = cross_val_score(LogisticRegression(), x.assign(zone=0.0), y, scoring=scorer, cv=2)
    assert fair.shape == (2,)
    with pytest.raises(InvalidData, match="by the index"):
        scorer(clone(LogisticRegression()).fit(x, y), x.to_numpy(), y)
    asked = {"label": "paid", "protected": ["sex"]}
    with pytest.raises(InvalidData, match="nobody may occur twice"):
        likewise.make_scorer(pd.concat([people, people]), **asked)
    with pytest.raises(InvalidData, match="no column 'agee'"):
        likewise.make_scorer(people, may_matter=["agee"], **asked)
    learned = likewise.make_scorer(people, **asked)
    with pytest.raises(InvalidData, match="Column 'town' is no number"):
        learned(LogisticRegression(), people[FEATURES][:50])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("improve")
    choices = {"label": "paid", "protected": ["sex"], "may_matter": ["age"], "folder": folder}
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    choices["ignore"] = ["town"]
    choices["model"] = make_pipeline(StandardScaler(), LogisticRegression())
    people = population(2400, 7)
    return improve(people, margins=Margins(0.08), **choices), people, choices


def test_improving_writes_a_fairer_model_and_the_comparison(found):
    result, _, choices = found
    assert result.chosen
    first, second = (
        result.comparison.paired[0].measures[0].first,
        (result.comparison.paired[0].measures[0].second),
    )
    assert second < first
    names = {path.name for path in choices["folder"].iterdir()}
    assert {"model.joblib", "chosen.json", "baseline.html", "comparison.html"} <= names
    assert "On people who had no part in choosing" in " ".join(str(result).split())
    assert max(map(len, str(result).splitlines())) <= 80


def test_a_run_that_stopped_goes_on_where_it_was(found, monkeypatch):
    result, people, choices = found
    monkeypatch.setattr("likewise.improving.trials.Trial.__call__", None)
    again = improve(people, margins=Margins(0.08), **choices)
    assert again.tried == result.tried
    assert again.chosen == result.chosen


def test_nothing_better_is_said(found):
    _, people, choices = found
    fair = {**choices, "folder": None, "may_matter": ["age", "zone"]}
    result = improve(people, **fair)
    assert not result.better
    assert "Nothing tried" in str(result) or "not shown to be better" in str(result)
