"""A torch network as a chain of layers, each fed by the one before, however it was written."""

import itertools
import operator
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, fx, nn
from torch.nn import functional as F
from typing_extensions import override

from likewise.errors import InvalidModel, in_short
from likewise.models.layers import Layer, check_orthonormal, unsaved

_SILENT = (nn.Identity, nn.Dropout, nn.AlphaDropout)  # in evaluation mode they do nothing
_FUNCTIONS: dict[Any, Callable[[], nn.Module]] = {
    **dict.fromkeys((torch.relu, F.relu, "relu"), nn.ReLU),
    **dict.fromkeys((torch.tanh, F.tanh, "tanh"), nn.Tanh),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid"), nn.Sigmoid),
    F.gelu: nn.GELU,
    F.dropout: nn.Identity,
}


@final
class FixedProjection(nn.Module):
    r"""A layer that removes directions from its input: :math:`x - (x Q^\top) Q`.

    Parameters
    ----------
    basis
        Orthonormal rows :math:`Q` that span what is removed.
    """

    basis: Tensor

    def __init__(self, basis: Float[Tensor, "k d"]) -> None:
        super().__init__()
        check_orthonormal(basis.detach().numpy())
        self.register_buffer("basis", basis.detach().clone())

    @override
    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return x - (x @ self.basis.T) @ self.basis


@final
class MeanOfSigmoids(nn.Module):
    r"""A last layer that mixes logistic models: :math:`\log \sum_j w_j \sigma(\mp z_j)`.

    Its two outputs are the log-probabilities of both classes, so that margins keep all their
    digits where a mean of probabilities would round to 0 or 1.

    Parameters
    ----------
    weight
        How much each model counts: positive, and divided here by their sum.
    """

    log_weight: Tensor

    def __init__(self, weight: Float[Tensor, " m"]) -> None:
        super().__init__()
        if not (weight > 0).all() or not torch.isfinite(weight).all():
            raise InvalidModel("The weights of a mixture must be positive numbers.")
        self.register_buffer("log_weight", (weight / weight.sum()).log())

    @override
    def forward(self, z: Float[Tensor, "n m"]) -> Float[Tensor, "n 2"]:
        both = nn.functional.logsigmoid(torch.stack([-z, z], dim=1))
        return torch.logsumexp(both + self.log_weight, dim=2)


def read_layers(module: nn.Module) -> tuple[Layer, ...]:
    """Return the layers of a network as arrays; refuse what is no chain of the closed list."""
    return tuple(_described(layer) for layer in chain(module))


def _described(layer: nn.Module) -> Layer:
    name = type(layer).__name__
    options: dict[str, Any] = {}
    kept: tuple[str, ...] = ("weight", "bias")
    match layer:
        case nn.ReLU() | nn.Tanh() | nn.Sigmoid():
            kept = ()
        case nn.GELU():
            options = {"approximate": layer.approximate}
            kept = ()
        case FixedProjection():
            kept = ("basis",)
        case MeanOfSigmoids():
            kept = ("log_weight",)
        case nn.LayerNorm() if len(layer.normalized_shape) == 1:
            options = {"width": layer.normalized_shape[0], "eps": layer.eps}
        case nn.BatchNorm1d() if layer.running_mean is not None:
            options = {"eps": layer.eps}
            kept = ("weight", "bias", "running_mean", "running_var")
        case nn.Linear():
            pass
        case _:
            raise unsaved(name)
    tensors = {key: getattr(layer, key) for key in kept}
    arrays = {key: _array(tensor) for key, tensor in tensors.items() if tensor is not None}
    return Layer(name, options, arrays)


def _array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    # NumPy does not know bfloat16, whose numbers are float32 numbers too.
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().copy()


def chain(module: nn.Module) -> list[nn.Module]:
    """Return the layers of a network in the order they are run.

    Nested ``Sequential`` modules are read off; any other network is traced, and refused unless
    each layer is fed by the one before and by nothing else.
    """
    if isinstance(module, nn.Sequential):
        return [layer for part in module for layer in chain(part)]
    if isinstance(module, _SILENT):
        return []
    if _is_layer(module):
        return [module]
    return _traced(module)


def _is_layer(module: nn.Module) -> bool:
    own = type(module).__module__.startswith("torch.nn.modules.")
    return isinstance(module, FixedProjection | MeanOfSigmoids) or own


class _Tracer(fx.Tracer):
    @override
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _is_layer(m) and not isinstance(m, nn.Sequential)


def _traced(module: nn.Module) -> list[nn.Module]:
    name = type(module).__name__
    try:
        nodes = list(_Tracer().trace(module).nodes)
    except Exception as error:  # tracing runs the user's forward on stand-ins
        raise InvalidModel(
            f"The forward of {name} cannot be followed: {in_short(error)}."
        ) from None
    layers: list[nn.Module] = []
    for before, node in itertools.pairwise(nodes):
        if node.all_input_nodes != [before] or node.args[:1] != (before,):
            raise InvalidModel(
                f"{name} does more than run one layer after the other (see {node.name!r} in its "
                "forward), so it cannot be saved as a list of layers."
            )
        if node.op == "call_module":
            layers += chain(operator.attrgetter(str(node.target))(module))
        elif node.target in _FUNCTIONS:
            layers += chain(_activation(node))
        elif node.op != "output":
            raise InvalidModel(
                f"{name} uses {node.name!r}, which is not a layer that can be saved."
            )
    return layers


def _activation(node: fx.Node) -> nn.Module:
    if node.target is F.gelu:
        return nn.GELU(**node.kwargs)  # type: ignore[arg-type]
    return _FUNCTIONS[node.target]()


def without_link(module: nn.Module) -> nn.Module | None:
    """Return a module without the softmax, or the single sigmoid, that it ends in; None if not.

    The loss of logits keeps all its digits where probabilities round to 0 or 1.
    """
    hooks = module._forward_hooks or module._forward_pre_hooks
    if type(module) is not nn.Sequential or len(module) < 2 or hooks or module[-1]._forward_hooks:
        return None
    *rest, last = module
    if type(last) is nn.Sequential and (inner := without_link(last)) is not None:
        return nn.Sequential(*rest, inner)
    softmax = type(last) is nn.Softmax and last.dim in (1, -1)
    single = type(last) is nn.Sigmoid and getattr(rest[-1], "out_features", 0) == 1
    return nn.Sequential(*rest) if softmax or single else None
