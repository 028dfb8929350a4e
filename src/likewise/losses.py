"""Per-person losses, from margins, so that none of them rounds to zero.

``log(softmax)`` in finite precision says 0 for the people a model is surest about, and a
ratio of zeros says nothing. The margin form is right to the last digit.
"""

import dataclasses
import math
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import expit

Output = Literal["logits", "probabilities", "values"]
LossName = Literal["cross_entropy", "squared", "absolute"]

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

    def __call__(
        self, out: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
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

    def gradient(
        self, out: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        r"""Return :math:`\partial\ell/\partial f`: how each loss changes with the outputs."""
        with np.errstate(all="ignore"):
            if self.name == "squared":
                return _only(0, 2 * (out[:, 0] - y), out)
            if self.name == "absolute":
                return _only(0, np.sign(out[:, 0] - y), out)
            if self.output == "probabilities":
                return _probability_slope(out, y)
            wrong = expit(-margin(out, y))
            if out.shape[1] == 1:
                return ((1 - 2 * y) * wrong)[:, None]
            slope = _softmax(_others(out, y)) * wrong[:, None]
            slope[np.arange(len(y)), y] = -wrong
            return slope


def margin(
    logits: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the true logit minus the log-sum-exp of the others: the loss is -log sigmoid of it."""
    if logits.shape[1] == 1:
        return (2 * y - 1) * logits[:, 0]
    if logits.shape[1] == 2:
        return (2 * y - 1) * (logits[:, 1] - logits[:, 0])
    others = _others(logits, y)
    top = others.max(axis=1)
    sums = np.log(np.exp(others - top[:, None]).sum(axis=1))
    return logits[np.arange(len(y)), y] - (top + sums)


def true_probability(
    p: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Probability of the true class; a single column is the probability of class 1."""
    if p.shape[1] == 1:
        return np.where(y == 1, p[:, 0], 1 - p[:, 0])
    return p[np.arange(len(y)), y]


def decide(
    out: Float[np.ndarray, "n k"], output: Output, threshold: float | None = None
) -> Int[np.ndarray, " n"]:
    """Class decided for each person: the largest; of two, class 1 if above a given threshold."""
    if threshold is not None and out.shape[1] <= 2:
        return (probabilities(out, output)[:, 1] > threshold).astype(np.int64)
    if out.shape[1] == 1:
        return (out[:, 0] > (0 if output == "logits" else 0.5)).astype(np.int64)
    return out.argmax(axis=1)


def probabilities(out: Float[np.ndarray, "n k"], output: Output) -> Float[np.ndarray, "n c"]:
    """Class probabilities, always with one column a class."""
    if output == "logits":
        out = expit(out) if out.shape[1] == 1 else _softmax(out)
    return np.hstack([1 - out, out]) if out.shape[1] == 1 else out


def _others(
    logits: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
) -> Float[np.ndarray, "n k"]:
    """Return the logits with the true class left out."""
    others = logits.copy()
    others[np.arange(len(y)), y] = -np.inf
    return others


def _softmax(logits: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _probability_slope(
    p: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
) -> Float[np.ndarray, "n k"]:
    true = true_probability(p, y)
    slope = np.where((true >= CLIP) & (true <= 1 - CLIP), -1 / true, 0.0)
    if p.shape[1] == 1:  # the column is the probability of class 1
        return (np.where(y == 1, 1, -1) * slope)[:, None]
    return _only(y, slope, p)


def _only(
    column: int | Shaped[np.ndarray, " n"],
    slope: Float[np.ndarray, " n"],
    out: Float[np.ndarray, "n k"],
) -> Float[np.ndarray, "n k"]:
    """Return a gradient that is zero in all columns but one."""
    full = np.zeros_like(out)
    full[np.arange(len(out)), column] = slope
    return full
