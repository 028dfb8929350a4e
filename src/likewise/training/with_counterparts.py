"""What remedies with counterparts share: scikit-learn's manners for frames and arrays, groups."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from likewise.errors import InvalidData, InvalidSettings
from likewise.training.neighbours import is_frame


class WithCounterparts(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What both remedies share: a pool of people, and who is near whom in what may matter."""

    estimator: Any
    may_matter: Any
    m: int
    weight: float
    progress: bool
    random_state: Any
    classes_: Shaped[np.ndarray, " k"]
    estimator_: Any
    n_features_in_: int

    def _people(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check people and labels; a frame stays a frame."""
        if not self.m >= 1:
            raise InvalidSettings(f"m is {self.m}; it must be at least 1.")
        if not 0 <= self.weight < np.inf:
            raise InvalidSettings(f"weight is {self.weight}; it must not be negative.")
        if is_frame(X):
            X, y = validate_data(self, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(self, X, y, ensure_all_finite=self._finite)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise InvalidData(
                f"The label has one class only ({self.classes_[0]!r}). Training needs two classes."
            )
        return X, y

    def _rows(self, X: Any) -> Any:
        """Check people to be predicted."""
        check_is_fitted(self)
        if is_frame(X):
            return validate_data(self, X, reset=False, skip_check_array=True)
        return validate_data(self, X, reset=False, ensure_all_finite=self._finite)

    @property
    def computes_in(self) -> np.dtype[Any]:
        """The precision of the estimator, where it says that it is no double."""
        return np.dtype(getattr(self.estimator, "computes_in", np.float64))

    @property
    def _finite(self) -> bool | str:
        """What numbers may be: as the estimator says."""
        return "allow-nan" if self.__sklearn_tags__().input_tags.allow_nan else True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = getattr(self.estimator, "__sklearn_tags__", None)
        tags.input_tags.allow_nan = inner is not None and inner().input_tags.allow_nan
        # Without columns that may matter, everyone is given the same.
        tags.classifier_tags.poor_score = self.may_matter is not None
        return tags

    def _groups(self, n: int, protected: Any) -> Shaped[np.ndarray, " n"]:
        """Return everyone's group over all traits together."""
        if protected is None:
            return np.zeros(n, dtype="<U1")
        columns = (
            list(protected.values())
            if isinstance(protected, dict)
            else list(np.asarray(protected, dtype=object).reshape(n, -1).T)
        )
        texts = [np.array([str(v) for v in np.asarray(column)]) for column in columns]
        for text in texts:
            check_consistent_length(text, np.zeros(n))
        joined = texts[0]
        for text in texts[1:]:
            joined = np.char.add(np.char.add(joined, "\x1f"), text)
        return joined

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """Return the likeliest class of each person."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row a person."""
        rows = self._rows(X)
        return np.asarray(self.estimator_.predict_proba(rows))
