import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from likewise.errors import InvalidData
from likewise.maps.candidates import candidate_losses
from likewise.maps.feasible import Feasible, Levels
from likewise.maps.search import Reach
from likewise.metrics.quadratic import ProjectionMetric, ignoring
from likewise.metrics.reach import Ellipsoid
from likewise.models import as_model

FEATURES = ("age", "job=cook", "job=judge", "job=none", "female", "income")


@pytest.fixture
def sample(rng):
    """A standardised whole number, a one-hot group, an indicator and a continuous column."""
    n = 400
    age = (rng.integers(20, 60, size=n) - 40) / 11
    return np.column_stack(
        [age, np.eye(3)[rng.integers(3, size=n)], rng.integers(2, size=n), rng.normal(size=n)]
    )


def test_groups_indicators_and_whole_numbers_are_choices_and_the_rest_is_not(sample):
    feasible = Feasible.of(sample, FEATURES)
    assert [choice.columns for choice in feasible.choices] == [(0,), (1, 2, 3), (4,)]
    assert len(feasible.choices[1].values) == 3


def test_categories_are_found_by_their_values_where_names_do_not_tell(sample):
    # A pipeline's names, a second category (never both levels), and one standardised indicator.
    names = (
        "num__age",
        "cat__job_cook",
        "cat__job_judge",
        "cat__job_none",
        "cat__f",
        "num__income",
    )
    other = np.column_stack([sample[:, 4], 1 - sample[:, 4], 3.5 * sample[:, 4] - 1.2])
    x = np.column_stack([sample, other])
    feasible = Feasible.of(x, (*names, "cat__sex_f", "cat__sex_m", "num__sex"))
    found = [choice.columns for choice in feasible.choices]
    assert found == [(0,), (1, 2, 3), (4,), (6, 7), (8,)]


def test_places_move_to_the_nearest_observed_values(sample, rng):
    feasible = Feasible.of(sample, FEATURES)
    x0 = sample[:50]
    x = x0[:, None] + rng.normal(size=(50, 4, 6))
    near = feasible.nearest(x, x0)
    for choice in feasible.choices:
        got = near[:, :, list(choice.columns)].reshape(-1, len(choice.columns))
        wanted = x[:, :, list(choice.columns)].reshape(-1, len(choice.columns))
        every = cdist(wanted, choice.values)
        np.testing.assert_allclose(np.linalg.norm(got - wanted, axis=1), every.min(axis=1))
    assert np.array_equal(near[:, :, 5], x[:, :, 5])


def test_what_a_person_has_is_feasible_even_if_nobody_else_has_it(sample):
    feasible = Feasible.of(sample, FEATURES)
    x0 = sample[:1].copy()
    x0[0, 0] = 9.0  # far older than anyone in the sample
    assert np.array_equal(feasible.nearest(x0[:, None] + 0.001, x0)[0, :, :5], x0[:, :5])


def test_a_feasible_search_ends_at_people_who_could_exist(sample, rng):
    w = rng.normal(size=6)
    model = as_model(lambda x: (x @ torch.from_numpy(w))[:, None], output="logits")
    metric = ignoring(rng.normal(size=(2, 6)))
    metric = ProjectionMetric(metric.free, reach=Ellipsoid.of(sample @ metric.free.T))
    x0, y = sample, np.arange(400) % 2
    bound = Reach(feasible=Feasible.of(sample, FEATURES)).bind(model, metric)
    moved = bound(x0, y)
    assert (moved.x[:, 1:4].sum(axis=1) == 1).all()
    assert set(np.unique(moved.x[:, 1:5]).tolist()) == {0.0, 1.0}
    assert set(moved.x[:, 0].tolist()) <= set(sample[:, 0].tolist())
    assert (moved.x != x0).any(axis=1).mean() > 0.5
    assert (model.loss(model(moved.x), y) >= model.loss(model(x0), y)).all()


