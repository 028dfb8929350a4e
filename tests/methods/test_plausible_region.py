import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from likewise.errors import InvalidMetric
from likewise.methods.plausible_region import Ellipsoid


@pytest.fixture
def people(rng):
    """A thousand people in three correlated coordinates of different scale."""
    return rng.normal(size=(1000, 3)) @ np.diag([1.0, 5.0, 0.1]) @ rng.normal(size=(3, 3)) + 4.0


@pytest.fixture
def reach(people):
    return Ellipsoid.of(people)


def test_it_holds_just_its_share_of_the_sample(people, reach):
    inside = reach.distance(people) <= 1
    assert inside.sum().item() == 990


def test_weights_count_as_repeated_people(people, rng):
    times = rng.integers(0, 4, size=len(people))
    weighted = Ellipsoid.of(people, times.astype(float))
    repeated = Ellipsoid.of(np.repeat(people, times, axis=0))
    np.testing.assert_allclose(weighted.covariance, repeated.covariance)
    assert weighted.radius == pytest.approx(repeated.radius)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_it_does_not_depend_on_the_basis(seed):
    rng = np.random.default_rng(seed)
    people = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    there, here = Ellipsoid.of(people @ turn), Ellipsoid.of(people)
    points = 3 * rng.normal(size=(50, 3))
    np.testing.assert_allclose(there.distance(points @ turn), here.distance(points))
    np.testing.assert_allclose(there.project(points @ turn), here.project(points) @ turn)


def test_those_within_reach_stay_and_others_come_to_the_rim(people, reach):
    c = 2 * people
    outside = reach.distance(c) > 1
    brought = reach.project(c)
    assert np.array_equal(brought[~outside], c[~outside])
    np.testing.assert_allclose(reach.distance(brought[outside]), np.ones(int(outside.sum())))


def test_projection_finds_the_nearest_point(people, reach):
    c = 3 * people[:20]
    nearest = reach.project(c)
    for point, ours in zip(c, nearest, strict=True):
        found = minimize(
            lambda q, point=point: ((q - point) ** 2).sum(),
            reach.mean,
            constraints={
                "type": "ineq",
                "fun": lambda q: 1 - reach.distance(q[None]).item() ** 2,
            },
            options={"maxiter": 500, "ftol": 1e-12},
        )
        # SLSQP may stop early or slightly outside; it never finds anything much nearer.
        assert ((ours - point) ** 2).sum() <= found.fun * (1 + 1e-4) + 1e-9


def test_a_row_is_projected_without_regard_to_the_others(people, reach):
    c = 5 * people
    together = reach.project(c)
    assert np.array_equal(together[:7], reach.project(c[:7]))
    assert np.array_equal(together[3:4], reach.project(c[3:4]))


def test_nobody_moves_where_the_sample_does_not_vary(rng):
    people = np.column_stack([rng.normal(size=100), np.full(100, 2.0)])
    reach = Ellipsoid.of(people)
    stranger = np.array([[50.0, -7.0]])
    assert reach.axes.shape == (1, 2)
    assert reach.project(stranger)[0, 1] == -7
    assert reach.distance(reach.project(stranger)).max() <= 1 + 1e-9


def test_an_impossible_reach_is_refused():
    eye = np.eye(2)
    with pytest.raises(InvalidMetric, match="negative eigenvalue"):
        Ellipsoid(np.zeros(2), -eye, 1.0)
    with pytest.raises(InvalidMetric, match="radius"):
        Ellipsoid(np.zeros(2), eye, float("nan"))
