"""Every kind of model on every kind of table, alone and in a pipeline, by one of three methods."""

import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score as accuracy_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import likewise
from likewise.settings import Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]

N = 200
MODELS = ("logistic", "forest", "HistGB", "XGBoost", "LightGBM", "CatBoost", "MLP")
TABLES = ("numbers", "numbers + NaN", "categories", "categories + NaN", "dates")
METHODS = ("flip", "matched_pairs", "reach")
BOOSTED = {"XGBoost": "xgboost", "LightGBM": "lightgbm", "CatBoost": "catboost"}
READ_GAPS = ("HistGB", *BOOSTED)


@functools.cache
def people(kind):
    """Return 2 × N people: the first half trains."""
    rng = np.random.default_rng(11)
    n = 2 * N
    sex = rng.integers(0, 2, n)
    frame = pd.DataFrame({"age": rng.integers(20, 70, n)})
    frame["income"] = np.round(3000 + 900 * rng.normal(size=n) + 500 * sex, 2)
    frame["sex"] = sex
    job = np.array(["smith", "clerk", "cook"])[rng.integers(0, 3, n)]
    score = (frame.income - 3200) / 900 + (frame.age - 45) / 20 + (job == "cook") + 0.5 * sex
    frame["y"] = (score + 0.7 * rng.normal(size=n) > 0.5).astype(int)
    if kind.startswith("categories"):
        frame["job"], frame["sex"] = job, np.where(sex, "m", "f")
    if kind == "dates":
        frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D")
    if kind.endswith("NaN"):
        frame.loc[rng.random(n) < 0.1, "income"] = np.nan
        if "job" in frame:
            frame.loc[rng.random(n) < 0.1, "job"] = None
    return frame


def bare(model):
    """Return an estimator that is not fitted; small, for there are many."""
    if model in BOOSTED:
        library = pytest.importorskip(BOOSTED[model])
        if model == "XGBoost":
            return library.XGBClassifier(n_estimators=8, n_jobs=1, enable_categorical=True)
        if model == "LightGBM":
            return library.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1)
        return library.CatBoostClassifier(
            iterations=8, thread_count=1, verbose=0, allow_writing_files=False
        )
    return {
        "logistic": LogisticRegression(max_iter=2000),
        "forest": RandomForestClassifier(9, random_state=0),
        "HistGB": HistGradientBoostingClassifier(max_iter=8),
        "MLP": MLPClassifier((4,), max_iter=40, random_state=0),
    }[model]


def as_fitted(model, frame):
    """Return the inputs with the types that a model is fitted on, by habit of its library."""
    x = frame.drop(columns="y")
    words = [name for name in ("job", "sex") if name in x and x[name].dtype.kind not in "if"]
    if model == "CatBoost":
        return x.assign(
            **{name: x[name].where(x[name].notna(), "nan").astype(str) for name in words}
        )
    # Not in the order of the alphabet: the order of training has to reach the model.
    return x.assign(
        **{
            name: pd.Categorical(x[name], categories=sorted(set(x[name].dropna()))[::-1])
            for name in words
        }
    )


def days(x):
    return (x - pd.Timestamp("2020-01-01")) / pd.Timedelta(days=1)


def steps():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    dates = make_pipeline(
        FunctionTransformer(days, feature_names_out="one-to-one"), StandardScaler()
    )
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (dates, make_column_selector(dtype_include="datetime")),
        (words, make_column_selector(dtype_exclude=["number", "datetime"])),
    )


@functools.cache
def fitted(model, kind, whole):
    """Return the model and its own accuracy among the audited half."""
    frame = people(kind)
    inputs = frame.drop(columns="y") if whole else as_fitted(model, frame)
    estimator = make_pipeline(steps(), bare(model)) if whole else bare(model)
    more = {}
    if model == "CatBoost" and not whole:
        more["cat_features"] = [name for name in inputs if inputs[name].dtype.kind in "OUT"]
    estimator.fit(inputs[:N], frame["y"][:N], **more)
    return estimator, accuracy_score(frame["y"][N:], estimator.predict(inputs[N:]))


def accuracy(estimator, frame, method):
    """Audit a cell, and return the accuracy that the audit saw."""
    choice = {"reach": {"budget": 4}, "matched_pairs": {"redraws": 10}}
    pairs = method == "matched_pairs"
    result = likewise.audit(
        estimator,
        frame[N:],
        pool=frame[:N] if pairs else None,
        may_matter=["age"] if pairs else None,
        settings=Settings(
            checks="core",
            metric={"placebos": 0, "groups": 2},
            columns={"label": "y", "protected": ("sex",)},
            method={"name": method, **choice.get(method, {})},
        ),
    )
    return result.record.model.balanced_accuracy


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_audited_as_it_answers(model):
    methods = itertools.cycle(METHODS)
    for kind, whole in itertools.product(TABLES, (True, False)):
        if whole or kind == "numbers" or (model in READ_GAPS and kind != "dates"):
            estimator, wanted = fitted(model, kind, whole)
            seen = accuracy(estimator, people(kind), next(methods))
            assert seen == pytest.approx(wanted, abs=1e-6), (kind, whole)


@pytest.mark.parametrize("model", ["logistic", "MLP"])
def test_gaps_that_a_model_cannot_read_are_refused_with_a_way_out(model):
    estimator, _ = fitted(model, "numbers", False)
    with pytest.raises(likewise.LikewiseError, match=r"--set columns\.drop_missing=true"):
        accuracy(estimator, people("numbers + NaN"), "reach")
