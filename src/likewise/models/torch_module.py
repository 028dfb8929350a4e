"""Torch modules, and functions of tensors, as models: where arrays become tensors, and back."""

import copy
import dataclasses
import functools
import hashlib
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from likewise.errors import InvalidModel, in_short
from likewise.losses import Output
from likewise.models.base import Front, Model, ModelCard, Pullback, Reference
from likewise.models.layered import Chain, probe_rows
from likewise.models.layers import Network, plain_network
from likewise.models.torch_layers import read_layers, without_link

Function = Callable[[Tensor], Any]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A torch function with gradients, run in float64 where it can be.

    Parameters
    ----------
    card
        What is known of it.
    module
        A private copy of the user's module, or a function from tensors to tensors.
    precision
        What it is run in.
    declared
        Whether someone said what the outputs mean. If nobody did, outputs that look like
        probabilities are refused rather than read as logits.
    says
        What the user's module returns, if its last softmax or sigmoid was left out to read logits.
    """

    card: ModelCard
    module: Function
    precision: torch.dtype = torch.float64
    declared: bool = True
    reference: Reference | None = None
    front: Front | None = None
    says: Output | None = None

    @property
    @override
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        double = self.precision == torch.float64
        return np.dtype(np.float64 if double else np.float32)

    @override
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        with torch.no_grad():
            return columns(self.module(self._tensor(x)), len(x)).double().numpy()

    @override
    def outputs_and_pullback(
        self, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n k"], Pullback]:
        with torch.inference_mode(False), torch.enable_grad():  # whatever mode the caller is in
            rows = self._tensor(x).detach().requires_grad_()
            try:
                out = columns(self.module(rows), len(x)).double()
            except RuntimeError as error:
                raise _no_gradient(error) from None

        def pullback(g: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n d"]:
            try:
                (slope,) = torch.autograd.grad(
                    out, rows, torch.from_numpy(g).double(), retain_graph=True
                )
            except RuntimeError as error:
                raise _no_gradient(error) from None
            return slope.double().numpy()

        return out.detach().numpy(), pullback

    @functools.cached_property
    @override
    def network(self) -> Network | None:
        if not isinstance(self.module, nn.Module) or self.card.n_features is None:
            return None
        try:
            chain = Chain(read_layers(self.module))
        except InvalidModel:
            return None
        x = probe_rows(self.card.n_features)
        # A hook, for one, is in no list of layers.
        same = np.allclose(chain(x), self(x), rtol=1e-9, atol=1e-9)
        return plain_network(chain.layers) if same else None

    def _tensor(self, x: Float[np.ndarray, "n d"]) -> Tensor:
        """Return rows as a tensor on the same memory, if it can be one."""
        plain = x.flags.writeable and all(stride >= 0 for stride in x.strides)
        return torch.from_numpy(x if plain else x.copy()).to(self.precision)


def _no_gradient(error: Exception) -> InvalidModel:
    return InvalidModel(
        f"The model has no gradient with respect to its inputs ({in_short(error)})."
    )


def columns(out: Any, n: int) -> Tensor:
    """Give outputs their second dimension; refuse whatever is not one row a person."""
    if not isinstance(out, Tensor):
        raise InvalidModel(
            f"The model returns a {type(out).__name__}, not a tensor. Wrap it in a module that "
            "returns logits, one row a person."
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
    says: Output | None = None
    known = fingerprint(module)
    if output in (None, "probabilities") and (inner := without_link(module)) is not None:
        module, output, says = inner, "logits", "probabilities"
    double = private_copy(module, torch.float64)
    own = next(_dtypes(module), torch.get_default_dtype())
    width, dtype = _probe(double, widths(module)), torch.float64
    runnable: Function = double
    if width is None and own != torch.float64:
        single = private_copy(module, own)
        width = _probe(single, widths(module), own)
        if width is None:  # cannot be told until it is run
            runnable = _Either(double, single, own)
        else:
            runnable, dtype = single, own
    card = _card(_kind(module), output, classes)
    card = dataclasses.replace(card, n_features=width, fingerprint=known)
    if width is not None:
        x = torch.zeros(2, width, dtype=dtype, requires_grad=True)
        with torch.random.fork_rng(devices=[]):
            out = runnable(x)
        differentiable = not isinstance(out, Tensor) or out.requires_grad
        card = dataclasses.replace(card, differentiable=differentiable)
    return TorchModel(card, runnable, dtype, declared=output is not None, says=says)


def from_function(
    function: Function, *, output: Output, classes: tuple[Any, ...] = ()
) -> TorchModel:
    """Turn a function from tensors to tensors into a model."""
    name = getattr(function, "__name__", type(function).__name__)
    card = _card(f"function {name}", output, classes)
    return TorchModel(card, _Either(function, function, torch.get_default_dtype()))


def read_pickle(content: bytes) -> Any:
    """Unpickle what ``torch.save`` wrote, whatever that does."""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)


def read_export(content: bytes) -> Any:
    """Open an archive of ``torch.export``."""
    return torch.export.load(io.BytesIO(content)).module()


def private_copy(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Copy a module to the CPU, in evaluation mode and ``dtype``, with frozen weights."""
    # Tensors that a forward pass left behind cannot be copied with their history.
    attributes = [value for part in module.modules() for value in vars(part).values()]
    left = [v for v in attributes if isinstance(v, Tensor) and not v.is_leaf]
    try:
        twin = copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in left})
        twin = twin.to("cpu").to(dtype).requires_grad_(False)
    except Exception as error:
        raise InvalidModel(
            f"The module {type(module).__name__} cannot be copied ({in_short(error)}), and the "
            "audit never runs on the original."
        ) from None
    for parameter in twin.parameters():
        parameter.grad = None
    try:
        return twin.eval()
    except NotImplementedError:  # a loaded export has no modes
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


