import pickle
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from likewise.data.encode import Encoder
from likewise.errors import InvalidModel
from likewise.losses import CLIP
from likewise.models import BlackBox, as_model, check, columns_read


def classifiers():
    return [
        RandomForestClassifier(8, random_state=0),
        HistGradientBoostingClassifier(max_iter=8),
        xgboost.XGBClassifier(n_estimators=8, n_jobs=1),
        lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1),
        CalibratedClassifierCV(GaussianNB(), cv=2),
        VotingClassifier(
            [("a", GaussianNB()), ("b", DecisionTreeClassifier(max_depth=3))], voting="soft"
        ),
    ]


def name(estimator):
    return type(estimator).__name__


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("estimator", classifiers(), ids=name)
def test_anything_with_probabilities_is_a_model(estimator, k, named, rng):
    x = rng.normal(size=(300, 3))
    y = np.digitize(x[:, 0] + x[:, 1] ** 2, [0.5, 1.5][: k - 1])
    rows = pd.DataFrame(x, columns=["a", "b", "c"]) if named else x
    estimator = clone(estimator).fit(rows, y)
    model = as_model(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # names are given back where it was fitted with names
        check(model, x, classes=tuple(range(k)))
        ours = model(x)
    assert np.array_equal(ours, estimator.predict_proba(rows))
    assert model.card.classes == (() if "XGB" in name(estimator) else tuple(range(k)))
    assert (model.card.n_features, model.card.differentiable) == (3, False)
    assert model.card.features == (("a", "b", "c") if named else ())
    assert len(model.card.fingerprint) == 64


@pytest.mark.parametrize(
    "estimator", [RandomForestRegressor(5), xgboost.XGBRegressor(n_estimators=5)], ids=name
)
def test_a_regressor_without_gradient_is_a_model(estimator, rng):
    x = rng.normal(size=(200, 3))
    model = as_model(estimator.fit(x, x[:, 0] * 10))
    check(model, x)
    assert np.array_equal(model(x)[:, 0], estimator.predict(x))
    assert (model.card.task, model.card.output) == ("regression", "values")


def test_codes_of_classes_can_be_given_their_names(rng):
    x = rng.normal(size=(60, 3))
    for estimator in (xgboost.XGBClassifier(n_estimators=2), GaussianNB(), LogisticRegression()):
        model = as_model(estimator.fit(x, (x[:, 0] > 0).astype(int)), classes=("no", "yes"))
        assert model.card.classes == ("no", "yes")
        check(model, x)


def test_a_forests_certainty_is_clipped(rng):
    x = rng.normal(size=(400, 3))
    y = (x[:, 0] + 0.3 * rng.normal(size=400) > 0).astype(int)
    model = as_model(RandomForestClassifier(20, random_state=0).fit(x, y))
    out = model(x)
    loss = model.loss(out, y)
    least, most = -np.log(1 - CLIP), -np.log(CLIP)
    assert 100 < int(((out == 0) | (out == 1)).any(axis=1).sum()) < 400
    assert loss.min().item() == pytest.approx(least)
    assert loss.max().item() <= most


def test_a_function_of_arrays_is_a_model(rng):
    def scores(rows):
        assert rows.dtype == np.float64
        return 1 / (1 + np.exp(-rows[:, 0]))

    x = rng.normal(size=(50, 3))
    model = as_model(scores, classes=("no", "yes"))
    check(model, x)
    assert isinstance(model, BlackBox)
    assert model.card.kind == "function scores"
    assert model(x).shape == (50, 1)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda rows: rows[:5, 0] * 0, r"shape \(5, 1\) for 40 rows"),
        (lambda rows: np.full(len(rows), np.nan), "NaN or infinite numbers for 40 of 40"),
        (lambda rows: ["yes"] * len(rows), "could not convert"),
        (lambda rows: rows[:, 0, 0], "cannot be run on rows of 3 features: IndexError"),
        (lambda rows: 7.0, r"shape \(\) for 40 rows"),
        (lambda rows: rows[:, 0], "said to be probabilities"),
        (lambda rows: np.random.default_rng().uniform(size=len(rows)), "is random"),
        (lambda rows: rows[:, 0].argsort().argsort() / len(rows), "influence each other"),
    ],
)
def test_a_function_that_answers_nonsense_is_one_sentence(function, words, rng):
    with pytest.raises(InvalidModel, match=words):
        check(as_model(function), rng.normal(size=(40, 3)))


def test_what_predicts_nothing_is_refused(rng):
    x = rng.normal(size=(40, 3))
    with pytest.raises(InvalidModel, match="StandardScaler predicts nothing"):
        as_model(StandardScaler().fit(x))
    with pytest.raises(InvalidModel, match="RandomForestClassifier has not been fitted"):
        as_model(RandomForestClassifier())


