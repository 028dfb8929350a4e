"""Networks of known layers, run in NumPy: saved networks, scikit-learn's, and linear models."""

import dataclasses
import functools
import hashlib
import json
from typing import Any, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.losses import Output
from likewise.models.base import Front, Model, ModelCard, Pullback, Reference, Steps
from likewise.models.forward import run, run_and_pull
from likewise.models.layers import Layer, Network, plain_network

NUMBERS = 2**16
"""Numbers in one array on the way through a network (512 kB): as many as stay in cache."""


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
    def along(self, x0: Float[np.ndarray, "n d"], axes: Float[np.ndarray, "r d"]) -> Steps:
        first, *rest = self.chain.layers
        if first.name != "Linear":
            return super().along(x0, axes)
        # People enter through the first layer alone: a step there is as wide as the layer.
        entry = run([first], x0.astype(np.float64, copy=False))
        into = axes @ first.arrays["weight"].T

        def outputs(steps: Float[np.ndarray, "n m r"]) -> Float[np.ndarray, "_ k"]:
            n, m, r = steps.shape
            size = max(1, NUMBERS // (m * entry.shape[1]))
            parts = []
            for start in range(0, max(n, 1), size):
                some = steps[start : start + size]
                h = (some.reshape(len(some) * m, r) @ into).reshape(len(some), m, len(into.T))
                h += entry[start : start + size, None]
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
