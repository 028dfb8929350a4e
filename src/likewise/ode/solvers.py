"""Solvers of initial value problems: what a method is, and the two explicit ones."""

import abc
from collections.abc import Callable
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.ode.diagonal import Diagonal, State

Step = Callable[[np.ndarray], np.ndarray]


class SemilinearField(abc.ABC):
    r"""A field with a stiff linear part that is known: :math:`\dot x = -ax + N(x)`.

    The linear part is diagonal; whoever has another one turns to coordinates in which it is.
    """

    rates: Float[np.ndarray, " d"]
    """The rates :math:`a \\ge 0`, one a coordinate."""

    @abc.abstractmethod
    def nonlinear(self, x: State, out: State) -> None:
        """Write :math:`N(x)` to ``out``, row by row; ``out`` may be ``x``."""


Field = SemilinearField | Callable[[np.ndarray], np.ndarray]
"""The right-hand side of x' = g(x): the velocity of each row."""


class Solver(abc.ABC):
    """A method of one step, or of more, whose stepper remembers the steps before."""

    order: ClassVar[int]
    """How fast the error falls: like this power of the step."""

    evaluations: ClassVar[int]
    """Evaluations of the field in one step."""

    @abc.abstractmethod
    def stepper(self, field: Field, x: State, h: float) -> Step:
        """Return the function that takes a state like ``x`` one step of length ``h`` further.

        What it returns is overwritten by its call after next: fresh memory for every step would
        cost more than the arithmetic.
        """

    def step(self, field: Field, x: State, h: float) -> State:
        """Return the state one step of length ``h`` further."""
        return self.stepper(field, x, h)(x)


@final
class Euler(Solver):
    """Forward Euler, equation (8). Theorem 2.2 bounds its error by the largest step."""

    order = 1
    evaluations = 1

    @override
    def stepper(self, field: Field, x: State, h: float) -> Step:
        k1, room, ends = np.empty_like(x), np.empty_like(x), Turns(x)
        rates, speed = np.zeros(x.shape[1], dtype=x.dtype), writer(field, x)
        if isinstance(field, SemilinearField):
            rates, speed = field.rates, field.nonlinear
        # x + h (N − a x), with the linear part taken together.
        left, ahead = Diagonal(1 - h * rates), Diagonal(np.full_like(rates, h))

        def step(x: State) -> State:
            speed(x, k1)
            return ahead.add(k1, left.times(x, ends.other(x)), room)

        return step


@final
class RK4(Solver):
    """The classical Runge–Kutta method of order four."""

    order = 4
    evaluations = 4

    @override
    def stepper(self, field: Field, x: State, h: float) -> Step:
        velocity, ends = writer(field, x), Turns(x)
        k1, k2, k3, k4, stage = (np.empty_like(x) for _ in range(5))

        def ahead(x: State, time: float, k: State, out: State) -> State:
            return np.add(x, np.multiply(k, time, out=out), out=out)

        def step(x: State) -> State:
            velocity(x, k1)
            velocity(ahead(x, h / 2, k1, stage), k2)
            velocity(ahead(x, h / 2, k2, stage), k3)
            velocity(ahead(x, h, k3, stage), k4)
            np.multiply(np.add(k2, k3, out=k2), 2, out=k2)
            np.add(np.add(k1, k2, out=k1), k4, out=k1)
            return ahead(x, h / 6, k1, ends.other(x))

        return step


@final
class Turns:
    """Two arrays that hold the last state and the next one in turns."""

    def __init__(self, x: State) -> None:
        self.pair = np.empty_like(x), np.empty_like(x)

    def other(self, x: State) -> State:
        """Return the one that is not ``x``."""
        return self.pair[1] if x is self.pair[0] else self.pair[0]


def writer(field: Field, x: State) -> Callable[[np.ndarray, np.ndarray], None]:
    """Return what writes the velocity of a state like ``x`` to its second argument."""
    if not isinstance(field, SemilinearField):
        return lambda x, out: np.copyto(out, field(x))
    pull, room = Diagonal(-field.rates), np.empty_like(x)

    def write(x: State, out: State) -> None:
        field.nonlinear(x, out)
        pull.add(x, out, room)

    return write
