"""Looking for a fairer model: any table, any model."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import likewise
from likewise import training
from likewise.errors import InvalidData, InvalidSettings, TrainingWarning
from likewise.improving import improve, remedies
from likewise.improving.remedies import Remedy, baseline
from likewise.models import is_model_name
from likewise.record import (
    CounterpartGroup,
    CounterpartsRecord,
    CounterpartTrait,
)
from likewise.training.frame_features import frame_features, origins

ASKED = {"label": "outcome", "protected": ["sex"], "may_matter": ["years", "joined"]}


def staff(n: int = 1000, seed: int = 3) -> pd.DataFrame:
    """Return people as they come: text labels, categories, dates, gaps, a rare group."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m", "x"], n, p=[0.48, 0.49, 0.03])
    years = rng.gamma(2, 4, n).round(1)
    part_time = rng.random(n) < np.where(sex == "f", 0.6, 0.1)
    paid = rng.random(n) < 1 / (1 + np.exp(1.0 - 0.15 * years + 2 * part_time))
    joined = np.datetime64("2001-01-01") + rng.integers(0, 7000, n).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "sex": sex,
            "years": np.where(rng.random(n) < 0.1, np.nan, years),
            "joined": joined.astype(str),
            "unit (now)": rng.choice(["sales", "works", None], n),
            "part time": part_time,
            "outcome": np.where(paid, "raise", "none"),
        }
    )


@pytest.fixture
def few(monkeypatch):
    """Try each remedy at one strength."""
    grid = {"AUGMENTED": (0.6,), "AVERAGED": (0.5,), "BUDGETS": (), "RHOS": ()}
    for name, values in {**grid, "AVERAGED_ALONE": (0.5, 1.0)}.items():
        monkeypatch.setattr(remedies, name, values)


def test_an_estimator_of_numbers_is_improved_on_a_table_with_gaps_dates_and_text(few, tmp_path):
    people = staff()
    path = tmp_path / "staff.csv"
    people.to_csv(path, index=False)
    found = improve([str(path)], model=LogisticRegression(), folder=tmp_path / "out", **ASKED)
    first, second = (one for one in found.tried if one.stage == 1)
    assert first.remedy == "baseline"
    assert second.value < first.value
    written = joblib.load(tmp_path / "out" / "model.joblib")
    assert set(written.predict(people[["years", "joined", "unit (now)", "part time"]])) == {
        "raise",
        "none",
    }


def test_the_answers_of_a_model_that_cannot_be_trained_are_averaged(few, tmp_path):
    people = staff().drop(columns=["joined", "unit (now)"]).dropna()
    people["part time"] = people["part time"].astype(float)

    found = improve(
        people,
        model=score,
        label="outcome",
        protected=["sex"],
        may_matter=["years"],
        folder=tmp_path,
        margins=likewise.Margins(0.2),
    )
    assert not found.trained
    assert found.chosen
    assert "cannot be trained again" in " ".join(str(found).split())
    written = joblib.load(tmp_path / "model.joblib")
    assert list(written.classes_) == ["none", "raise"]
    alone = next(one for one in found.tried if one.remedy.endswith("weight 1"))
    assert alone.value == pytest.approx(1.0, abs=1e-9)  # one number for people alike
    with pytest.raises(InvalidData, match="leave those rows out"):
        improve(
            people.assign(years=people.years.where(people.index > 50)),
            model=score,
            label="outcome",
            protected=["sex"],
            may_matter=["years"],
        )


def score(x):
    """Answer for years and part time alone."""
    return 1 / (1 + np.exp(1.0 - 0.15 * x[:, 0] + 2 * x[:, 1]))


def test_xgboost_is_given_codes_for_labels_of_text(few):
    xgboost = pytest.importorskip("xgboost")
    people = staff(600)[["years", "part time", "outcome"]]
    model = training.CounterpartAugmentedClassifier(
        xgboost.XGBClassifier(n_estimators=5), may_matter=["years"]
    ).fit(people[["years", "part time"]], people["outcome"], people["part time"])
    assert set(model.predict(people[["years", "part time"]])) <= {"none", "raise"}
    plain = xgboost.XGBClassifier(n_estimators=5).fit(
        people[["years", "part time"]], people["outcome"] == "raise"
    )
    assert plain.classes_.tolist() == [0, 1]


def test_features_of_a_frame_know_the_columns_they_are_made_of(monkeypatch):
    monkeypatch.setattr("likewise.training.frame_features.MOST_LEVELS", 2)
    frame = staff(300).drop(columns="outcome")
    front = frame_features().fit(frame)
    names = origins(front)
    x = front.transform(frame)
    assert x.shape == (300, len(names))
    assert np.isfinite(x).all()
    assert names.count("sex") == 2  # one of three levels, and the rest
    assert names.count("years") == 2  # the number, and whether it is missing
    assert names.count("joined") == 1
    days = pd.to_datetime(frame["joined"]).to_numpy().astype("datetime64[D]").astype(float)
    joined = x[:, names.index("joined")]
    assert np.corrcoef(days, joined)[0, 1] == pytest.approx(1.0)
    strange = frame.assign(sex="?", years=np.inf).assign(years=np.nan)
    assert np.isfinite(front.transform(strange)).all()


