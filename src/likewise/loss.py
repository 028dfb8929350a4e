"""Loss functions, one number per person: cross-entropy, squared and absolute error, or your own.

The cross-entropy is computed from margins, so that it never rounds to zero: ``log(softmax)`` in
finite precision says 0 for the people a model is surest about, and a ratio of zeros says nothing.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal, final, get_args

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import expit, softmax

from likewise.errors import InvalidSettings, LikewiseError, in_short
from likewise.settings.choices import LOSSES, digest, function_name

Output = Literal["logits", "probabilities", "values"]
LossName = Literal["cross_entropy", "squared", "absolute"]

Rows = Float[np.ndarray, "n d"]
"""What a model sees: one row a person, one column a feature."""

Outputs = Float[np.ndarray, "n k"]
"""What a model returns: one row a person, one column a class, or a single one."""

Labels = Shaped[np.ndarray, " n"]
"""The true class of each person, by number; or a number."""

Losses = Float[np.ndarray, " n"]
"""One number a person."""

CLIP = 0.001
"""Probabilities from a model that gives nothing else are kept within [0.001, 0.999]."""

BOUNDS = -math.log1p(-CLIP), -math.log(CLIP)
"""The losses of such probabilities."""


@dataclasses.dataclass(frozen=True)
class Loss:
    r"""The loss :math:`\ell(f(x), y)` of each person, given what the model puts out.

    Parameters
    ----------
    name
        ``cross_entropy`` for classes, ``squared`` or ``absolute`` for numbers.
    output
        What the model returns: ``logits`` (k columns, or one for two classes),
        ``probabilities`` (the same; clipped to [0.001, 0.999]) or ``values``.
    bounded
        Whether the cross-entropy of logits counts as if they were such probabilities, so that it
        does not depend on which of them a model is handed over with.
    """

    name: LossName
    output: Output
    bounded: bool = False

    def __call__(self, out: Outputs, y: Labels) -> Losses:
        """Return one loss a person."""
        with np.errstate(all="ignore"):  # whoever diverged is counted, and warned of, elsewhere
            if self.name == "squared":
                return (out[:, 0] - y) ** 2
            if self.name == "absolute":
                return np.abs(out[:, 0] - y)
            if self.output == "probabilities":
                return -np.log(np.clip(true_probability(out, y), CLIP, 1 - CLIP))
            found = np.logaddexp(0, -margin(out, y))
            return np.clip(found, *BOUNDS) if self.bounded else found

    def gradient(self, out: Outputs, y: Labels) -> Outputs:
        r"""Return :math:`\partial\ell/\partial f`: how each loss changes with the outputs."""
        with np.errstate(all="ignore"):
            if self.name == "squared":
                return _only(0, 2 * (out[:, 0] - y), out)
            if self.name == "absolute":
                return _only(0, np.sign(out[:, 0] - y), out)
            if self.output == "probabilities":
                true = true_probability(out, y)
                slope = np.where((true >= CLIP) & (true <= 1 - CLIP), -1 / true, 0.0)
                if out.shape[1] == 1:  # the column is the probability of class 1
                    return (np.where(y == 1, 1, -1) * slope)[:, None]
                return _only(y, slope, out)
            wrong = expit(-margin(out, y))
            if out.shape[1] == 1:
                return ((1 - 2 * y) * wrong)[:, None]
            slope = softmax(_others(out, y), axis=1) * wrong[:, None]
            slope[np.arange(len(y)), y] = -wrong
            return slope


@final
@dataclasses.dataclass(frozen=True, eq=False)
class CustomLoss:
    """A loss of the user's own.

    Parameters
    ----------
    name
        ``package.module:name``, for records.
    value, slope
        From the model's outputs and the labels to one number per row, at least 0, and to its
        derivatives with respect to the outputs. Outputs are logits, probabilities or values, as the
        model gives them: an n × k matrix, or n numbers if there is one column. Labels are class
        numbers, or targets.
    fingerprint
        A sha256 of the code, and of what it closes over.
    imported
        Whether it was found by its name, as other processes will.
    """

    name: str
    value: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]
    fingerprint: str = ""
    imported: bool = False

    def __reduce__(self) -> Any:
        found = functools.partial(as_loss, trust=True)
        parts = (self.name, self.value, self.slope, self.fingerprint)
        return (found, (self.name,)) if self.imported else (CustomLoss, parts)

    def __call__(self, out: Outputs, y: Labels) -> Losses:
        """Return one loss a person."""
        return self._asked(self.value, _squeezed(out), y, (len(out),))

    def gradient(self, out: Outputs, y: Labels) -> Outputs:
        """Return how each loss changes with the outputs."""
        plain = _squeezed(out)
        return self._asked(self.slope, plain, y, plain.shape).reshape(out.shape)

    def _asked(
        self, function: Callable[[Any, Any], Any], out: Any, y: Any, shape: tuple[int, ...]
    ) -> Float[np.ndarray, "..."]:
        """Return what somebody's function says, an array of this shape."""
        try:
            values = np.asarray(function(out, np.asarray(y)), dtype=np.float64)
        except LikewiseError:
            raise
        except Exception as error:  # it is someone else's code
            raise InvalidSettings(
                f"The loss {self.name} cannot be computed from outputs of shape {out.shape}: "
                f"{in_short(error)}."
            ) from None
        if shape != values.shape:
            raise InvalidSettings(
                f"The loss {self.name} returns shape {values.shape} for {shape[0]} rows; it must "
                f"return shape {shape}, one number per row (reduction='none' in torch)."
            )
        return values

    def check(self, out: Outputs, y: Labels) -> None:
        """Refuse a loss that is not finite, at least 0, by row, and with its own gradient.

        Parameters
        ----------
        out, y
            Outputs and labels of some people; the first ten are tried.
        """
        out, y = np.array(out[:10], dtype=np.float64), y[:10]
        values = self(out, y)
        if not np.isfinite(values).all():
            raise InvalidSettings(f"The loss {self.name} is NaN or infinite for some people.")
        if values.min() < 0:
            raise InvalidSettings(
                f"The loss {self.name} is negative for some people ({values.min():.3g}); ratios "
                "need losses of at least 0."
            )
        alone = np.array([self(out[i : i + 1], y[i : i + 1])[0] for i in range(len(y))])
        if not np.allclose(alone, values, rtol=1e-6, atol=1e-9):
            raise InvalidSettings(
                f"The loss {self.name} of a person depends on who else is in the batch. Does it "
                "average? It must return one number per row."
            )
        slope = self.gradient(out, y)
        step = 1e-5 * (1 + np.abs(out))
        for j, there in enumerate(np.eye(out.shape[1])):
            up, down = (self(out + sign * step * there, y) for sign in (1, -1))
            found = (up - down) / (2 * step[:, j])
            # Between two kinks differences are right to some 1e-8; at a kink they lie in between.
            far = ~(np.abs(found - slope[:, j]) <= 1e-3 * (1 + np.abs(found)))
            if far.sum() > 1 or (far.any() and len(y) < 5):
                row = int(far.argmax())
                raise InvalidSettings(
                    f"The gradient of the loss {self.name} is {slope[row, j]:.4g} where "
                    f"differences of its values say {found[row]:.4g} (row {row}, output {j})."
                )


