import lightgbm
import numpy as np
import pyarrow as pa
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import likewise
from likewise.data.encoder import Encoder
from likewise.errors import InvalidModel
from likewise.handle import adapt
from likewise.loss import CLIP
from likewise.models import TableModel, as_model, check


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


@pytest.mark.parametrize(
    "estimator", [HistGradientBoostingClassifier(max_iter=8), CalibratedClassifierCV(GaussianNB())]
)
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
    own, _ = adapt(
        whole, likewise.read(people.append_column("y", [labels(people)]), label="y", raw=True)
    )
    assert own.front.columns == ("age", "job", "hours")
    expected = whole.predict_proba(people.to_pandas())
    assert np.allclose(own(own.front(people)[0]), expected, atol=1e-12)
    model = as_model(whole, table=people, encoder=encoder)
    x = encoder.encode(people)
    check(model, x, features=encoder.features)
    assert model.front.reading.form == "frame"
    # Decoding gives back the rows themselves, so the answers are those of the whole model.
    assert np.allclose(model(x), expected, atol=1e-12)


def test_codes_mistaken_for_numbers_are_noticed(people):
    # LightGBM takes a matrix in place of categories, and answers wrongly without a word.
    codes = people.set_column(1, "job", pa.array(np.arange(300) % 7 * 10))
    frame = codes.to_pandas()
    tree = lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1)
    whole = make_pipeline(FunctionTransformer(categories), tree)
    whole.fit(frame, (frame["job"] > 30).astype(int))
    model = as_model(whole, table=codes)
    assert model.front.reading.form == "frame"  # so it is audited whole
    answers = TableModel(model, model.front)(codes)
    assert np.array_equal(answers, whole.predict_proba(frame))


def test_the_encoder_must_know_the_columns(people):
    whole = CalibratedClassifierCV(
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()), cv=2
    ).fit(people.to_pandas(), labels(people))
    with pytest.raises(
        InvalidModel, match="reads 'hours', which is neither a column nor a feature"
    ):
        as_model(whole, table=people, encoder=Encoder.fit(people.drop_columns(["hours"])))


def test_a_pipeline_that_ends_in_a_pipeline_is_cut_in_front_of_its_last_model(rng):
    x = rng.normal(size=(80, 3)) * [1, 10, 100]
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    whole = make_pipeline(StandardScaler(with_std=False), inner).fit(x, x[:, 0] > 0)
    model = as_model(whole)
    assert model.card.differentiable
    logit = model(model.front(x)[0])[:, 0]
    np.testing.assert_allclose(1 / (1 + np.exp(-logit)), whole.predict_proba(x)[:, 1], atol=1e-12)
