"""Looking for a fairer model: nothing is changed without need, and what is found holds."""

import dataclasses
import shutil

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import likewise
from likewise._compare import compare
from likewise.data.encoder import Encoder
from likewise.errors import InvalidData, InvalidModel, InvalidSettings
from likewise.settings import Settings
from likewise.training.search import Tried, choice, improve

ASKED = {"label": "paid", "protected": "sex", "may_matter": ["age"]}
X = ["age", "zone"]


def population(n, seed, effect):
    """Return people whose label leans on age, and on a zone that goes with sex."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age, zone = rng.normal(size=n), rng.normal(size=n) + 1.2 * sex
    y = rng.random(n) < 1 / (1 + np.exp(-(1.5 * age - effect * (zone - 0.6))))
    names = {"sex": np.where(sex, "f", "m"), "paid": np.where(y, "yes", "no")}
    return pd.DataFrame({"age": age, "zone": zone, **names})


def fitted(kind, seed=1, effect=0.5, n=1500):
    train = population(n, seed, effect)
    return kind.fit(train[X], train["paid"])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("improved")
    people = population(5000, 2, 0.5)
    model = fitted(LogisticRegression())
    result = improve(model, people, margin=0.04, folder=folder, favourable="yes", **ASKED)
    return result, model, people, folder


def test_a_fairer_model_is_found_judged_and_written(found):
    result, _, people, folder = found
    assert result.found.verdict == "evidence"
    assert result.better
    assert result.before.verdict == "evidence"
    assert result.after.verdict == "within_tolerance"
    assert result.comparison.pairs[0].less_unfair
    # The given model is the baseline; with weight 1 people equal in what may matter get one number.
    assert [one.weight for one in result.tried] == [0.0, 0.2, 0.35, 0.5, 0.75, 1.0]
    assert result.tried[-1].deviation == pytest.approx(0.0, abs=1e-9)
    # A reference sample of 2000, 1000 people to choose on, and 2000 others to judge on.
    assert [one.record.data.n for one in (result.found, result.before)] == [3000, 2000]
    assert len(result.model.reference_) == 2000
    written = joblib.load(folder / "model.joblib")
    np.testing.assert_array_equal(
        written.predict_proba(people[X]), result.model.predict_proba(people[X])
    )
    assert {p.name for p in folder.iterdir()} >= {"given.json", "chosen.html", "improve.txt"}
    text = str(result)
    assert text.startswith("A fairer model was found: average over comparable people, weight ")
    assert "A loss below 4 points of accuracy is shown (95 %)." in text
    assert max(len(line) for line in text.splitlines()[4:]) <= 80


def test_the_sentence_names_the_rule_and_the_text_whom_each_result_is_about(found, tmp_path):
    result, _, _, folder = found
    unmoved = compare({"given": result.before, "chosen": result.before})
    same = dataclasses.replace(result, comparison=unmoved)
    assert same.sentence.endswith(
        "is not shown to bring ratios nearer to 1 by more than a factor of 1.1, on the judging "
        "people. Nothing was changed: the given model stays."
    )
    assert f"Given model, on {result.found.record.data.n:,} people: " in str(same)
    assert "\nOn 2,000 of them, who had no part in choosing (the judging people):\n" in str(same)
    strict = dataclasses.replace(result, margin=1e-4)
    assert strict.fairer
    assert not strict.better
    assert "is not shown to lose less than 0.01 points of accuracy. Nothing was" in str(strict)
    assert "A loss below 0.01 points of accuracy is not shown (95 %)." in str(strict)
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


@pytest.mark.parametrize(
    "kind",
    [LogisticRegression(), RandomForestClassifier(25, min_samples_leaf=10, random_state=0)],
    ids=["logistic", "forest"],
)
def test_where_nothing_is_wrong_nothing_is_changed(kind):
    # All 12 draws of each: the bar that benchmarks/remedies.py holds on more people.
    for seed in range(12):
        model = fitted(kind, 100 + seed, effect=0.0, n=600)
        result = improve(model, population(800, seed, 0.0), seed=seed, **ASKED)
        assert not result.better
        assert result.model is model


def test_a_reference_sample_of_ones_own_and_clusters_stay_whole():
    model = fitted(LogisticRegression(), effect=1.0)
    people = population(1600, 3, 0.8)
    people["home"] = np.repeat(np.arange(800), 2)
    result = improve(
        model, people, pool=population(1000, 4, 0.8), clusters="home", margin=0.3, **ASKED
    )
    assert result.found.record.data.n == 1600
    assert result.chosen is not None
    assert result.before.record.data.n % 2 == 0


def test_tables_are_read_as_the_settings_say(tmp_path):
    model, people = fitted(LogisticRegression(), effect=1.0), population(1600, 3, 0.8)
    years = np.where(people["sex"] == "f", 50, 30) + np.arange(1600) % 10
    people = people.assign(years=years, zone=people["zone"].mask(np.arange(1600) % 50 == 0))
    people.to_csv(tmp_path / "people.csv", sep=";", index=False)
    settings = Settings().changed(
        columns__protected=["years"], columns__drop_missing=True, columns__csv__separator=";"
    )
    asked = {"label": "paid", "may_matter": ["age"], "bins": {"years": [45]}, "margin": 0.3}
    result = improve(model, tmp_path / "people.csv", settings=settings, **asked)
    assert result.found.record.data.protected["years"].keys() == {"under 45", "45 or over"}
    assert result.tried[-1].deviation == pytest.approx(0.0, abs=1e-9)
    assert len(result.model.near_.rows) == 2


def test_a_model_of_encoded_features_is_improved_with_its_encoder():
    train, people = population(1500, 1, 0.5), population(2400, 3, 0.5)
    encoder = Encoder.fit(train[X])
    encoded = likewise.read(train, label="paid", protected="sex", encoder=encoder)
    model = LogisticRegression().fit(encoded.x, encoded.y)
    found = improve(model, people, encoder=encoder, margin=0.1, favourable="yes", **ASKED)
    assert found.found.verdict == "evidence"
    assert min(one.deviation for one in found.tried[1:]) < found.tried[0].deviation


def test_the_choice_is_the_most_accurate_well_within_the_limit_or_else_the_fairest():
    given = Tried(0.0, 0.5, "evidence", 0.20)
    weak = Tried(0.2, 0.3, "evidence", 0.20)
    good = Tried(0.5, 0.15, "within_tolerance", 0.21)
    fair = Tried(1.0, 0.0, "within_tolerance", 0.215)
    costly = Tried(1.0, 0.0, "within_tolerance", 0.3)
    assert choice([given, weak, good, fair], 1.25, 0.02) == good
    assert choice([given, weak], 1.25, 0.02) == weak
    assert choice([given, weak, costly], 1.25, 0.02) == weak
    assert choice([given, costly], 1.25, 0.02) is None
    worse = Tried(0.5, 0.6, "evidence", 0.1)
    assert choice([given, worse], 1.25, 0.02) is None


def test_tables_and_models_that_cannot_be_used_are_refused_in_a_sentence():
    people, model = population(400, 5, 0.5), fitted(LogisticRegression())
    cases = [
        (model, people, {"margin": 2.0}, InvalidSettings, "between 0 and 1, not 2"),
        (model, people, {"may_matter": ["agee"]}, InvalidData, "'agee'"),
        (model, people, {"label": "pay"}, InvalidData, "'pay'"),
        (model, people, {"clusters": "home"}, InvalidData, "no column 'home'"),
        (model, people[:100], {}, InvalidData, "100 people are too few to choose"),
        (
            model,
            people,
            {"label": None, "may_matter": ()},
            InvalidSettings,
            "--label.*--may-matter",
        ),
        (model, people, {"settings": Settings(method="flip")}, InvalidSettings, "not by flip"),
        (
            LinearRegression().fit(people[["age"]], people["zone"]),
            people,
            {"label": "zone"},
            InvalidModel,
            "only probabilities of classes can be averaged",
        ),
        ("none.onnx", people, {}, likewise.LikewiseError, "none.onnx"),
    ]
    for given, table, changes, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            improve(given, table, **{**ASKED, **changes})
        assert "\n" not in str(caught.value)