def widths(module: nn.Module) -> list[int]:
    """List how many inputs a module may take, judging by its layers; most likely first."""
    found: list[int] = []
    for part in module.modules():
        for name in ("in_features", "num_features"):
            if isinstance(value := getattr(part, name, None), int):
                found.append(value)
    # Of bare weights only: a single number would go with inputs of any width.
    weights = [*module.parameters(), *module.buffers()]
    found += [size for weight in weights for size in weight.shape if size > 1]
    return list(dict.fromkeys(found))[:16]


@dataclasses.dataclass(frozen=True)
class _Either:
    """A function run in float64 or, where that fails, in its own dtype."""

    double: Function
    single: Function
    dtype: torch.dtype

    def __call__(self, x: Tensor) -> Any:
        try:
            return self.double(x)
        except RuntimeError:
            return self.single(x.to(self.dtype))


def _probe(
    function: Function, candidates: list[int], dtype: torch.dtype = torch.float64
) -> int | None:
    """Return the first width that works while one more does not."""

    def runs(width: int) -> bool:
        try:
            function(torch.zeros(2, width, dtype=dtype))
        except Exception:
            return False
        return True

    # A random module must not use up the user's random numbers.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return next((w for w in candidates if runs(w) and not runs(w + 1)), None)


def _unwrapped(module: nn.Module) -> nn.Module:
    for name, wrappers in (
        ("_orig_mod", ("OptimizedModule",)),
        ("module", ("DataParallel", "DistributedDataParallel")),
    ):
        if type(module).__name__ in wrappers:
            module = getattr(module, name)
    lazy = [name for name, p in module.named_parameters() if isinstance(p, _UNINITIALISED)]
    if lazy:
        raise InvalidModel(
            f"The module's {lazy[0]} has no values yet. Run the module on a few rows first."
        )
    return module


_UNINITIALISED = nn.parameter.UninitializedParameter


def _kind(module: nn.Module) -> str:
    name = type(module).__name__
    return "torch.export program" if name == "GraphModule" else f"torch module {name}"


def _dtypes(module: nn.Module) -> Iterator[torch.dtype]:
    tensors = [*module.parameters(), *module.buffers()]
    return (tensor.dtype for tensor in tensors if tensor.is_floating_point())


def _card(kind: str, output: Output | None, classes: tuple[Any, ...]) -> ModelCard:
    return ModelCard(
        kind=kind,
        task="regression" if output == "values" else "classification",
        output=output or "logits",
        classes=classes,
    )
