"""Every kind of model on a table with numbers, categories, dates and gaps, by all methods."""

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import likewise
from likewise.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N = 200


@functools.cache
def people():
    """Return 2 × N people: the first half trains."""
    rng = np.random.default_rng(11)
    n = 2 * N
    sex = rng.integers(0, 2, n)
    frame = pd.DataFrame({"age": rng.integers(20, 70, n), "sex": np.where(sex, "m", "f")})
    frame["income"] = np.round(3000 + 900 * rng.normal(size=n) + 500 * sex, 2)
    frame["job"] = np.array(["smith", "clerk", "cook"])[rng.integers(0, 3, n)]
    frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D")
    score = (frame.income - 3200) / 900 + (frame.age - 45) / 20 + (frame.job == "cook") + 0.5 * sex
    frame["y"] = (score + 0.7 * rng.normal(size=n) > 0.5).astype(int)
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    frame.loc[rng.random(n) < 0.1, "job"] = None
    return frame


def boosted(library, name, **choices):
    return lambda: getattr(pytest.importorskip(library), name)(**choices)


QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
TREES = {
    "HistGB": lambda: HistGradientBoostingClassifier(max_iter=8),
    "XGBoost": boosted("xgboost", "XGBClassifier", n_estimators=8, enable_categorical=True),
    "LightGBM": boosted("lightgbm", "LGBMClassifier", n_estimators=8, verbose=-1),
    "CatBoost": boosted("catboost", "CatBoostClassifier", iterations=8, **QUIET),
}


def days(x):
    return (x - pd.Timestamp("2020-01-01")) / pd.Timedelta(days=1)


def steps():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    dates = FunctionTransformer(days, feature_names_out="one-to-one")
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (make_pipeline(dates, StandardScaler()), make_column_selector(dtype_include="datetime")),
        (words, make_column_selector(dtype_exclude=["number", "datetime"])),
    )


def accuracy(estimator, frame, method):
    """Return the accuracy that an audit sees."""
    choice = {"reach": {"budget": 4}, "matched_pairs": {"redraws": 10}}
    pairs = {"pool": frame[:N], "may_matter": ["age"]} if method == "matched_pairs" else {}
    settings = Settings(
        checks="core",
        metric={"placebos": 0, "groups": 2},
        columns={"label": "y", "protected": ("sex",)},
        method={"name": method, **choice.get(method, {})},
    )
    result = likewise.audit(estimator, frame[N:], settings=settings, **pairs)
    assert (result.record.metric is None) == (method != "reach")  # others go by none
    return result.record.model.balanced_accuracy


@pytest.mark.parametrize("method", ["flip", "matched_pairs", "reach"])
@pytest.mark.parametrize("last", [LogisticRegression(max_iter=2000), TREES["HistGB"]()])
def test_a_pipeline_is_audited_as_it_answers(last, method):
    frame, inputs = people(), people().drop(columns="y")
    whole = make_pipeline(steps(), last).fit(inputs[:N], frame["y"][:N])
    wanted = balanced_accuracy_score(frame["y"][N:], whole.predict(inputs[N:]))
    assert accuracy(whole, frame, method) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("method", ["flip", "matched_pairs", "reach"])
@pytest.mark.parametrize("model", TREES)
def test_trees_read_categories_and_gaps_themselves(model, method):
    frame, more = people().drop(columns="since"), {}
    x = frame.drop(columns="y")
    # Not in the order of the alphabet: the order of training has to reach the model.
    for name, levels in {"job": ["smith", "cook", "clerk"], "sex": ["m", "f"]}.items():
        x[name] = pd.Categorical(x[name], categories=levels)
    if model == "CatBoost":
        more["cat_features"] = ["job", "sex"]
        x = x.astype({"job": object, "sex": object}).fillna({"job": "nan"})
    trees = TREES[model]().fit(x[:N], frame["y"][:N], **more)
    wanted = balanced_accuracy_score(frame["y"][N:], trees.predict(x[N:]))
    assert accuracy(trees, frame, method) == pytest.approx(wanted, abs=1e-6)