def test_a_model_can_travel_to_another_process(rng):
    x = rng.normal(size=(40, 3))
    model = as_model(RandomForestClassifier(3).fit(x, x[:, 0] > 0))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again(x), model(x))


@pytest.fixture
def people(rng) -> pa.Table:
    n = 300
    job = np.array(["clerk", "cook", "judge"])[rng.integers(0, 3, n)]
    return pa.table(
        {"age": rng.integers(18, 80, n), "job": job, "hours": rng.normal(40, 9, n).round(1)}
    )


def labels(table):
    judge = np.array(table["job"].to_pylist()) == "judge"
    return ((table["age"].to_numpy() > 45) ^ judge).astype(int)


@pytest.mark.parametrize("estimator", classifiers(), ids=name)
def test_a_pipeline_ending_in_trees_is_cut_in_front_of_them(estimator, people):
    steps = ColumnTransformer(
        [
            ("text", OneHotEncoder(sparse_output=False), ["job"]),
            ("numbers", StandardScaler(), ["age", "hours"]),
        ]
    )
    whole = make_pipeline(steps, estimator).fit(people.to_pandas(), labels(people))
    model = as_model(whole, table=people)
    x, features = model.front(people)
    check(model, x, features=features)
    assert features[0] == "text__job_clerk"
    expected = whole.predict_proba(people.to_pandas())
    assert np.array_equal(model(x), expected)


def categories(frame):
    """What a step may hand on that is not a matrix of numbers."""
    return frame.assign(job=frame["job"].astype("category"))


def uncuttable(people):
    """Pipelines whose last step is given categories, and models that read text themselves."""
    tree = lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1)
    yield make_pipeline(FunctionTransformer(categories), tree)
    steps = ColumnTransformer([("text", OrdinalEncoder(), ["job"])], remainder="passthrough")
    inner = make_pipeline(steps, DecisionTreeClassifier(max_depth=4))
    yield CalibratedClassifierCV(inner, cv=2)
    yield VotingClassifier([("inner", inner)], voting="soft")


@pytest.mark.parametrize("index", range(3))
def test_what_cannot_be_cut_is_read_through_decoded_rows(index, people):
    whole = list(uncuttable(people))[index].fit(people.to_pandas(), labels(people))
    encoder = Encoder.fit(people)
    # Without an encoder, features are made of the people themselves.
    columns = columns_read(whole, people, (), raw=True)
    assert columns == ("age", "job", "hours")
    own = as_model(whole, table=people, own=Encoder.of_people(people, columns))
    expected = whole.predict_proba(people.to_pandas())
    assert np.allclose(own(own.front(people)[0]), expected, atol=1e-12)
    model = as_model(whole, table=people, encoder=encoder)
    x = encoder.encode(people)
    check(model, x, features=encoder.features)
    assert model.front is None
    assert model.card.kind.endswith("on decoded rows")
    # Decoding gives back the rows themselves, so the answers are those of the whole model.
    assert np.allclose(model(x), expected, atol=1e-12)


def test_codes_mistaken_for_numbers_are_noticed(people):
    # LightGBM takes a matrix in place of categories, and answers wrongly without a word.
    codes = people.set_column(1, "job", pa.array(np.arange(300) % 7 * 10))
    frame = codes.to_pandas()
    tree = lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1)
    whole = make_pipeline(FunctionTransformer(categories), tree)
    whole.fit(frame, (frame["job"] > 30).astype(int))
    with pytest.raises(InvalidModel):
        as_model(whole, table=codes)
    # So it is audited whole.
    assert columns_read(whole, codes, (), raw=True) == ("age", "job", "hours")


def test_the_encoder_must_know_the_columns(people):
    whole = CalibratedClassifierCV(
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()), cv=2
    ).fit(people.to_pandas(), labels(people))
    with pytest.raises(InvalidModel, match="column 'hours', which the encoder does not have"):
        as_model(whole, table=people, encoder=Encoder.fit(people.drop_columns(["hours"])))


def test_a_pipeline_that_ends_in_a_pipeline_is_cut_in_front_of_its_last_model(rng):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = rng.normal(size=(80, 3)) * [1, 10, 100]
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    whole = make_pipeline(StandardScaler(with_std=False), inner).fit(x, x[:, 0] > 0)
    model = as_model(whole)
    assert model.card.differentiable
    logit = model(model.front(x)[0])[:, 0]
    np.testing.assert_allclose(1 / (1 + np.exp(-logit)), whole.predict_proba(x)[:, 1], atol=1e-12)
