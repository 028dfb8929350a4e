"""Cells of trees: a tree sees on which side of its thresholds a number lies, and nothing else."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, final

import numpy as np
from jaxtyping import Float, Int

Side = Literal["left", "right"]
"""Whether a number at a threshold counts as above it (right), or not (left)."""

Splits = Iterable[tuple[np.ndarray, np.ndarray]]
"""Features and thresholds of some splits."""

FEW = 8
"""Thresholds on somebody's way up to which comparing them one by one is the fastest."""

NUMBERS = 2**17
"""Numbers that are worked on at once, which the cache should hold."""

TINIEST = float(np.float32(1e-35))
"""What LightGBM takes for zero."""

_FORESTS = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """The thresholds of all trees of a model: rows of one cell have one answer.

    Parameters
    ----------
    cuts
        Thresholds of every feature, ascending.
    side
        ``right`` if a number at a threshold belongs to those above it.
    single
        Whether numbers are read in single precision, as XGBoost and scikit-learn do; else as
        LightGBM does, which takes the tiniest for zero.
    """

    cuts: tuple[Float[np.ndarray, " _"], ...]
    side: Side
    single: bool = True

    @classmethod
    def of(cls, splits: Splits, width: int, *, side: Side, single: bool = True) -> "Cells":
        """Collect thresholds."""
        feature, threshold = (np.concatenate(part) for part in zip(*splits, strict=True))
        cuts = tuple(np.unique(threshold[feature == j]) for j in range(width))
        return cls(cuts, side, single)

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        """Return two whole numbers for each row: the same for one cell, and for no other.

        They are sums, with random weights, of the number of thresholds below each feature (gaps
        count apart), and exact. Two cells share both with a chance of less than one in 10^20.
        """
        return self._weights @ self._below(x)

    def _below(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d n"]:
        columns = self._read(x.T)
        found = np.zeros(columns.shape)
        one = [j for j, cuts in enumerate(self.cuts) if len(cuts) == 1]
        only = np.array([self.cuts[j] for j in one]).reshape(-1, 1)
        found[one] = columns[one] >= only if self.side == "right" else columns[one] > only
        for cuts, column, cell in zip(self.cuts, columns, found, strict=True):
            if len(cuts) > 1:
                cell[:] = np.searchsorted(cuts, column, self.side)
        gaps = np.isnan(columns)
        if gaps.any():
            found[gaps] = -1.0
        return found

    def _read(self, x: Float[np.ndarray, "f n"]) -> Float[np.ndarray, "f n"]:
        if self.single:
            return np.ascontiguousarray(x, dtype=np.float32)
        return np.where(np.abs(x) <= TINIEST, 0.0, x)

    def along(
        self,
        x0: Float[np.ndarray, "n d"],
        axes: Float[np.ndarray, "r d"],
        far: Float[np.ndarray, " n"],
    ) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the numbers of places, as a function of the steps that lead there.

        Only features that can come to a threshold on the way are looked at.
        """
        aside = far[:, None] * np.linalg.norm(axes, axis=0)
        slack = 1e-6 * (1 + np.abs(x0) + aside)  # of single precision
        low, high = (x0 - aside - slack).T, (x0 + aside + slack).T
        first, last = (
            [
                np.searchsorted(cuts, end, self.side)
                for cuts, end in zip(self.cuts, ends, strict=True)
            ]
            for ends in (low, high)
        )
        most = [int((up - down).max(initial=0)) for down, up in zip(first, last, strict=True)]
        few = [j for j, count in enumerate(most) if 0 < count <= FEW]
        many = [j for j, count in enumerate(most) if count > FEW]
        columns = few + many
        # Whoever passes one of few thresholds has the weight of its feature added.
        base = self._below(x0)
        base[columns] = 0.0
        within = [np.zeros((0, len(x0)))]
        for j in few:
            base[j] = first[j]
            padded = np.concatenate([self.cuts[j], np.full(most[j], np.inf)])
            within.append(padded[first[j] + np.arange(most[j])[:, None]])
        cuts, passed = (
            np.concatenate(within),
            np.repeat(np.arange(len(few)), [most[j] for j in few]),
        )
        start, own, towards = self._weights @ base, x0.T[columns], axes[:, columns]
        weights = self._weights[:, [*(few[k] for k in passed), *many]]
        compared = np.greater_equal if self.side == "right" else np.greater
        size = max(1, NUMBERS // (len(weights.T) + 1))

        def numbers(
            steps: Float[np.ndarray, "q m r"], who: Int[np.ndarray, " q"]
        ) -> Float[np.ndarray, "2 _"]:
            m = steps.shape[1]
            rows, moves = np.repeat(who, m), steps.reshape(-1, len(axes))
            found = start.take(rows, axis=1)
            for some in (slice(k, k + size) for k in range(0, len(rows), size)):
                x = stepped(own.take(rows[some], axis=1), towards, moves[some])
                x = self._read(x).astype(np.float64, copy=False)
                below = np.empty((len(weights.T), x.shape[1]))
                compared(x[passed], cuts.take(rows[some], axis=1), out=below[: len(passed)])
                for j, at, count in zip(many, x[len(few) :], below[len(passed) :], strict=True):
                    count[:] = np.searchsorted(self.cuts[j], at, self.side)
                found[:, some] += weights @ below
            return found

        return numbers

    @functools.cached_property
    def _weights(self) -> Float[np.ndarray, "2 d"]:
        # The largest weights with which sums remain whole numbers in double precision.
        largest = sum(len(cuts) + 1 for cuts in self.cuts)
        drawn = np.random.default_rng(0).integers(2**52 // largest, size=(2, len(self.cuts)))
        return drawn.astype(np.float64)


def stepped(
    x0: Float[np.ndarray, "f q"], axes: Float[np.ndarray, "r f"], steps: Float[np.ndarray, "q r"]
) -> Float[np.ndarray, "f q"]:
    """Return places feature by feature; each number is the same whichever others there are."""
    x = np.multiply.outer(axes[0], steps[:, 0])
    for axis, step in zip(axes[1:], steps.T[1:], strict=True):
        x += np.multiply.outer(axis, step)
    x += x0
    return x


def tree_cells(estimator: Any) -> Cells | None:
    """Return the cells of a model of trees; nothing if it is none, or sees more than thresholds."""
    library, name = type(estimator).__module__.partition(".")[0], type(estimator).__name__
    width = getattr(estimator, "n_features_in_", None)
    if library == "xgboost" and width is not None:
        found = _xgboost(estimator)
        return Cells.of(found, width, side="right") if found else None
    if library == "lightgbm" and width is not None:
        found = _lightgbm(estimator)
        return Cells.of(found, width, side="left", single=False) if found else None
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


def _lightgbm(estimator: Any) -> list[tuple[np.ndarray, np.ndarray]] | None:
    head, *trees = estimator.booster_.model_to_string().split("\nTree=")
    if f"max_feature_idx={estimator.n_features_in_ - 1}\n" not in head:
        return None
    splits = []
    for tree in trees:
        lines = dict(line.partition("=")[::2] for line in tree.splitlines())
        if lines.get("is_linear", "0") != "0":
            return None
        kinds = np.array(lines.get("decision_type", "").split(), dtype=np.int64)
        # The first bit tells of categories, the third of zeros that are taken for gaps.
        if (kinds & 0b101).any():
            return None
        feature = np.array(lines.get("split_feature", "").split(), dtype=np.int64)
        splits.append((feature, np.array(lines.get("threshold", "").split(), dtype=np.float64)))
    return splits
