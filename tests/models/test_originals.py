"""Worst cases of pipelines, shown in the columns that people know."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import likewise
from likewise.models import as_model
from likewise.settings import Settings


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"age": rng.integers(20, 70, 300), "pay": 100 * rng.normal(size=300)})
    frame["job"] = rng.choice(["clerk", "cook", "smith"], 300)
    frame["sex"] = rng.choice(["f", "m"], 300)
    frame["y"] = (frame.pay / 100 + (frame.sex == "m") + rng.normal(size=300) > 0.5).astype(int)
    return frame


WORDS = ["job", "sex"]
STEPS = {
    "one-hot": make_column_transformer(
        (StandardScaler(), ["age", "pay"]), (OneHotEncoder(), WORDS)
    ),
    "one dropped": make_column_transformer(
        (OneHotEncoder(drop="first"), WORDS), remainder="passthrough"
    ),
    "codes": make_column_transformer((OrdinalEncoder(), WORDS), (StandardScaler(), ["age", "pay"])),
    "nested": make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "pay"]),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), WORDS),
    ),
    "components": make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "pay"]), (OneHotEncoder(sparse_output=False), WORDS)
        ),
        PCA(7),
    ),
}


def front_of(steps, frame):
    inputs = frame.drop(columns="y")
    pipeline = make_pipeline(steps, LogisticRegression()).fit(inputs, frame["y"])
    table = pa.Table.from_pandas(inputs)
    model = as_model(pipeline, table=table)
    x, _ = model.front(table)
    return model.front, table, x


@pytest.mark.parametrize("kind", STEPS)
def test_steps_with_an_inverse_give_everyone_back(kind, frame):
    front, table, x = front_of(STEPS[kind], frame)
    back, wanted = front.decode(x).to_pydict(), table.to_pydict()
    for name in ("job", "sex", "age"):
        assert back[name] == wanted[name]
    # Standardising there and back costs a few digits.
    np.testing.assert_allclose(back["pay"], wanted["pay"], rtol=1e-9, atol=1e-9)


def test_columns_that_cannot_be_inverted_are_left_out(frame):
    products = make_pipeline(StandardScaler(), PolynomialFeatures(2))
    steps = make_column_transformer((products, ["age", "pay"]), (OneHotEncoder(), WORDS))
    front, table, x = front_of(steps, frame)
    assert front.decode(x).equals(table.select(WORDS))


def test_a_report_on_a_pipeline_speaks_of_its_columns(frame):
    prepare = make_column_transformer((StandardScaler(), ["age", "pay"]), (OneHotEncoder(), WORDS))
    pipeline = make_pipeline(prepare, LogisticRegression()).fit(
        frame.drop(columns="y")[:150], frame["y"][:150]
    )
    settings = Settings(checks="core", method="reach", metric={"placebos": 0, "groups": 2})
    people = frame[150:].reset_index(drop=True)
    result = likewise.audit(pipeline, people, label="y", protected="sex", settings=settings)
    assert result.record.perturbed
    for case in result.record.perturbed[:3]:
        assert list(case.before) == list(case.after) == ["age", "pay", "job", "sex"]
        assert case.before == people[["age", "pay", "job", "sex"]].iloc[case.row].to_dict()
        assert case.after["job"] in ("clerk", "cook", "smith")
