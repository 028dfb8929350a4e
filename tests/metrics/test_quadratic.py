import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from likewise.errors import CostWarning, InvalidMetric
from likewise.metrics import quadratic
from likewise.metrics.quadratic import (
    ProjectionMetric,
    QuadraticMetric,
    free_columns,
    ignoring,
)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def dense(metric):
    """The same metric, as a matrix."""
    d = metric.free.shape[1]
    return QuadraticMetric(np.eye(d) - metric.free.T @ metric.free)


@pytest.fixture
def projection():
    return ignoring(normal(3, 8, seed=1))


def test_free_directions_cost_nothing_and_others_cost_their_square(projection):
    x0 = normal(5, 8, seed=2)
    along = x0 + normal(5, 3, seed=3) @ projection.free
    across = projection.function(lambda s: s, normal(5, 8, seed=4))

    # Moves are of size one, so what is left is rounding.
    assert projection.squared_distance(along, x0).max() < 1e-28
    np.testing.assert_allclose(
        projection.squared_distance(along + across, x0), np.square(across).sum(axis=1)
    )


def test_a_long_free_move_has_no_negative_distance(projection):
    x0 = normal(50, 8)
    far = x0 + 1e8 * normal(50, 3, seed=5) @ projection.free
    distance = projection.squared_distance(far, x0)
    assert (distance >= 0).all()
    # Rounding of numbers near 1e8 is 1e-8 a coordinate; squared and summed, below 1e-13.
    assert distance.max() < 1e-13


@pytest.mark.parametrize("f", [lambda s: s, lambda s: np.exp(-3 * s), lambda s: 1 / (1 + s)])
def test_projection_and_matrix_agree_on_functions_and_distances(projection, f):
    v = normal(6, 8, seed=6)
    matrix = dense(projection)
    np.testing.assert_allclose(projection.function(f, v), matrix.function(f, v))
    np.testing.assert_allclose(
        projection.squared_distance(v, 0 * v), matrix.squared_distance(v, 0 * v)
    )
    assert projection.largest_eigenvalue == pytest.approx(matrix.largest_eigenvalue)


def test_function_of_a_matrix_is_that_of_its_eigenvalues():
    root = normal(4, 4, seed=7)
    sigma = root @ root.T
    v = normal(3, 4, seed=8)
    expected = v @ expm(-0.1 * sigma).T
    got = QuadraticMetric(sigma).function(lambda s: np.exp(-0.1 * s), v)
    np.testing.assert_allclose(got, expected)


def test_single_precision_rows_stay_in_single_precision(projection):
    v = normal(2, 8).astype(np.float32)
    for metric in (projection, dense(projection)):
        assert metric.function(np.exp, v).dtype == np.float32
        assert metric.squared_distance(v, 0 * v).dtype == np.float32


def test_the_kernel_of_sigma_is_free():
    sigma = np.diag([2.0, 0.0, 1.0])
    np.testing.assert_allclose(np.abs(QuadraticMetric(sigma).free), np.array([[0.0, 1.0, 0.0]]))


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**31),
    st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=5),
)
def test_duplicates_zeros_scale_and_order_of_directions_do_not_matter(seed, scales):
    a = normal(2, 6, seed=seed)
    mixed = np.concatenate([s * a[[i % 2]] for i, s in enumerate(scales)] + [0 * a, a[::-1], -a])
    expected, got = ignoring(a), ignoring(mixed)
    assert got.free.shape == expected.free.shape
    # Two random directions in six dimensions are at least 1e-3 rad apart; rounding is 1e-16 / that.
    np.testing.assert_allclose(
        got.free.T @ got.free, expected.free.T @ expected.free, atol=1e-9, rtol=0
    )


def test_nothing_but_zero_directions_leaves_nothing_free():
    metric = ignoring(np.zeros((2, 3)))
    assert metric.free.shape == (0, 3)
    assert metric.squared_distance(np.ones((1, 3)), np.zeros((1, 3))).item() == 3


def test_no_square_matrix_is_formed_in_many_dimensions():
    d = 200_000  # a d × d matrix would take 320 GB
    metric = ignoring(normal(2, d))
    v = normal(3, d, seed=1)
    assert metric.squared_distance(v, 0 * v).shape == (3,)
    assert metric.function(np.exp, v).shape == (3, d)


