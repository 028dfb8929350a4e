"""What a search tries: a fixed design of places in a unit ball, and where the model does worst."""

import itertools
import math

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.errors import InvalidModel
from likewise.models.base import Model

GAIN = 1e-9
"""A relative gain of loss below this is rounding, and moves nobody."""

NUMBERS = 4_000_000
"""Numbers in one array of candidates (32 MB): large enough for any model to be at its fastest."""


def candidate_losses(
    model: Model, x: Float[np.ndarray, "n m d"], y: Shaped[np.ndarray, " n"]
) -> Float[np.ndarray, "n m"]:
    """Loss of each person at each of m places, from one call of the model."""
    n, m, d = x.shape
    return losses_of(model, model(x.reshape(n * m, d)), y, m)


def losses_of(
    model: Model, out: Float[np.ndarray, "_ k"], y: Shaped[np.ndarray, " n"], m: int
) -> Float[np.ndarray, "n {m}"]:
    """Loss of each person at each of m places, given the outputs there."""
    n = len(y)
    loss = model.loss(out.astype(np.float64, copy=False), np.repeat(y, m)).reshape(n, m)
    if not np.isfinite(loss).all():
        bad = int((~np.isfinite(loss)).any(axis=1).sum())
        raise InvalidModel(
            f"The model returns NaN or infinity for people similar to {bad} of {n} in a block, "
            "so it cannot be searched."
        )
    return loss


def worse(
    now: Float[np.ndarray, " n"], candidates: Float[np.ndarray, "n m"]
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return the candidate with the largest loss, and whether it is worse than ``now``.

    Of several that differ by rounding the first is taken, so that the choice does not depend on
    how rows were put together.
    """
    top = candidates.max(axis=1)
    below = candidates < (top - GAIN * np.abs(top))[:, None]
    return np.argmin(below, axis=1), top > now * (1 + GAIN)


EXACT = 5
"""Dimensions up to which a design fills the ball; beyond, directions are sampled."""


def ball_design(r: int, most: int = 33) -> Float[np.ndarray, "m r"]:
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
        return np.linspace(1, -1, min(most, 17 + max(most - 33, 0)))[:, None]
    if r == 2:
        fine = max(most // 33, 1)
        inner = circle(8 * fine) / 2
        points = np.concatenate([circle(24 * fine), inner, np.zeros((1, 2))])
        return thinned(points, most)
    axes = np.concatenate([np.eye(r), -np.eye(r)])
    corners = np.array(list(itertools.product([1.0, -1.0], repeat=r)))
    if r == 3:
        edges = [p for p in itertools.product([1.0, 0.0, -1.0], repeat=3) if p.count(0.0) == 1]
        corners = np.concatenate([corners, edges])
    if r == 5:  # every second corner; all 32 would leave no calls to look closer
        corners = corners[corners.prod(axis=1) > 0]
    rim = corners / np.linalg.norm(corners, axis=1, keepdims=True)
    inner = axes[: 0 if r == 5 else None] / 2
    points = np.concatenate([axes, rim, inner, np.zeros((1, r))])
    return np.concatenate([thinned(points, most), directions(r, most - len(points))])


def circle(m: int) -> Float[np.ndarray, "m 2"]:
    """Equally spaced points of the unit circle, the first on the first axis."""
    angle = np.arange(m) * (2 * math.pi / m)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def directions(r: int, m: int) -> Float[np.ndarray, "m r"]:
    """Return m unit vectors spread evenly over all directions, each beside its opposite."""
    from scipy.stats import qmc  # late: it takes long to import

    sequence = qmc.MultivariateNormalQMC(np.zeros(r), seed=np.random.default_rng(0))
    # Such sequences are balanced at powers of two.
    drawn = sequence.random(2 ** max(m, 1).bit_length())
    units = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.stack([units, -units], axis=1).reshape(-1, r)[: max(m, 0)]


def thinned(points: Float[np.ndarray, "m r"], most: int) -> Float[np.ndarray, "q r"]:
    """Return at most ``most`` of the points, evenly taken."""
    if len(points) <= most:
        return points
    return points[np.linspace(0, len(points) - 1, max(most, 0)).astype(int)]


def first_step(r: int) -> float:
    """Half the way to the next point of the design, along the rim."""
    return 0.13 if r == 2 else 0.4
