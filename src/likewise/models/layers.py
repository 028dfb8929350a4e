r"""Networks of known layers, run in NumPy: saved networks, scikit-learn's, and linear models.

A layer :math:`f` returns its outputs and its pullback :math:`g \mapsto g J_f`, row by row. Most
audited networks are plain: linear layers with simple activations between them. Their gradients are
a few matrix products, and x enters only through the first layer, so that the flow can be computed
there.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float
from scipy.special import expit
from typing_extensions import override

from likewise.errors import InvalidFile
from likewise.loss import Output, Outputs
from likewise.models.base import Affine, Model, ModelCard, Pullback

Rows = Float[np.ndarray, "n _"]
Step = tuple[Rows, Pullback]

_ARRAYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ReLU", "Tanh", "Sigmoid"), ()),
    "Linear": ("weight", "bias"),
    "FixedProjection": ("basis",),
    "MeanOfSigmoids": ("log_weight",),
}
"""The arrays of each layer that can be run, and that files hold."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """One layer of a network, as a file holds it: its name and its arrays."""

    name: str
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


def linear(weight: Any, bias: Any) -> Layer:
    """Return a linear layer; ``weight`` has a row for each output, ``bias`` may be one number."""
    matrix = np.atleast_2d(np.asarray(weight, dtype=np.float64))
    offset = np.broadcast_to(np.asarray(bias, dtype=np.float64), matrix.shape[:1])
    return Layer("Linear", {"weight": matrix, "bias": offset})


def arrays_of(layers: Sequence[Layer]) -> dict[str, np.ndarray]:
    """Return the arrays of layers by name, such as ``0.weight``."""
    return {
        f"{index}.{name}": np.ascontiguousarray(array)
        for index, layer in enumerate(layers)
        for name, array in layer.arrays.items()
    }


def named_layers(names: Sequence[str], tensors: Mapping[str, np.ndarray]) -> tuple[Layer, ...]:
    """Rebuild layers from names and weights that may be anything."""
    own: dict[str, dict[str, np.ndarray]] = {str(index): {} for index in range(len(names))}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        if index not in own:
            raise InvalidFile(f"its weights {name[:40]!r} belong to no layer")
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise InvalidFile(f"its weights {name[:40]!r} are not finite numbers")
        own[index][key] = tensor.astype(np.float64)
    return tuple(_checked(*both) for both in zip(names, own.values(), strict=True))


def _checked(name: str, arrays: Mapping[str, np.ndarray]) -> Layer:
    """Return a layer; refuse one that is not in the list, or lacks what it needs."""
    if name not in _ARRAYS:
        raise InvalidFile(f"it has a layer {name[:40]!r}, which is not in the list")
    if set(arrays) != set(_ARRAYS[name]):
        raise InvalidFile(f"{name} has weights {', '.join(sorted(arrays))[:80] or 'of no name'}")
    for key, array in arrays.items():
        if array.ndim != 1 + (key in ("weight", "basis")) or not array.size:
            raise InvalidFile(f"a {key} of {name} has shape {array.shape}")
    if name == "Linear" and len(arrays["weight"]) != len(arrays["bias"]):
        raise InvalidFile(f"a bias has shape {arrays['bias'].shape}")
    if name == "FixedProjection":  # earlier versions wrote it: rows whose directions are removed
        basis = arrays["basis"]
        return linear(np.eye(basis.shape[1]) - basis.T @ basis, 0)
    return Layer(name, arrays)


def plain_network(layers: Iterable[Layer]) -> tuple[Affine, ...]:
    """Read layers as a plain network; nothing if there is anything else among them."""
    found: list[Affine] = []
    activation = ""
    for layer in layers:
        if layer.name == "Linear":
            weight, bias = layer.arrays["weight"], layer.arrays["bias"][:, None]
            if found and not activation:  # two in a row are one
                first = found.pop()
                weight, bias = weight @ first.weight, weight @ first.bias + bias
                activation = first.activation
            found.append(Affine(activation, weight, bias))
            activation = ""
        elif layer.name in _FUNCTIONS and found and not activation:
            activation = layer.name.lower()
        else:
            return ()
    return () if activation else tuple(found)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class LayeredModel(Model):
    """A network of known layers that feed each other, run in float64."""

    card: ModelCard
    layers: tuple[Layer, ...]

    @override
    def __call__(self, x: Rows) -> Outputs:
        return self.outputs_and_pullback(x)[0]

    @override
    def outputs_and_pullback(self, x: Rows) -> tuple[Outputs, Pullback]:
        ways: list[Pullback] = []
        x = x.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):  # whoever diverged is counted, and warned of, elsewhere
            for layer in self.layers:
                x, way = STEPS[layer.name](layer, x)
                ways.append(way)

        def pullback(g: Rows) -> Rows:
            with np.errstate(all="ignore"):
                for way in reversed(ways):
                    g = way(g)
            return g

        return x, pullback

    @functools.cached_property
    @override
    def network(self) -> tuple[Affine, ...]:
        return plain_network(self.layers)


def from_layers(
    layers: Sequence[Layer],
    *,
    output: Output | None = None,
    classes: tuple[Any, ...] = (),
    kind: str = "network",
) -> LayeredModel:
    """Turn layers in float64 into a model that takes as many inputs as the first with weights."""
    weights = (layer.arrays[name] for layer in layers for name in _ARRAYS[layer.name][:1])
    width = next((int(array.shape[-1]) for array in weights), None)
    digest = hashlib.sha256(" ".join(layer.name for layer in layers).encode())
    for name, array in arrays_of(layers).items():
        digest.update(f"{name} {array.shape}".encode() + array.tobytes())
    card = ModelCard(kind, output, classes, width, fingerprint=digest.hexdigest())
    return LayeredModel(card, tuple(layers))


def probe_rows(width: int) -> Float[np.ndarray, "16 d"]:
    """Return a few rows to compare a network with what was read of it."""
    return np.ascontiguousarray(np.linspace(-2, 2, 16 * width).reshape(width, 16).T)


def _linear(layer: Layer, x: Rows) -> Step:
    weight = layer.arrays["weight"]
    return x @ weight.T + layer.arrays["bias"], lambda g: g @ weight


def _activation(layer: Layer, x: Rows) -> Step:
    function, slope = _FUNCTIONS[layer.name]
    out = function(x)
    return out, lambda g: g * slope(out)


_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "ReLU": (lambda x: np.maximum(x, 0), lambda out: out > 0),
    "Tanh": (np.tanh, lambda out: 1 - out * out),
    "Sigmoid": (expit, lambda out: out * (1 - out)),
}
"""Activations, and their slopes as functions of what they return."""


def _mean_of_sigmoids(layer: Layer, x: Rows) -> Step:
    sides = np.stack([-x, x], axis=1)
    both = layer.arrays["log_weight"] - np.logaddexp(0, -sides)
    out = np.logaddexp.reduce(both, axis=2)

    def back(g: Rows) -> Rows:
        shares = np.exp(both - out[:, :, None]) * expit(-sides) * g[:, :, None]
        return shares[:, 1] - shares[:, 0]

    return out, back


STEPS: dict[str, Callable[[Layer, Any], Step]] = {
    "Linear": _linear,
    "MeanOfSigmoids": _mean_of_sigmoids,
    **dict.fromkeys(_FUNCTIONS, _activation),
}
