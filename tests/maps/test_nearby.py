"""Looking only at what can change finds who could exist, whichever model is asked, and how."""

import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from likewise.maps.feasible import Feasible, Nearby
from likewise.maps.search import Reach
from likewise.metrics.quadratic import ignoring
from likewise.models import as_model
from likewise.models.recalled import Recalled

FEATURES = ("age", "rank", "job=a", "job=b", "job=c", "job=d", "score")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    job = np.eye(4)[rng.integers(4, size=500)]
    return np.column_stack([rng.integers(60, size=500) / 10, rng.integers(3, size=500), job])


def steps_of(rng, n, r):
    u = rng.normal(size=(n, r))
    return u / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1)


@pytest.mark.parametrize("scale", [0.02, 0.4, 1.5])
@pytest.mark.parametrize("case", ["known", "continuous", "strangers"])
def test_who_could_exist_nearby_is_who_is_nearest_of_all(people, scale, case):
    rng = np.random.default_rng(6)
    x0 = np.column_stack([people, rng.normal(size=500) if case == "continuous" else np.zeros(500)])
    feasible = Feasible.of(x0, FEATURES)
    if case == "strangers":  # they have what nobody else has, and may keep it
        x0 = x0 + 0.3 * (rng.random(x0.shape) < 0.2)
    axes = scale * rng.normal(size=(2, 7))
    nearby = Nearby.of(feasible, x0, axes, np.ones(500))
    who, s = rng.integers(500, size=3000), steps_of(rng, 3000, 2)
    codes = nearby.codes(who, s)
    expected = feasible.nearest((x0[who] + s @ axes)[:, None], x0[who])[:, 0]
    np.testing.assert_allclose(nearby.people(who, s, codes), expected, rtol=0, atol=1e-12)
    once, back = nearby.distinct(who, codes)
    assert np.array_equal(who[once][back], who)
    np.testing.assert_array_equal(expected[once][back], expected)
    looked_at = sum(len(group.levels.columns) for group in nearby.groups)
    assert looked_at < 6 or scale > 0.02 or case == "strangers"
    assert looked_at >= 6 or scale < 1.5


MODELS = {
    "network": MLPClassifier((8,), max_iter=300, random_state=0),
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(10, min_samples_leaf=3, random_state=0),
}


@pytest.mark.parametrize("kind", MODELS)
def test_variants_that_share_what_was_asked_find_what_each_finds_alone(people, kind):
    rng = np.random.default_rng(7)
    y = (people[:, 0] + 2 * people[:, 2] + rng.normal(size=500) > 3.5).astype(int)
    model = as_model(MODELS[kind].fit(people, y)).with_card(bounded=True)
    feasible = Feasible.of(people, FEATURES[:6])
    shared = Recalled(model)
    found = 0
    for _ in range(3):
        metric = ignoring(rng.normal(size=(2, 6))).with_reach(people)
        alone = Reach(feasible=feasible).bind(model, metric)(people, y)
        together = Reach(feasible=feasible).bind(shared, metric)(people, y)
        assert np.array_equal(alone.x, together.x)
        # To rounding for those that are asked in other products.
        for calls, loss in alone.trace.items():
            np.testing.assert_allclose(together.trace[calls], loss, rtol=1e-12)
        found += int((alone.x != people).any(axis=1).sum())
    assert found > 300


@pytest.mark.parametrize("kind", ["network", "forest"])
def test_asking_about_people_first_or_places_first_finds_the_same(people, kind):
    rng = np.random.default_rng(8)
    y = (people[:, 0] + 2 * people[:, 2] + rng.normal(size=500) > 3.5).astype(int)
    model = as_model(MODELS[kind].fit(people, y)).with_card(bounded=True)
    other = model.with_card(differentiable=not model.card.differentiable)
    metric = ignoring(rng.normal(size=(2, 6))).with_reach(people)
    search = Reach(feasible=Feasible.of(people, FEATURES[:6]))
    one, two = (dataclasses.replace(search).bind(m, metric)(people, y) for m in (model, other))
    assert np.array_equal(one.x, two.x)
    for calls, loss in one.trace.items():
        np.testing.assert_allclose(two.trace[calls], loss, rtol=1e-12)
