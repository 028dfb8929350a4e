"""Compares candidate places: what the model does to a person there, and where it does worst."""

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from likewise.errors import InvalidModel
from likewise.models.base import Model

GAIN = 1e-9
"""A relative gain of loss below this is rounding, and moves nobody."""

NUMBERS = 4_000_000
"""Numbers in one array of candidates (32 MB): large enough for any model to be at its fastest."""


def candidate_losses(
    model: Model, x: Float[Tensor, "n m d"], y: Shaped[Tensor, " n"]
) -> Float[Tensor, "n m"]:
    """Loss of each person at each of m places, from one call of the model."""
    n, m, d = x.shape
    with torch.no_grad():
        out = model(x.reshape(n * m, d)).to(torch.float64)
        loss = model.loss(out, y.repeat_interleave(m)).reshape(n, m)
    if not torch.isfinite(loss).all():
        bad = int((~torch.isfinite(loss)).any(dim=1).sum())
        raise InvalidModel(
            f"The model returns NaN or infinity for people similar to {bad} of {n} in a block, "
            "so it cannot be searched."
        )
    return loss


def worse(
    now: Float[Tensor, " n"], candidates: Float[Tensor, "n m"]
) -> tuple[Int[Tensor, " n"], Bool[Tensor, " n"]]:
    """Return the candidate with the largest loss, and whether it is worse than ``now``.

    Of several that differ by rounding the first is taken, so that the choice does not depend on
    how rows were put together.
    """
    top = candidates.max(dim=1).values
    below = candidates < (top * (1 - GAIN))[:, None]
    first = below.long().cumprod(dim=1).sum(dim=1)
    return first, top > now * (1 + GAIN)
