"""The closed list of layers a saved model may have, and how each is written down."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from likewise.errors import InvalidFile, InvalidModel


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
        gap = (basis @ basis.T - torch.eye(len(basis), dtype=basis.dtype)).abs()
        # Float32 products of unit rows of any length are this close to 0 and 1.
        if gap.numel() and not gap.max() < 1e-4:
            raise InvalidModel(
                f"The rows to project away are not orthonormal (off by {gap.max():.2g})."
            )
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


@dataclasses.dataclass(frozen=True)
class Written:
    """One layer as a file holds it: its name, its options, its tensors."""

    name: str
    options: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


_PLAIN = {"ReLU": nn.ReLU, "Tanh": nn.Tanh, "Sigmoid": nn.Sigmoid}


def write_layer(layer: nn.Module) -> Written:
    """Describe a layer of the closed list."""
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
            raise InvalidModel(
                f"A {name} layer cannot be saved: a saved model is a Sequential of Linear, "
                "FixedProjection, MeanOfSigmoids, ReLU, Tanh, Sigmoid, GELU, LayerNorm and "
                "BatchNorm1d with running statistics. Leave out a final Softmax: the audit reads "
                "logits."
            )
    tensors = {key: getattr(layer, key) for key in kept}
    return Written(name, options, {k: v.detach() for k, v in tensors.items() if v is not None})


def read_layer(written: Written, width: int | None) -> tuple[nn.Module, int | None]:
    """Build a layer and say how many columns it returns; ``width`` is what it is given."""
    name, options, tensors = written.name, written.options, written.tensors
    if name in _PLAIN:
        _closed(written)
        return _PLAIN[name](), width
    if name == "GELU":
        _closed(written, options=("approximate",))
        if options["approximate"] not in ("none", "tanh"):
            raise InvalidFile("GELU is 'none' or 'tanh'")
        return nn.GELU(approximate=options["approximate"]), width
    if name == "Linear":
        _closed(written, needed=("weight",), allowed=("bias",))
        rows, inputs = _matrix(tensors["weight"])
        _shapes(tensors, {"bias": (rows,)})
        _fits(name, inputs, width)
        linear = nn.Linear(inputs, rows, bias="bias" in tensors, device="meta")
        return _filled(linear, tensors), rows
    if name == "FixedProjection":
        _closed(written, needed=("basis",))
        _, inputs = _matrix(tensors["basis"])
        _fits(name, inputs, width)
        return FixedProjection(tensors["basis"]), inputs
    if name == "MeanOfSigmoids":
        _closed(written, needed=("log_weight",))
        size = tensors["log_weight"].numel()
        _shapes(tensors, {"log_weight": (size,)})
        _fits(name, size, width)
        mixture = MeanOfSigmoids(torch.ones(size))
        return _filled(mixture, tensors), 2
    if name == "LayerNorm":
        _closed(written, allowed=("weight", "bias"), options=("width", "eps"))
        size = options["width"]
        if type(size) is not int or not 0 < size < 2**31:
            raise InvalidFile("LayerNorm needs a width")
        _shapes(tensors, {"weight": (size,), "bias": (size,)})
        _fits(name, size, width)
        affine, bias = "weight" in tensors, "bias" in tensors
        norm = nn.LayerNorm(size, _eps(options), affine, bias, device="meta")
        return _filled(norm, tensors), size
    if name == "BatchNorm1d":
        running = ("running_mean", "running_var")
        _closed(written, needed=running, allowed=("weight", "bias"), options=("eps",))
        size = tensors["running_mean"].numel()
        _shapes(tensors, dict.fromkeys((*running, "weight", "bias"), (size,)))
        _fits(name, size, width)
        batch = nn.BatchNorm1d(size, _eps(options), affine="weight" in tensors, device="meta")
        tensors = {**tensors, "num_batches_tracked": torch.tensor(0)}
        return _filled(batch, tensors), size
    raise InvalidFile(f"it has a layer {name[:40]!r}, which is not in the list")


def _closed(
    written: Written,
    *,
    needed: tuple[str, ...] = (),
    allowed: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
) -> None:
    if set(written.options) != set(options):
        raise InvalidFile(f"{written.name} has other options than {', '.join(options) or 'none'}")
    missing = [name for name in needed if name not in written.tensors]
    strange = [name for name in written.tensors if name not in (*needed, *allowed)]
    if missing or strange:
        raise InvalidFile(f"{written.name} has wrong weights ({', '.join(missing + strange)[:80]})")
    if written.tensors.keys() == {"bias"}:
        raise InvalidFile(f"{written.name} has a bias, but no weight")


def _matrix(weight: Tensor) -> tuple[int, int]:
    if weight.ndim != 2 or 0 in weight.shape:
        raise InvalidFile(f"a matrix has shape {tuple(weight.shape)}")
    rows, inputs = weight.shape
    return rows, inputs


def _shapes(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in expected.items():
        if name in tensors and tuple(tensors[name].shape) != shape:
            raise InvalidFile(f"a {name} has shape {tuple(tensors[name].shape)}, not {shape}")


def _fits(name: str, inputs: int, width: int | None) -> None:
    if width is not None and inputs != width:
        raise InvalidFile(f"{name} takes {inputs} columns, but is given {width}")


def _eps(options: Mapping[str, Any]) -> float:
    eps = options["eps"]
    if not isinstance(eps, float) or not (math.isfinite(eps) and 0 <= eps < 1):
        raise InvalidFile("eps is not a small positive number")
    return eps


def _filled(layer: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    layer.load_state_dict(dict(tensors), strict=True, assign=True)
    return layer
