r"""How strongly a trait's regression is held back: a penalty a person, chosen by cross-validation.

With the penalty of a whole sample (:math:`C = 1`) the metric that is learned depends on how many
people there are. A penalty :math:`\gamma` a person, :math:`C = 1 / (\gamma n)`, does not.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.metrics import newton
from likewise.metrics.stacked import Stack

GRID = tuple(10.0 ** (-step / 2) for step in range(10))
"""Penalties a person that are tried, from the strongest; two a power of ten."""

FOLDS = 5

TOLERANCE = 1e-5
"""Gradient left in the regressions that penalties are compared by."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidation:
    """Regressions fitted without one fold of people each, to be judged by that fold.

    Parameters
    ----------
    stack
        The m regressions.
    fold
        Fold of each person; clusters are whole.
    unit
        Cluster of each person, for standard errors.
    """

    stack: Stack
    fold: Int[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]
    others: tuple[Stack, ...] = dataclasses.field(init=False)
    """The regressions of everyone outside a fold, by fold."""
    judged: Bool[np.ndarray, "n m"] = dataclasses.field(init=False)
    """Who can be judged: without some folds, nobody of a class may be left to learn from."""

    def __post_init__(self) -> None:
        numbers = range(int(self.fold.max()) + 1)
        others = tuple(self.stack.take(np.flatnonzero(self.fold != f)) for f in numbers)
        possible = np.array([part.possible for part in others])
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "judged", possible[self.fold])

    def scores(
        self,
        penalty: float,
        which: Int[np.ndarray, " l"],
        near: Float[np.ndarray, "f m k p"] | None = None,
    ) -> Float[np.ndarray, "n l k"]:
        """Return everyone's scores by the regressions without their fold, zero if not judged.

        Parameters
        ----------
        which
            The regressions that are wanted.
        near
            Where to start, by fold; it is overwritten with the solutions.
        """
        n, _, k = self.stack.target.shape
        scores = np.zeros((n, len(which), k))
        for number, part in enumerate(self.others):
            fits = np.flatnonzero(part.possible[which])
            if not len(fits):
                continue
            some, rows = which[fits], np.flatnonzero(self.fold == number)
            start = None if near is None else near[number, some]
            theta = part.part(some).fit(penalty, start, TOLERANCE)
            if near is not None:
                near[number, some] = theta
            tested = self.stack.columns.design[rows]
            found = tested @ theta.reshape(-1, theta.shape[2]).T
            scores[rows[:, None], fits] = found.reshape(len(rows), -1, k)
        return scores

    @functools.cached_property
    def null_loss(self) -> float:
        """The mean loss if nothing predicts, by which losses of different traits are compared."""
        stack = self.stack
        scores = np.broadcast_to(stack.null[0, :, -1], stack.target.shape)
        loss = newton.losses(scores, stack.target, stack.kind)
        return float((stack.weight * loss).sum() / stack.weight.sum())

    def deviances(
        self, scores: Float[np.ndarray, "n l k"], which: Int[np.ndarray, " l"]
    ) -> tuple[Float[np.ndarray, " l"], Float[np.ndarray, "u l"]]:
        """Return the share of the loss that is left for people left out, and clusters' influence.

        The root of the sum of squared influences is its standard error.
        """
        loss = newton.losses(scores, self.stack.target[:, which], self.stack.kind) / self.null_loss
        weight = (self.stack.weight * self.judged)[:, which]
        total = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
        mean = (weight * loss).sum(axis=0) / total
        parts = sum_by(weight * (loss - mean), self.unit)
        return mean, parts * math.sqrt(len(parts) / max(len(parts) - 1, 1)) / total


def choose_penalties(
    checked: Sequence[CrossValidation], grid: Sequence[float] = GRID
) -> Float[np.ndarray, " m"]:
    """Choose the penalty a person that all traits share, by the one-standard-error rule.

    From the strongest penalty on, the deviance of people left out, added up over the traits, is
    followed down to its first minimum; chosen is the strongest penalty that is at most one standard
    error worse (Breiman et al. 1984). The choice looks at traits and features only, never at a
    model.

    Parameters
    ----------
    checked
        One for each trait, with m regressions each: of m ways to shuffle the traits, say.
    """
    m = checked[0].stack.target.shape[1]
    starts = [
        np.broadcast_to(part.stack.null, (len(part.others), *part.stack.null.shape)).copy()
        for part in checked
    ]
    deviance, error = np.full((len(grid), m), np.inf), np.zeros((len(grid), m))
    active = np.arange(m)
    for step, penalty in enumerate(grid):
        found = [
            part.deviances(part.scores(penalty, active, near), active)
            for part, near in zip(checked, starts, strict=True)
        ]
        deviance[step, active] = sum(mean for mean, _ in found)
        influence = np.sum([parts for _, parts in found], axis=0)
        error[step, active] = np.sqrt(np.square(influence).sum(axis=0))
        if step:
            active = active[deviance[step, active] < deviance[step - 1, active]]
        if not len(active):
            break
    best, each = deviance.argmin(axis=0), np.arange(m)
    within = deviance <= deviance[best, each] + error[best, each]
    return np.array(grid)[within.argmax(axis=0)]


def sum_by(
    values: Float[np.ndarray, "n l"], unit: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "u l"]:
    """Return the sums of values by cluster."""
    count = int(unit.max()) + 1
    if count == len(unit):
        return values
    order = np.argsort(unit, kind="stable")
    starts = np.searchsorted(unit[order], np.arange(count))
    return np.add.reduceat(values[order], starts, axis=0)
