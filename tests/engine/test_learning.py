"""A metric learned from people in blocks is the one learned from them in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.data.sources import as_source
from likewise.engine import learning
from likewise.engine.meeting import as_seen
from likewise.engine.prepare import meet
from likewise.metrics.shuffled_traits import Shuffle
from likewise.settings import Settings

TRAITS = ("race", "sex", "age")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    race = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["f", "m"], n).astype(object)
    age = rng.normal(40, 12, n)
    x = rng.normal(size=(n, 5)) + 0.02 * age[:, None]
    x[:, 0] += 0.8 * (sex == "m")
    x[:, 1] += 0.6 * (race == "b")
    x[:, 4] = x[:, 4] > 0.5
    sex[::97] = None
    frame = pd.DataFrame(x, columns=[f"f{j}" for j in range(5)])
    frame["y"] = (x[:, 0] + x[:, 1] + rng.normal(size=n) > 0).astype(int)
    return frame.assign(race=race, sex=sex, age=age, weight=rng.uniform(0.5, 2, n))


def learned(frame, monkeypatch, run=None, **choices):
    """Return the metric of people in blocks, and of the same people in memory."""
    monkeypatch.setattr(learning, "MOST", 1000)
    monkeypatch.setattr(learning, "READ", 700)
    inputs = [name for name in frame if name.startswith("f")]
    model = LogisticRegression().fit(frame[inputs], frame["y"])
    weight = "weight" if choices.pop("weighted", False) else None
    ignored = () if weight else ("weight",)
    source = as_source(frame, label="y", protected=TRAITS, weight=weight, ignore=ignored)
    settings = Settings(metric={"placebos": 2, "groups": 4, "penalty": 0.003}).changed(**choices)
    known = source.survey(0, 500)
    wrapped, handle = meet(model, model, known, settings, trust=False)
    seen = as_seen(wrapped, known.sample)
    run = run or likewise.Inline()
    got = learning.learn_metric(wrapped, handle, source.knowing(known), known, seen, settings, run)
    everyone = source.survey(0, len(frame)).sample
    memory = likewise.sensitive_subspace(
        as_seen(wrapped, everyone), **settings.learning, as_read=everyone
    )
    return got, memory


@pytest.mark.parametrize(
    "choices",
    [
        {"weighted": True},
        {"columns__may_matter": ("f3",)},
        {"metric__C": 1.0, "metric__penalty": "auto", "weighted": True},
    ],
    ids=["weights", "may matter", "C of the whole sample"],
)
def test_blocks_teach_the_same_metric_refits_and_reach_as_memory(frame, monkeypatch, choices):
    got, memory = learned(frame, monkeypatch, **choices)
    # Newton's method leaves a gradient of 1e-11; directions follow it to about a hundredfold.
    np.testing.assert_allclose(got.directions, memory.directions, atol=1e-8)
    np.testing.assert_array_equal(got.groups, memory.groups)
    for some, others in zip((got, *got.refits), (memory, *memory.refits), strict=True):
        np.testing.assert_allclose(some.free.T @ some.free, others.free.T @ others.free, atol=1e-8)
        assert some.reach.radius == pytest.approx(others.reach.radius, abs=1e-8)
    assert got.origin.data == memory.origin.data
    assert got.origin.n == len(frame)
    assert got.origin.judged == 1000
    assert "judged by 1000 of them" in str(got)
    assert [t.missing for t in got.origin.traits] == [0, 31, 0]


def test_workers_of_any_number_teach_the_same_to_the_last_bit(frame, monkeypatch):
    alone, _ = learned(frame, monkeypatch)
    together, _ = learned(frame, monkeypatch, run=likewise.Threads(2))
    for some, others in zip(
        (alone, *alone.refits, *alone.placebos),
        (together, *together.refits, *together.placebos),
        strict=True,
    ):
        np.testing.assert_array_equal(some.free, others.free)
        assert some.reach.radius == others.reach.radius


def test_placebos_in_blocks_lie_about_as_far_from_the_metric_as_those_in_memory(frame, monkeypatch):
    got, memory = learned(frame, monkeypatch, metric__placebos=12)
    shares = [
        [np.linalg.norm(one.free @ metric.free.T) ** 2 for one in metric.placebos]
        for metric in (got, memory)
    ]
    # Four of five directions are free: random ones share 16/5 of them on average.
    assert np.mean(shares[0]) == pytest.approx(np.mean(shares[1]), abs=0.25)


@pytest.mark.parametrize("change", ["a class of few", "many coefficients"])
def test_what_blocks_cannot_teach_a_sample_does_and_says_so(frame, monkeypatch, change):
    if change == "many coefficients":
        monkeypatch.setattr("likewise.metrics.everyone.LARGEST", 5)
    else:
        frame = frame.assign(race=frame["race"].where(frame.index > 40, "d"))
    got, _ = learned(frame, monkeypatch)
    assert got.origin.n == 1000
    assert got.origin.judged is None


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000, 4097])
def test_a_shuffle_by_parts_is_one_to_one(n):
    shuffle = Shuffle(n, (3, 2, 1))
    found = np.concatenate([shuffle(part) for part in np.array_split(np.arange(n), 3)])
    np.testing.assert_array_equal(np.sort(found), np.arange(n))


def test_a_shuffle_has_no_memory_of_places():
    n = 20_000
    found = Shuffle(n, (5,))(np.arange(n))
    # Correlations of independent orders have a deviation of 1/141; 4 of it are 1 in 16 000.
    for lag in (0, 1, 2, 64):
        assert abs(np.corrcoef(found[lag:], np.arange(n - lag))[0, 1]) < 4 / np.sqrt(n)
        if lag:
            assert abs(np.corrcoef(found[lag:], found[:-lag])[0, 1]) < 4 / np.sqrt(n)
