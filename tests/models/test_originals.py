"""Worst cases of pipelines, shown in the columns that people know."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import likewise
from helpers import run
from likewise.models import as_model
from likewise.models.originals import Originals, as_moved
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


def originals_of(steps, frame):
    inputs = frame.drop(columns="y")
    pipeline = make_pipeline(steps, LogisticRegression()).fit(inputs, frame["y"])
    table = pa.Table.from_pandas(inputs)
    model = as_model(pipeline, table=table)
    x, _ = model.front(table)
    return Originals.of(model.front, table, x), table, x


@pytest.mark.parametrize("kind", STEPS)
def test_steps_with_an_inverse_give_everyone_back(kind, frame):
    originals, table, x = originals_of(STEPS[kind], frame)
    back, wanted = originals.decode(x).to_pydict(), table.to_pydict()
    for name in ("job", "sex", "age"):
        assert back[name] == wanted[name]
    # Standardising there and back costs a few digits.
    np.testing.assert_allclose(back["pay"], wanted["pay"], rtol=1e-9, atol=1e-9)


def test_a_level_that_was_dropped_is_found_again(frame):
    originals, _, x = originals_of(STEPS["one dropped"], frame)
    row = x[:1].copy()
    row[0, :3] = [0.2, 0.4, 0.1]
    assert originals.decode(row).to_pylist()[0]["job"] == "clerk"
    row[0, :3] = [0.2, 0.7, 0.9]
    found = originals.decode(row).to_pylist()[0]
    assert (found["job"], found["sex"]) == ("smith", "m")


@pytest.mark.parametrize("kind", ["bins", "products", "selected"])
def test_what_cannot_be_inverted_is_the_nearest_real_person_or_ones_own(kind, frame):
    steps = {
        "bins": make_column_transformer(
            (KBinsDiscretizer(4, encode="ordinal"), ["age", "pay"]), (OneHotEncoder(), WORDS)
        ),
        "products": make_column_transformer(
            (make_pipeline(StandardScaler(), PolynomialFeatures(2)), ["age", "pay"]),
            (OneHotEncoder(), WORDS),
        ),
        "selected": make_pipeline(
            make_column_transformer(
                (StandardScaler(), ["age", "pay"]), (OneHotEncoder(sparse_output=False), WORDS)
            ),
            SelectKBest(k=4),
        ),
    }[kind]
    originals, table, x = originals_of(steps, frame)
    own, back = table.to_pylist(), originals.decode(x).to_pylist()
    shown = [as_moved(o, b, b) for o, b in zip(own, back, strict=True)]
    assert shown == own  # nobody was moved, so nothing differs
    if kind == "products":
        real = {(row["age"], row["pay"]) for row in own}
        assert {(row["age"], row["pay"]) for row in back} <= real


def test_a_report_on_a_pipeline_speaks_of_its_columns(frame):
    prepare = make_column_transformer((StandardScaler(), ["age", "pay"]), (OneHotEncoder(), WORDS))
    pipeline = make_pipeline(prepare, LogisticRegression()).fit(
        frame.drop(columns="y")[:150], frame["y"][:150]
    )
    people = likewise.read(frame[150:], label="y", protected=["sex"], raw=True)
    result = likewise.audit(pipeline, people, settings=Settings(checks="core", map="reach"))
    for case in result.worst(3):
        assert list(case.before) == ["age", "pay", "job", "sex"]
        assert list(case.after) == ["age", "pay", "job", "sex"]
        assert case.before == frame[["age", "pay", "job", "sex"]].iloc[case.row + 150].to_dict()
        assert case.after["job"] in ("clerk", "cook", "smith")
    cards = result.to_html().partition("Feature")[0]
    assert "onehotencoder__job" not in json.dumps([c.after for c in result.record.worst])
    assert "smith" in cards or "cook" in cards or "clerk" in cards


def test_gaps_in_a_file_reach_trees_that_read_them(frame, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    some = frame[["age", "pay", "y"]].assign(sex=(frame.sex == "m").astype(int))
    some.loc[::5, "pay"] = np.nan
    inputs = ["age", "pay", "sex"]
    trees = xgboost.XGBClassifier(n_estimators=8).fit(some[inputs][:150], some["y"][:150])
    trees.save_model(tmp_path / "m.ubj")
    some[150:][[*inputs, "y"]].to_csv(tmp_path / "people.csv", index=False)
    result = run(
        "audit", tmp_path / "m.ubj", tmp_path / "people.csv", "--label", "y", "--protected", "sex",
        "--checks", "core", "--set", "map.budget=8",
        "-o", tmp_path / "r.json", "-o", tmp_path / "o.parquet",
    )  # fmt: skip
    assert result.exit_code in (0, 1), result.stderr
    p = trees.predict_proba(some[150:][inputs])
    y = some["y"][150:].to_numpy()
    found = likewise.Outcomes.read(tmp_path / "o.parquet").probability_before
    np.testing.assert_allclose(found, p[np.arange(150), y], atol=1e-6)
    record = likewise.Record.read(tmp_path / "r.json")
    assert {"age", "pay", "sex"} == set(record.worst[0].before)
