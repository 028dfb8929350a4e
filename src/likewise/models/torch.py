"""Torch modules and functions of tensors: where arrays become tensors, and back."""

import contextlib
import copy
import dataclasses
import functools
import hashlib
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, fx, nn
from torch.nn import functional as F
from typing_extensions import override

from likewise.errors import InvalidModel, in_short
from likewise.loss import Output, Outputs, Rows
from likewise.models.base import Model, ModelCard, Network, Pullback
from likewise.models.layers import (
    Layer,
    check_orthonormal,
    from_layers,
    linear,
    probe_rows,
    unsavable,
)

Function = Callable[[Tensor], Any]


@dataclasses.dataclass
class AnyPrecision:
    """A function run in float64 or, once that has failed, in its own dtype (``coarse``)."""

    double: Function
    single: Function
    dtype: torch.dtype
    coarse: bool = False

    def __call__(self, x: Tensor) -> Any:
        """Return what the function returns for rows in double precision."""
        if not self.coarse:
            with contextlib.suppress(RuntimeError):
                return self.double(x)
        found = self.single(x.to(self.dtype))
        self.coarse |= self.dtype != torch.float64
        return found


@final
@dataclasses.dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A torch function with gradients, run in float64 where it can be.

    ``returns`` is what the user's module gives, if its last softmax or sigmoid was left out to
    read logits.
    """

    card: ModelCard
    function: AnyPrecision
    declared: bool = True
    returns: Output | None = None

    @property
    @override
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return np.dtype(np.float32 if self.function.coarse else np.float64)

    @override
    def __call__(self, x: Rows) -> Outputs:
        with torch.no_grad():
            return self._outputs(_tensor(x)).numpy()

    @override
    def outputs_and_pullback(self, x: Rows) -> tuple[Outputs, Pullback]:
        with torch.inference_mode(False), torch.enable_grad():  # whatever mode the caller is in
            rows = _tensor(x).detach().requires_grad_()
            with _needs_gradient():
                out = self._outputs(rows)

        def pullback(g: Outputs) -> Rows:
            with _needs_gradient():
                weight = torch.from_numpy(g).double()
                (slope,) = torch.autograd.grad(out, rows, weight, retain_graph=True)
            return slope.double().numpy()

        return out.detach().numpy(), pullback

    def _outputs(self, x: Tensor) -> Tensor:
        out = columns(self.function(x), len(x))
        if out.dtype != torch.float64:  # it has cast its inputs itself
            self.function.coarse = True
        return out.double()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the module; refuses what is no chain of the closed list."""
        if not isinstance(self.function.double, nn.Module):
            raise InvalidModel(f"A {self.card.kind} has no layers.")
        return read_layers(self.function.double)

    @functools.cached_property
    @override
    def network(self) -> Network | None:
        if self.card.n_features is None or self.function.coarse:
            return None
        try:
            layered = from_layers(self.layers)
        except InvalidModel:
            return None
        x = probe_rows(self.card.n_features)
        # A hook, for one, is in no list of layers.
        same = np.allclose(layered(x), self(x), rtol=1e-9, atol=1e-9)
        return layered.network if same else None


def _tensor(x: Rows) -> Tensor:
    """Return rows as a tensor on the same memory, if it can be one."""
    plain = x.flags.writeable and all(stride >= 0 for stride in x.strides)
    return torch.from_numpy(x if plain else x.copy()).to(torch.float64)


@contextlib.contextmanager
def _needs_gradient() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        why = f"The model has no gradient with respect to its inputs ({in_short(error)})."
        raise InvalidModel(why) from None


