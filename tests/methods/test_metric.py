import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from likewise.errors import CostWarning, InvalidMetric
from likewise.methods import metric as module
from likewise.methods.metric import (
    FairMetric,
    FunctionMetric,
    ProjectionMetric,
    QuadraticMetric,
    as_metric,
    free_columns,
    ignoring,
)
from likewise.methods.metric import metric as as_function


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
    monkeypatch.setattr(module, "DENSE_LIMIT", 4)
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


def weighted(x, x0):
    return ((x - x0) ** 2 * np.array([1.0, 0.0, 2.0])).sum(axis=1)


def city_blocks(x, x0):
    return np.abs(x - x0)[:, :2].sum(axis=1) ** 2


def city_blocks_in_torch(x, x0):
    return torch.abs(x - x0)[:, :2].sum(dim=1) ** 2


def its_gradient(x, x0):
    length = np.abs(x - x0)[:, :2].sum(axis=1, keepdims=True)
    return 2 * length * np.sign(x - x0) * np.array([1.0, 1.0, 0.0])


@as_function
def decorated(x, x0):
    return np.abs(x - x0).sum(axis=1) ** 2


@as_function(gradient=its_gradient)
def with_its_gradient(x, x0):
    return np.abs(x - x0)[:, :2].sum(axis=1) ** 2


PEOPLE = normal(100, 3, seed=11)


def test_a_function_that_is_a_quadratic_form_is_treated_as_one_and_a_weight_of_zero_is_free():
    found = as_metric(weighted, PEOPLE, ["a", "b", "c"])
    assert isinstance(found, QuadraticMetric)
    np.testing.assert_allclose(found.sigma, np.diag([1.0, 0.0, 2.0]), atol=1e-9)
    np.testing.assert_allclose(np.abs(found.free), [[0.0, 1.0, 0.0]])


@pytest.mark.parametrize("function", [city_blocks, city_blocks_in_torch, with_its_gradient])
def test_any_function_is_a_metric_and_a_column_it_does_not_see_is_free(function):
    found = as_metric(function, PEOPLE)
    x, x0 = PEOPLE[:50], PEOPLE[50:]
    np.testing.assert_allclose(found.squared_distance(x, x0), city_blocks(x, x0), rtol=1e-12)
    np.testing.assert_allclose(found.gradient(x, x0), its_gradient(x, x0), rtol=1e-6, atol=1e-8)
    assert not found.quadratic
    assert found.free.tolist() == [[0.0, 0.0, 1.0]]


def test_a_class_of_ones_own_says_its_free_columns_too():
    class Blocks(FairMetric):
        def squared_distance(self, x, x0):
            return city_blocks(x, x0)

    own = Blocks()
    assert as_metric(own, PEOPLE).free.tolist() == [[0.0, 0.0, 1.0]]
    assert own.free.shape == (0, 1)  # the user's own object stays as it was


def test_a_matrix_directions_and_names_of_columns_are_metrics():
    features = ["age", "work=A", "work=B"]
    assert as_metric(np.diag([1.0, 0.0, 0.5]), PEOPLE, features).sigma[2, 2] == 0.5
    assert as_metric([[2.0, 0.0, 0.0]], PEOPLE, features).free.tolist() == [[1, 0, 0]]
    for names in ("work", ["work"], ("work=A", "work=B")):
        assert as_metric(names, PEOPLE, features).free.tolist() == [[0, 1, 0], [0, 0, 1]]
    given_one = ignoring([[1.0, 0.0, 0.0]])
    assert as_metric(given_one, PEOPLE) is given_one


@pytest.mark.parametrize(
    ("given_metric", "message"),
    [
        (lambda x, x0: ((x - x0) ** 2).sum(), "gives one number for 64 people"),
        (lambda x, x0: -((x - x0) ** 2).sum(axis=1), "is negative"),
        (lambda x, x0: ((x - x0) ** 2).sum(axis=1) + 1, "not zero between a person"),
        (lambda x, x0: np.log(((x - x0) ** 2).sum(axis=1) - 1e9), "not a finite number for 64"),
        (lambda x, x0: ((x - x0) ** 2).sum(axis=1) / len(x), "who else is in the same call"),
        (lambda x, x0: x.unknown(x0), "fails on rows of people: AttributeError"),
        (as_function(city_blocks, gradient=lambda x, x0: x), "is not that of its distance"),
        ([1.0, 0.0, 2.0], "For weights, give a diagonal matrix"),
        (np.eye(4), "a 3 × 3 matrix, or one row of 3"),
        (7, "a column for each feature"),
        ("sex", "no feature 'sex' to set free"),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(given_metric, message):
    with np.errstate(all="ignore"), pytest.raises(InvalidMetric, match=message):
        as_metric(given_metric, PEOPLE)


@pytest.mark.parametrize("kept", [decorated, as_function(city_blocks)])
def test_functions_travel_to_other_processes(kept):
    bound = as_metric(kept, PEOPLE)
    again = pickle.loads(pickle.dumps(bound))
    assert isinstance(again, FunctionMetric)
    assert again.name == kept.name
    np.testing.assert_array_equal(again.free, bound.free)
    np.testing.assert_array_equal(
        again.squared_distance(PEOPLE, PEOPLE[::-1]), kept(PEOPLE, PEOPLE[::-1])
    )
