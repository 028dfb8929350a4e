import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import binom
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from likewise.audit_data import AuditData
from likewise.data.encode import Encoder
from likewise.errors import InvalidData, InvalidMetric, InvalidSettings
from likewise.inference.ratio_tests import LossRatioTest
from likewise.maps.combine import Worst
from likewise.maps.flips import Flips
from likewise.maps.observe import observe
from likewise.maps.unfair_map import Moved, UnfairMap
from likewise.metrics.quadratic import free_columns, ignoring
from likewise.models import as_model

FEATURES = ("age", "sex=F", "sex=M", "race", "pay")


def people(rng, n=200):
    sex, race = rng.integers(2, size=n), rng.integers(3, size=n) - 1.0
    x = np.column_stack([rng.normal(size=n), np.eye(2)[sex], race, rng.normal(size=n)])
    protected = {"sex": np.array(["F", "M"])[sex], "race": race, "faith": rng.integers(2, size=n)}
    return AuditData.from_arrays(x, np.arange(n) % 2, protected, features=FEATURES)


def linear(w):
    return as_model(lambda x: (x @ torch.tensor(w, dtype=torch.float64))[:, None], output="logits")


def moved_by(flips, model, data):
    y = data.y
    return flips.bind(model, ignoring([1.0] * data.x.shape[1]))(data.x, y)


def test_all_classes_of_all_traits_are_tried_and_the_worst_is_kept(rng):
    data = people(rng)
    flips = Flips.of(data)
    assert flips.traits == ("sex", "race")  # the model does not see faith
    assert flips.combinations == 6
    moved = moved_by(flips, linear([1.0, 2.0, -2.0, 1.5, 1.0]), data)
    # With label 1 a low score is bad: men of race -1; with label 0 women of race 1.
    bad = np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 1.0]])
    assert np.array_equal(moved.x[:, 1:4], bad[1 - data.y])
    assert np.array_equal(moved.x[:, [0, 4]], data.x[:, [0, 4]])
    assert moved.evaluations == 7


def test_a_model_that_does_not_use_the_trait_moves_nobody(rng):
    data = people(rng)
    moved = moved_by(Flips.of(data), linear([1.0, 0.0, 0.0, 0.0, 1.0]), data)
    assert np.array_equal(moved.x, data.x)


def test_a_number_is_swapped_for_its_quantiles(rng):
    data = people(rng)
    assert Flips.of(data, ["pay"]).combinations == 11


def test_small_blocks_give_the_same(rng, monkeypatch):
    data = people(rng)
    model = linear([1.0, 2.0, -2.0, 1.5, 1.0])
    whole = moved_by(Flips.of(data), model, data)
    monkeypatch.setattr("likewise.maps.flips.NUMBERS", 5 * 7 * 3)
    assert np.array_equal(moved_by(Flips.of(data), model, data).x, whole.x)


def table_of(rng, n=300):
    sex = rng.choice(["F", "M"], size=n)
    race = rng.choice(["a", "b", "c"], size=n)
    age = rng.integers(20, 60, size=n)
    return pa.table({"age": age, "sex": sex, "race": race})


def test_original_columns_of_a_pipeline_are_swapped_and_encoded_again(rng):
    table = table_of(rng)
    frame = table.to_pandas()
    y = (frame["age"] + 10 * (frame["sex"] == "M") + rng.normal(size=300) > 42).astype(int)
    pipeline = Pipeline(
        [
            (
                "encode",
                ColumnTransformer(
                    [
                        ("num", StandardScaler(), ["age"]),
                        ("cat", OneHotEncoder(drop="first"), ["sex", "race"]),
                    ]
                ),
            ),
            ("model", LogisticRegression()),
        ]
    ).fit(frame, y)
    model = as_model(pipeline)
    x, _ = model.front(table)
    flips = Flips.in_table(table, ["sex", "race"], model.front)
    target = y.to_numpy()
    moved = flips.bind(model, ignoring([1.0] * x.shape[1]))(x, target)
    # The outside authority: the pipeline itself on every swapped table.
    worst = np.full(300, np.inf)
    for sex in "FM":
        for race in "abc":
            chance = pipeline.predict_proba(frame.assign(sex=sex, race=race))
            worst = np.minimum(worst, chance[np.arange(300), y])
    found = np.exp(-model.loss(model(moved.x), target))
    np.testing.assert_allclose(found, worst, rtol=1e-9)


def test_an_encoder_serves_as_well_and_values_can_be_named(rng):
    table = table_of(rng)
    encoder = Encoder.fit(table)
    flips = Flips.in_table(table, ["race"], encoder.encode, values={"race": ["a", "b"]})
    x = encoder.encode(table)
    alternatives = flips.alternatives(x)
    assert alternatives.shape == (300, 2, 6)
    assert encoder.decode(alternatives[:, 1])["race"].unique().to_pylist() == ["b"]
    stranger = x[:1] + 1
    with pytest.raises(InvalidData, match="not in the table"):
        flips.alternatives(stranger)


