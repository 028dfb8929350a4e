"""Remedies: predictions averaged over comparable people, and the search for a fairer model."""

import dataclasses
import pickle
import shutil

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import likewise
from helpers import applicants
from likewise._compare import compare
from likewise.data.encoder import Encoder
from likewise.errors import InvalidData, InvalidModel, InvalidSettings
from likewise.settings import Settings
from likewise.training import AveragedClassifier
from likewise.training.search import Trial, choice, improve

ASKED = {"label": "paid", "protected": "sex", "may_matter": ["age"]}
X = ["age", "zone"]


def fitted(kind, seed=1, effect=0.5, n=1500):
    train = applicants(n, seed, effect)
    return kind.fit(train[X], train["paid"])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("improved")
    people = applicants(5000, 2, 0.5)
    asked, told = {"margin": 0.04, "folder": folder, "favourable": "yes", **ASKED}, []
    asked["progress"] = lambda _, done, total: told.append((done, total))
    result = improve(fitted(LogisticRegression()), people, **asked)
    assert told == [(done, 9) for done in range(1, 10)]  # two of them judge
    return result, people, folder


@pytest.mark.slow
def test_a_fairer_model_is_found_judged_and_written(found):
    result, people, folder = found
    verdicts = [one.verdict for one in (result.found, result.before, result.after)]
    assert verdicts == ["evidence", "evidence", "within_tolerance"]
    assert result.better
    assert result.comparison.pairs[0].less_unfair
    # The given model is the baseline; with weight 1 people equal in what may matter get one number.
    assert [one.weight for one in result.tried] == [0.0, 0.2, 0.35, 0.5, 0.75, 1.0]
    assert result.tried[-1].deviation == pytest.approx(0.0, abs=1e-9)
    # A reference sample of 2000, 1000 people to choose on, and 2000 others to judge on.
    assert [one.record.data.n for one in (result.found, result.before)] == [3000, 2000]
    assert len(result.model.reference_) == 2000
    written = joblib.load(folder / "model.joblib")
    assert np.array_equal(written.predict(people[X]), result.model.predict(people[X]))
    assert {p.name for p in folder.iterdir()} >= {"given.json", "chosen.html", "improve.txt"}
    text = str(result)
    assert text.startswith("A fairer model was found: average over comparable people, weight ")
    assert "It is shown that accuracy falls by less than 4 points (95 %)." in text
    assert "\nOn 2,000 of them, who had no part in choosing (the judging people):\n" in text
    assert max(len(line) for line in text.splitlines()[4:]) <= 80


@pytest.mark.slow
def test_the_sentence_names_the_rule_and_the_text_whom_each_result_is_about(found, tmp_path):
    result, _, folder = found
    unmoved = compare({"given": result.before, "chosen": result.before})
    same = dataclasses.replace(result, comparison=unmoved)
    assert "is not shown to bring ratios nearer to 1 by more than a factor of 1.1" in same.sentence
    assert same.sentence.endswith("Nothing was changed: the given model stays.")
    assert f"Given model, on {result.found.record.data.n:,} people: " in str(same)
    strict = dataclasses.replace(result, margin=1e-4)
    assert strict.fairer
    assert not strict.better
    assert "is not shown to lose less than 0.01 points of accuracy, on the judg" in strict.sentence
    # Within tolerance is never replaced by inconclusive.
    good, unsure = (
        dataclasses.replace(one, record=one.record.model_copy(update={"verdict": verdict}))
        for one, verdict in ((result.before, "within_tolerance"), (result.after, "inconclusive"))
    )
    assert not dataclasses.replace(result, before=good, after=unsure).better
    # A model file holds a new model, and none is left from an earlier search.
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    same.write(tmp_path)
    assert not (tmp_path / "model.joblib").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [LogisticRegression(), RandomForestClassifier(25, min_samples_leaf=10, random_state=0)],
    ids=["logistic", "forest"],
)
def test_where_nothing_is_wrong_nothing_is_changed(kind):
    # All 12 draws of each: the bar that benchmarks/remedies.py holds on more people.
    for seed in range(12):
        model = fitted(kind, 100 + seed, effect=0.0, n=600)
        result = improve(model, applicants(800, seed, 0.0), seed=seed, **ASKED)
        assert not result.better
        assert result.model is model


