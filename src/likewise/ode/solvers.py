"""Solvers of initial value problems: what a method is, and the two explicit ones."""

import abc
from collections.abc import Callable
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

State = Float[Tensor, "n d"]
Step = Callable[[Tensor], Tensor]


class SemilinearField(abc.ABC):
    r"""A field with a stiff linear part that is known: :math:`\dot x = -ax + N(x)`.

    The linear part is diagonal; whoever has another one turns to coordinates in which it is.
    """

    rates: Float[Tensor, " d"]
    """The rates :math:`a \\ge 0`, one a coordinate."""

    @abc.abstractmethod
    def nonlinear(self, x: State, out: State) -> None:
        """Write :math:`N(x)` to ``out``, row by row; ``out`` may be ``x``."""

    def velocity(self, x: State, out: State) -> None:
        """Write the velocity of each row to ``out``."""
        self.nonlinear(x, out)
        out.addcmul_(self.rates, x, value=-1)


Field = SemilinearField | Callable[[Tensor], Tensor]
"""The right-hand side of x' = g(x): the velocity of each row."""


class Solver(abc.ABC):
    """A one-step method."""

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
        velocity, k1, ends = writer(field), torch.empty_like(x), Turns(x)

        def step(x: Tensor) -> Tensor:
            velocity(x, k1)
            return torch.add(x, k1, alpha=h, out=ends.other(x))

        return step


@final
class RK4(Solver):
    """The classical Runge–Kutta method of order four."""

    order = 4
    evaluations = 4

    @override
    def stepper(self, field: Field, x: State, h: float) -> Step:
        velocity, ends = writer(field), Turns(x)
        k1, k2, k3, k4, stage = (torch.empty_like(x) for _ in range(5))

        def step(x: Tensor) -> Tensor:
            velocity(x, k1)
            velocity(torch.add(x, k1, alpha=h / 2, out=stage), k2)
            velocity(torch.add(x, k2, alpha=h / 2, out=stage), k3)
            velocity(torch.add(x, k3, alpha=h, out=stage), k4)
            mean = k1.add_(k2, alpha=2).add_(k3, alpha=2).add_(k4)
            return torch.add(x, mean, alpha=h / 6, out=ends.other(x))

        return step


@final
class Turns:
    """Two tensors that hold the last state and the next one in turns."""

    def __init__(self, x: State) -> None:
        self.pair = torch.empty_like(x), torch.empty_like(x)

    def other(self, x: State) -> State:
        """Return the one that is not ``x``."""
        return self.pair[1] if x is self.pair[0] else self.pair[0]


def writer(field: Field) -> Callable[[Tensor, Tensor], None]:
    """Return what writes the velocity of its first argument to the second."""
    if isinstance(field, SemilinearField):
        return field.velocity

    def write(x: Tensor, out: Tensor) -> None:
        out.copy_(field(x))

    return write
