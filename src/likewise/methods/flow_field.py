r"""The field of the flow, in coordinates where the penalty acts on each number by itself.

Equation (6), :math:`\nabla\{\ell(f(x), y) - \lambda d_x^2(x, x_0)\}`, is followed as a displacement
from the start. In these coordinates the penalty's pull is a rate for each of them, zero along free
directions, and exponential solvers treat it exactly.
"""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import DTypeLike
from typing_extensions import override

from likewise.methods.metric import FairMetric, ProjectionMetric, QuadraticForm
from likewise.methods.solvers import SemilinearField, State
from likewise.models.base import Model

Rows = Float[np.ndarray, "n d"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Coordinates:
    r"""A linear change of coordinates between displacements and the states of a solver.

    ``rates`` say how fast the penalty pulls each coordinate back, :math:`2\lambda` × its
    eigenvalue; ``directions`` are orthonormal, one a coordinate: all eigenvectors, or the free ones
    alone. If it is ``thin``, what costs stands before the free coordinates of a projection as d
    numbers, orthogonal to them: two thin products a change, never a d × d matrix.
    """

    rates: Float[np.ndarray, " r"]
    directions: Float[np.ndarray, "k d"]
    thin: bool = False

    @classmethod
    def from_metric(cls, metric: QuadraticForm, lam: float, dtype: DTypeLike) -> "Coordinates":
        """Return coordinates of all directions; at an infinite penalty of the free ones alone."""
        k, d = metric.free.shape
        if np.isinf(lam):
            return cls(np.zeros(k, dtype=dtype), metric.free.astype(dtype))
        if isinstance(metric, ProjectionMetric):
            rates = np.array([2 * lam] * d + [0.0] * k, dtype=dtype)
            return cls(rates, metric.free.astype(dtype), thin=True)
        values, vectors = np.linalg.eigh(metric.function(lambda s: s, np.eye(d)))
        directions = np.ascontiguousarray(vectors.T, dtype=dtype)
        return cls((2 * lam * values).astype(dtype), directions)

    def lower(self, v: Rows) -> Float[np.ndarray, "n r"]:
        """Turn a gradient (or any row of features) into a velocity of the state."""
        along = v @ self.directions.T
        return np.hstack([v - along @ self.directions, along]) if self.thin else along

    def lift(self, state: State) -> Rows:
        """Turn a state into displacements; the transpose of `lower` on states."""
        if not self.thin:
            return state.T @ self.directions
        d = self.directions.shape[1]
        return state[:d].T + state[d:].T @ self.directions


@final
class GeneralField(SemilinearField):
    """The field for any model with a gradient and any quadratic metric."""

    def __init__(
        self, model: Model, coordinates: Coordinates, x0: Rows, y: Shaped[np.ndarray, " n"]
    ) -> None:
        self.model, self.coordinates, self.x0, self.y = model, coordinates, x0, y
        self.rates = coordinates.rates

    @override
    def displacement(self, state: State) -> Rows:
        return self.coordinates.lift(state)

    @override
    def nonlinear(self, x: State, out: State) -> None:
        gradient = self.model.loss_gradient(self.x0 + self.coordinates.lift(x), self.y)
        np.copyto(out, self.coordinates.lower(gradient).T)


@final
class PenalisedField(SemilinearField):
    """The field for any metric: the penalty is taken along with the gradient."""

    def __init__(
        self, model: Model, metric: FairMetric, lam: float, x0: Rows, y: Shaped[np.ndarray, " n"]
    ) -> None:
        self.model, self.metric, self.lam, self.x0, self.y = model, metric, lam, x0, y
        self.rates = np.zeros(x0.shape[1], dtype=x0.dtype)

    @override
    def nonlinear(self, x: State, out: State) -> None:
        at = self.x0 + x.T
        penalty = self.lam * self.metric.gradient(at, self.x0)
        np.copyto(out, (self.model.loss_gradient(at, self.y) - penalty).T)
