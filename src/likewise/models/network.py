"""Plain networks: a chain of linear layers with simple activations between them.

Most audited networks are such chains. Their gradients are a few matrix products, and x enters only
through the first layer, so that the flow can be computed there.
"""

import dataclasses
from collections.abc import Iterable
from typing import final

import numpy as np
from jaxtyping import Float

from likewise.models.layers import Layer

_ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}


@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
    """A linear layer, with the activation that comes before it (none before the first)."""

    activation: str
    weight: Float[np.ndarray, "k m"]
    bias: Float[np.ndarray, "k 1"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """A chain of linear layers in float64, each with the activation in front of it."""

    layers: tuple[Affine, ...]


def plain_network(layers: Iterable[Layer]) -> Network | None:
    """Read layers as a plain network; ``None`` if there is anything else among them."""
    found: list[Affine] = []
    activation = ""
    removed: np.ndarray | None = None
    for layer in layers:
        if layer.name == "Linear":
            weight = layer.arrays["weight"].astype(np.float64)
            if removed is not None:
                weight, removed = weight - (weight @ removed.T) @ removed, None
            bias = layer.arrays.get("bias", np.zeros(len(weight))).astype(np.float64)
            found.append(Affine(activation, weight, bias[:, None]))
            activation = ""
        elif layer.name == "FixedProjection" and removed is None:
            removed = layer.arrays["basis"].astype(np.float64)
        elif layer.name in _ACTIVATIONS and found and not activation and removed is None:
            activation = _ACTIVATIONS[layer.name]
        else:
            return None
    return Network(tuple(found)) if found and not activation and removed is None else None
