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
Field = Callable[[Tensor], Tensor]
"""The right-hand side of x' = g(x): the velocity of each row."""


class SemilinearField(abc.ABC):
    r"""A field with a stiff linear part that is known: :math:`\dot x = -ax + N(x)`.

    The linear part is diagonal; whoever has another one turns to coordinates in which it is.
    """

    rates: Float[Tensor, " d"]
    """The rates :math:`a \\ge 0`, one a coordinate."""

    @abc.abstractmethod
    def nonlinear(self, x: State) -> State:
        """Return :math:`N(x)`, row by row."""

    def __call__(self, x: State) -> State:
        """Return the velocity of each row."""
        return torch.addcmul(self.nonlinear(x), self.rates, x, value=-1)


class Solver(abc.ABC):
    """A one-step method."""

    order: ClassVar[int]
    """How fast the error falls: like this power of the step."""

    evaluations: ClassVar[int]
    """Evaluations of the field in one step."""

    @abc.abstractmethod
    def stepper(self, field: Field, h: float) -> Step:
        """Return the function that takes a state one step of length ``h`` further."""

    def step(self, field: Field, x: State, h: float) -> State:
        """Return the state one step of length ``h`` further."""
        return self.stepper(field, h)(x)


@final
class Euler(Solver):
    """Forward Euler, equation (8). Theorem 2.2 bounds its error by the largest step."""

    order = 1
    evaluations = 1

    @override
    def stepper(self, field: Field, h: float) -> Step:
        return lambda x: torch.add(x, field(x), alpha=h)


@final
class RK4(Solver):
    """The classical Runge–Kutta method of order four."""

    order = 4
    evaluations = 4

    @override
    def stepper(self, field: Field, h: float) -> Step:
        def step(x: Tensor) -> Tensor:
            k1 = field(x)
            k2 = field(x + h / 2 * k1)
            k3 = field(x + h / 2 * k2)
            k4 = field(x + h * k3)
            return x + h / 6 * (k1 + 2 * (k2 + k3) + k4)

        return step
