"""Where to look in a unit ball: a fixed design, the same for everyone and every time."""

import itertools
import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import qmc
from torch import Tensor

EXACT = 5
"""Dimensions up to which a design fills the ball; beyond, directions are sampled."""


def ball_design(r: int, most: int = 33) -> Float[Tensor, "m r"]:
    """Return points of the unit ball for a first look around: rim, half way to it, and centre.

    In two dimensions 24 points on the rim, 8 at half radius and the centre. In more, the axes and
    the corners (in three, the edges too) of a cube, brought to the rim, and the axes at half
    radius.

    Parameters
    ----------
    most
        How many points to use; more than 33 make a finer design of the same kind.
    """
    if r == 1:
        return torch.linspace(1, -1, min(most, 17 + max(most - 33, 0)), dtype=torch.float64)[
            :, None
        ]
    if r == 2:
        fine = max(most // 33, 1)
        inner = circle(8 * fine) / 2
        points = torch.cat([circle(24 * fine), inner, torch.zeros(1, 2, dtype=torch.float64)])
        return thinned(points, most)
    axes = torch.cat([torch.eye(r), -torch.eye(r)]).double()
    corners = torch.tensor(list(itertools.product([1.0, -1.0], repeat=r)), dtype=torch.float64)
    if r == 3:
        edges = torch.tensor(
            [p for p in itertools.product([1.0, 0.0, -1.0], repeat=3) if p.count(0.0) == 1]
        ).double()
        corners = torch.cat([corners, edges])
    if r == 5:  # every second corner; all 32 would leave no calls to look closer
        corners = corners[corners.prod(dim=1) > 0]
    rim = corners / corners.norm(dim=1, keepdim=True)
    inner = axes[: 0 if r == 5 else None] / 2
    points = torch.cat([axes, rim, inner, torch.zeros(1, r, dtype=torch.float64)])
    return torch.cat([thinned(points, most), directions(r, most - len(points))])


def circle(m: int) -> Float[Tensor, "m 2"]:
    """Equally spaced points of the unit circle, the first on the first axis."""
    angle = torch.arange(m, dtype=torch.float64) * (2 * math.pi / m)
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def directions(r: int, m: int) -> Float[Tensor, "m r"]:
    """Return m unit vectors spread evenly over all directions, each beside its opposite."""
    sequence = qmc.MultivariateNormalQMC(np.zeros(r), seed=np.random.default_rng(0))
    # Such sequences are balanced at powers of two.
    drawn = sequence.random(2 ** max(m, 1).bit_length())
    units = torch.from_numpy(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    return torch.stack([units, -units], dim=1).reshape(-1, r)[: max(m, 0)]


def thinned(points: Float[Tensor, "m r"], most: int) -> Float[Tensor, "q r"]:
    """Return at most ``most`` of the points, evenly taken."""
    if len(points) <= most:
        return points
    return points[torch.linspace(0, len(points) - 1, max(most, 0)).long()]


def first_step(r: int) -> float:
    """Half the way to the next point of the design, along the rim."""
    return 0.13 if r == 2 else 0.4
