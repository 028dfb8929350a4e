"""Models as functions of original columns, asked about rows composed of two tables."""

import functools

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise
from likewise.data.encoder import Encoder
from likewise.handle import adapt
from likewise.loss import probabilities
from likewise.models.adapt import table_model

NUMBERS = ["age", "hours"]
WORDS = ["job", "sex"]
COLUMNS = [*NUMBERS, *WORDS]


def people(seed, n, *, gaps=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n).astype(float if gaps else int),
            "hours": rng.normal(38, 6, n),
            "job": rng.choice(["clerk", "cook", "smith"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    score = frame.age / 20 + frame.hours / 6 + (frame.job == "cook") - (frame.sex == "f")
    frame["y"] = (score + rng.normal(size=n) > 8.5).astype(int)
    if gaps:
        frame.loc[frame.index[::7], "age"] = np.nan
        frame.loc[frame.index[::9], "job"] = None
    return frame


def typed(frame):
    return frame[COLUMNS].assign(**{name: frame[name].astype("category") for name in WORDS})


def cut_pipeline():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    front = make_column_transformer((numbers, NUMBERS), (words, WORDS))
    return make_pipeline(front, LogisticRegression())


KINDS = {
    "numbers": (lambda: RandomForestClassifier(5, random_state=0), lambda f: f[NUMBERS]),
    "pipeline": (cut_pipeline, lambda f: f[COLUMNS]),
    "whole pipeline": (
        lambda: make_pipeline(HistGradientBoostingClassifier(categorical_features="from_dtype")),
        typed,
    ),
    "xgboost": (lambda: xgboost.XGBClassifier(n_estimators=5, enable_categorical=True), typed),
    "lightgbm": (lambda: lightgbm.LGBMClassifier(n_estimators=5, verbose=-1), typed),
    "catboost": (
        lambda: catboost.CatBoostClassifier(
            iterations=5, cat_features=WORDS, verbose=False, allow_writing_files=False
        ),
        lambda f: f[COLUMNS].assign(job=f.job.astype(object).fillna("nan")),
    ),
}


@functools.cache
def fitted(kind):
    make, view = KINDS[kind]
    train = people(0, 300, gaps=kind in ("xgboost", "lightgbm", "catboost"))
    return make().fit(view(train), train["y"])


@pytest.mark.parametrize("kind", KINDS)
def test_composed_rows_are_asked_about_as_if_they_were_in_a_table(kind):
    estimator, view = fitted(kind), KINDS[kind][1]
    gaps = kind in ("xgboost", "lightgbm", "catboost")
    one, two = people(1, 40, gaps=gaps), people(2, 60, gaps=gaps)
    shown = one if "whole" not in kind else typed(one).assign(y=one.y)
    data = likewise.read(shown, label="y", raw=kind != "numbers")
    model, _ = adapt(estimator, data)
    ask = table_model(model, data)
    assert set(ask.columns) == set(view(one).columns)
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, 40, 200), rng.integers(0, 60, 200)
    keep = ("age", "job")
    before, pool = (ask.prepare(_table(frame)) for frame in (one, two))
    out = probabilities(ask.substitute(before, i, pool, j, keep), ask.model.card.output)
    composed = two.iloc[j].reset_index(drop=True)
    for name in keep:
        composed[name] = one[name].to_numpy()[i]
    levels = {name: sorted({*one[name].dropna(), *two[name].dropna()}) for name in WORDS}
    rows = view(composed)
    for name in WORDS:
        if name in rows and isinstance(rows[name].dtype, pd.CategoricalDtype):
            rows[name] = rows[name].cat.set_categories(levels[name])
    assert out == pytest.approx(estimator.predict_proba(rows), abs=1e-7)
    own = probabilities(ask.outputs(before), ask.model.card.output)
    assert own == pytest.approx(probabilities(ask(_table(one)), ask.model.card.output), abs=0)


def test_features_of_an_encoder_are_gathered_column_by_column():
    train, one, two = people(0, 300), people(1, 40), people(2, 60)
    encoder = Encoder.fit(train, label="y")
    estimator = LogisticRegression().fit(encoder.encode(train), train["y"])
    data = likewise.read(one, label="y", encoder=encoder)
    ask = table_model(adapt(estimator, data)[0], data)
    assert ask.columns == tuple(COLUMNS)
    i, j = np.arange(40), np.arange(40, 0, -1)
    out = ask.substitute(ask.prepare(_table(one)), i, ask.prepare(_table(two)), j, ("job", "hours"))
    composed = two.iloc[j].reset_index(drop=True).assign(job=one.job, hours=one.hours)
    theirs = estimator.predict_proba(encoder.encode(composed))
    assert probabilities(out, ask.model.card.output) == pytest.approx(theirs, abs=1e-12)


def test_rows_that_are_asked_in_parts_are_the_same(monkeypatch):
    estimator, one = fitted("pipeline"), people(1, 40)
    data = likewise.read(one, label="y", raw=True)
    ask = table_model(adapt(estimator, data)[0], data)
    rows, i = ask.prepare(_table(one)), np.arange(40)
    whole = ask.substitute(rows, i, rows, i[::-1], ("age",))
    monkeypatch.setattr("likewise.models.adapt.VALUES_PER_CALL", 28)
    assert ask.substitute(rows, i, rows, i[::-1], ("age",)) == pytest.approx(whole, abs=1e-12)
    assert len(ask.substitute(rows, i[:0], rows, i[:0], ())) == 0


def _table(frame):
    return pa.Table.from_pandas(frame[COLUMNS], preserve_index=False)