@pytest.mark.parametrize("names", ["age", ["age"]])
def test_one_column_is_freed_by_its_name(names):
    assert free_columns(["age", "hours"], names).free.tolist() == [[1.0, 0.0]]


def test_a_one_hot_column_is_freed_as_a_whole_by_its_original_name():
    features = ["age", "work=A", "work=B", "workplace=C"]
    assert free_columns(features, ["work"]).free.sum(0).tolist() == [0, 1, 1, 0]
    assert free_columns(features, ["work=B", "work"]).free.sum(0).tolist() == [0, 1, 1, 0]


def test_an_unknown_column_is_refused_with_a_hint():
    with pytest.raises(InvalidMetric, match=r"no feature 'aeg'.*Did you mean 'age'\?"):
        free_columns(["age", "work=A"], ["aeg"])
    with pytest.raises(InvalidMetric, match=r"Did you mean 'work'\?"):
        free_columns(["age", "work=A"], ["wrok"])


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        (np.diag([1.0, -0.5]), r"negative eigenvalue \(-0.5\)"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric .* up to 0.5"),
        (np.ones((2, 3)), "square, not 2 × 3"),
        (np.full((2, 2), np.nan), "4 entries that are not finite"),
    ],
)
def test_a_matrix_that_is_no_metric_is_refused_in_a_sentence(sigma, message):
    with pytest.raises(InvalidMetric, match=message):
        QuadraticMetric(sigma)


def test_directions_that_are_not_orthonormal_are_refused_with_the_remedy():
    with pytest.raises(InvalidMetric, match=r"off by 3\).*ignoring"):
        ProjectionMetric(np.array([[2.0, 0.0]]))


def test_directions_may_come_as_tensors_with_a_history():
    directions = torch.nn.Linear(2, 1, bias=False).weight
    with torch.no_grad():
        directions[:] = torch.tensor([[3.0, 4.0]])
    np.testing.assert_allclose(np.abs(ignoring(directions).free), [[0.6, 0.8]])


@pytest.mark.parametrize("make", [lambda p: p, dense], ids=["projection", "matrix"])
def test_the_gradient_is_that_of_the_squared_distance(make, projection):
    metric = make(projection)
    x, x0 = normal(4, 8, seed=9), normal(4, 8, seed=10)
    step = 1e-4  # differences of a quadratic form are exact but for rounding
    for j in range(8):
        ahead, behind = x + step * np.eye(8)[j], x - step * np.eye(8)[j]
        slope = metric.squared_distance(ahead, x0) - metric.squared_distance(behind, x0)
        np.testing.assert_allclose(metric.gradient(x, x0)[:, j], slope / (2 * step), atol=1e-9)


@pytest.mark.parametrize("directions", [["a", "b"], np.zeros((1, 2, 3)), [[]]])
def test_directions_that_are_no_matrix_are_refused_in_a_sentence(directions):
    with pytest.raises(InvalidMetric, match="directions"):
        ignoring(directions)


def test_feature_names_must_match_the_columns():
    with pytest.raises(InvalidMetric, match="3 feature names for 2 columns"):
        ignoring([1.0, 0.0], ["a", "b", "c"])


def test_a_large_matrix_is_warned_about(monkeypatch):
    monkeypatch.setattr(quadratic, "DENSE_LIMIT", 4)
    with pytest.warns(CostWarning, match="5 columns"):
        QuadraticMetric(np.eye(5))


def test_printing_shows_the_angles_to_the_nearest_features():
    text = str(ignoring([[1.0, 1.0, 0.0]], ["age", "hours", "gain"]))
    assert "1 direction of 3 free" in text
    assert "age 45°" in text
    assert "gain 90°" in text


def test_a_notebook_shows_hostile_names_as_text():
    metric = ignoring([[1.0, 0.0]], ["<script>", "b"])
    assert "&lt;script&gt;" in metric._repr_html_()
    assert repr(metric) == str(metric)
    assert "1 direction of 2 free" in repr(dense(metric))


def test_a_given_metric_takes_its_reach_from_a_sample(rng):
    x = rng.normal(size=(1000, 3))
    metric = ignoring([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).with_reach(x)
    assert (metric.reach.distance(x @ metric.free.T) <= 1).sum() == 990
