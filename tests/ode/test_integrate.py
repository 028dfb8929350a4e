import math

import numpy as np

from likewise.ode.exponential import Exponential4
from likewise.ode.integrate import constant, integrate
from likewise.ode.solvers import RK4, Euler


def column(*values):
    return np.array(values)[:, None]


def test_states_are_kept_where_asked_and_equal_shorter_runs():
    start, steps = column(1.0, 2.0), constant(0.1, 20)
    whole = integrate(np.cos, start, steps, RK4(), keep=(0.5, 2.0))
    assert sorted(whole.kept) == [0.5, 2.0]
    assert np.array_equal(whole.kept[0.5], integrate(np.cos, start, steps[:5], RK4()).x)
    assert np.array_equal(whole.kept[2.0], whole.x)


def test_evaluations_are_counted():
    calls = []

    def field(x):
        calls.append(1)
        return -x

    for solver in (Euler(), RK4()):
        calls.clear()
        assert integrate(field, column(1.0), constant(0.1, 7), solver).evaluations == len(calls)


def test_a_row_that_explodes_stays_at_its_last_finite_place_and_is_flagged():
    # x' = x^3 from 2: Euler overflows within 20 steps; from 0.1 it barely moves.
    start = column(2.0, 0.1)
    solution = integrate(lambda x: x**3, start, constant(0.5, 40), Euler())
    assert solution.finite.tolist() == [False, True]
    assert np.isfinite(solution.x).all()
    alone = integrate(lambda x: x**3, start[1:], constant(0.5, 40), Euler())
    assert solution.x[1].item() == alone.x[0].item()


def test_a_flagged_row_does_not_start_again():
    # The field is not a number at first, and harmless later; the row must not move any more.
    def field(x):
        field.calls += 1
        return np.where(x > 5, np.nan if field.calls == 1 else 1.0, 1.0)

    field.calls = 0
    solution = integrate(field, column(10.0, 0.0), constant(1.0, 4), Euler())
    assert solution.finite.tolist() == [False, True]
    assert solution.x[:, 0].tolist() == [10.0, 4.0]


def test_confined_rows_stay_within_bounds():
    solution = integrate(
        np.ones_like,
        column(0.0, 3.0),
        constant(0.1, 50),
        RK4(),
        confine=lambda x: np.minimum(x, 4),
    )
    assert solution.x[:, 0].tolist() == [4.0, 4.0]


def test_the_start_is_not_changed():
    start = column(1.0, 2.0)
    copy = start.copy()
    integrate(lambda x: -x, start, constant(0.1, 3), RK4())
    assert np.array_equal(start, copy)


def test_no_steps_are_no_move():
    assert np.array_equal(integrate(np.cos, column(1.0), (), Exponential4()).x, column(1.0))


def test_the_exponential_decay_is_right():
    x = integrate(lambda x: -x, column(1.0), constant(0.01, 100), RK4()).x
    assert math.isclose(x.item(), math.exp(-1), rel_tol=1e-9)
