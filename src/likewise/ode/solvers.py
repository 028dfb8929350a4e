"""Solvers of initial value problems: what a method is, and the two explicit ones."""

import abc
import functools
import itertools
from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

State = Float[np.ndarray, "n d"]

FEW = 4
"""Runs of equal factors up to which each is added by a call of its own."""


@final
class Diagonal:
    """A diagonal matrix that acts on states.

    States are best laid out coordinate by coordinate (the transpose of a C-ordered array): then
    neighbours with the same factor, of which there are mostly two runs, take one call each.

    Parameters
    ----------
    factors
        One a coordinate.
    """

    def __init__(self, factors: Float[np.ndarray, " d"]) -> None:
        self.factors = factors
        cuts = [0, *(np.flatnonzero(np.diff(factors)) + 1).tolist(), len(factors)]
        self.runs = tuple(
            (slice(begin, end), factors[begin])
            for begin, end in itertools.pairwise(cuts)
            if begin < end
        )
        self.added = tuple(run for run in self.runs if run[1])
        self.add_run = _axpy(factors.dtype.char)

    def times(self, x: State, out: State) -> State:
        """Write the product with ``x`` to ``out``, and return that."""
        if not self._in_runs(x, out):
            return np.multiply(x, self.factors, out=out)
        for rows, factor in self.runs:
            np.multiply(x.T[rows], factor, out=out.T[rows])
        return out

    def add(self, x: State, out: State, room: State) -> State:
        """Add the product with ``x`` to ``out``, and return that; ``room`` may be overwritten."""
        if not self._in_runs(x, out):
            return np.add(out, np.multiply(x, self.factors, out=room), out=out)
        flat, target = x.T.reshape(-1), out.T.reshape(-1)
        for rows, factor in self.added:
            begin, count = rows.start * len(x), (rows.stop - rows.start) * len(x)
            self.add_run(flat, target, count, factor, begin, 1, begin, 1)
        return out

    def _in_runs(self, x: State, out: State) -> bool:
        # Anything but contiguous memory would be copied, and the sum written to the copy.
        plain = x.flags.f_contiguous and out.flags.f_contiguous and x.dtype == out.dtype
        return plain and len(self.runs) <= FEW


@functools.cache
def _axpy(kind: str) -> Callable[..., Any]:
    """Return the BLAS routine that adds a multiple of a vector to another, in place."""
    from scipy.linalg import blas  # late: it takes a while to import

    return {"d": blas.daxpy, "f": blas.saxpy}[kind]


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

    at_start: ClassVar[int] = 0
    """Evaluations that the first step takes beyond these."""

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
