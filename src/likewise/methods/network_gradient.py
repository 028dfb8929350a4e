"""Backpropagation of plain networks, written out in place, in first-layer coordinates.

A chain of linear layers and simple activations is what most audited networks are. Its gradient is
a few matrix products, and people enter it only through the first layer, :math:`h = Wx + b`: if a
state s displaces them by a linear map, it displaces h by one too, and the gradient with respect to
s is that map's transpose times the gradient with respect to h. No n × d matrix is touched on the
way. Arrays are laid out features × people, which suits the matrix products best.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, final

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import DTypeLike
from typing_extensions import override

from likewise.loss import Loss
from likewise.methods.flow_field import Coordinates
from likewise.methods.solvers import SemilinearField, State
from likewise.models.base import Affine, Model

THIN_ROWS = 3  # so many rows are multiplied faster one by one


@final
@dataclasses.dataclass(frozen=True, eq=False)
class PlainNetwork:
    """A chain of layers that ends in the logit of two classes, in some precision.

    Two logits are kept as one, their difference: the loss sees no more.
    """

    layers: tuple[Affine, ...]

    @classmethod
    def from_model(cls, model: Model, dtype: DTypeLike) -> "PlainNetwork | None":
        """Read a model as a plain network; ``None`` if it, or its loss, is anything else."""
        network, loss = model.network, model.loss
        plain = type(loss) is Loss and loss.name == "cross_entropy"
        if not network or not plain or model.card.output == "probabilities":
            return None
        *layers, last = network
        if len(last.bias) > 2:
            return None
        if len(last.bias) == 2:
            weight, bias = last.weight[1:] - last.weight[:1], last.bias[1:] - last.bias[:1]
            last = Affine(last.activation, weight, bias)
        for place, layer in enumerate(layers := [*layers, last]):
            weight = np.ascontiguousarray(layer.weight, dtype=dtype)
            layers[place] = Affine(layer.activation, weight, layer.bias.astype(dtype))
        return cls(tuple(layers))

    @property
    def factor(self) -> Float[np.ndarray, " m"]:
        """The weights of a second and last layer: `InplaceBackprop` leaves them out."""
        if len(self.layers) == 2:
            return self.layers[1].weight[0]
        return np.ones(len(self.layers[0].bias), dtype=self.layers[0].weight.dtype)


@final
class InplaceBackprop:
    """The gradient of some people's loss at the first layer, in memory used again and again.

    Memory fresh from the system for every product would cost more than the arithmetic.
    ``entry`` is where the first layer's output is to be put (it is used up). The weights of a
    second and last layer are left out of gradients: callers take them elsewhere
    (`PlainNetwork.factor`).
    """

    def __init__(self, network: PlainNetwork, y: Shaped[np.ndarray, " n"]) -> None:
        layers, dtype = network.layers, network.layers[0].weight.dtype
        # A row of ones below the values of each layer: the next product then adds the bias too.
        extended = [np.ones((len(layer.bias) + 1, len(y)), dtype) for layer in layers]
        values = [array[:-1] for array in extended]
        calls: list[Callable[[], Any]] = []
        for i, layer in enumerate(layers[1:]):
            calls += _activate(layer.activation, values[i])
            weight = np.hstack([layer.weight, layer.bias])
            calls.append(partial(np.matmul, weight, extended[i], out=values[i + 1]))
        calls += _loss_slope(values[-1], y)
        self.entry, slope = values[0], values[-1]
        self._last = _undo("", slope, slope)
        weights = [layer.weight for layer in layers]
        if len(weights) > 2:  # the weights of the output join those before
            weights[-2] = weights[-2] * weights[-1].T
        for i in reversed(range(1, len(layers))):
            active, back = values[i - 1], slope
            if i + 1 < len(layers):
                back = np.empty_like(active)
                calls.append(partial(np.matmul, weights[i].T, slope, out=back))
            self._last = _undo(layers[i].activation, back, active)
            if i > 1:
                calls.append(partial(self._last, active))
            slope = active
        self._calls = calls

    def gradient(self, out: Float[np.ndarray, "m n"]) -> None:
        r"""Write :math:`\nabla_h \ell`, the gradient at the first layer's output, to ``out``."""
        for call in self._calls:
            call()
        self._last(out)


def _loss_slope(
    out: Float[np.ndarray, "1 n"], y: Shaped[np.ndarray, " n"]
) -> list[Callable[[], Any]]:
    """Return what turns a logit into the loss's gradient, in its place."""
    # −s / (1 + exp(s × out)), where s = ±1 is the label: a small slope keeps all its digits.
    sign = (2 * y[None] - 1).astype(out.dtype)
    return [
        partial(np.multiply, out, sign, out=out),
        partial(np.exp, out, out=out),
        partial(np.add, out, 1, out=out),
        partial(np.divide, -sign, out, out=out),
    ]