@pytest.mark.slow
def test_tables_are_read_as_the_settings_say_and_clusters_stay_whole(tmp_path):
    model, people = fitted(LogisticRegression(), effect=1.0), applicants(1600, 3, 0.8)
    years = np.where(people["sex"] == "f", 50, 30) + np.arange(1600) % 10
    people["zone"] = people["zone"].mask(np.arange(1600) % 50 < 2)
    people = people.assign(years=years, home=np.repeat(np.arange(800), 2))
    people.to_csv(tmp_path / "people.csv", sep=";", index=False)
    settings = Settings().changed(
        columns__protected=["years"], columns__drop_missing=True, columns__csv__separator=";"
    )
    asked = {"label": "paid", "may_matter": ["age"], "bins": {"years": [45]}, "margin": 0.3}
    path = tmp_path / "people.csv"
    result = improve(model, path, settings=settings, clusters="home", **asked)
    assert result.found.record.data.protected["years"].keys() == {"under 45", "45 or over"}
    assert result.tried[-1].deviation == pytest.approx(0.0, abs=1e-9)
    assert result.chosen is not None
    assert result.before.record.data.n % 2 == 0


@pytest.mark.slow
def test_a_model_of_encoded_features_is_improved_by_a_reference_sample_of_ones_own():
    train, people, pool = applicants(1500, 1, 1), applicants(1600, 3, 0.8), applicants(1000, 4, 0.8)
    encoder = Encoder.fit(train[X])
    encoded = likewise.read(train, label="paid", protected="sex", encoder=encoder)
    model = LogisticRegression().fit(encoded.x, encoded.y)
    found = improve(model, people, pool=pool, encoder=encoder, margin=0.3, **ASKED)
    assert found.found.record.data.n == 1600
    assert min(one.deviation for one in found.tried[1:]) < found.tried[0].deviation


def test_the_choice_is_the_most_accurate_well_within_the_limit_or_else_the_fairest():
    given = Trial(0.0, 0.5, "evidence", 0.20)
    weak = Trial(0.2, 0.3, "evidence", 0.20)
    good = Trial(0.5, 0.15, "within_tolerance", 0.21)
    fair = Trial(1.0, 0.0, "within_tolerance", 0.215)
    costly = Trial(1.0, 0.0, "within_tolerance", 0.3)
    worse = Trial(0.5, 0.6, "evidence", 0.1)
    for others, chosen in [
        ([weak, good, fair], good),
        ([weak, costly], weak),
        ([costly], None),
        ([worse], None),
    ]:
        assert choice([given, *others], 1.25, 0.02) == chosen


def test_tables_and_models_that_cannot_be_used_are_refused_in_a_sentence():
    people, model = applicants(400, 5, 0.5), fitted(LogisticRegression())
    amounts = LinearRegression().fit(people[["zone"]], people["age"])
    for given, table, changes, error, words in [
        (model, people, {"margin": 2.0}, InvalidSettings, "between 0 and 1, not 2"),
        (model, people, {"label": "pay"}, InvalidData, "'pay'"),
        (model, people, {"clusters": "home"}, InvalidData, "no column 'home'"),
        (model, people[:100], {}, InvalidData, "100 people are too few to choose"),
        (model, people, {"label": None, "may_matter": ()}, InvalidSettings, "--label.*--may-m"),
        (model, people, {"settings": Settings(method="flip")}, InvalidSettings, "not by flip"),
        (amounts, people, {"label": "age", "may_matter": ["zone"]}, InvalidModel, "gives numbers"),
        ("none.onnx", people, {}, likewise.LikewiseError, "none.onnx"),
    ]:
        with pytest.raises(error, match=words) as caught:
            improve(given, table, **{**ASKED, **changes})
        assert "\n" not in str(caught.value)


def averaged(people, weight=1.0, may_matter=("age",), model=None, **choices):
    model = model or LogisticRegression().fit(people[X], people["paid"])
    choices |= {"protected": ["sex"], "may_matter": list(may_matter), "weight": weight}
    return AveragedClassifier(model, **choices).fit(people), model


