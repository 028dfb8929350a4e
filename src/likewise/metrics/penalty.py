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
from scipy.special import softmax

from likewise.metrics import newton
from likewise.metrics.origin import Prediction, Validation
from likewise.metrics.stacked import Stack
from likewise.metrics.traits import Trait

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


def predict(
    trait: Trait, scores: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]
) -> Prediction:
    """Return accuracy and area under the curve of a class, or R² of a number, by weight."""
    used = weight > 0
    target, scores, weight = trait.target[used], scores[used], weight[used]
    if trait.kind == "number":
        centre = np.average(target[:, 0], weights=weight)
        left = np.average((target - scores)[:, 0] ** 2, weights=weight)
        return Prediction(
            r2=float(1 - left / np.average((target[:, 0] - centre) ** 2, weights=weight))
        )
    if trait.kind == "binary":
        hit = (scores[:, 0] > 0) == (target[:, 0] == 1)
    else:
        hit = scores.argmax(axis=1) == target.argmax(axis=1)
    areas = [area_under_curve(score, one, weight)[0] for score, one in _each(scores, target)]
    return Prediction(accuracy=float(np.average(hit, weights=weight)), auc=float(np.mean(areas)))


def validate(checked: CrossValidation, penalty: float) -> Validation:
    """Tell how well one trait is predicted for people that its regression has not seen.

    The area under the curve is taken within folds, since scores of different regressions are not
    comparable, and averaged; its standard error is DeLong's, over clusters. A number has R².
    """
    stack = checked.stack
    scores = checked.scores(penalty, np.arange(1))[:, 0]
    target = stack.target[:, 0]
    weight = (stack.weight * checked.judged)[:, 0]
    if stack.kind == "number":
        value, influence = _explained(checked, scores[:, 0], target[:, 0], weight)
    else:
        places = [(fold, j) for fold in range(len(checked.others)) for j in range(target.shape[1])]
        value, influence, found = 0.0, np.zeros(len(weight)), 0
        for fold, j in places:
            area = _area(checked.fold == fold, scores, target, weight, j)
            if area is not None:
                value, influence, found = value + area[0], influence + area[1], found + 1
        if not found:
            return Validation("auc", None, None)
        value, influence = value / found, influence / found
    sums = sum_by(influence[:, None], checked.unit)
    count = len(sums)
    error = math.sqrt(count / max(count - 1, 1) * float(np.square(sums).sum()))
    return Validation("r2" if stack.kind == "number" else "auc", value, error)


def area_under_curve(
    scores: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return the chance that a positive person scores higher than another, and its influences.

    The sum of the squared influences is DeLong's variance (DeLong et al. 1988).
    """
    share = np.where(positive, weight / weight[positive].sum(), weight / weight[~positive].sum())
    placed = np.empty(len(scores))
    for group in (positive, ~positive):
        order = np.argsort(scores[~group])
        ranked = scores[~group][order]
        below = np.append(0.0, np.cumsum(share[~group][order]))
        left, right = (np.searchsorted(ranked, scores[group], side) for side in ("left", "right"))
        placed[group] = (below[left] + below[right]) / 2
    placed[~positive] = 1 - placed[~positive]
    area = float(share[positive] @ placed[positive])
    return area, share * (placed - area)


def _each(
    scores: Float[np.ndarray, "n k"], target: Float[np.ndarray, "n k"]
) -> list[tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]]:
    """Return scores and members of each class; of two classes, of one of them."""
    chances = softmax(scores, axis=1) if scores.shape[1] > 1 else scores
    return [(chances[:, j], target[:, j] == 1) for j in range(target.shape[1])]


def _area(
    inside: Bool[np.ndarray, " n"],
    scores: Float[np.ndarray, "n k"],
    target: Float[np.ndarray, "n k"],
    weight: Float[np.ndarray, " n"],
    number: int,
) -> tuple[float, Float[np.ndarray, " n"]] | None:
    """Return the area of one class in one fold with its influences, if both sides are there."""
    rows = np.flatnonzero(inside & (weight > 0))
    score, positive = _each(scores[rows], target[rows])[number]
    if positive.all() or not positive.any():
        return None
    influence = np.zeros(len(weight))
    area, influence[rows] = area_under_curve(score, positive, weight[rows])
    return area, influence


def _explained(
    checked: CrossValidation,
    scores: Float[np.ndarray, " n"],
    target: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> tuple[float, Float[np.ndarray, " n"]]:
    centres = np.array([part.frequencies[0] for part in checked.others])[checked.fold]
    spread = weight * (target - centres) ** 2
    saved = spread - weight * (target - scores) ** 2
    value = float(saved.sum() / spread.sum())
    return value, (saved - value * spread) / spread.sum()
