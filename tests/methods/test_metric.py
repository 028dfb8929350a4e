import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from likewise.errors import InvalidMetric
from likewise.methods.metric import (
    FairMetric,
    FunctionMetric,
    ProjectionMetric,
    QuadraticMetric,
    as_metric,
    columns_of,
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


def weighted(x, x0):
    return ((x - x0) ** 2 * np.array([1.0, 0.0, 2.0])).sum(axis=1)


def city_blocks(x, x0):
    return np.abs(x - x0)[:, :2].sum(axis=1) ** 2


def city_blocks_in_torch(x, x0):
    return torch.abs(x - x0)[:, :2].sum(dim=1) ** 2


@as_function
def decorated(x, x0):
    return city_blocks(x, x0)


PEOPLE = normal(100, 3, seed=11)
PROJECTION = ignoring(normal(3, 8, seed=1))


@pytest.mark.parametrize(
    ("given_metric", "people"),
    [
        (PROJECTION, normal(100, 8)),
        (dense(PROJECTION), normal(100, 8)),
        (weighted, PEOPLE),
        (city_blocks, PEOPLE),
        (city_blocks_in_torch, PEOPLE),
        (decorated, PEOPLE),
    ],
    ids=["projection", "matrix", "quadratic function", "function", "torch", "decorated"],
)
def test_every_metric_is_a_squared_distance_with_its_gradient_and_its_free_directions(
    given_metric, people
):
    metric = as_metric(given_metric, people)
    x, x0 = people[:50], people[50:]
    distance = metric.squared_distance(x, x0)
    assert distance.shape == (50,)
    assert (distance > 0).all()
    assert metric.squared_distance(x, x).max() == 0
    np.testing.assert_allclose(metric.squared_distance(x[:1], x0[:1]), distance[:1], rtol=1e-12)
    along = x + normal(50, len(metric.free), seed=3) @ metric.free
    np.testing.assert_allclose(metric.squared_distance(along, x0), distance, rtol=1e-12)
    step = 1e-5
    for j, axis in enumerate(np.eye(x.shape[1])):
        rise = metric.squared_distance(x + step * axis, x0)
        rise -= metric.squared_distance(x - step * axis, x0)
        # Rounding of distances near ten is 1e-15, over 2e-5; differences across a kink are rare.
        np.testing.assert_allclose(metric.gradient(x, x0)[:, j], rise / (2 * step), atol=1e-8)


@pytest.mark.parametrize("f", [lambda s: s, lambda s: np.exp(-3 * s), lambda s: 1 / (1 + s)])
def test_projection_and_matrix_agree_on_functions_of_their_eigenvalues(f):
    v, matrix = normal(6, 8, seed=6), dense(PROJECTION)
    np.testing.assert_allclose(PROJECTION.function(f, v), matrix.function(f, v))
    assert PROJECTION.largest_eigenvalue == pytest.approx(matrix.largest_eigenvalue)
    root = normal(4, 4, seed=7)
    expected = v[:, :4] @ expm(-0.1 * root @ root.T).T
    found = QuadraticMetric(root @ root.T).function(lambda s: np.exp(-0.1 * s), v[:, :4])
    np.testing.assert_allclose(found, expected)
    far = v + 1e8 * normal(6, 3, seed=5) @ PROJECTION.free
    # Rounding of numbers near 1e8 is 1e-8 a coordinate; squared and summed, below 1e-13.
    assert 0 <= PROJECTION.squared_distance(far, v).max() < 1e-13


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=5))
def test_duplicates_zeros_scale_and_order_of_directions_do_not_matter(seed, scales):
    a = normal(2, 6, seed=seed)
    mixed = np.concatenate([s * a[[i % 2]] for i, s in enumerate(scales)] + [0 * a, a[::-1], -a])
    expected, got = ignoring(a), ignoring(mixed)
    assert got.free.shape == expected.free.shape
    # Two random directions in six dimensions are at least 1e-3 rad apart; rounding is 1e-16 / that.
    np.testing.assert_allclose(got.free.T @ got.free, expected.free.T @ expected.free, atol=1e-9)


def test_no_square_matrix_is_formed_in_many_dimensions():
    d = 200_000  # a d × d matrix would take 320 GB
    v = normal(3, d, seed=1)
    for metric in (ignoring(normal(2, d)), free_columns([f"x{j}" for j in range(d)], "x7")):
        assert metric.squared_distance(v, 0 * v).shape == (3,)
        assert metric.function(np.exp, v).shape == (3, d)


def test_a_column_is_found_by_the_names_encoders_and_pipelines_give():
    features = ("age", "sex=Male", "sexes", "cat__sex_Male", "cat__sex_offences", "num__hours")
    for name, levels, expected in [
        ("age", (), [0]),
        ("sex", (), [1]),
        ("sex", ("Male", "Female"), [1, 3]),
        ("hours", (), [5]),
        ("race", ("White",), []),
    ]:
        assert columns_of(features, name, levels) == expected


