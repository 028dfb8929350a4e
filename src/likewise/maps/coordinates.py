"""Coordinates in which the penalty of a quadratic metric acts on each number by itself.

The flow is computed as a displacement from the start. In these coordinates the penalty's pull is
a rate for each of them, zero along free directions, and exponential solvers treat it exactly.
"""

import abc
import dataclasses
from typing import final

import numpy as np
from jaxtyping import Float
from numpy.typing import DTypeLike
from typing_extensions import override

from likewise.metrics.fair_metric import QuadraticForm
from likewise.metrics.quadratic import ProjectionMetric, QuadraticMetric

Rows = Float[np.ndarray, "n d"]
States = Float[np.ndarray, "n r"]


class Coordinates(abc.ABC):
    """A linear change of coordinates between displacements and the states of a solver."""

    rates: Float[np.ndarray, " r"]
    r"""How fast the penalty pulls each coordinate back: :math:`2\lambda` × its eigenvalue."""

    free: slice
    """Where the k free coordinates stand in a state."""

    @abc.abstractmethod
    def lower(self, v: Rows) -> States:
        """Turn a gradient (or any row of features) into a velocity of the state."""

    @abc.abstractmethod
    def lift(self, state: States) -> Rows:
        """Turn a state into a displacement; the transpose of `lower` on states."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ThinSplit(Coordinates):
    """For a `ProjectionMetric`: what costs, as d numbers, beside k free coordinates.

    The first part stays orthogonal to the free directions. Two thin products a change, never a
    d × d matrix.
    """

    rates: Float[np.ndarray, " r"]
    directions: Float[np.ndarray, "k d"]
    free: slice

    @override
    def lower(self, v: Rows) -> States:
        along = v @ self.directions.T
        return np.hstack([v - along @ self.directions, along])

    @override
    def lift(self, state: States) -> Rows:
        d = self.directions.shape[1]
        return state[:, :d] + state[:, d:] @ self.directions


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Rotated(Coordinates):
    """Orthonormal directions, one a coordinate: all eigenvectors, or the free ones alone."""

    rates: Float[np.ndarray, " r"]
    directions: Float[np.ndarray, "r d"]
    free: slice

    @override
    def lower(self, v: Rows) -> States:
        return v @ self.directions.T

    @override
    def lift(self, state: States) -> Rows:
        return state @ self.directions


def free_coordinates(metric: QuadraticForm, dtype: DTypeLike) -> Coordinates:
    r"""Return the free directions alone, where nothing pulls back (:math:`\lambda \to \infty`)."""
    directions = metric.free.astype(dtype)
    return Rotated(np.zeros(len(directions), dtype=dtype), directions, slice(None))


def all_coordinates(metric: QuadraticForm, lam: float, d: int, dtype: DTypeLike) -> Coordinates:
    """Return coordinates of all directions, those that cost and those that do not."""
    if isinstance(metric, ProjectionMetric):
        k = len(metric.free)
        rates = np.array([2 * lam] * d + [0.0] * k, dtype=dtype)
        return ThinSplit(rates, metric.free.astype(dtype), slice(d, None))
    if isinstance(metric, QuadraticMetric):
        values, vectors = metric.eigenvalues, metric.eigenvectors
    else:
        values, vectors = np.linalg.eigh(metric.function(lambda s: s, np.eye(d)))
    # Eigenvalues ascend, so the free directions come first, in the order of ``metric.free``.
    free = slice(0, len(metric.free))
    return Rotated(
        (2 * lam * values).astype(dtype), np.ascontiguousarray(vectors.T, dtype=dtype), free
    )
