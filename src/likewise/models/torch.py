"""Torch modules and functions of tensors: where arrays become tensors, and back."""

import contextlib
import copy
import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from likewise.errors import InvalidModel, in_short
from likewise.loss import Output, Outputs, Rows
from likewise.models.base import Affine, Model, ModelCard, Pullback
from likewise.models.layers import STEPS, Layer, from_layers, linear, probe_rows

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
        return tuple(d for part in chain(self.function.double) for d in _described(part))

    @functools.cached_property
    @override
    def network(self) -> tuple[Affine, ...]:
        if self.card.n_features is None or self.function.coarse:
            return ()
        try:
            layered = from_layers(self.layers)
        except InvalidModel:
            return ()
        x = probe_rows(self.card.n_features)
        # A hook, for one, is in no list of layers.
        same = np.allclose(layered(x), self(x), rtol=1e-9, atol=1e-9)
        return layered.network if same else ()


def _tensor(x: Rows) -> Tensor:
    # Copied in order: torch refuses rows in reverse, which NumPy hands out as a view.
    return torch.from_numpy(np.array(x, dtype=np.float64, order="C"))


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
            f"The model returns a {kind}, not a tensor. Wrap it in a module that returns logits."
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
    width, differentiable = _try_widths(function, tensors)
    name = type(module).__name__
    kind = "torch.export program" if name == "GraphModule" else f"torch module {name}"
    card = ModelCard(kind, output, classes, width, (), differentiable, fingerprint=known)
    return TorchModel(card, function, returns)


def from_function(
    function: Function, *, output: Output | None, classes: tuple[Any, ...] = ()
) -> TorchModel:
    """Turn a function from tensors to tensors into a model."""
    name = getattr(function, "__name__", type(function).__name__)
    card = ModelCard(f"function {name}", output, classes)
    return TorchModel(card, AnyPrecision(function, function, torch.get_default_dtype()))


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


def _try_widths(function: Function, weights: Sequence[Tensor]) -> tuple[int | None, bool]:
    """Return how many inputs a module takes, if that is found, and whether it has a gradient.

    It is the first size of its weights that works while one more does not.
    """

    def answer(width: int) -> Tensor | None:
        with contextlib.suppress(Exception):
            x = torch.zeros(2, width, dtype=torch.float64, requires_grad=True)
            return columns(function(x), 2)
        return None

    # Of bare weights only: a single number would go with inputs of any width.
    sizes = dict.fromkeys(size for weight in weights for size in weight.shape if size > 1)
    # A random module must not use up the user's random numbers.
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        for width in [*sizes][:16]:
            out = answer(width)
            if out is not None and answer(width + 1) is None:
                return width, out.requires_grad
    return None, True


def _unwrapped(module: Any) -> nn.Module:
    if type(module).__name__ == "OptimizedModule":
        module = module._orig_mod
    if type(module).__name__ in ("DataParallel", "DistributedDataParallel"):
        module = module.module
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InvalidModel(f"The module's {name} has no values yet. Run it on a few rows.")
    return module


def without_link(module: nn.Module) -> nn.Module | None:
    """Return a module without the softmax, or the single sigmoid, that it ends in; None if not.

    The loss of logits keeps all its digits where probabilities round to 0 or 1.
    """
    parts = chain(module)
    if len(parts) < 2 or _hooks(parts[-1]):
        return None
    *rest, last = parts
    softmax = type(last) is nn.Softmax and last.dim in (1, -1)
    single = type(last) is nn.Sigmoid and getattr(rest[-1], "out_features", 0) == 1
    return nn.Sequential(*rest) if softmax or single else None


# A network as a chain of layers, each fed by the one before


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
        self.register_buffer("log_weight", (weight / weight.sum()).log())

    @override
    def forward(self, z: Float[Tensor, "n m"]) -> Float[Tensor, "n 2"]:
        both = nn.functional.logsigmoid(torch.stack([-z, z], dim=1))
        return torch.logsumexp(both + self.log_weight, dim=2)


def _hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def chain(module: Any) -> list[Any]:
    """Return the modules that a Sequential, and those in it, run in turn; of others, themselves."""
    if type(module) is not nn.Sequential or _hooks(module):
        return [module]
    return [part for inner in module for part in chain(inner)]


def _described(layer: Any) -> tuple[Layer, ...]:
    match layer:
        case nn.Identity() | nn.Dropout():  # in evaluation mode they do nothing
            return ()
        case nn.ReLU() | nn.Tanh() | nn.Sigmoid():
            return (Layer(type(layer).__name__),)
        case nn.Linear():
            bias: Tensor | None = layer.bias
            return (linear(_array(layer.weight), 0 if bias is None else _array(bias)),)
        case MeanOfSigmoids():
            return (Layer("MeanOfSigmoids", {"log_weight": _array(layer.log_weight)}),)
    raise InvalidModel(
        f"A {type(layer).__name__} layer cannot be saved: a saved model is a Sequential of "
        f"{', '.join(STEPS)}. Other networks are audited as they are, or as .pt2 and .onnx files."
    )


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy().copy()
