"""How well a regression predicts a protected trait, in the sample it was fitted to."""

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from likewise.metrics.origin import Prediction
from likewise.metrics.traits import Trait


def predict(
    trait: Trait, scores: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]
) -> Prediction:
    """Return accuracy and area under the curve of a class, or R² of a number, by weight."""
    from sklearn.metrics import roc_auc_score

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
        auc = roc_auc_score(target[:, 0], scores[:, 0], sample_weight=weight)
    else:
        hit = scores.argmax(axis=1) == target.argmax(axis=1)
        chances = softmax(scores, axis=1)
        auc = np.mean(
            [
                roc_auc_score(target[:, j], chances[:, j], sample_weight=weight)
                for j in range(target.shape[1])
            ]
        )
    return Prediction(accuracy=float(np.average(hit, weights=weight)), auc=float(auc))
