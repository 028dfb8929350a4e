"""The field of the flow: uphill in the loss, back towards the start by the penalty."""

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


@final
@dataclasses.dataclass(frozen=True, eq=False)
class FlowField(SemilinearField):
    r"""Equation (6) for a quadratic metric: :math:`\nabla\ell(f(x), y) - 2\lambda\Sigma(x - x_0)`.

    A state is a displacement in coordinates where the penalty is a rate each.
    """

    model: Model
    coordinates: Coordinates
    x0: Float[Tensor, "n d"]
    y: Shaped[Tensor, " n"]

    @property
    def rates(self) -> Float[Tensor, " r"]:  # type: ignore[override]
        """The rates of the coordinates."""
        return self.coordinates.rates

    def place(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        """Return the people that a state stands for."""
        return self.x0 + self.coordinates.lift(state)

    @override
    def nonlinear(self, x: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        gradient = loss_gradient(self.model, self.place(x), self.y)
        return self.coordinates.lower(gradient)


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
