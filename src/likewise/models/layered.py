r"""Networks of known layers, run in NumPy: saved networks, scikit-learn's, and linear models.

A layer :math:`f` returns its outputs and its pullback :math:`g \mapsto g J_f`, row by row.
"""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, ndtr
from typing_extensions import override

from likewise.losses import Output
from likewise.models.base import Front, Model, ModelCard, Pullback, Reference, Steps
from likewise.models.layers import Layer, Network, plain_network

NUMBERS = 2**16
"""Numbers in one array on the way through a network (512 kB): as many as stay in cache."""

Rows = Float[np.ndarray, "n _"]
Step = tuple[Rows, Pullback]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """Layers that feed each other, with float64 arrays: a network before anyone asks it anything.

    Parameters
    ----------
    layers
        In the order they are run.
    """

    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(layer.double() for layer in self.layers))

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Return the outputs, row by row."""
        return run(self.layers, x)

    @property
    def width(self) -> int | None:
        """How many inputs the first layer that says so takes."""
        for layer in self.layers:
            if "width" in layer.options:
                return int(layer.options["width"])
            if layer.arrays:  # a matrix counts before a bias
                return max((array.ndim, array.shape[-1]) for array in layer.arrays.values())[1]
        return None

    @property
    def fingerprint(self) -> str:
        """A sha256 of the layers and their weights."""
        digest = hashlib.sha256()
        for layer in self.layers:
            digest.update(json.dumps([layer.name, dict(layer.options)], sort_keys=True).encode())
            for name, array in sorted(layer.arrays.items()):
                digest.update(f"{name} {array.shape}".encode() + array.tobytes())
        return digest.hexdigest()


@final
@dataclasses.dataclass(frozen=True, eq=False)
class LayeredModel(Model):
    """A network of known layers, run in float64.

    Parameters
    ----------
    card
        What is known of it.
    chain
        Its layers.
    declared
        Whether someone said what the outputs mean.
    says
        What a file says it returns, if its last softmax or sigmoid was left out to read logits.
    """

    card: ModelCard
    chain: Chain
    declared: bool = True
    reference: Reference | None = None
    front: Front | None = None
    says: Output | None = None

    @override
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        return run(self.chain.layers, x.astype(np.float64, copy=False))

    @override
    def outputs_and_pullback(
        self, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n k"], Pullback]:
        return run_and_pull(self.chain.layers, x.astype(np.float64, copy=False))

    @override
    def along(
        self,
        x0: Float[np.ndarray, "n d"],
        axes: Float[np.ndarray, "r d"],
        far: Float[np.ndarray, " n"],
    ) -> Steps:
        first, *rest = self.chain.layers
        if first.name != "Linear":
            return super().along(x0, axes, far)
        # People enter through the first layer alone: a step there is as wide as the layer.
        entry = run([first], x0.astype(np.float64, copy=False))
        into = axes @ first.arrays["weight"].T

        def outputs(
            steps: Float[np.ndarray, "q m r"], who: Int[np.ndarray, " q"]
        ) -> Float[np.ndarray, "_ k"]:
            n, m, r = steps.shape
            size = max(1, NUMBERS // (m * entry.shape[1]))
            parts = []
            for start in range(0, max(n, 1), size):
                some = steps[start : start + size]
                h = (some.reshape(len(some) * m, r) @ into).reshape(len(some), m, len(into.T))
                h += entry[who[start : start + size], None]
                parts.append(run(rest, h.reshape(len(some) * m, len(into.T))))
            return np.concatenate(parts)

        return outputs

    @functools.cached_property
    @override
    def network(self) -> Network | None:
        return plain_network(self.chain.layers)


def from_chain(
    chain: Chain,
    *,
    output: Output | None = None,
    classes: tuple[Any, ...] = (),
    kind: str = "network",
) -> LayeredModel:
    """Turn layers into a model."""
    card = ModelCard(
        kind=kind,
        task="regression" if output == "values" else "classification",
        output=output or "logits",
        classes=classes,
        n_features=chain.width,
        fingerprint=chain.fingerprint,
    )
    return LayeredModel(card, chain, declared=output is not None)


def probe_rows(width: int) -> Float[np.ndarray, "16 d"]:
    """Return a few rows to compare a network with what was read of it."""
    return np.ascontiguousarray(np.linspace(-2, 2, 16 * width).reshape(width, 16).T)


def run(layers: Sequence[Layer], x: Rows) -> Rows:
    """Return what layers make of rows, one after the other."""
    with np.errstate(all="ignore"):  # whoever diverged is counted, and warned of, elsewhere
        for layer in layers:
            x, _ = _STEPS[layer.name](layer, x)
    return x


def run_and_pull(layers: Sequence[Layer], x: Rows) -> Step:
    """Return what layers make of rows, and the way back."""
    ways: list[Pullback] = []
    with np.errstate(all="ignore"):
        for layer in layers:
            x, way = _STEPS[layer.name](layer, x)
            ways.append(way)

    def pullback(g: Rows) -> Rows:
        with np.errstate(all="ignore"):
            for way in reversed(ways):
                g = way(g)
        return g

    return x, pullback


def _linear(layer: Layer, x: Rows) -> Step:
    weight = layer.arrays["weight"]
    out = x @ weight.T
    if "bias" in layer.arrays:
        out += layer.arrays["bias"]
    return out, lambda g: g @ weight


def _projection(layer: Layer, x: Rows) -> Step:
    basis = layer.arrays["basis"]

    def project(v: Rows) -> Rows:
        return v - (v @ basis.T) @ basis

    return project(x), project  # a projection is its own transpose


def _relu(layer: Layer, x: Rows) -> Step:
    return np.maximum(x, 0), lambda g: g * (x > 0)


def _tanh(layer: Layer, x: Rows) -> Step:
    out = np.tanh(x)
    return out, lambda g: g * (1 - out * out)


def _sigmoid(layer: Layer, x: Rows) -> Step:
    out = expit(x)
    return out, lambda g: g * (out * (1 - out))


def _log_sigmoid(layer: Layer, x: Rows) -> Step:
    return -np.logaddexp(0, -x), lambda g: g * expit(-x)


def _exponential(layer: Layer, x: Rows) -> Step:
    out = np.exp(x)
    return out, lambda g: g * out


def _gelu(layer: Layer, x: Rows) -> Step:
    if layer.options["approximate"] == "tanh":
        root = math.sqrt(2 / math.pi)
        bend = np.tanh(root * (x + 0.044715 * x**3))
        inner = root * (1 + 3 * 0.044715 * x**2)
        slope = 0.5 * (1 + bend) + 0.5 * x * (1 - bend * bend) * inner
        return 0.5 * x * (1 + bend), lambda g: g * slope
    below = ndtr(x)
    slope = below + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * below, lambda g: g * slope


def _layer_norm(layer: Layer, x: Rows) -> Step:
    weight, bias = layer.arrays.get("weight", 1.0), layer.arrays.get("bias", 0.0)
    centred = x - x.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + layer.options["eps"])
    scaled = centred / spread

    def back(g: Rows) -> Rows:
        g = g * weight
        along = (g * scaled).mean(axis=1, keepdims=True)
        return (g - g.mean(axis=1, keepdims=True) - scaled * along) / spread

    return scaled * weight + bias, back


def _batch_norm(layer: Layer, x: Rows) -> Step:
    arrays = layer.arrays
    scale = arrays.get("weight", 1.0) / np.sqrt(arrays["running_var"] + layer.options["eps"])
    return (x - arrays["running_mean"]) * scale + arrays.get("bias", 0.0), lambda g: g * scale


def _mean_of_sigmoids(layer: Layer, x: Rows) -> Step:
    sides = np.stack([-x, x], axis=1)
    both = layer.arrays["log_weight"] - np.logaddexp(0, -sides)
    out = np.logaddexp.reduce(both, axis=2)

    def back(g: Rows) -> Rows:
        shares = np.exp(both - out[:, :, None]) * expit(-sides) * g[:, :, None]
        return shares[:, 1] - shares[:, 0]

    return out, back


_STEPS: dict[str, Callable[[Layer, Any], Step]] = {
    "Linear": _linear,
    "FixedProjection": _projection,
    "MeanOfSigmoids": _mean_of_sigmoids,
    "ReLU": _relu,
    "Tanh": _tanh,
    "Sigmoid": _sigmoid,
    "LogSigmoid": _log_sigmoid,
    "Exponential": _exponential,
    "GELU": _gelu,
    "LayerNorm": _layer_norm,
    "BatchNorm1d": _batch_norm,
}