def as_loss(given: Any, *, trust: bool = False) -> "LossName | CustomLoss":
    """Return the loss that is named or handed over.

    Parameters
    ----------
    given
        The name of a loss of ours or of an installed package; ``package.module:name`` (needs
        trust); a function of torch tensors, outputs and labels; or a pair of NumPy functions,
        value and gradient.
    trust
        Whether a module that is named may be imported.
    """
    if isinstance(given, CustomLoss) or given in get_args(LossName):
        return given
    if isinstance(given, str):
        own = _custom(LOSSES.find(given, trust=trust))
        return dataclasses.replace(own, name=given, imported=True)
    return _custom(given)


def _custom(given: Any) -> CustomLoss:
    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(parts) <= 2 or not all(callable(part) for part in parts):
        raise InvalidSettings(
            "A loss is a function of torch tensors (outputs and labels), or a pair of NumPy "
            f"functions (value, gradient), not {type(given).__name__}."
        )
    name, known = function_name(parts[0]), digest(parts)
    if len(parts) == 2:
        return CustomLoss(name, *parts, known)
    value, slope = (functools.partial(f, parts[0]) for f in (_torch_value, _torch_slope))
    return CustomLoss(name, value, slope, known)


def _torch_value(function: Callable[[Any, Any], Any], out: Any, y: Any) -> Any:
    import torch

    with torch.no_grad():
        return function(torch.tensor(out), torch.tensor(y))


def _torch_slope(function: Callable[[Any, Any], Any], out: Any, y: Any) -> Any:
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        rows = torch.tensor(out, requires_grad=True)
        # Sum, never mean: a row's gradient must not depend on who shares its block.
        total = function(rows, torch.tensor(y)).sum()
        if not total.requires_grad:
            raise InvalidSettings(
                f"The loss {function_name(function)} has no gradient for autograd. Give a pair of "
                "NumPy functions (value, gradient) instead."
            )
        return torch.autograd.grad(total, rows)[0].numpy()


def _squeezed(out: Outputs) -> Float[np.ndarray, "n ..."]:
    """Return a single column as plain numbers, so that it does not broadcast against labels."""
    return out[:, 0] if out.shape[1] == 1 else out


def margin(logits: Outputs, y: Labels) -> Losses:
    """Return the true logit minus the log-sum-exp of the others: the loss is -log sigmoid of it."""
    if logits.shape[1] == 1:
        return (2 * y - 1) * logits[:, 0]
    if logits.shape[1] == 2:
        return (2 * y - 1) * (logits[:, 1] - logits[:, 0])
    others = _others(logits, y)
    top = others.max(axis=1)
    sums = np.log(np.exp(others - top[:, None]).sum(axis=1))
    return logits[np.arange(len(y)), y] - (top + sums)


def true_probability(p: Outputs, y: Labels) -> Losses:
    """Probability of the true class; a single column is the probability of class 1."""
    if p.shape[1] == 1:
        return np.where(y == 1, p[:, 0], 1 - p[:, 0])
    return p[np.arange(len(y)), y]


def decide(out: Outputs, output: Output, threshold: float | None = None) -> Int[np.ndarray, " n"]:
    """Class decided for each person: the largest; of two, class 1 if above a given threshold."""
    if threshold is not None and out.shape[1] <= 2:
        return (probabilities(out, output)[:, 1] > threshold).astype(np.int64)
    if out.shape[1] == 1:
        return (out[:, 0] > (0 if output == "logits" else 0.5)).astype(np.int64)
    return out.argmax(axis=1)


def probabilities(out: Outputs, output: Output) -> Float[np.ndarray, "n c"]:
    """Class probabilities, always with one column a class."""
    if output == "logits":
        out = expit(out) if out.shape[1] == 1 else softmax(out, axis=1)
    return np.hstack([1 - out, out]) if out.shape[1] == 1 else out


def _others(logits: Outputs, y: Labels) -> Outputs:
    """Return the logits with the true class left out."""
    others = logits.copy()
    others[np.arange(len(y)), y] = -np.inf
    return others


def _only(column: int | Labels, slope: Losses, out: Outputs) -> Outputs:
    """Return a gradient that is zero in all columns but one."""
    full = np.zeros_like(out)
    full[np.arange(len(out)), column] = slope
    return full
