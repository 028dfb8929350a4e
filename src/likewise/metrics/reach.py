"""How far a similar person may be: the ellipsoid that holds nearly everyone.

Free directions cost nothing, so nothing but a reach keeps the worst similar person among people
who could exist.
"""

import dataclasses
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from likewise.errors import InvalidMetric

DEGENERATE = 1e-12
"""Variance, relative to the largest, below which the sample does not vary in a direction."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Ellipsoid:
    r"""People within reach, in the k coordinates :math:`c = Qx` along the free directions.

    The points with :math:`(c - \mu)^\top S^{-1} (c - \mu) \le r^2`. Unlike a box, it does not
    depend on the basis chosen for the free directions. Where the sample does not vary, nobody can
    move: coordinates there are left as they are.

    Parameters
    ----------
    mean, covariance
        Of the metric's own sample in the free coordinates.
    radius
        Chosen so that the ellipsoid holds the share ``coverage`` of that sample.
    coverage
        That share.
    """

    mean: Float[Tensor, " k"]
    covariance: Float[Tensor, "k k"]
    radius: float
    coverage: float = 0.99
    axes: Float[Tensor, "r k"] = dataclasses.field(init=False, repr=False)
    """Half axes, longest first: the ellipsoid is μ + u·axes for all u in the unit ball."""
    inverse: Float[Tensor, "k r"] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        finite = self.mean.isfinite().all() and self.covariance.isfinite().all()
        if not (finite and 0 <= self.radius < float("inf") and 0 < self.coverage <= 1):
            raise InvalidMetric(
                f"A reach needs a finite mean and covariance, a radius ≥ 0 (here {self.radius:g}) "
                f"and a coverage within (0, 1] (here {self.coverage:g})."
            )
        values, vectors = torch.linalg.eigh((self.covariance + self.covariance.T) / 2)
        largest = values.abs().max().item() if len(values) else 0.0
        if len(values) and values[0].item() < -1e-8 * largest:
            raise InvalidMetric(
                f"The covariance of a reach has a negative eigenvalue ({values[0].item():.3g})."
            )
        varies = (values > DEGENERATE * largest) & (self.radius > 0)
        lengths = self.radius * values[varies].sqrt().flip(0)
        units = vectors[:, varies].flip(1)
        object.__setattr__(self, "axes", units.T * lengths[:, None])
        object.__setattr__(self, "inverse", units / lengths)

    @classmethod
    def of(
        cls,
        coordinates: Float[np.ndarray, "n k"],
        weight: Float[np.ndarray, " n"] | None = None,
        coverage: float = 0.99,
    ) -> "Ellipsoid":
        """Ellipsoid that holds the share ``coverage`` of a sample, by weight."""
        weight = np.ones(len(coordinates)) if weight is None else weight
        share = weight / weight.sum()
        mean = share @ coordinates
        centred = coordinates - mean
        covariance = np.atleast_2d((centred * share[:, None]).T @ centred)
        shape = cls(torch.from_numpy(mean), torch.from_numpy(covariance), 1.0)
        distance = shape.distance(torch.from_numpy(coordinates)).numpy()
        order = np.argsort(distance, kind="stable")
        # The smallest radius that holds the share; rounding must not ask for one person more.
        held = np.cumsum(share[order]) >= coverage - 1e-12
        return cls(shape.mean, shape.covariance, float(distance[order][held][0]), coverage)

    def whiten(self, c: Float[Tensor, "n k"]) -> Float[Tensor, "n r"]:
        """Coordinates in which the ellipsoid is the unit ball around zero."""
        return (c - self.mean.to(c)) @ self.inverse.to(c)

    def colour(self, u: Float[Tensor, "n r"], c0: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Undo `whiten` for people at ``c0``, who keep what the sample does not vary in."""
        return c0 + (u - self.whiten(c0)) @ self.axes.to(c0)

    def distance(self, c: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
        """Distance from the centre as a share of the way to the rim: at most 1 within reach."""
        return self.whiten(c).norm(dim=1)

    def contains(self, c: Float[Tensor, "n k"]) -> Bool[Tensor, " n"]:
        """Tell who is within reach, up to rounding."""
        return self.distance(c) <= 1 + 1e-9

    def clip(self, c: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Bring those outside to the rim, on the straight line to the centre."""
        u = self.whiten(c)
        length = u.norm(dim=1, keepdim=True)
        return torch.where(length > 1, self.colour(u / length.clamp(min=1), c), c)

    def project(self, c: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        r"""Bring those outside to the nearest point of the ellipsoid, by the ordinary distance.

        The nearest point has whitened coordinates :math:`u_j = a_j^2 w_j / (a_j^2 + t)`, where
        :math:`a_j` are the half axes, :math:`w` the point itself and :math:`t \ge 0` the root of
        :math:`|u| = 1`. That equation is convex and falling in t: Newton from the left end rises to
        its root and never passes it.
        """
        w = self.whiten(c)
        square = self.axes.to(c).square().sum(1)
        t = torch.zeros(len(c), 1, dtype=c.dtype)
        for _ in range(60):
            u = w * square / (square + t)
            length = u.norm(dim=1, keepdim=True)
            # |u|⁻¹ is nearly linear in t, so Newton on it takes a handful of steps.
            slope = -(u.square() / (square + t)).sum(1, keepdim=True) / length.clamp(min=1e-300)
            step = (length - 1) * length / -slope.clamp(max=-1e-300)
            # Each row stops by itself, so that its result does not depend on the others.
            t = t + torch.where(length > 1 + 1e-15, step, torch.zeros_like(step))
            if bool((length <= 1 + 1e-15).all()):
                break
        u = w * square / (square + t)
        outside = w.norm(dim=1, keepdim=True) > 1
        return torch.where(outside, self.colour(u, c), c)
