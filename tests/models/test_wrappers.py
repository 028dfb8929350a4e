"""Estimators around estimators are looked through, and thresholds are the model's own."""

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge, RidgeClassifier
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import likewise
from likewise.errors import InvalidModel, InvalidSettings
from likewise.handle import adapt
from likewise.loss import decide
from likewise.models import as_model
from likewise.models.adapt import table_model
from likewise.settings import Settings

N = 120
NUMBERS = ["hours", "age"]
COLUMNS = [*NUMBERS, "job", "sex"]


@functools.cache
def people():
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], 2 * N)
    frame = pd.DataFrame({"hours": 36 + 6 * (sex == "m") + 5 * rng.normal(size=2 * N)})
    frame["age"] = 40 + 11 * rng.normal(size=2 * N)
    frame["job"], frame["sex"] = rng.choice(["clerk", "cook", "smith"], 2 * N), sex
    score = frame.hours / 5 + frame.age / 11 + rng.normal(size=2 * N)
    frame["y"] = (score > 11.5).astype(int)
    frame["three"] = np.digitize(score, [10.5, 12])
    frame["wage"] = np.exp(score / 9)
    frame.loc[frame.index[N::10], "age"] = np.nan
    return frame


def whole(last):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(sparse_output=False)
    return make_pipeline(make_column_transformer((numbers, NUMBERS), (words, ["job", "sex"])), last)


def line():
    return LogisticRegression()


FEMALE_FIRST = make_scorer(f1_score, pos_label=0)
WRAPPED = {
    "calibrated": CalibratedClassifierCV(whole(LinearSVC()), cv=2),
    "soft vote": VotingClassifier([("a", whole(line())), ("b", whole(line()))], voting="soft"),
    "hard vote": VotingClassifier([("a", whole(line())), ("b", whole(RidgeClassifier()))]),
    "stack": StackingClassifier([("a", whole(line()))], cv=2),
    "tuned": TunedThresholdClassifierCV(whole(line()), scoring="balanced_accuracy", cv=2),
    "fixed": FixedThresholdClassifier(whole(line()), threshold=0.8),
    "fixed for class 0": FixedThresholdClassifier(whole(line()), threshold=0.8, pos_label=0),
    # Of ten trees, many give just this probability.
    "fixed forest": FixedThresholdClassifier(
        whole(RandomForestClassifier(10, random_state=0)), threshold=0.7
    ),
    "fixed score": FixedThresholdClassifier(whole(LinearSVC()), threshold=0.5),
    "LinearSVC": whole(LinearSVC()),
    "RidgeClassifier": whole(RidgeClassifier()),
    "Perceptron": whole(Perceptron()),
}


def ready(estimator, label="y"):
    """Return the model as an audit of people with gaps makes it ready, and the people."""
    others = [name for name in ("y", "three", "wage") if name != label]
    frame = people()[N:].drop(columns=others)
    data = likewise.read(frame, label=label, protected=["sex"], raw=True)
    return adapt(estimator, data, attributes=("sex",))[0], data


@pytest.mark.parametrize("name", WRAPPED)
def test_what_is_decided_is_what_the_estimator_decides(name):
    frame = people()
    estimator = WRAPPED[name].fit(frame[:N][COLUMNS], frame["y"][:N])
    model, data = ready(estimator)
    out = table_model(model, data)(data.table)
    theirs = estimator.predict(frame[N:][COLUMNS])
    assert decide(out, model.card.output, model.card.threshold).tolist() == theirs.tolist()
    assert 0 < theirs.mean() < 1
    scores = ("hard vote", "LinearSVC", "RidgeClassifier", "Perceptron", "fixed score")
    assert model.card.decisions == (name in scores)


@pytest.mark.parametrize("last", [LinearSVC(), SVC(), RidgeClassifier()])
def test_scores_of_three_classes_are_decisions(last):
    frame = people()
    estimator = whole(last).fit(frame[:N][COLUMNS], frame["three"][:N])
    model, data = ready(estimator, "three")
    out = table_model(model, data)(data.table)
    assert decide(out, model.card.output).tolist() == list(estimator.predict(frame[N:][COLUMNS]))


@pytest.mark.parametrize("inside", [True, False])
def test_a_transformed_target_is_predicted_in_its_own_unit(inside):
    frame = people()
    logarithm = {"func": np.log, "inverse_func": np.exp}
    estimator = (
        TransformedTargetRegressor(whole(Ridge()), **logarithm)
        if not inside
        else whole(TransformedTargetRegressor(Ridge(), **logarithm))
    ).fit(frame[:N][COLUMNS], frame["wage"][:N])
    model, data = ready(estimator, "wage")
    theirs = estimator.predict(frame[N:][COLUMNS])
    assert table_model(model, data)(data.table)[:, 0] == pytest.approx(theirs, rel=1e-12)


def test_a_threshold_on_scores_of_a_model_with_probabilities_is_refused():
    frame = people()
    by_scores = FixedThresholdClassifier(
        line(), threshold=0.3, response_method="decision_function"
    ).fit(frame[:N][["hours"]], frame["y"][:N])
    with pytest.raises(InvalidModel, match="response_method='predict_proba'"):
        as_model(by_scores)


def audited(estimator, **choices):
    frame = people()[["hours", "sex", "y"]]
    estimator.fit(frame[:N][["hours"]], frame["y"][:N])
    settings = Settings(
        checks="core",
        columns={"label": "y", "protected": ("sex",)},
        metric={"controls": 0, "groups": 2},
        **choices,
    )
    result = likewise.audit(estimator, frame[N:], settings=settings)
    outcomes = result.outcomes
    theirs = estimator.predict(frame[N:][["hours"]])
    return result, outcomes.decision_before, theirs


@pytest.mark.filterwarnings("ignore:The LinearSVC gives no probabilities")
def test_a_model_of_scores_is_judged_by_its_error_rates_and_that_is_said():
    result, decided, theirs = audited(LinearSVC())
    assert decided.tolist() == theirs.tolist()
    assert list(result.record.tests) == ["error_rate_ratio"]
    assert "error rates (the 0-1 loss) decide" in str(result.record.warnings)
    with pytest.raises(InvalidSettings, match="only its error rates can decide"):
        audited(LinearSVC(), decide={"test": "loss_ratio"}, tests=["loss_ratio"])


def test_a_threshold_of_the_model_or_of_the_settings_decides():
    _, decided, theirs = audited(FixedThresholdClassifier(line(), threshold=0.8))
    assert decided.tolist() == theirs.tolist()
    assert theirs.mean() < 0.9 * audited(line())[1].mean()
    _, by_settings, _ = audited(line(), decide={"threshold": 0.8})
    assert by_settings.tolist() == theirs.tolist()
