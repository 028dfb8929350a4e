"""The loss gradient of plain networks, written out: one pass over a block, no bookkeeping.

A chain of linear layers and simple activations is what most audited networks are. Its gradient is
a few matrix products, and x enters only through the first layer, so the flow can be computed
there. Arrays are laid out features × people, which suits the matrix products best.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, final

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import DTypeLike

from likewise.losses import Loss
from likewise.models.base import Model
from likewise.models.layers import Affine


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Ascent:
    """A plain network and the loss of its outputs, in some precision.

    Parameters
    ----------
    layers
        In their order. Two logits are kept as one, their difference: the loss sees no more.
    loss
        The loss of the outputs.
    """

    layers: tuple[Affine, ...]
    loss: Loss

    @classmethod
    def of(cls, model: Model, dtype: DTypeLike) -> "Ascent | None":
        """Read a model as a plain network; ``None`` if it, or its loss, is anything else."""
        network = model.network
        if network is None or type(model.loss) is not Loss or model.card.output == "probabilities":
            return None
        *before, last = network.layers
        if model.loss.name == "cross_entropy" and len(last.bias) == 2:
            weight, bias = last.weight[1:] - last.weight[:1], last.bias[1:] - last.bias[:1]
            last = Affine(last.activation, weight, bias)
        cast = (
            Affine(
                layer.activation,
                np.ascontiguousarray(layer.weight, dtype=dtype),
                layer.bias.astype(dtype),
            )
            for layer in (*before, last)
        )
        return cls(tuple(cast), model.loss)

    def enter(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m n"]:
        """Return what the first layer makes of people."""
        first = self.layers[0]
        return first.weight @ x.T + first.bias

    def passage(self, n: int, y: Shaped[np.ndarray, " n"], *, scaled: bool = True) -> "Passage":
        """Prepare the way of ``n`` people with labels ``y`` through the network and back.

        Parameters
        ----------
        scaled
            Without it, the weights of a second layer with one output are left out of gradients:
            they are a constant factor of each row, which a caller can take elsewhere.
        """
        dtype = self.layers[0].weight.dtype
        # A row of ones below the values of each layer: the next product then adds the bias too.
        rooms = [np.ones((len(layer.bias) + 1, n), dtype) for layer in self.layers]
        values = [room[:-1] for room in rooms]
        calls: list[Callable[[], Any]] = []
        for i, layer in enumerate(self.layers[1:]):
            calls += _activate(layer.activation, values[i])
            weight = np.hstack([layer.weight, layer.bias])
            calls.append(partial(np.matmul, weight, rooms[i], out=values[i + 1]))
        calls += _loss_slope(self.loss, values[-1], y)
        at_output = slope = values[-1]
        last = _undo("", slope, slope)
        weights = [layer.weight for layer in self.layers]
        if len(slope) == 1 and len(weights) > 2:  # the only weights of an output join those before
            weights[-2] = weights[-2] * weights[-1].T
        for i in reversed(range(1, len(self.layers))):
            layer, active, back = self.layers[i], values[i - 1], slope
            if len(slope) > 1:
                back = np.empty_like(active)
                calls.append(partial(np.matmul, weights[i].T, slope, out=back))
            elif scaled and i == 1:  # for a single output faster than a matrix product
                back = np.empty_like(active)
                calls.append(partial(np.multiply, weights[i].T, slope, out=back))
            last = _undo(layer.activation, back, active)
            if i > 1:
                calls.append(partial(last, active))
            slope = active
        return Passage(values[0], tuple(calls), last, at_output)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Passage:
    """The way of one block through a network and back, in memory that is used again and again.

    Memory fresh from the system for every product would cost more than the arithmetic.

    Parameters
    ----------
    entry
        Where the first layer's output is to be put; it is used up.
    calls
        What is done then, in turn.
    last
        What writes the gradient at the first layer's output to its argument, at the end.
    slope
        Where the loss's slope at the outputs stands then.
    """

    entry: Float[np.ndarray, "m n"]
    calls: tuple[Callable[[], Any], ...]
    last: Callable[[np.ndarray], Any]
    slope: Float[np.ndarray, "k n"]

    def gradient(self, out: Float[np.ndarray, "m n"]) -> None:
        r"""Write :math:`\nabla_h \ell`, the gradient at the first layer's output, to ``out``."""
        for call in self.calls:
            call()
        self.last(out)


def _loss_slope(
    loss: Loss, out: Float[np.ndarray, "k n"], y: Shaped[np.ndarray, " n"]
) -> list[Callable[[], Any]]:
    """Return what turns outputs into the loss's gradient, in their place."""
    if loss.name in ("squared", "absolute"):
        away = partial(np.subtract, out, y.astype(out.dtype), out=out)
        if loss.name == "squared":
            return [away, partial(np.multiply, out, 2, out=out)]
        return [away, partial(np.sign, out, out=out)]
    if len(out) == 1:
        # −s / (1 + exp(s × out)), where s = ±1 is the label: a small slope keeps all its digits.
        sign = (2 * y[None] - 1).astype(out.dtype)
        return [
            partial(np.multiply, out, sign, out=out),
            partial(np.exp, out, out=out),
            partial(np.add, out, 1, out=out),
            partial(np.divide, -sign, out, out=out),
        ]
    return [partial(_softmax_slope, out, y, np.arange(len(y)))]


def _softmax_slope(
    out: Float[np.ndarray, "k n"], y: Shaped[np.ndarray, " n"], people: Shaped[np.ndarray, " n"]
) -> None:
    out -= out.max(axis=0)
    np.exp(out, out=out)
    out /= out.sum(axis=0)
    out[y, people] -= 1


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
    if name == "relu":
        mask = np.empty(active.shape, dtype=bool)

        def undo_relu(out: np.ndarray) -> None:
            np.greater(active, 0, out=mask)
            np.multiply(slope, mask, out=out)

        return undo_relu
    if name == "tanh":

        def undo_tanh(out: np.ndarray) -> None:
            np.multiply(active, active, out=active)
            np.subtract(1, active, out=active)
            np.multiply(slope, active, out=out)

        return undo_tanh
    if name == "sigmoid":
        room = np.empty_like(active)

        def undo_sigmoid(out: np.ndarray) -> None:
            np.subtract(1, active, out=room)
            np.multiply(active, room, out=active)
            np.multiply(slope, active, out=out)

        return undo_sigmoid
    return lambda out: np.copyto(out, slope)