def columns(out: Any, n: int) -> Tensor:
    """Give outputs their second dimension; refuse whatever is not one row a person.

    Of an object with ``logits``, of a dictionary with them or with one tensor, and of a tuple, the
    logits or the first tensor count.
    """
    kind = type(out).__name__
    if isinstance(out, Mapping):
        found = [value for value in out.values() if isinstance(value, Tensor)]
        out = out.get("logits", found[0] if len(found) == 1 else None)
    elif not isinstance(out, Tensor):
        first = out[0] if isinstance(out, tuple | list) and out else None
        out = getattr(out, "logits", first)
    if not isinstance(out, Tensor):
        raise InvalidModel(
            f"The model returns a {kind}, not a tensor. Wrap it in a module that returns logits, "
            "one row a person."
        )
    # A module that squeezes its output loses the row dimension when it is given one row.
    if out.ndim < 2 and (out.numel() == n or n == 1):
        out = out.reshape(n, -1)
    if out.ndim != 2 or out.shape[0] != n or out.shape[1] == 0:
        raise InvalidModel(
            f"The model returns shape {tuple(out.shape)} for {n} rows; it must return one row a "
            "person, with one column a class (or a single one)."
        )
    return out


def from_module(
    module: nn.Module, *, output: Output | None = None, classes: tuple[Any, ...] = ()
) -> TorchModel:
    """Turn any torch module into a model, without touching it.

    The audit runs on a private copy, in evaluation mode and float64; a module with another
    dtype written into it is run in its own, and cast.
    """
    module = _unwrapped(module)
    returns: Output | None = None
    known = fingerprint(module)
    if output in (None, "probabilities") and (inner := without_link(module)) is not None:
        module, output, returns = inner, "logits", "probabilities"
    tensors = [*module.parameters(), *module.buffers()]
    own = next((t.dtype for t in tensors if t.is_floating_point()), torch.get_default_dtype())
    double = private_copy(module, torch.float64)
    single = double if own == torch.float64 else private_copy(module, own)
    function = AnyPrecision(double, single, own)
    width = _width(function, module)
    name = type(module).__name__
    kind = "torch.export program" if name == "GraphModule" else f"torch module {name}"
    card = ModelCard.from_output(kind, output, classes, n_features=width, fingerprint=known)
    if width is not None:
        x = torch.zeros(2, width, dtype=torch.float64, requires_grad=True)
        with torch.random.fork_rng(devices=[]), contextlib.suppress(InvalidModel):
            differentiable = columns(function(x), 2).requires_grad
            card = dataclasses.replace(card, differentiable=differentiable)
    return TorchModel(card, function, declared=output is not None, returns=returns)


def from_function(
    function: Function, *, output: Output | None, classes: tuple[Any, ...] = ()
) -> TorchModel:
    """Turn a function from tensors to tensors into a model."""
    name = getattr(function, "__name__", type(function).__name__)
    card = ModelCard.from_output(f"function {name}", output, classes)
    either = AnyPrecision(function, function, torch.get_default_dtype())
    return TorchModel(card, either, declared=output is not None)


