import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import InvalidSettings
from likewise.ode.integrate import constant, halved, partition, places, power_decay


def test_constant_steps_are_equal():
    assert constant(0.01, 500) == (0.01,) * 500


def test_decaying_steps_fall_by_the_power():
    steps = power_decay(0.02, 2 / 3, 400)
    assert len(steps) == 400
    assert steps[0] == 0.02
    assert steps[7] == pytest.approx(0.02 / 4)  # 8^(2/3) = 4


def test_halving_keeps_the_time():
    steps = power_decay(0.02, 2 / 3, 10)
    assert len(halved(steps)) == 20
    assert math.fsum(halved(steps)) == pytest.approx(math.fsum(steps), rel=1e-15)


@given(
    st.floats(0.1, 100),
    st.integers(1, 60),
    st.lists(st.floats(0.01, 0.99), max_size=4, unique=True),
)
def test_every_stop_of_a_partition_falls_between_two_steps(time, n, shares):
    stops = [share * time for share in shares]
    steps = partition(time, n, stops)
    assert math.fsum(steps) == pytest.approx(time, rel=1e-12)
    assert max(steps) <= time / n * (1 + 1e-6)
    assert n <= len(steps) <= n + len(stops) + 1
    assert sorted(places(steps, stops).values()) == sorted(stops)


def test_a_partition_that_fits_needs_no_extra_step():
    assert partition(5.0, 8, (2.5, 5.0)) == (0.625,) * 8


def test_a_time_between_steps_is_refused():
    with pytest.raises(InvalidSettings, match=r"Time 0\.25 lies between two steps"):
        places(constant(0.1, 10), (0.25,))