def test_bad_requests_are_refused_in_a_sentence(rng):
    data = people(rng)
    with pytest.raises(InvalidSettings, match="does not see 'faith'"):
        Flips.of(data, ["faith"])
    unseen = AuditData.from_arrays(data.x[:, :1], data.y, {"faith": data.protected["faith"]})
    with pytest.raises(InvalidSettings, match=r"No protected trait \(faith\) is an input"):
        Flips.of(unseen)
    table = table_of(rng)
    with pytest.raises(InvalidSettings, match=r"no column 'sx'.*Did you mean 'sex'\?"):
        Flips.in_table(table, ["sx"], lambda t: t)
    with pytest.raises(InvalidSettings, match="No protected trait is an input"):
        Flips.in_table(table, [], lambda t: t)
    wide = table.append_column("code", pa.array(np.arange(300)))
    with pytest.raises(InvalidSettings, match="1800 combinations"):
        Flips.in_table(wide, ["code", "sex", "race"], lambda t: t)
    with pytest.raises(InvalidMetric, match="made for 2 features"):
        Flips.of(data).bind(linear([1.0] * 5), ignoring([1.0, 0.0]))


@pytest.mark.slow
def test_a_model_on_the_boundary_is_rejected_at_most_alpha_of_the_time():
    # Logistic model that uses a binary trait: the population mean of the ratio is the boundary,
    # from 400 000 people (to 0.1 %). The upper limit is one false alarm in 10 000.
    rng = np.random.default_rng(20210330)
    runs, n = 1000, 400
    size = runs * n + 400_000
    x = np.column_stack([rng.normal(size=size), rng.integers(2, size=size)])
    y = (rng.random(size) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    data = AuditData.from_arrays(x, y, {"sex": x[:, 1]}, features=("skill", "sex"))
    model, metric = linear([1.0, 0.6]), free_columns(data.features, "sex")
    bound = Flips.of(data).bind(model, metric)
    outcomes = observe(model, bound, metric, x, y).outcomes
    assert outcomes.fair_distance.max() == 0
    ratio = outcomes.ratio[runs * n :]
    assert ratio.std() / math.sqrt(len(ratio)) < 0.001 * ratio.mean()
    test = LossRatioTest(delta=float(ratio.mean()))
    rejections = sum(
        test(outcomes.take(np.arange(i * n, (i + 1) * n))).rejected for i in range(runs)
    )
    assert ratio.mean() > 1.1
    assert 0.02 * runs < rejections <= binom.ppf(0.9999, runs, test.alpha)


class Shift(UnfairMap):
    """Moves everyone by a constant, for better or worse."""

    name = "shift"
    keeps_start = False

    def __init__(self, by, status=0):
        self.by, self.status = by, status

    def bind(self, model, metric):
        def move(x0, y):
            return Moved(x0 + self.by, np.full(len(x0), self.status), 1)

        return move


def test_the_worst_of_several_maps_is_taken_person_by_person(rng):
    data = people(rng)
    model, metric = linear([1.0, 0.0, 0.0, 0.0, 0.0]), ignoring([1.0] * 5)
    x0, y = data.x, data.y
    moved = Worst((Shift(1.0), Shift(-2.0))).bind(model, metric)(x0, y)
    # Label 1 is hurt by a lower score, label 0 by a higher one.
    expected = np.where(y[:, None] == 1, x0 - 2, x0 + 1)
    assert np.array_equal(moved.x, expected)
    assert moved.evaluations == 5
    assert Worst((Shift(1.0),)).keeps_start


def test_nobody_is_better_off_under_the_worst_map(rng):
    data = people(rng)
    model, metric = linear([1.0, 0.0, 0.0, 0.0, 0.0]), ignoring([1.0] * 5)
    x0, y = data.x, data.y
    moved = Worst((Shift(1.0),)).bind(model, metric)(x0, y)
    assert np.array_equal(moved.x[y == 1], x0[y == 1])
    assert np.array_equal(moved.x[y == 0], x0[y == 0] + 1)


def test_a_row_that_diverged_in_one_map_is_reported(rng):
    data = people(rng)
    model, metric = linear([1.0, 0.0, 0.0, 0.0, 0.0]), ignoring([1.0] * 5)
    x0, y = data.x, data.y
    lost = Worst((Shift(1.0), Shift(math.nan, status=1))).bind(model, metric)(x0, y)
    assert (lost.status == 1).all()
    assert np.isfinite(lost.x).all()
    with pytest.raises(InvalidSettings, match="at least one"):
        Worst(())
