"""A network as a chain of layers, each fed by the one before, whatever class it was written as."""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F
from typing_extensions import override

from likewise.errors import InvalidModel, in_short
from likewise.models.layers import FixedProjection, MeanOfSigmoids

_SILENT = (nn.Identity, nn.Dropout, nn.AlphaDropout)  # in evaluation mode they do nothing
_FUNCTIONS: dict[Any, Callable[[], nn.Module]] = {
    **dict.fromkeys((torch.relu, F.relu, "relu"), nn.ReLU),
    **dict.fromkeys((torch.tanh, F.tanh, "tanh"), nn.Tanh),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid"), nn.Sigmoid),
    F.gelu: nn.GELU,
    F.dropout: nn.Identity,
}


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