def test_a_column_that_a_function_or_a_class_of_ones_own_does_not_see_is_free():
    class Blocks(FairMetric):
        def squared_distance(self, x, x0):
            return city_blocks(x, x0)

    found = as_metric(weighted, PEOPLE, ["a", "b", "c"])
    assert isinstance(found, QuadraticMetric)  # a quadratic form is treated as one
    np.testing.assert_allclose(found.sigma, np.diag([1.0, 0.0, 2.0]), atol=1e-9)
    np.testing.assert_allclose(np.abs(found.free), [[0.0, 1.0, 0.0]])
    own = Blocks()
    for metric in (city_blocks, city_blocks_in_torch, decorated, own):
        found = as_metric(metric, PEOPLE)
        assert not found.quadratic
        assert found.free.tolist() == [[0.0, 0.0, 1.0]]
    assert own.free.shape == (0, 1)  # the user's own object stays as it was
    with pytest.raises(InvalidMetric, match="A Blocks has no gradient, which the flow needs"):
        own.gradient(PEOPLE, PEOPLE)


def test_a_matrix_directions_and_names_of_columns_are_metrics():
    features = ["age", "work=A", "work=B"]
    assert free_columns([*features, "workplace=C"], "work").free.sum(0).tolist() == [0, 1, 1, 0]
    assert as_metric(np.diag([1.0, 0.0, 0.5]), PEOPLE, features).sigma[2, 2] == 0.5
    assert as_metric([[2.0, 0.0, 0.0]], PEOPLE, features).free.tolist() == [[1, 0, 0]]
    tensor = torch.tensor([[0.0, 3.0, 4.0]], requires_grad=True)
    np.testing.assert_allclose(np.abs(as_metric(tensor, PEOPLE).free), [[0.0, 0.6, 0.8]])
    assert as_metric(np.zeros((2, 3)), PEOPLE).free.shape == (0, 3)
    for names in ("work", ["work"], ("work=A", "work=B")):
        assert as_metric(names, PEOPLE, features).free.tolist() == [[0, 1, 0], [0, 0, 1]]
    given_one = ignoring([[1.0, 1.0, 0.0]], ["age", "debt", "gain"])
    assert as_metric(given_one, PEOPLE) is given_one
    for words in ("1 direction of 3 free", "age 45°", "gain 90°"):
        assert words in str(given_one)


def given_as(metric):
    return lambda: as_metric(metric, PEOPLE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuadraticMetric(np.diag([1.0, -0.5])), r"negative eigenvalue \(-0.5\)"),
        (given_as(np.eye(3) + 0.5 * np.eye(3, k=1)), "not symmetric .* up to 0.5"),
        (lambda: QuadraticMetric(np.ones((2, 3))), "square, not 2 × 3"),
        (lambda: QuadraticMetric(np.full((2, 2), np.nan)), "4 entries that are not finite"),
        (lambda: ProjectionMetric(np.array([[2.0, 0.0]])), r"off by 3\).*ignoring"),
        (lambda: ignoring([1.0, 0.0], ["a", "b", "c"]), "3 feature names for 2 columns"),
        (lambda: ignoring(["a", "b"]), "directions is not a matrix"),
        (lambda: ignoring(np.zeros((1, 2, 3))), "directions must be a matrix"),
        (lambda: ignoring([[]]), "directions must be a matrix"),
        (given_as(lambda x, x0: weighted(x, x0).sum()), "gives one number for 64 people"),
        (given_as(lambda x, x0: -weighted(x, x0)), "is negative"),
        (given_as(lambda x, x0: weighted(x, x0) + 1), "not zero between a person"),
        (given_as(lambda x, x0: np.log(weighted(x, x0) - 1e9)), "not a finite number for 64"),
        (given_as(lambda x, x0: weighted(x, x0) / len(x)), "who else is in the same call"),
        (given_as(lambda x, x0: x.unknown(x0)), "fails on rows of people: AttributeError"),
        (given_as([1.0, 0.0, 2.0]), "For weights, give a diagonal matrix"),
        (given_as(np.eye(4)), "a 3 × 3 matrix, or one row of 3"),
        (given_as(7), "a column for each feature"),
        (given_as("xx1"), r"no feature 'xx1' to set free. Did you mean 'x1'\?"),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(make, message):
    with np.errstate(all="ignore"), pytest.raises(InvalidMetric, match=message):
        make()


@pytest.mark.parametrize("kept", [decorated, as_function(city_blocks)])
def test_functions_travel_to_other_processes(kept):
    bound = as_metric(kept, PEOPLE)
    again = pickle.loads(pickle.dumps(bound))
    assert isinstance(again, FunctionMetric)
    assert again.name == kept.name
    np.testing.assert_array_equal(again.free, bound.free)
    np.testing.assert_array_equal(again(PEOPLE, PEOPLE[::-1]), kept(PEOPLE, PEOPLE[::-1]))
