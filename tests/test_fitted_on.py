"""A model is fed what it was fitted on: by its names, by an encoder, or by ``model.columns``."""

import pickle
import types

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

import likewise
from likewise.data.encoder import Encoder
from likewise.errors import InvalidModel
from likewise.handle import ModelHandle, adapt, as_seen
from likewise.loss import probabilities
from likewise.models.adapt import table_model

COLUMNS = ["income", "age", "debt"]


@pytest.fixture(scope="module")
def table():
    """Numbers in euros and years; the first 300 people train, the others are audited."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, 600)
    income = np.round(30_000 + 9_000 * rng.normal(size=600) + 4_000 * group, 2)
    age = rng.integers(20, 70, 600)
    debt = np.round(np.exp(8 + rng.normal(size=600)), 2)
    score = (income - 32_000) / 9_000 + (age - 45) / 14 - np.log(debt) + 8
    y = (score + rng.normal(size=600) > 0).astype(int)
    group = np.where(group, "m", "f")
    return pd.DataFrame({"income": income, "age": age, "debt": debt, "group": group, "y": y})


@pytest.fixture(scope="module")
def encoder(table):
    return Encoder.fit(table[:300], label="y", protected=["group"])


def read(table, **how):
    """Return the people who are audited."""
    return likewise.read(table[300:], label="y", protected=["group"], **how)


@pytest.fixture(scope="module")
def people(table, encoder):
    return read(table, encoder=encoder)


def answers_of(model, people):
    """Return what a model that is no estimator says of the people of a table."""
    return table_model(adapt(model, people, attributes=("group",))[0], people)(people.table)


KINDS = {
    "logistic": lambda: LogisticRegression(max_iter=5000),
    "forest": lambda: RandomForestClassifier(15, random_state=0),
    "HistGB": lambda: HistGradientBoostingClassifier(max_iter=20),
    "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=20, max_depth=3),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("fitted_on", ["names", "features", "arrays"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_fed_what_it_was_fitted_on(kind, fitted_on, table, encoder, people):
    train, test = table[:300], table[300:]
    rows = {
        "names": (train[COLUMNS], test[COLUMNS]),
        "features": (encoder.encode(train), encoder.encode(test)),
        "arrays": (train[COLUMNS].to_numpy(), test[COLUMNS].to_numpy()),
    }[fitted_on]
    estimator = KINDS[kind]().fit(rows[0], train["y"])
    columns = COLUMNS if fitted_on == "arrays" else ()
    model, about = adapt(estimator, people, attributes=("group",), columns=columns)
    assert (model.front.reading.form == "features") == (fitted_on == "features")
    wanted = estimator.predict_proba(rows[1])
    seen = as_seen(model, people)
    found = probabilities(model(seen.x), model.card.output)
    assert found == pytest.approx(wanted, abs=1e-6)
    ask = table_model(model, seen)
    assert ask.columns == tuple(COLUMNS)
    found = probabilities(ask(people.table), model.card.output)
    assert found == pytest.approx(wanted, abs=1e-9)
    # Workers are told what was settled.
    handle = pickle.loads(pickle.dumps(ModelHandle(estimator, False, about, model)))
    assert handle.ready is None
    assert np.array_equal(handle.open()(seen.x), model(seen.x))


def test_numbers_of_a_table_without_an_encoder_are_taken_by_name_or_by_position(table):
    train, people = table[:300], read(table)
    backwards = COLUMNS[::-1]
    for given, names in ((train[backwards], backwards), (train[COLUMNS].to_numpy(), COLUMNS)):
        line = LogisticRegression(max_iter=5000).fit(given, train["y"])
        seen = as_seen(adapt(line, people, attributes=("group",))[0], people)
        assert seen.features == tuple(names)
        assert np.array_equal(seen.x, table[300:][names].to_numpy(dtype=float))


def test_what_the_encoder_does_not_know_is_named_with_a_way_out(table, people):
    frame = table[:300].assign(member=(table.group == "m").astype(int))
    model = LogisticRegression().fit(frame[["age", "member"]], frame["y"])
    with pytest.raises(InvalidModel, match=r"reads 'member', which is neither.*model\.columns=age"):
        adapt(model, people)


@pytest.fixture(scope="module")
def gappy(table):
    return table.assign(debt=table.debt.where(np.arange(600) % 7 > 0))


def test_a_line_behind_an_encoder_that_knows_gaps_says_who_has_them(gappy, table):
    encoder = Encoder.fit(gappy[:300], label="y", protected=["group"])
    people = read(gappy, encoder=encoder)
    trees = HistGradientBoostingClassifier(max_iter=8).fit(gappy[COLUMNS][:300], gappy["y"][:300])
    found = adapt(trees, people)[0](people.x)
    assert found == pytest.approx(trees.predict_proba(gappy[COLUMNS][300:]), abs=1e-9)
    line = LogisticRegression(max_iter=2000).fit(table[COLUMNS][:300], table["y"][:300])
    with pytest.raises(InvalidModel, match=r"NaN .* for 43 of 300 rows.*drop_missing"):
        adapt(line, people)[0](people.x)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("steps", [[], [StandardScaler()]])
def test_a_pipeline_that_passes_gaps_on_to_trees_is_asked_whole(gappy, named, steps):
    x = gappy[COLUMNS] if named else gappy[COLUMNS].to_numpy()
    model = make_pipeline(*steps, HistGradientBoostingClassifier(max_iter=8))
    model.fit(x[:300], gappy["y"][:300])
    people = read(gappy, raw=True)
    adapted, _ = adapt(model, people, attributes=("group",))
    assert adapted.front.reading.form == "frame"
    answers = table_model(adapted, people)(people.table)
    assert np.array_equal(answers, model.predict_proba(x[300:]))
    assert adapted(as_seen(adapted, people).x) == pytest.approx(answers, abs=1e-12)


def test_functions_and_own_classes_are_given_a_data_frame_with_text_and_gaps(gappy):
    frame = gappy.assign(town=np.where(np.arange(600) % 3 > 0, "Bern", "Genève"))
    steps = make_column_transformer((OrdinalEncoder(), ["town"]), ("passthrough", COLUMNS))
    pipeline = make_pipeline(steps, HistGradientBoostingClassifier(max_iter=8))
    pipeline.fit(frame[[*COLUMNS, "town"]][:300], frame["y"][:300])
    people, given = read(frame, raw=True), []

    def score(rows):
        names = tuple(getattr(rows, "columns", ()))
        if names:
            given.append((type(rows), names))
        return pipeline.predict_proba(rows)[:, 1]

    wanted = pipeline.predict_proba(frame[300:])
    # Somebody's own class answers, and does not say which columns it reads.
    own = types.SimpleNamespace(predict_proba=pipeline.predict_proba, classes_=pipeline.classes_)
    for model in (score, own):
        assert np.array_equal(answers_of(model, people)[:, -1], wanted[:, 1])
    assert set(given) == {(pd.DataFrame, ("income", "age", "debt", "town"))}


def test_text_is_given_as_categories_where_a_function_takes_nothing_else(table):
    frame = table.assign(job=np.where(table.age % 2, "cook", "smith"))
    typed = frame[[*COLUMNS, "job"]].astype({"job": "category"})
    trees = lightgbm.LGBMClassifier(n_estimators=9, verbose=-1).fit(typed[:300], frame["y"][:300])
    people, smiths = read(frame, raw=True), (frame.job == "smith")[300:]
    ask = table_model(
        adapt(lambda f: trees.predict_proba(f), people, attributes=("group",))[0], people
    )
    # Not all levels need be in the rows that are asked about.
    wanted = trees.predict_proba(typed[300:][smiths])
    assert np.array_equal(ask(people.table.filter(pa.array(smiths))), wanted)


def test_a_function_of_arrays_is_given_the_numbers_unless_it_answers_otherwise_to_frames(table):
    forest = RandomForestClassifier(9, random_state=0)
    forest.fit(table[:300][COLUMNS].to_numpy(), table[:300]["y"])
    frame = table.assign(town="Bern")

    def score(rows):
        assert isinstance(rows, np.ndarray)
        return forest.predict_proba(rows)[:, 1]

    def width(rows):
        return np.full(len(rows), rows.shape[1] / 10)

    wanted = forest.predict_proba(table[300:][COLUMNS].to_numpy())[:, 1]
    for given in (table, frame):
        people = read(given, raw=True)
        assert np.array_equal(answers_of(score, people)[:, 0], wanted)
    with pytest.raises(InvalidModel, match=r"4 columns and, in another way, to an array of the 3"):
        adapt(width, people, attributes=("group",))
    model, _ = adapt(width, people, columns=COLUMNS)
    assert table_model(model, people)(people.table)[0, 0] == 0.3