def test_networks_are_tried_with_sensei_and_trees_of_any_make_with_fair_boosting():
    pytest.importorskip("torch")
    pytest.importorskip("xgboost")
    from xgboost import XGBClassifier

    words = {r.words for r in remedies.remedies(baseline("network"), ["years"], balanced=True)}
    assert {"SenSeI, rho 0.5", "SenSeI, rho 5"} <= words
    words = {r.words for r in remedies.remedies(XGBClassifier(), ["years"], balanced=True)}
    assert "fair boosting, budget 0.02" in words
    three = remedies.remedies(XGBClassifier(), ["years"], balanced=True, classes=3)
    assert not any("fair boosting" in r.words for r in three)
    people = staff(300)
    fit = next(
        r.fit
        for r in remedies.remedies(baseline("network"), ["years"], balanced=True)
        if r.words == "SenSeI, rho 5"
    )
    x = people[["years", "unit (now)", "part time"]]
    model = fit(x, people["outcome"].to_numpy(), {"sex": people["sex"].to_numpy()})
    assert set(model.predict(x)) <= {"none", "raise"}
    kept = [k for k, name in enumerate(origins(model[0])) if name == "years"]
    assert not model[-1].directions[:, kept].any()


def test_a_remedy_that_fails_is_left_out_and_said(few, monkeypatch):
    def broken(x, y, traits):
        raise RuntimeError("out of luck")

    usual = remedies.remedies
    monkeypatch.setattr(
        "likewise.improving.fairer_model.remedies",
        lambda *a, **k: [*usual(*a, **k), Remedy("broken", broken)],
    )
    with pytest.warns(
        TrainingWarning, match="Broken cannot be trained on this table: RuntimeError"
    ):
        found = improve(staff(600), model=LogisticRegression(), **ASKED)
    assert "broken" not in {one.remedy for one in found.tried}


def test_tables_and_models_that_cannot_be_used_are_refused_in_a_sentence(tmp_path):
    native = tmp_path / "trees.txt"
    lightgbm = pytest.importorskip("lightgbm")
    x = pd.DataFrame({"years": np.arange(60.0), "height": np.arange(60.0)})
    other = lightgbm.Dataset(x, np.arange(60) % 2)
    lightgbm.train({"objective": "binary", "verbose": -1}, other, 2).save_model(native)
    people = staff(500)
    named = people.assign(name=[f"person {i}" for i in range(len(people))])
    cases = [
        (people.assign(outcome=people.outcome.where(people.index > 3)), {}, "4 people have no la"),
        (people.assign(outcome=np.arange(500) % 60), {}, "60 different values; remedies are for"),
        (people.assign(outcome="same"), {}, "one value only"),
        (named, {}, "'name' has 500 different values in 500 rows, so it looks like an identifier"),
        (people[:300], {}, "300 people are too few"),
        (people, {"model": RandomForestRegressor()}, "predicts a number"),
        (people, {"model": LinearSVC()}, "gives no probabilities"),
        (people, {"model": "bosted"}, "There is no model file 'bosted'"),
        (people, {"model": fitted_on_others()}, "fitted on a column 'height', which the table"),
        (named, {"model": str(native), "trust": True}, "fitted on a column 'height'"),
    ]
    for table, how, sentence in cases:
        with pytest.raises((InvalidData, InvalidSettings, likewise.errors.InvalidFile)) as error:
            improve(table, **ASKED, **how)
        assert sentence in str(error.value)


def fitted_on_others() -> LogisticRegression:
    x = pd.DataFrame({"years": [1.0, 2.0, 3.0], "height": [1.0, 2.0, 1.0]})
    return LogisticRegression().fit(x, [0, 1, 0])


def test_a_group_of_few_does_not_decide_which_remedy_is_taken():
    groups = [
        CounterpartGroup(trait="sex", group=name, n=n, estimate=value)
        for name, n, value in (("f", 400, 1.2), ("m", 400, 1.1), ("x", 9, 3.0))
    ]
    overall = CounterpartGroup(trait="sex", n=809, estimate=1.15)

    def record(kept):
        trait = CounterpartTrait(
            trait="sex", outcome="inconclusive", pairs=50, overall=overall, groups=kept
        )
        return CounterpartsRecord.model_construct(traits=(trait,))

    assert record(tuple(groups)).worst_served().group == "f"
    assert record(tuple(groups[2:])).worst_served() == overall


def test_models_are_told_from_tables_by_their_names(tmp_path):
    (tmp_path / "MLmodel").touch()
    assert is_model_name(str(tmp_path))
    for name in ("a.joblib", "a.onnx", "b.skops", "http://127.0.0.1:1/ask", "package.module:model"):
        assert is_model_name(name)
    for name in ("a.csv", "a.parquet", "people", "https://example.org/people.csv"):
        assert not is_model_name(name)
