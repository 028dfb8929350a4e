"""The field of the flow: uphill in the loss, back towards the start by the penalty."""

import abc
import dataclasses
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Shaped
from typing_extensions import override

from likewise.maps.coordinates import Coordinates
from likewise.metrics.fair_metric import FairMetric
from likewise.models.base import Model
from likewise.ode.solvers import SemilinearField


class FlowField(SemilinearField):
    r"""Equation (6) for a quadratic metric: :math:`\nabla\ell(f(x), y) - 2\lambda\Sigma(x - x_0)`.

    A state is a displacement, in coordinates where the penalty is a rate each.
    """

    free: slice
    """Where the k free coordinates stand in a state."""

    @abc.abstractmethod
    def start(self) -> Float[np.ndarray, "n r"]:
        """Return the states of people who have not moved."""

    @abc.abstractmethod
    def displacement(self, state: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n d"]:
        """Return how far from the start a state stands for."""

    def surely_risen(self, state: Float[np.ndarray, "n r"]) -> Bool[np.ndarray, " n"]:
        """Tell whose loss is above that at the start for sure, rounding or not."""
        return np.zeros(len(state), dtype=bool)


@final
class GeneralField(FlowField):
    """The field for any model with a gradient."""

    def __init__(
        self,
        model: Model,
        coordinates: Coordinates,
        x0: Float[np.ndarray, "n d"],
        y: Shaped[np.ndarray, " n"],
    ) -> None:
        self.model, self.coordinates, self.x0, self.y = model, coordinates, x0, y
        self.rates, self.free = coordinates.rates, coordinates.free

    @override
    def start(self) -> Float[np.ndarray, "n r"]:
        return np.zeros((len(self.rates), len(self.x0)), dtype=self.x0.dtype).T

    @override
    def displacement(self, state: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n d"]:
        return self.coordinates.lift(state)

    @override
    def nonlinear(self, x: Float[np.ndarray, "n r"], out: Float[np.ndarray, "n r"]) -> None:
        gradient = self.model.loss_gradient(self.x0 + self.coordinates.lift(x), self.y)
        np.copyto(out, self.coordinates.lower(gradient))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class PenalisedField:
    r"""Equation (6) for any metric: :math:`\nabla\{\ell(f(x), y) - \lambda d_x^2(x, x_0)\}`."""

    model: Model
    metric: FairMetric
    lam: float
    x0: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, " n"]

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the velocity of each row."""
        uphill = self.model.loss_gradient(x, self.y)
        return uphill - self.lam * self.metric.gradient(x, self.x0)