def private_copy(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Copy a module to the CPU, in evaluation mode and ``dtype``, with frozen weights."""
    # Tensors that a forward pass left behind cannot be copied with their history.
    attributes = [value for part in module.modules() for value in vars(part).values()]
    left = [v for v in attributes if isinstance(v, Tensor) and not v.is_leaf]
    try:
        twin = copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in left})
        twin = twin.to("cpu").to(dtype)
    except Exception as error:
        raise InvalidModel(
            f"The module {type(module).__name__} cannot be copied ({in_short(error)}), and the "
            "audit never runs on the original."
        ) from None
    for parameter in twin.parameters():
        if parameter.is_leaf:  # those of a script need not be
            parameter.requires_grad_(False).grad = None
    with contextlib.suppress(NotImplementedError):  # a loaded export has no modes
        twin.eval()
    return twin


def fingerprint(module: nn.Module) -> str:
    """Return a sha256 of the structure and the weights of a module."""
    digest = hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", repr(module)).encode())
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(flat.numpy().tobytes())
    return digest.hexdigest()


def _width(function: Function, module: nn.Module) -> int | None:
    """Return how many inputs a module takes: the first width that works while one more does not.

    Candidates are what its layers say, then the sizes of its weights.
    """
    names = ("in_features", "num_features")
    said = [getattr(part, name, None) for part in module.modules() for name in names]
    # Of bare weights only: a single number would go with inputs of any width.
    weights = [*module.parameters(), *module.buffers()]
    sizes = [size for weight in weights for size in weight.shape if size > 1]
    candidates = list(dict.fromkeys(w for w in (*said, *sizes) if isinstance(w, int)))[:16]

    def runs(width: int) -> bool:
        with contextlib.suppress(Exception):
            function(torch.zeros(2, width, dtype=torch.float64))
            return True
        return False

    # A random module must not use up the user's random numbers.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return next((w for w in candidates if runs(w) and not runs(w + 1)), None)


def _unwrapped(module: Any) -> nn.Module:
    if type(module).__name__ == "OptimizedModule":
        module = module._orig_mod
    if type(module).__name__ in ("DataParallel", "DistributedDataParallel"):
        module = module.module
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InvalidModel(
                f"The module's {name} has no values yet. Run the module on a few rows first."
            )
    return module


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


# A network as a chain of layers, each fed by the one before, however it was written


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


_SILENT = (nn.Identity, nn.Dropout, nn.AlphaDropout)  # in evaluation mode they do nothing
_FUNCTIONS: dict[Any, tuple[Layer, ...]] = {
    **dict.fromkeys((torch.relu, F.relu, "relu"), (Layer("ReLU"),)),
    **dict.fromkeys((torch.tanh, F.tanh, "tanh"), (Layer("Tanh"),)),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid"), (Layer("Sigmoid"),)),
    F.dropout: (),
}


class _Tracer(fx.Tracer):
    @override
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        known = isinstance(m, FixedProjection | MeanOfSigmoids)
        return known or super().is_leaf_module(m, module_qualified_name)


def read_layers(module: nn.Module) -> tuple[Layer, ...]:
    """Return the layers of a network as arrays; refuse what is no chain of the closed list.

    It is traced, and refused unless each layer is fed by the one before and by nothing else.
    """
    name, whole = type(module).__name__, nn.Sequential(module)
    try:
        nodes = list(_Tracer().trace(whole).nodes)
    except Exception as error:  # tracing runs the user's forward on stand-ins
        raise InvalidModel(
            f"The forward of {name} cannot be followed: {in_short(error)}."
        ) from None
    layers: list[Layer] = []
    for before, node in itertools.pairwise(nodes):
        if node.all_input_nodes != [before] or node.args[:1] != (before,):
            raise InvalidModel(
                f"{name} does more than run one layer after the other (see {node.name!r} in its "
                "forward), so it cannot be saved as a list of layers."
            )
        if node.op == "call_module":
            layers += _described(operator.attrgetter(str(node.target))(whole))
        elif node.target in _FUNCTIONS:
            layers += _FUNCTIONS[node.target]
        elif node.op != "output":
            raise InvalidModel(
                f"{name} uses {node.name!r}, which is not a layer that can be saved."
            )
    return tuple(layers)


def _described(layer: nn.Module) -> tuple[Layer, ...]:
    match layer:
        case nn.ReLU() | nn.Tanh() | nn.Sigmoid():
            return (Layer(type(layer).__name__),)
        case nn.Linear():
            bias: Tensor | None = layer.bias
            return (linear(_array(layer.weight), 0 if bias is None else _array(bias)),)
        case nn.BatchNorm1d() if layer.running_mean is not None:  # in evaluation mode it is linear
            with torch.no_grad():
                basis = torch.eye(layer.num_features, dtype=torch.float64)
                layer = copy.deepcopy(layer).cpu().double().eval()
                shift = layer(0 * basis[:1])
                return (linear(_array(layer(basis) - shift), _array(shift[0])),)
        case FixedProjection():
            return (Layer("FixedProjection", {"basis": _array(layer.basis)}),)
        case MeanOfSigmoids():
            return (Layer("MeanOfSigmoids", {"log_weight": _array(layer.log_weight)}),)
        case _ if isinstance(layer, _SILENT):
            return ()
    raise unsavable(type(layer).__name__)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy().copy()
