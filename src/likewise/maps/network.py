"""The loss gradient of plain networks, written out: one pass over a block, no bookkeeping.

A chain of linear layers and simple activations is what most audited networks are. Its gradient is
a few matrix products, and x enters only through the first layer, so the flow can be computed
there. Tensors are laid out features × people, which suits the matrix products best.
"""

import dataclasses
from typing import final

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

    def target(self, y: Shaped[Tensor, " n"]) -> Shaped[Tensor, "1 n"]:
        """Return labels in the form that `gradient` takes."""
        width = len(self.layers[-1].bias)
        if self.loss.name == "cross_entropy":
            return y[None] if width > 1 else (1 - 2 * y[None]).to(self.layers[0].weight)
        return y[None].to(self.layers[0].weight)

    def gradient(
        self,
        h: Float[Tensor, "m n"],
        target: Shaped[Tensor, "1 n"],
        out: Float[Tensor, "m n"],
        *,
        scaled: bool = True,
    ) -> None:
        r"""Write :math:`\nabla_h \ell`, the gradient at the first layer's output, to ``out``.

        ``h`` is used up. Without ``scaled``, the weights of a second layer with one output are
        left out; they are a constant factor of each row, which a caller can take elsewhere.
        """
        outputs = [h]
        for layer in self.layers[1:]:
            active = _activate(layer.activation, outputs[-1])
            outputs.append(torch.addmm(layer.bias, layer.weight, active))
        slope = self._loss_slope(outputs.pop(), target)
        for layer in reversed(self.layers[1:]):
            # For a single output a broadcast product is faster than a matrix product.
            if len(slope) > 1:
                slope = layer.weight.T @ slope
            elif scaled:
                slope = layer.weight.T * slope
            active = outputs.pop()
            _undo(layer.activation, slope, active, active if outputs else out)
            slope = active
        if len(self.layers) == 1:
            out.copy_(slope)

    def _loss_slope(self, out: Float[Tensor, "k n"], target: Shaped[Tensor, "1 n"]) -> Tensor:
        if self.loss.name == "squared":
            return 2 * (out - target)
        if self.loss.name == "absolute":
            return torch.sign(out - target)
        if len(out) == 1:  # the target is minus the sign of the true class
            return torch.sigmoid(out * target).mul_(target)
        one = torch.ones(1, 1, dtype=out.dtype).expand(1, out.shape[1])
        return torch.softmax(out, dim=0).scatter_add_(0, target, -one)


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


def _activate(name: str, h: Tensor) -> Tensor:
    """Apply an activation in place."""
    if name == "relu":
        return h.clamp_(min=0)
    if name == "tanh":
        return h.tanh_()
    return h.sigmoid_() if name == "sigmoid" else h


def _undo(name: str, slope: Tensor, active: Tensor, out: Tensor) -> None:
    """Write the gradient in front of an activation, given that behind it, to ``out``."""
    slope = slope.expand_as(active)
    if name == "relu":
        torch.ops.aten.threshold_backward(slope, active, 0, grad_input=out)
    elif name == "tanh":
        torch.ops.aten.tanh_backward(slope, active, grad_input=out)
    elif name == "sigmoid":
        torch.ops.aten.sigmoid_backward(slope, active, grad_input=out)
    else:
        out.copy_(slope)
