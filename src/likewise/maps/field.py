"""The field of the flow: uphill in the loss, back towards the start by the penalty."""

import abc
import dataclasses
from typing import final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from typing_extensions import override

from likewise.maps.coordinates import Coordinates
from likewise.metrics.base import FairMetric
from likewise.models.base import Model
from likewise.ode.solvers import SemilinearField


def loss_gradient(
    model: Model, x: Float[Tensor, "n d"], y: Shaped[Tensor, " n"]
) -> Float[Tensor, "n d"]:
    r"""Return :math:`\nabla_x \ell(f(x), y)`, row by row."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        # Sum, never mean: a row's path must not depend on who shares its block.
        total = model.loss(model(x), y).sum()
        (gradient,) = torch.autograd.grad(total, x)
    return gradient


class FlowField(SemilinearField):
    r"""Equation (6) for a quadratic metric: :math:`\nabla\ell(f(x), y) - 2\lambda\Sigma(x - x_0)`.

    A state is a displacement, in coordinates where the penalty is a rate each.
    """

    free: slice
    """Where the k free coordinates stand in a state."""

    @abc.abstractmethod
    def start(self) -> Float[Tensor, "n r"]:
        """Return the states of people who have not moved."""

    @abc.abstractmethod
    def displacement(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        """Return how far from the start a state stands for."""


@final
class GeneralField(FlowField):
    """The field for any model with a gradient."""

    def __init__(
        self,
        model: Model,
        coordinates: Coordinates,
        x0: Float[Tensor, "n d"],
        y: Shaped[Tensor, " n"],
    ) -> None:
        self.model, self.coordinates, self.x0, self.y = model, coordinates, x0, y
        self.rates, self.free = coordinates.rates, coordinates.free

    @override
    def start(self) -> Float[Tensor, "n r"]:
        return self.x0.new_zeros(len(self.x0), len(self.rates))

    @override
    def displacement(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        return self.coordinates.lift(state)

    @override
    def nonlinear(self, x: Float[Tensor, "n r"], out: Float[Tensor, "n r"]) -> None:
        gradient = loss_gradient(self.model, self.x0 + self.coordinates.lift(x), self.y)
        out.copy_(self.coordinates.lower(gradient))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class PenalisedField:
    r"""Equation (6) for any metric: :math:`\nabla\{\ell(f(x), y) - \lambda d_x^2(x, x_0)\}`."""

    model: Model
    metric: FairMetric
    lam: float
    x0: Float[Tensor, "n d"]
    y: Shaped[Tensor, " n"]

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Return the velocity of each row."""
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            loss = self.model.loss(self.model(x), self.y).sum()
            price = self.metric.squared_distance(x, self.x0).sum()
            (gradient,) = torch.autograd.grad(loss - self.lam * price, x)
        return gradient
