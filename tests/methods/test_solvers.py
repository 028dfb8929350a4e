"""Solvers against closed forms, SciPy, and the orders they promise."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from likewise.methods.solvers import ADAMS, EULER, SOLVERS, SemilinearField, integrate

EXPONENTIAL = [SOLVERS["exponential"], SOLVERS["exponential_euler"]]


def name_of(solver):
    return f"order {solver.order}, {solver.evaluations} evaluations"


class Pull(SemilinearField):
    """x' = -a x + sin(x) x_other: smooth, nonlinear, coupled, with one rate for each row."""

    def __init__(self, *rates):
        self.rates = np.array(rates)

    def nonlinear(self, x, out):
        np.copyto(out, np.sin(x) + np.cos(x[::-1]))


class Plain(SemilinearField):
    """x' = g(x), without a linear part, of states with one row."""

    rates = np.zeros(1)

    def __init__(self, function):
        self.function = function

    def nonlinear(self, x, out):
        np.copyto(out, self.function(x))


START = np.array([[1.0, 0.2, 0.0], [-0.5, 2.0, 0.0]])


def end(solver, field, n, start=START):
    return integrate(field, start, (1 / n,) * n, solver).x


def slope(solver, field, counts, exact, start=START):
    errors = [np.abs(end(solver, field, n, start) - exact).max() for n in counts]
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=name_of)
def test_the_distance_to_scipy_s_solve_ivp_falls_with_the_order_of_the_solver(solver):
    field = Pull(0.0, 3.0)

    def velocity(t, x):
        rows, out = x.reshape(START.shape), np.empty_like(START)
        field.nonlinear(rows, out)
        return (out - field.rates[:, None] * rows).ravel()

    exact = solve_ivp(velocity, (0, 1), START.ravel(), method="DOP853", rtol=1e-12, atol=1e-12)
    exact = exact.y[:, -1].reshape(START.shape)
    counts = [10, 20, 40, 80]
    # Measured slopes are within 0.1 of the order; half an order tells neighbours apart.
    assert slope(solver, field, counts, exact) == pytest.approx(solver.order, abs=0.3)


class Counted(Pull):
    """The same, and how often it was asked."""

    asked = 0

    def nonlinear(self, x, out):
        self.asked += 1
        super().nonlinear(x, out)


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=name_of)
def test_evaluations_are_counted_as_they_are(solver):
    field = Counted(0.0, 3.0)
    solution = integrate(field, START, (*(0.1,) * 6, 0.05), solver)
    assert solution.evaluations == field.asked


@pytest.mark.parametrize("solver", EXPONENTIAL, ids=name_of)
@pytest.mark.parametrize("rate", [0.0, 1e-9, 1.0, 1e4])
def test_a_linear_problem_with_constant_drive_is_solved_exactly(solver, rate):
    class Driven(SemilinearField):
        rates = np.array([rate])

        def nonlinear(self, x, out):
            out.fill(3.0)

    x = integrate(Driven(), np.ones((1, 1)), (0.5,) * 2, solver).x
    exact = 1.0 + 3.0 if rate == 0 else math.exp(-rate) - 3.0 * math.expm1(-rate) / rate
    assert x.item() == pytest.approx(exact, rel=1e-13)


def test_a_row_that_explodes_stays_at_its_last_finite_place_and_is_flagged():
    # x' = x^3 from 2: Euler overflows within 20 steps; from 0.1 it barely moves.
    start, field = np.array([[2.0, 0.1]]), Plain(lambda x: x**3)
    solution = integrate(field, start, (0.5,) * 40, EULER)
    assert solution.finite.tolist() == [False, True]
    assert np.isfinite(solution.x).all()
    alone = integrate(field, start[:, 1:], (0.5,) * 40, EULER)
    assert solution.x[0, 1] == alone.x.item()


@pytest.mark.parametrize("solver", EXPONENTIAL, ids=name_of)
def test_exponential_solvers_keep_their_order_on_a_stiff_problem(solver):
    # Like a flow: nobody has moved at the start. Explicit methods would need 500 steps here.
    field, start = Pull(0.0, 1000.0), START * [[1.0], [0.0]]
    exact = end(ADAMS, field, 4000, start)
    assert slope(solver, field, [4, 8, 16, 32], exact, start) > solver.order - 0.5
