"""The plausible region: the ellipsoid that holds nearly everyone of a sample.

Free directions cost nothing, so nothing but such a region keeps an adversarial example among
people who could exist.
"""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidMetric

DEGENERATE = 1e-12
"""Variance, relative to the largest, below which the sample does not vary in a direction."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Ellipsoid:
    r"""Confidence ellipsoid in the k coordinates :math:`c = Qx` along the free directions.

    The points with :math:`(c - \mu)^\top S^{-1} (c - \mu) \le r^2`, for the mean and covariance
    of the metric's own sample, and a radius such that the share ``coverage`` of that sample is
    inside. Unlike a box, it does not depend on the basis chosen for the free directions. Where the
    sample does not vary, nobody can move: coordinates there are left as they are.
    """

    mean: Float[np.ndarray, " k"]
    covariance: Float[np.ndarray, "k k"]
    radius: float
    coverage: float = 0.99
    axes: Float[np.ndarray, "r k"] = dataclasses.field(init=False, repr=False)
    """Half axes, longest first: the ellipsoid is μ + u·axes for all u in the unit ball."""
    inverse: Float[np.ndarray, "k r"] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        finite = np.isfinite(self.mean).all() and np.isfinite(self.covariance).all()
        if not (finite and 0 <= self.radius < float("inf") and 0 < self.coverage <= 1):
            raise InvalidMetric(
                "A plausible region needs a finite mean and covariance, a radius ≥ 0 (here "
                f"{self.radius:g}) and a coverage within (0, 1] (here {self.coverage:g})."
            )
        values, vectors = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        largest = float(np.abs(values).max(initial=0.0))
        if len(values) and values[0] < -1e-8 * largest:
            raise InvalidMetric(
                f"The covariance of a plausible region has a negative eigenvalue ({values[0]:.3g})."
            )
        varies = (values > DEGENERATE * largest) & (self.radius > 0)
        lengths = self.radius * np.sqrt(values[varies])[::-1]
        units = vectors[:, varies][:, ::-1]
        object.__setattr__(self, "axes", units.T * lengths[:, None])
        object.__setattr__(self, "inverse", units / lengths)

    @classmethod
    def from_sample(
        cls,
        coordinates: Float[np.ndarray, "n k"],
        weight: Float[np.ndarray, " n"] | None = None,
        coverage: float = 0.99,
    ) -> "Ellipsoid":
        """Ellipsoid that holds the share ``coverage`` of a sample, by weight."""
        share = np.ones(len(coordinates)) if weight is None else weight
        share = share / share.sum()
        mean = share @ coordinates
        centred = coordinates - mean
        covariance = np.atleast_2d((centred * share[:, None]).T @ centred)
        shape = cls(mean, covariance, 1.0)
        distance = shape.distance(coordinates)
        order = np.argsort(distance, kind="stable")
        # The smallest radius that holds the share; rounding must not ask for one person more.
        held = np.cumsum(share[order]) >= coverage - 1e-12
        return cls(shape.mean, shape.covariance, float(distance[order][held][0]), coverage)

    def without(self, coordinate: int) -> "Ellipsoid":
        """Return the region without one of its coordinates."""
        left = np.delete(np.arange(len(self.mean)), coordinate)
        return dataclasses.replace(
            self, mean=self.mean[left], covariance=self.covariance[np.ix_(left, left)]
        )

    def whiten(self, c: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n r"]:
        """Return coordinates in which the ellipsoid is the unit ball around zero."""
        # Unlike a matrix product's, these rows depend, to the last bit, on no other row.
        return np.einsum("nk,kr->nr", c - self.mean, self.inverse)

    def distance(self, c: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """Return the distance from the centre as a share of the way to the rim."""
        u = self.whiten(c)
        return np.sqrt(np.einsum("nr,nr->n", u, u))
