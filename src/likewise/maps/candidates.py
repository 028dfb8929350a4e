"""Compares candidate places: what the model does to a person there, and where it does worst."""

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
