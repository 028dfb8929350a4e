"""The propensity from which attributes are redrawn: a negative control of what matching leaves.

e(L) = P(second group | columns that may matter) is cross-fitted on the pool. An attribute redrawn
from it goes with L as the real one does and has nothing to do with the rest, so that whatever
difference pairs show then is theirs, and not the model's.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.methods.matching import Covariates, Key, look_up, seed_sequence

REDRAWS = 19
FOLDS = 5
MOST_LEVELS = 250
"""Levels of a category that the propensity tells apart; the rarest beyond are one."""


@dataclasses.dataclass(frozen=True)
class Propensity:
    """The probability of the second of two groups, given the columns that may matter.

    ``pool`` is of the pool's rows, each from a fit without its fold; ``levels`` are the levels of
    each category that are told apart; ``classifier`` is fitted on all rows of the pool, or is one
    number for all, or `None` if nobody else is asked for.
    """

    pool: Float[np.ndarray, " n"]
    levels: tuple[Int[np.ndarray, " _"], ...]
    classifier: Any

    def of_people(self, people: Covariates) -> Float[np.ndarray, " n"]:
        """Return the probabilities of people that are not in the pool, not clipped."""
        if isinstance(self.classifier, float):
            return np.full(len(people), self.classifier)
        if not len(people):
            return np.zeros(0)
        return _predicted(self.classifier, _features(people, self.levels))


def fit_propensity(
    pool: Covariates,
    second: Bool[np.ndarray, " n"],
    key: Key,
    clusters: Int[np.ndarray, " n"] | None = None,
    *,
    for_people: bool = True,
    folds: int = FOLDS,
) -> Propensity:
    """Cross-fit propensities by gradient boosting, in stratified folds of whole clusters.

    Rows of one cluster share a fold: otherwise its other rows give its attribute away.
    ``for_people`` says whether people outside the pool are asked for as well.
    """
    levels = tuple(_common_levels(column) for column in pool.category.T)
    x = _features(pool, levels)
    categorical = np.arange(x.shape[1]) >= pool.numeric.shape[1]
    fold = stratified_folds(second, key, clusters, folds)
    out_of_fold = np.zeros(len(second))
    for number in np.unique(fold):
        held = fold == number
        fitted = _fit(x[~held], second[~held], categorical)
        out_of_fold[held] = _predicted(fitted, x[held])
    whole = _fit(x, second, categorical) if for_people else None
    return Propensity(out_of_fold, levels, whole)


def stratified_folds(
    second: Bool[np.ndarray, " n"],
    key: Key,
    clusters: Int[np.ndarray, " n"] | None = None,
    folds: int = FOLDS,
) -> Int[np.ndarray, " n"]:
    """Deal rows, or whole clusters, into folds that have equal shares of both groups.

    A cluster with members of both groups counts for the one that most of them belong to.
    """
    if clusters is None:
        clusters = np.arange(len(second))
    names, unit = np.unique(clusters, return_inverse=True)
    share = np.bincount(unit, second) / np.bincount(unit)
    shuffled = np.random.default_rng(seed_sequence((*key, "folds"))).permutation(len(names))
    dealt = shuffled[np.argsort(share[shuffled] > 0.5, kind="stable")]
    fold = np.empty(len(names), dtype=np.int64)
    fold[dealt] = np.arange(len(names)) % folds
    return fold[unit]


def _common_levels(column: Int[np.ndarray, " n"]) -> Int[np.ndarray, " _"]:
    values, counts = np.unique(column, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return np.sort(values[most])


def _features(rows: Covariates, levels: tuple[np.ndarray, ...]) -> Float[np.ndarray, "n d"]:
    """Return raw numbers, and categories as codes; other levels have a code of their own."""
    codes = []
    for column, known in zip(rows.category.T, levels, strict=True):
        at, seen = look_up(known, column)
        codes.append(np.where(seen, at, len(known)).astype(np.float64))
    return np.column_stack([rows.numeric, *codes])


def _fit(x: Float[np.ndarray, "n d"], second: np.ndarray, categorical: np.ndarray) -> Any:
    if second.all() or not second.any():
        return float(second[0])
    empty = np.isnan(x).all(axis=0)
    if empty.any():
        # Bins need a value; a leaf needs twenty rows, so that this one has no effect.
        x = x.copy()
        x[0, empty] = 0.0
    return gradient_boosting(categorical).fit(x, second)


def gradient_boosting(categorical: Bool[np.ndarray, " d"]) -> Any:
    """Return a classifier by gradient boosting, small and without early stopping, not fitted."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=60,
        learning_rate=0.1,
        max_leaf_nodes=8,
        min_samples_leaf=20,
        early_stopping=False,
        categorical_features=categorical,
        random_state=0,
    )


def _predicted(fitted: Any, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    if isinstance(fitted, float):
        return np.full(len(x), fitted)
    return np.asarray(fitted.predict_proba(x)[:, 1], dtype=np.float64)
