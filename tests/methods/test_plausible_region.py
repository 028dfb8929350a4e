import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.errors import InvalidMetric
from likewise.methods.plausible_region import Ellipsoid


@pytest.fixture
def people(rng):
    """A thousand people in three correlated coordinates of different scale."""
    return rng.normal(size=(1000, 3)) @ np.diag([1.0, 5.0, 0.1]) @ rng.normal(size=(3, 3)) + 4.0


@pytest.fixture
def reach(people):
    return Ellipsoid.from_sample(people)


def test_it_holds_just_its_share_of_the_sample(people, reach):
    inside = reach.distance(people) <= 1
    assert inside.sum().item() == 990


def test_weights_count_as_repeated_people(people, rng):
    times = rng.integers(0, 4, size=len(people))
    weighted = Ellipsoid.from_sample(people, times.astype(float))
    repeated = Ellipsoid.from_sample(np.repeat(people, times, axis=0))
    np.testing.assert_allclose(weighted.covariance, repeated.covariance)
    assert weighted.radius == pytest.approx(repeated.radius)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_it_does_not_depend_on_the_basis(seed):
    rng = np.random.default_rng(seed)
    people = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    there, here = Ellipsoid.from_sample(people @ turn), Ellipsoid.from_sample(people)
    points = 3 * rng.normal(size=(50, 3))
    np.testing.assert_allclose(there.distance(points @ turn), here.distance(points))


def test_nobody_moves_where_the_sample_does_not_vary(rng):
    people = np.column_stack([rng.normal(size=100), np.full(100, 2.0)])
    reach = Ellipsoid.from_sample(people)
    assert reach.axes.shape == (1, 2)
    assert reach.axes[0, 1] == 0


def test_an_impossible_reach_is_refused():
    eye = np.eye(2)
    with pytest.raises(InvalidMetric, match="negative eigenvalue"):
        Ellipsoid(np.zeros(2), -eye, 1.0)
    with pytest.raises(InvalidMetric, match="radius"):
        Ellipsoid(np.zeros(2), eye, float("nan"))
