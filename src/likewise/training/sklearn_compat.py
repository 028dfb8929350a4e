"""The scikit-learn interface of training methods: likeliest classes, protected columns, groups."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin

from likewise.errors import InvalidData, InvalidSettings, nearest


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingData:
    """People to train on, checked.

    ``y`` holds class indices, ``weight`` positive weights with mean one (None if all count alike),
    ``features`` the names of the columns of ``x``, or nothing.
    """

    x: Float[np.ndarray, "n d"]
    y: Int[np.ndarray, " n"]
    protected: Mapping[str, Shaped[np.ndarray, " n"]]
    weight: Float[np.ndarray, " n"] | None
    features: tuple[str, ...]

    def take(self, rows: Int[np.ndarray, " m"]) -> "TrainingData":
        """Return the people at ``rows``."""
        protected = {name: column[rows] for name, column in self.protected.items()}
        weight = None if self.weight is None else self.weight[rows]
        return TrainingData(self.x[rows], self.y[rows], protected, weight, self.features)


class LikeliestClass(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the class with the largest of the probabilities that a subclass gives."""

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """Return the likeliest class of each person."""
        best = self.predict_proba(X).argmax(axis=1)  # first: it checks that this is fitted
        return np.take(self.classes_, best)


def split_columns(
    X: Any, names: Any, features: int | None = None
) -> tuple[Any, dict[str, Shaped[np.ndarray, " n"]]]:
    """Return X without the protected columns, and these; X may have the model's features alone."""
    if names is None:
        return X, {}
    framed = nw.dependencies.is_into_dataframe(X)
    table: Any = nw.from_native(X, eager_only=True) if framed else np.asarray(X)
    if len(table.shape) != 2 or table.shape[1] == features:
        return X, {}
    known: Sequence[Any] = table.columns if framed else range(table.shape[1])
    wanted: list[Any] = [names] if isinstance(names, str | int | np.integer) else list(names)
    for name in wanted:
        if name not in known:
            few = f" Columns: {', '.join(map(str, known))}." if len(known) <= 20 else ""
            hint = nearest(str(name), [str(one) for one in known]) or few
            raise InvalidSettings(f"There is no column {name!r} for protected.{hint}")
    if framed:
        columns = {str(name): table.get_column(name).to_numpy() for name in wanted}
        return table.drop(wanted).to_native(), columns
    return np.delete(table, wanted, axis=1), {str(name): table[:, name] for name in wanted}


def named_columns(protected: Any, n: int) -> dict[str, Shaped[np.ndarray, " n"]]:
    """Return protected attributes by name: of a mapping, one column, or an array."""
    if protected is None:
        return {}
    if not isinstance(protected, Mapping):
        name, columns = getattr(protected, "name", None) or "protected", np.asarray(protected)
        protected = {f"{name}{j or ''}": c for j, c in enumerate(np.atleast_2d(columns.T))}
    found = {str(name): np.asarray(column) for name, column in protected.items()}
    for name, column in found.items():
        if column.shape != (n,):
            shape = f"has shape {column.shape} for {n} people"
            raise InvalidData(f"The protected attribute {name!r} {shape}.")
    return found


def joint_groups(
    protected: Mapping[str, Shaped[np.ndarray, " n"]], n: int
) -> Int[np.ndarray, " n"]:
    """Return the number of the combination of values, or group, that each person is in."""
    joined = np.zeros(n, dtype=np.int64)
    for column in protected.values():
        if column.dtype.kind not in "biuf":
            column = np.array([str(value) for value in column])
        codes = np.unique(column, return_inverse=True)[1]
        joined = np.unique(joined * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    return joined
