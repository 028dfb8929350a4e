import dataclasses
import types

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings
from likewise.methods.flip import Flip
from likewise.methods.metric import ignoring
from likewise.methods.unfair_map import among
from likewise.models import as_model

FEATURES = ("age", "sex=F", "sex=M", "race", "pay")


def people(rng, n=200):
    sex, race = rng.integers(2, size=n), rng.integers(3, size=n) - 1.0
    x = np.column_stack([rng.normal(size=n), np.eye(2)[sex], race, rng.normal(size=n)])
    protected = {"sex": np.array(["F", "M"])[sex], "race": race, "faith": rng.integers(2, size=n)}
    return AuditData.from_arrays(x, np.arange(n) % 2, protected, features=FEATURES)


def flip_of(data, attributes=None):
    """Learn the values that are swapped from people."""
    values = {name: tuple(np.unique(column)) for name, column in data.protected.items()}
    return Flip(attributes).learned(data, None, values)


def linear(w):
    return as_model(lambda x: (x @ torch.tensor(w, dtype=torch.float64))[:, None], output="logits")


def moved_by(flips, model, data):
    y = data.y
    return flips.bind(model, ignoring([1.0] * data.x.shape[1]))(data.x, y)


def test_all_classes_of_all_traits_are_tried_and_the_worst_is_kept(rng):
    data = people(rng)
    flips = flip_of(data)
    assert flips.attributes == ("sex", "race")  # the model does not see faith
    assert [len(values) for _, values in flips.values] == [2, 3]
    moved = moved_by(flips, linear([1.0, 2.0, -2.0, 1.5, 1.0]), data)
    # With label 1 a low score is bad: men of race -1; with label 0 women of race 1.
    bad = np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 1.0]])
    assert np.array_equal(moved.x[:, 1:4], bad[1 - data.y])
    assert np.array_equal(moved.x[:, [0, 4]], data.x[:, [0, 4]])
    assert moved.evaluations == 7


def test_a_model_that_does_not_use_the_trait_moves_nobody(rng):
    data = people(rng)
    moved = moved_by(flip_of(data), linear([1.0, 0.0, 0.0, 0.0, 1.0]), data)
    assert np.array_equal(moved.x, data.x)


def test_a_number_is_swapped_for_its_quantiles(rng):
    data = people(rng)
    assert len(flip_of(data, ("pay",)).values[0][1]) == 11


def table_of(rng, n=300):
    sex = rng.choice(["F", "M"], size=n)
    race = rng.choice(["a", "b", "c"], size=n)
    age = rng.integers(20, 60, size=n)
    return pa.table({"age": age, "sex": sex, "race": race})


def in_table(table, x, y):
    """People as the model sees them, with their original columns."""
    return dataclasses.replace(AuditData.from_arrays(x, y), table=table)


def test_original_columns_of_a_pipeline_are_swapped_and_encoded_again(rng):
    table = table_of(rng)
    frame = table.to_pandas()
    y = (frame["age"] + 10 * (frame["sex"] == "M") + rng.normal(size=300) > 42).astype(int)
    encode = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(drop="first"), ["sex", "race"])
    )
    pipeline = make_pipeline(encode, LogisticRegression()).fit(frame, y)
    model = as_model(pipeline)
    x, _ = model.front(table)
    target = y.to_numpy()
    data = in_table(table, x, target)
    values = {"sex": ("F", "M"), "race": ("a", "b", "c"), "age": ()}
    flips = Flip(("sex", "race")).learned(data, model.front, values)
    bound = flips.bind(model, ignoring([1.0] * x.shape[1]))
    moved = among(bound, data, np.arange(300))(x, target)
    with pytest.raises(InvalidData, match="its table is needed"):
        bound(x, target)
    # The outside authority: the pipeline itself on every swapped table.
    worst = np.full(300, np.inf)
    for sex in "FM":
        for race in "abc":
            chance = pipeline.predict_proba(frame.assign(sex=sex, race=race))
            worst = np.minimum(worst, chance[np.arange(300), y])
    found = np.exp(-model.loss(model(moved.x), target))
    np.testing.assert_allclose(found, worst, rtol=1e-9)


def test_bad_requests_are_refused_in_a_sentence(rng):
    data = people(rng)
    with pytest.raises(InvalidSettings, match="does not see 'faith'"):
        flip_of(data, ("faith",))
    unseen = AuditData.from_arrays(data.x[:, :1], data.y, {"faith": data.protected["faith"]})
    with pytest.raises(InvalidSettings, match="No protected attribute is an input"):
        flip_of(unseen)
    table = table_of(rng)
    front, rows = types.SimpleNamespace(columns=()), in_table(table, data.x[:1], data.y[:1])
    with pytest.raises(InvalidSettings, match=r"no column 'sx'.*Did you mean 'sex'\?"):
        Flip(("sx",)).learned(rows, front, {})
    with pytest.raises(InvalidSettings, match="No protected attribute is an input"):
        Flip(()).learned(rows, front, {})
    with pytest.raises(InvalidSettings, match="1800 combinations"):
        Flip(("age", "sex")).learned(rows, front, {"age": range(900), "sex": ("F", "M")})
    with pytest.raises(InvalidSettings, match="learned from people"):
        Flip().bind(linear([1.0] * 5), ignoring([1.0] * 5))
