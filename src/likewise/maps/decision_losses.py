"""Losses that count decisions: wrong ones, and ones that people do not want."""

import dataclasses
import math
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Shaped

from likewise.errors import InvalidSettings
from likewise.losses import Output


@final
@dataclasses.dataclass(frozen=True)
class WrongDecision:
    """1 for a wrong decision, else 0: its ratio is the error-rate ratio.

    Parameters
    ----------
    output
        What the model puts out: ``logits`` or ``probabilities``.
    threshold
        Probability from which class 1 of two is decided.
    """

    output: Output
    threshold: float = 0.5

    def __call__(
        self, out: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return one loss a person, given the numbers of their classes."""
        if out.shape[1] > 2:
            return (out.argmax(axis=1) != y).astype(np.float64)
        return (_reaches(out, 1, self.output, self.threshold) != (y == 1)).astype(np.float64)


@final
@dataclasses.dataclass(frozen=True)
class UnfavourableDecision:
    """1 where the favourable decision is not made, else 0. No label is needed.

    Parameters
    ----------
    output
        What the model puts out; for ``values`` a number above ``threshold`` is favourable.
    favourable
        Number of the class that people want.
    threshold
        Probability of that class from which it is decided, with one or two columns; with more
        the largest decides.
    """

    output: Output
    favourable: int = 1
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if self.output != "values" and not 0 < self.threshold < 1:
            raise InvalidSettings(f"threshold must lie in (0, 1) (got {self.threshold:g}).")

    def __call__(self, out: Float[np.ndarray, "n k"], y: Any = None) -> Float[np.ndarray, " n"]:
        """Return one loss a person; labels are not looked at."""
        if out.shape[1] > 2:
            return (out.argmax(axis=1) != self.favourable).astype(np.float64)
        made = _reaches(out, self.favourable, self.output, self.threshold)
        return (~made).astype(np.float64)


def _reaches(
    out: Float[np.ndarray, "n k"], wanted: int, output: Output, threshold: float
) -> Bool[np.ndarray, " n"]:
    """Tell whose probability of the wanted class of two exceeds the threshold."""
    if output == "values":
        return np.asarray(out[:, 0] > threshold)
    if output == "logits":
        score = out[:, 0] if out.shape[1] == 1 else out[:, 1] - out[:, 0]
        limit = math.log(threshold / (1 - threshold))
        return np.asarray(score > limit if wanted == 1 else -score > limit)
    chance = out[:, -1] if wanted == 1 else 1 - out[:, -1]
    return np.asarray(chance > threshold)