def _activate(name: str, h: Float[np.ndarray, "m n"]) -> list[Callable[[], Any]]:
    """Return what applies an activation in place."""
    if name == "relu":  # with an array of zeros, which NumPy compares twice as fast as with one
        return [partial(np.maximum, h, np.zeros_like(h), out=h)]
    if name == "tanh":
        return [partial(np.tanh, h, out=h)]
    if name == "sigmoid":  # σ(h) = (1 + tanh(h/2)) / 2: tanh is several times faster than expit
        half = partial(np.multiply, h, 0.5, out=h)
        return [half, partial(np.tanh, h, out=h), partial(np.add, h, 1, out=h), half]
    return []


def _undo(
    name: str, slope: Float[np.ndarray, "k n"], active: Float[np.ndarray, "m n"]
) -> Callable[[np.ndarray], Any]:
    """Return what writes the gradient in front of an activation, given that behind it."""
    if not name:
        return lambda out: np.copyto(out, slope)
    scratch = np.empty(active.shape, dtype=bool if name == "relu" else active.dtype)

    def undo(out: np.ndarray) -> None:
        if name == "relu":
            np.greater(active, 0, out=scratch)
        else:  # 1 − v² for tanh, v − v² for the sigmoid
            np.multiply(active, active, out=scratch)
            np.subtract(1 if name == "tanh" else active, scratch, out=scratch)
        np.multiply(slope, scratch, out=out)

    return undo


@final
@dataclasses.dataclass(frozen=True, eq=False)
class FirstLayerCoordinates:
    r"""How the states of a solver enter a network, :math:`h = h_0 + Ds`, and what they mean.

    What costs can be kept as a displacement v, or as weights a of the rows of the first layer:
    :math:`v = a^\top W P`, with the projection P away from the free directions. The second is as
    exact, and shorter where a layer is narrower than twice its input; it needs a metric with one
    rate, so that the penalty pulls on all weights alike.

    ``into`` is the matrix :math:`D`, and ``back`` its transpose, from gradients at the first layer
    to velocities of the state; of weights, for the free coordinates alone. ``rows`` are then the
    displacements that the numbers of a state stand for.
    """

    network: PlainNetwork
    coordinates: Coordinates
    rates: Float[np.ndarray, " r"]
    into: Float[np.ndarray, "m r"]
    back: Float[np.ndarray, "q m"]
    rows: Float[np.ndarray, "r d"] | None = None

    @classmethod
    def from_coordinates(
        cls, network: PlainNetwork, coordinates: Coordinates
    ) -> "FirstLayerCoordinates":
        """Return how states in ``coordinates`` enter ``network``, by the shorter of two ways."""
        (m, d), factor = network.layers[0].weight.shape, network.factor
        into = coordinates.lower(network.layers[0].weight)
        if not coordinates.thin or m >= 2 * d:
            back = np.ascontiguousarray(into.T * factor)
            return cls(network, coordinates, coordinates.rates, into, back)
        costly, along = into[:, :d], into[:, d:]
        return cls(
            network,
            coordinates,
            rates=np.concatenate([np.repeat(coordinates.rates[:1], m), coordinates.rates[d:]]),
            into=np.hstack([costly @ costly.T * factor, along]),
            back=along.T * factor,
            rows=np.concatenate([costly * factor[:, None], coordinates.directions]),
        )


@final
class NetworkField(SemilinearField):
    """The field for a plain network."""

    def __init__(
        self,
        first: FirstLayerCoordinates,
        x0: Float[np.ndarray, "n d"],
        y: Shaped[np.ndarray, " n"],
    ) -> None:
        self.first, self.rates = first, first.rates
        layer = first.network.layers[0]
        self.h0 = layer.weight @ x0.T + layer.bias
        self.backprop = InplaceBackprop(first.network, y)
        self.slope = np.empty_like(self.h0) if first.rows is None else None

    @override
    def displacement(self, state: State) -> Float[np.ndarray, "n d"]:
        rows = self.first.rows
        return self.first.coordinates.lift(state) if rows is None else state.T @ rows

    @override
    def nonlinear(self, x: State, out: State) -> None:
        entry, width = self.backprop.entry, len(self.h0)
        np.add(np.matmul(self.first.into, x, out=entry), self.h0, out=entry)
        slope, velocity = (out[:width], out[width:]) if self.slope is None else (self.slope, out)
        self.backprop.gradient(slope)
        rows = np.s_[:, None] if len(velocity) <= THIN_ROWS else np.s_[:]
        np.matmul(self.first.back[rows], slope, out=velocity[rows])
