r"""What each layer of a network does to rows, and to the gradients that come back through it.

A layer :math:`f` returns its outputs and its pullback :math:`g \mapsto g J_f`, row by row.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit, ndtr

from likewise.models.base import Pullback
from likewise.models.layers import Layer

Rows = Float[np.ndarray, "n _"]
Step = tuple[Rows, Pullback]


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
