import math

import numpy as np
import pytest

from likewise.errors import InvalidSettings
from likewise.ode.exponential import Exponential2, Exponential4, ExponentialAdams
from likewise.ode.integrate import constant, integrate
from likewise.ode.solvers import RK4, Euler, SemilinearField

SOLVERS = [Euler(), RK4(), Exponential2(), Exponential4(), ExponentialAdams()]
EXPONENTIAL = [Exponential2(), Exponential4(), ExponentialAdams()]


class Pull(SemilinearField):
    """x' = -a x + sin(x) x_other: smooth, nonlinear, coupled, with one rate for each column."""

    def __init__(self, *rates):
        self.rates = np.array(rates)

    def nonlinear(self, x, out):
        np.copyto(out, np.sin(x) + np.cos(x[:, ::-1]))


START = np.array([[1.0, -0.5], [0.2, 2.0], [0.0, 0.0]])


def end(solver, field, n, start=START):
    return integrate(field, start, constant(1 / n, n), solver).x


def slope(solver, field, counts, exact, start=START):
    errors = [np.abs(end(solver, field, n, start) - exact).max() for n in counts]
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_the_error_falls_with_the_order_of_the_solver(solver):
    field = Pull(0.0, 3.0)
    exact = end(RK4(), field, 1000)
    counts = [10, 20, 40, 80]
    # Measured slopes are within 0.1 of the order; half an order tells neighbours apart.
    assert slope(solver, field, counts, exact) == pytest.approx(solver.order, abs=0.3)


@pytest.mark.parametrize("solver", EXPONENTIAL, ids=lambda s: type(s).__name__)
def test_exponential_solvers_keep_their_order_on_a_stiff_problem(solver):
    # Like a flow: nobody has moved at the start. Explicit methods would need 500 steps here.
    field, start = Pull(0.0, 1000.0), START * np.array([1.0, 0.0])
    exact = end(Exponential4(), field, 1000, start)
    assert slope(solver, field, [4, 8, 16, 32], exact, start) > solver.order - 0.5


class Counted(Pull):
    """The same, and how often it was asked."""

    asked = 0

    def nonlinear(self, x, out):
        self.asked += 1
        super().nonlinear(x, out)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_evaluations_are_counted_as_they_are(solver):
    field = Counted(0.0, 3.0)
    solution = integrate(field, START, (*constant(0.1, 6), 0.05), solver)
    assert solution.evaluations == field.asked


def test_steps_that_differ_by_rounding_are_equal():
    uneven = tuple(0.1 * (1 + sign * 1e-15) for sign in (0, 1, -1, 1, 0, -1))
    field = Counted(0.0, 3.0)
    x = integrate(field, START, uneven, ExponentialAdams()).x
    assert field.asked == len(uneven) + ExponentialAdams.at_start
    assert np.abs(x - integrate(field, START, constant(0.1, 6), ExponentialAdams()).x).max() < 1e-12


@pytest.mark.parametrize("solver", EXPONENTIAL, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("rate", [0.0, 1e-9, 1.0, 1e4])
def test_a_linear_problem_with_constant_drive_is_solved_exactly(solver, rate):
    class Driven(SemilinearField):
        rates = np.array([rate])

        def nonlinear(self, x, out):
            out.fill(3.0)

    x = integrate(Driven(), np.ones((1, 1)), constant(0.5, 2), solver).x
    exact = 1.0 + 3.0 if rate == 0 else math.exp(-rate) - 3.0 * math.expm1(-rate) / rate
    assert x.item() == pytest.approx(exact, rel=1e-13)


def test_without_a_linear_part_every_order_four_method_agrees():
    field = Pull(0.0, 0.0)
    gap = np.abs(end(RK4(), field, 50) - end(Exponential4(), field, 50)).max()
    assert gap < 1e-7  # two methods of order four at h = 0.02


def test_one_step_by_hand_is_one_step_of_the_drive():
    field = Pull(1.0, 5.0)
    for solver in SOLVERS:
        by_hand = solver.step(field, START, 0.1)
        assert np.array_equal(by_hand, integrate(field, START, (0.1,), solver).x)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_step_changes_neither_its_start_nor_the_step_before(solver):
    field = Pull(1.0, 5.0)
    step, start = solver.stepper(field, START, 0.1), START.copy()
    first = step(START)
    kept = first.copy()
    second = step(first)
    assert np.array_equal(START, start)
    assert np.array_equal(first, kept)
    if not isinstance(solver, ExponentialAdams):  # which remembers the step before
        assert np.array_equal(second, solver.step(field, kept, 0.1))


def test_an_exponential_solver_needs_a_linear_part():
    with pytest.raises(InvalidSettings, match="linear part"):
        Exponential4().step(lambda x: -x, START, 0.1)