def test_the_average_is_one_number_for_people_equal_in_what_may_matter():
    people = applicants(400, 1, 0.5)
    remedy, model = averaged(people, m=20)
    twins = pd.DataFrame({"age": [0.3, 0.3, 0.3], "zone": [-2.0, 0.0, 5.0]})
    assert np.ptp(remedy.predict_proba(twins)[:, 1]) == 0
    remedy.shift_ = 0.0
    found = remedy.predict_proba(twins)[:, 1]
    by_hand, ages = [], np.sort(people["age"])
    for _, group in people.groupby("sex"):
        rank = np.searchsorted(ages, group["age"])
        near = np.argsort(np.abs(rank - np.searchsorted(ages, 0.3) + 0.5), kind="stable")[:20]
        rows = pd.DataFrame({"age": 0.3, "zone": group["zone"].to_numpy()[near]})
        by_hand.append(model.predict_proba(rows)[:, 1].mean())
    # Of two people equally far one or the other may be among the twenty.
    assert found[0] == pytest.approx(np.mean(by_hand), abs=0.01)
    half, _ = averaged(people, 0.5, m=20)
    half.shift_ = 0.0
    plain = model.predict_proba(twins)[:, 1]
    np.testing.assert_allclose(half.predict_proba(twins)[:, 1], (found + plain) / 2)


def test_averaging_leaves_as_many_people_with_each_decision():
    people = applicants(1000, 3, 0.5)
    people["paid"] = np.where(people["age"] + 0.5 * people["zone"] > 1.5, "yes", "no")
    remedy, model = averaged(people, 0.7)
    before = (model.predict(people[X]) == "yes").sum()
    assert (remedy.predict(people[X]) == "yes").sum() == before
    remedy.shift_ = 0.0
    assert (remedy.predict(people[X]) == "yes").sum() != before


def test_a_prediction_depends_on_the_person_alone_and_survives_a_file():
    people = applicants(300, 4, 0.5)
    remedy, _ = averaged(people, 0.5)
    x = people[X]
    whole = remedy.predict_proba(x)
    parts = [remedy.predict_proba(x.iloc[i : i + 7]) for i in range(0, 300, 7)]
    np.testing.assert_allclose(np.vstack(parts), whole, rtol=1e-12)  # rounding of sums
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(remedy)).predict_proba(x), whole)
    for form in (pl.from_pandas(x), x.to_numpy()):
        np.testing.assert_array_equal(remedy.predict_proba(form), whole)


def test_categories_that_may_matter_are_equal_where_enough_people_have_them():
    people = applicants(400, 5, 0.5)
    people["town"] = np.where(people["zone"] > 0.5, "north", "south").astype(object)
    people.loc[:2, "town"] = "elsewhere"
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression())
    model.fit(people[["town", "zone"]], people["paid"])
    remedy, _ = averaged(people, may_matter=["town"], model=model)
    remedy.shift_ = 0.0
    rows = pd.DataFrame({"town": ["north", "south", "elsewhere"], "zone": 0.0})
    north, south, rare = remedy.predict_proba(rows)[:, 1]
    one = model.predict_proba(pd.DataFrame({"town": ["north"], "zone": [-3.0]}))[0, 1]
    # Zones of the north are all above .5, so nobody there is predicted as at -3.
    assert 0 < north < one
    assert 0 < south < 1
    assert 0 < rare < 1


@pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")
def test_what_cannot_be_averaged_is_refused_in_a_sentence():
    people = applicants(200, 6, 0.5)
    decides = LinearSVC().fit(people[X], people["paid"])
    amounts = LinearRegression().fit(people[X], people["age"])
    for changes, error, words in [
        ({"weight": 2.0}, InvalidSettings, "weight is 2.0; it lies between 0 and 1"),
        ({"m": 0}, InvalidSettings, "m is 0"),
        ({"may_matter": ["agee"]}, InvalidData, "no column 'agee'. Did you mean 'age'"),
        ({"model": amounts}, InvalidModel, "no probabilities"),
        ({"model": decides}, InvalidModel, "gives no probabilities of classes"),
    ]:
        with pytest.raises(error, match=words):
            averaged(people, **changes)
    remedy, _ = averaged(people)
    with pytest.raises(InvalidData, match="no column 'zone'"):
        remedy.predict_proba(people[["age"]])
