import importlib.util

import lightgbm
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import likewise
from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.errors import InvalidData, InvalidModel
from likewise.handle import adapt
from likewise.loss import probabilities
from likewise.models import TableModel, as_model, check


@pytest.fixture
def people(rng) -> pa.Table:
    n = 200
    jobs = np.array(["clerk", "cook", None], dtype=object)[rng.integers(0, 3, n)]
    hours = rng.normal(40, 9, n)
    hours[::17] = np.nan
    return pa.table(
        {
            "sex": pa.array(["f", "m"] * (n // 2)),
            "job": pa.array(list(jobs)),
            "age": pa.array(rng.integers(18, 80, n)),
            "hours": pa.array(hours, from_pandas=True),
            "married": pa.array(rng.integers(0, 2, n).astype(bool)),
        }
    )


def preparation(sparse=True, missing=np.nan):
    text = make_pipeline(
        SimpleImputer(missing_values=missing, strategy="most_frequent"),
        OneHotEncoder(sparse_output=sparse, handle_unknown="ignore"),
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer(
        [("text", text, ["job"]), ("numbers", numbers, ["age", "hours", "married"])],
        sparse_threshold=1.0 if sparse else 0.0,
    )


def read_by(model, table, encoder=None):
    """Return a model that reads such a table."""
    x = np.empty((len(table), 0))
    return adapt(model, AuditData(x, x.sum(axis=1), table=table, encoder=encoder))[0]


def labels(table):
    return (table["age"].to_numpy() > 45).astype(int)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    "last",
    [
        LogisticRegression(),
        MLPClassifier((4,), max_iter=400),
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression()),
    ],
    ids=lambda last: type(last).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pipeline_is_cut_in_front_of_a_model_with_gradients(last, sparse, people):
    frame = people.to_pandas()
    pipeline = make_pipeline(preparation(sparse), last).fit(frame, labels(people))
    model = read_by(pipeline, people)
    x, features = model.front(people)
    check(model, x, features=features)
    ours = probabilities(model(x), model.card.output)
    assert np.abs(ours - pipeline.predict_proba(frame)).max() < 1e-12
    assert model.card.differentiable
    assert features == model.card.features
    assert features[:2] == ("text__job_clerk", "text__job_cook")
    last = last[-1] if isinstance(last, Pipeline) else last
    assert model.card.kind == f"Pipeline ending in {type(last).__name__}"
    assert model.front.columns == tuple(people.column_names)


def test_columns_the_pipeline_does_not_know_do_not_matter(people):
    pipeline = make_pipeline(preparation(), LogisticRegression())
    pipeline.fit(people.drop_columns(["sex"]).to_pandas(), labels(people))
    model = as_model(pipeline)
    shuffled = people.select(["married", "sex", "hours", "job", "age"])
    assert np.array_equal(model.front(people)[0], model.front(shuffled)[0])
    with pytest.raises(InvalidData, match=r"reads a column 'hours'.*Did you mean 'hour'"):
        model.front(people.rename_columns(["sex", "job", "age", "hour", "married"]))


def test_polars_serves_where_pandas_is_not_installed(people, monkeypatch):
    frame = pl.DataFrame(people.select(["age", "job"]))
    steps = ColumnTransformer(
        [
            ("text", OneHotEncoder(handle_unknown="ignore"), ["job"]),
            ("numbers", StandardScaler(), ["age"]),
        ]
    )
    pipeline = make_pipeline(steps, LogisticRegression()).fit(frame, labels(people))
    expected = pipeline.predict_proba(frame)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" else 1)
    model = as_model(pipeline)
    x, _ = model.front(people)
    ours = probabilities(model(x), "logits")
    assert np.abs(ours - expected).max() < 1e-12


def test_a_data_frame_library_is_asked_for_when_there_is_none(people, monkeypatch):
    pipeline = make_pipeline(preparation(), LogisticRegression())
    pipeline.fit(people.to_pandas(), labels(people))
    model = as_model(pipeline)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidModel, match="pip install pandas"):
        model.front(people)


def test_a_pipeline_fitted_on_arrays_reads_arrays_and_tables(people, rng):
    x = rng.normal(size=(60, 2))
    pipeline = make_pipeline(StandardScaler(), LinearRegression()).fit(x, x[:, 0])
    model = as_model(pipeline)
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    assert np.array_equal(model.front(x)[0], model.front(table)[0])
    assert model.front.columns == ()
    with pytest.raises(InvalidModel, match=r"takes 2 inputs.*has 3 columns of numbers.*model.col"):
        read_by(pipeline, people)


@pytest.mark.parametrize(
    "last", [xgboost.XGBClassifier(n_estimators=9), RandomForestClassifier(8, random_state=0)]
)
def test_a_pipeline_that_ends_in_a_model_without_gradients_is_asked_whole(last, people):
    # XGBoost takes what a sparse matrix leaves out for missing; given zeros, it answers otherwise.
    y = (people["job"].to_pandas() == "cook").to_numpy() ^ (np.arange(len(people)) % 9 == 0)
    frame = people.to_pandas()
    pipeline = make_pipeline(preparation(sparse=True), last).fit(frame, y.astype(int))
    model = read_by(pipeline, people)
    assert model.front.reading.form == "frame"
    assert np.array_equal(TableModel(model, model.front)(people), pipeline.predict_proba(frame))


def test_gaps_that_nothing_fills_do_not_stop_a_pipeline_from_being_recognised(people):
    complete = people.filter(people["hours"].is_valid())
    steps = ColumnTransformer([("numbers", StandardScaler(), ["age", "hours"])])
    whole = make_pipeline(steps, LogisticRegression())
    whole.fit(complete.to_pandas(), labels(complete))
    x, _ = read_by(whole, people).front(people)
    assert np.isnan(x[:, 1]).sum() == people["hours"].null_count  # for the audit to report


def test_text_where_a_pipeline_takes_numbers_is_shown(people):
    whole = make_pipeline(preparation(), LogisticRegression())
    whole.fit(people.to_pandas(), labels(people))
    ages = pa.array([f"${age}" for age in people["age"].to_pylist()])
    table = people.set_column(people.column_names.index("age"), "age", ages)
    with pytest.raises(InvalidData, match=r"cannot read the data: .*'\$[0-9]+'\.$"):
        read_by(whole, table).front(table)


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
    people = people.select(["age", "job", "hours"]).drop_null()
    whole = list(uncuttable(people))[index].fit(people.to_pandas(), labels(people))
    encoder = Encoder.fit(people)
    # Without an encoder, features are made of the people themselves.
    own, _ = adapt(
        whole, likewise.read(people.append_column("y", [labels(people)]), label="y", raw=True)
    )
    assert own.front.columns == ("age", "job", "hours")
    expected = whole.predict_proba(people.to_pandas())
    assert np.allclose(own(own.front(people)[0]), expected, atol=1e-12)
    model = read_by(whole, people, encoder)
    x = encoder.encode(people)
    check(model, x, features=encoder.features)
    assert model.front.reading.form == "frame"
    # Decoding gives back the rows themselves, so the answers are those of the whole model.
    assert np.allclose(model(x), expected, atol=1e-12)
