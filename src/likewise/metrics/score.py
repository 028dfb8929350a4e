"""How well a regression predicts a protected trait."""

import math

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import softmax

from likewise.metrics.origin import Prediction, Validation
from likewise.metrics.penalty import CrossValidation, sum_by
from likewise.metrics.traits import Trait


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