def test_rounding_alone_hurts_nobody(sample, rng):
    metric = ignoring(rng.normal(size=(2, 6)))
    metric = ProjectionMetric(metric.free, reach=Ellipsoid.of(sample @ metric.free.T))
    w = rng.normal(size=6)
    flat = w - metric.free.T @ (metric.free @ w)  # the same all along the free directions
    model = as_model(lambda x: (x @ torch.from_numpy(flat))[:, None], output="logits")
    y = np.arange(400) % 2
    moved = Reach(feasible=Feasible.of(sample, FEATURES)).bind(model, metric)(sample, y)
    own = model.loss(model(sample), y)
    np.testing.assert_allclose(model.loss(model(moved.judged), y), own, rtol=1e-8)


def test_no_more_counts_than_who_is_alike_and_who_could_exist_both_suffer(sample, rng):
    metric = ignoring(rng.normal(size=(2, 6)))
    metric = ProjectionMetric(metric.free, reach=Ellipsoid.of(sample @ metric.free.T))
    v, w = torch.from_numpy(rng.normal(size=(2, 6)))
    model = as_model(lambda x: (torch.sin(3 * x @ v) + x @ w)[:, None], output="logits")
    y = np.arange(400) % 2
    moved = Reach(feasible=Feasible.of(sample, FEATURES)).bind(model, metric)(sample, y)
    counted, shown = (model.loss(model(x), y) for x in (moved.judged, moved.x))
    assert (counted <= shown * (1 + 1e-9)).all()
    exact = metric.squared_distance(moved.judged, sample) < 1e-9
    assert 0.1 < exact.mean() < 0.9
    assert (moved.judged[~exact] == moved.x[~exact]).all()
    assert metric.reach is not None
    away, before = (metric.reach.distance(x @ metric.free.T) for x in (moved.x, sample))
    assert (away <= np.maximum(before, 1) + 1e-9).all()


def test_looking_at_the_worst_places_first_finds_what_looking_at_all_does(sample, rng):
    metric = ignoring(rng.normal(size=(2, 6))).with_reach(sample)
    v, w = torch.from_numpy(rng.normal(size=(2, 6)))
    model = as_model(lambda x: (torch.sin(3 * x @ v) + x @ w)[:, None], output="logits")
    feasible, y = Feasible.of(sample, FEATURES), np.arange(400) % 2
    around = Reach(feasible=feasible).bind(model, metric).surroundings(sample, y)
    u = rng.uniform(-0.7, 0.7, size=(400, 12, 2))
    x = sample[:, None] + (u - around.u0[:, None]) @ around.axes
    near = feasible.nearest(x, sample)
    far = np.linalg.norm(around.whiten(near.reshape(-1, 6)), axis=1).reshape(400, 12)
    limit = np.maximum(np.linalg.norm(around.u0, axis=1), 1) + 1e-9
    found = np.where(far > limit[:, None], -np.inf, candidate_losses(model, near, y))
    own = model.loss(model(sample), y)
    expected = np.maximum(own, np.minimum(candidate_losses(model, x, y), found).max(axis=1))
    best, moved = around.consider(around.start(), u)
    assert 0.2 < moved.mean() < 0.95
    np.testing.assert_allclose(best.loss, expected, rtol=1e-8)
    x = around.placed(best).x
    np.testing.assert_allclose(model.loss(model(x), y), best.loss, rtol=1e-12)


def test_one_column_and_many_are_matched_alike(rng):
    values = np.sort(rng.normal(size=20))
    x = rng.normal(size=(100, 1))
    single = Levels((0,), values[:, None]).nearest(x)
    double = Levels((0, 1), np.column_stack([values, 0 * values])).nearest(np.hstack([x, 0 * x]))
    np.testing.assert_allclose(single[:, 0], double[:, 0])


def test_an_empty_sample_teaches_nothing():
    with pytest.raises(InvalidData, match="empty sample"):
        Feasible.of(np.zeros((0, 2)))
