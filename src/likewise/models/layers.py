"""The closed list of layers a saved model may have, and networks that are plain chains of them.

Most audited networks are such chains: linear layers with simple activations between them. Their
gradients are a few matrix products, and x enters only through the first layer, so that the flow can
be computed there.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidFile, InvalidModel

PLAIN = ("ReLU", "Tanh", "Sigmoid")
SAVED = (*PLAIN, "GELU", "Linear", "FixedProjection", "MeanOfSigmoids", "LayerNorm", "BatchNorm1d")
"""Layers that files hold; `likewise.models.layered` knows a few more, of scikit-learn's."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """One layer of a network, as a file holds it: its name, its options, its arrays."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def double(self) -> "Layer":
        """Return the layer with float64 arrays."""
        arrays = {key: value.astype(np.float64) for key, value in self.arrays.items()}
        return dataclasses.replace(self, arrays=arrays)


def linear(weight: Any, bias: Any) -> Layer:
    """Return a linear layer; ``weight`` has a row for each output, ``bias`` may be one number."""
    matrix = np.atleast_2d(np.asarray(weight, dtype=np.float64))
    offset = np.broadcast_to(np.asarray(bias, dtype=np.float64), matrix.shape[:1])
    return Layer("Linear", {}, {"weight": matrix, "bias": offset})


def check_layer(layer: Layer, width: int | None) -> int | None:
    """Refuse a damaged layer; say how many columns it returns, given ``width`` of them."""
    name, options, arrays = layer.name, layer.options, layer.arrays
    if name in PLAIN:
        _closed(layer)
        return width
    if name == "GELU":
        _closed(layer, options=("approximate",))
        if options["approximate"] not in ("none", "tanh"):
            raise InvalidFile("GELU is 'none' or 'tanh'")
        return width
    if name == "Linear":
        _closed(layer, needed=("weight",), allowed=("bias",))
        rows, inputs = _matrix(arrays["weight"])
        _shapes(arrays, {"bias": (rows,)})
        _fits(name, inputs, width)
        return rows
    if name == "FixedProjection":
        _closed(layer, needed=("basis",))
        _, inputs = _matrix(arrays["basis"])
        check_orthonormal(arrays["basis"])
        _fits(name, inputs, width)
        return inputs
    if name == "MeanOfSigmoids":
        _closed(layer, needed=("log_weight",))
        size = arrays["log_weight"].size
        _shapes(arrays, {"log_weight": (size,)})
        _fits(name, size, width)
        return 2
    if name == "LayerNorm":
        _closed(layer, allowed=("weight", "bias"), options=("width", "eps"))
        size = options["width"]
        if type(size) is not int or not 0 < size < 2**31:
            raise InvalidFile("LayerNorm needs a width")
        _shapes(arrays, {"weight": (size,), "bias": (size,)})
        _check_eps(options)
        _fits(name, size, width)
        return size
    if name == "BatchNorm1d":
        running = ("running_mean", "running_var")
        _closed(layer, needed=running, allowed=("weight", "bias"), options=("eps",))
        size = arrays["running_mean"].size
        _shapes(arrays, dict.fromkeys((*running, "weight", "bias"), (size,)))
        _check_eps(options)
        _fits(name, size, width)
        return size
    raise InvalidFile(f"it has a layer {name[:40]!r}, which is not in the list")


def unsaved(name: str) -> InvalidModel:
    """Say that no file may hold a layer."""
    return InvalidModel(
        f"A {name} layer cannot be saved: a saved model is a Sequential of Linear, "
        "FixedProjection, MeanOfSigmoids, ReLU, Tanh, Sigmoid, GELU, LayerNorm and "
        "BatchNorm1d with running statistics. Leave out a final Softmax: the audit reads "
        "logits."
    )


def check_orthonormal(basis: np.ndarray) -> None:
    """Refuse rows to project away that are not orthonormal."""
    gap = np.abs(basis @ basis.T - np.eye(len(basis)))
    # Float32 products of unit rows of any length are this close to 0 and 1.
    if gap.size and not gap.max() < 1e-4:
        raise InvalidModel(
            f"The rows to project away are not orthonormal (off by {gap.max():.2g})."
        )


def _closed(
    layer: Layer,
    *,
    needed: tuple[str, ...] = (),
    allowed: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
) -> None:
    if set(layer.options) != set(options):
        raise InvalidFile(f"{layer.name} has other options than {', '.join(options) or 'none'}")
    missing = [name for name in needed if name not in layer.arrays]
    strange = [name for name in layer.arrays if name not in (*needed, *allowed)]
    if missing or strange:
        raise InvalidFile(f"{layer.name} has wrong weights ({', '.join(missing + strange)[:80]})")
    if layer.arrays.keys() == {"bias"}:
        raise InvalidFile(f"{layer.name} has a bias, but no weight")


def _matrix(weight: np.ndarray) -> tuple[int, int]:
    if weight.ndim != 2 or 0 in weight.shape:
        raise InvalidFile(f"a matrix has shape {weight.shape}")
    rows, inputs = weight.shape
    return rows, inputs


def _shapes(arrays: Mapping[str, np.ndarray], expected: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise InvalidFile(f"a {name} has shape {arrays[name].shape}, not {shape}")


def _fits(name: str, inputs: int, width: int | None) -> None:
    if width is not None and inputs != width:
        raise InvalidFile(f"{name} takes {inputs} columns, but is given {width}")


def _check_eps(options: Mapping[str, Any]) -> None:
    eps = options["eps"]
    if not isinstance(eps, float) or not (math.isfinite(eps) and 0 <= eps < 1):
        raise InvalidFile("eps is not a small positive number")


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
