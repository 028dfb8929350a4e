"""The loss gradient of plain networks, written out: one pass over a block, no bookkeeping.

A chain of linear layers and simple activations is what most audited networks are. Its gradient is
a few matrix products, and x enters only through the first layer, so the flow can be computed
there. Tensors are laid out features × people, which suits the matrix products best.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from likewise.errors import InvalidModel
from likewise.losses import Loss
from likewise.models.base import Model
from likewise.models.chain import chain
from likewise.models.layers import FixedProjection
from likewise.models.torch_module import TorchModel

_ACTIVATIONS = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}


@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
    """A linear layer, with the activation that comes before it (none before the first)."""

    activation: str
    weight: Float[Tensor, "k m"]
    bias: Float[Tensor, "k 1"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """A chain of linear layers and activations, and the loss of its outputs.

    Parameters
    ----------
    layers
        In their order. Two logits are kept as one, their difference: the loss sees no more.
    loss
        The loss of the outputs.
    """

    layers: tuple[Affine, ...]
    loss: Loss

    def enter(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "m n"]:
        """Return what the first layer makes of people."""
        first = self.layers[0]
        return torch.addmm(first.bias, first.weight, x.T)

    def passage(self, n: int, y: Shaped[Tensor, " n"], *, scaled: bool = True) -> "Passage":
        """Prepare the way of ``n`` people with labels ``y`` through the network and back.

        Parameters
        ----------
        scaled
            Without it, the weights of a second layer with one output are left out of gradients:
            they are a constant factor of each row, which a caller can take elsewhere.
        """
        room = self.layers[0].weight.new_empty
        values = [room(len(layer.bias), n) for layer in self.layers]
        calls: list[Callable[[], Any]] = []
        for i, layer in enumerate(self.layers[1:]):
            calls += _activate(layer.activation, values[i])
            calls.append(
                partial(torch.addmm, layer.bias, layer.weight, values[i], out=values[i + 1])
            )
        calls += self._loss_slope(values[-1], y)
        slope = values[-1]
        last = _undo("", slope, slope)
        for i in reversed(range(1, len(self.layers))):
            layer, active, back = self.layers[i], values[i - 1], slope
            if len(slope) > 1:
                back = room(len(active), n)
                calls.append(partial(torch.mm, layer.weight.T, slope, out=back))
            elif scaled:  # for a single output faster than a matrix product
                back = room(len(active), n)
                calls.append(partial(torch.mul, layer.weight.T, slope, out=back))
            last = _undo(layer.activation, back.expand_as(active), active)
            if i > 1:
                calls.append(partial(last, active))
            slope = active
        return Passage(values[0], tuple(calls), last)

    def _loss_slope(
        self, out: Float[Tensor, "k n"], y: Shaped[Tensor, " n"]
    ) -> list[Callable[[], Any]]:
        """Return what turns outputs into the loss's gradient, in their place."""
        if self.loss.name == "squared":
            return [partial(out.sub_, y.to(out)), partial(out.mul_, 2)]
        if self.loss.name == "absolute":
            return [partial(out.sub_, y.to(out)), out.sign_]
        if len(out) == 1:
            opposite = (1 - 2 * y[None]).to(out)
            return [partial(out.mul_, opposite), out.sigmoid_, partial(out.mul_, opposite)]
        minus_one = torch.full((1, out.shape[1]), -1.0).to(out)
        return [
            partial(torch.softmax, out, dim=0, out=out),
            partial(out.scatter_add_, 0, y[None], minus_one),
        ]


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
    """

    entry: Float[Tensor, "m n"]
    calls: tuple[Callable[[], Any], ...]
    last: Callable[[Tensor], Any]

    def gradient(self, out: Float[Tensor, "m n"]) -> None:
        r"""Write :math:`\nabla_h \ell`, the gradient at the first layer's output, to ``out``."""
        for call in self.calls:
            call()
        self.last(out)


def read_network(model: Model, dtype: torch.dtype) -> Network | None:
    """Read a model as a plain network; ``None`` if it is anything else."""
    if not isinstance(model, TorchModel) or not isinstance(model.module, nn.Module):
        return None
    if type(model.loss) is not Loss or model.card.output == "probabilities":
        return None
    try:
        layers = _affine(chain(model.module))
    except InvalidModel:
        return None
    if not layers:
        return None
    last = layers[-1]
    if model.loss.name == "cross_entropy" and len(last.bias) == 2:
        weight, bias = last.weight[1:] - last.weight[:1], last.bias[1:] - last.bias[:1]
        layers = [*layers[:-1], Affine(last.activation, weight, bias)]
    cast = (
        Affine(layer.activation, layer.weight.to(dtype).contiguous(), layer.bias.to(dtype))
        for layer in layers
    )
    return Network(tuple(cast), model.loss)


def _affine(layers: list[nn.Module]) -> list[Affine]:
    """Return the linear layers and what lies between them; none if something else does."""
    found: list[Affine] = []
    activation = ""
    removed: Tensor | None = None
    for layer in layers:
        if isinstance(layer, nn.Linear):
            weight = layer.weight.detach().double()
            if removed is not None:
                weight, removed = weight - (weight @ removed.T) @ removed, None
            bias = layer.state_dict().get("bias", weight.new_zeros(len(weight)))
            found.append(Affine(activation, weight, bias.double()[:, None]))
            activation = ""
        elif isinstance(layer, FixedProjection) and removed is None:
            removed = layer.basis.double()
        elif type(layer) in _ACTIVATIONS and found and not activation and removed is None:
            activation = _ACTIVATIONS[type(layer)]
        else:
            return []
    return [] if activation or removed is not None else found


def _activate(name: str, h: Tensor) -> list[Callable[[], Any]]:
    """Return what applies an activation in place."""
    in_place = {"relu": h.relu_, "tanh": h.tanh_, "sigmoid": h.sigmoid_}
    return [in_place[name]] if name else []


def _undo(name: str, slope: Tensor, active: Tensor) -> Callable[[Tensor], Any]:
    """Return what writes the gradient in front of an activation, given that behind it."""
    aten = torch.ops.aten
    if name == "relu":
        return lambda out: aten.threshold_backward.grad_input(slope, active, 0, grad_input=out)
    if name == "tanh":
        return lambda out: aten.tanh_backward.grad_input(slope, active, grad_input=out)
    if name == "sigmoid":
        return lambda out: aten.sigmoid_backward.grad_input(slope, active, grad_input=out)
    return lambda out: out.copy_(slope)
