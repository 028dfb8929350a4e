"""Cells of trees: a tree sees on which side of its thresholds a number lies, and nothing else."""

import dataclasses
import functools
import json
import math
from collections.abc import Iterable
from typing import Any, final

import numpy as np
from jaxtyping import Float

Splits = Iterable[tuple[np.ndarray, np.ndarray]]
"""Features and thresholds of some splits."""

_FORESTS = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """The thresholds of all trees of a model: rows of one cell have one answer.

    XGBoost and scikit-learn read numbers in single precision.

    Parameters
    ----------
    cuts
        Thresholds of every feature, ascending.
    side
        ``right`` if a number at a threshold belongs to those above it.
    """

    cuts: tuple[Float[np.ndarray, " _"], ...]
    side: str

    @classmethod
    def of(cls, splits: Splits, width: int, *, side: str) -> "Cells":
        """Collect thresholds."""
        feature, threshold = (np.concatenate(part) for part in zip(*splits, strict=True))
        cuts = tuple(np.unique(threshold[feature == j]) for j in range(width))
        return cls(cuts, side)

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        """Return two whole numbers for each row: the same for one cell, and for no other.

        They are sums, with random weights, of the number of thresholds below each feature (gaps
        count apart), and exact. Two cells share both with a chance of less than one in 10^20.
        """
        columns = np.ascontiguousarray(x.T, dtype=np.float32)  # as they are read
        found = np.zeros(columns.shape)
        for cuts, column, cell in zip(self.cuts, columns, found, strict=True):
            if len(cuts) == 1:
                cell[:] = column >= cuts[0] if self.side == "right" else column > cuts[0]
            elif len(cuts):
                cell[:] = np.searchsorted(cuts, column, side=self.side)  # type: ignore[call-overload]
        gaps = np.isnan(columns)
        if gaps.any():
            found[gaps] = -1.0
        return self._weights @ found

    @functools.cached_property
    def _weights(self) -> Float[np.ndarray, "2 d"]:
        # The largest weights with which sums remain whole numbers in double precision.
        largest = sum(len(cuts) + 1 for cuts in self.cuts)
        drawn = np.random.default_rng(0).integers(2**52 // largest, size=(2, len(self.cuts)))
        return drawn.astype(np.float64)


def tree_cells(estimator: Any) -> Cells | None:
    """Return the cells of a model of trees; nothing if it is none, or sees more than thresholds."""
    library, name = type(estimator).__module__.partition(".")[0], type(estimator).__name__
    width = getattr(estimator, "n_features_in_", None)
    if library == "xgboost" and width is not None:
        found = _xgboost(estimator)
        return Cells.of(found, width, side="right") if found else None
    if (
        library == "sklearn"
        and name.removesuffix("Classifier").removesuffix("Regressor") in _FORESTS
    ):
        trees = getattr(estimator, "estimators_", [estimator])
        splits = [(tree.tree_.feature, tree.tree_.threshold) for tree in trees]
        return Cells.of(splits, estimator.n_features_in_, side="left")
    return None


def _xgboost(estimator: Any) -> list[tuple[np.ndarray, np.ndarray]] | None:
    missing = getattr(estimator, "missing", math.nan)
    if not (missing is None or math.isnan(missing)):
        return None
    learner = json.loads(estimator.get_booster().save_raw("json"))["learner"]
    booster = learner["gradient_booster"]
    trees = booster.get("gbtree", booster).get("model", {}).get("trees")
    if not trees or any(tree["categories"] for tree in trees):
        return None
    splits = []
    for tree in trees:
        inner = np.array(tree["left_children"]) >= 0
        threshold = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
        splits.append((np.array(tree["split_indices"])[inner], threshold[inner]))
    return splits
