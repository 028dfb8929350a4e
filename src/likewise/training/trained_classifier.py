"""What all training methods share: scikit-learn's manners, and a torch module to audit."""

import abc
import warnings
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings, TrainingWarning
from likewise.training.manners import unchecked as unchecked
from likewise.training.network import one_thread


class TrainedClassifier(ClassifierMixin, BaseEstimator, abc.ABC):  # type: ignore[misc]
    """A classifier that is a torch module once fitted, and so can be audited as it is.

    Subclasses are final: they declare their choices in ``__init__``, as scikit-learn asks, and
    say how to learn. All of them have ``max_iter``, ``random_state`` and ``progress``.

    Attributes
    ----------
    classes_
        Label values in the order of the columns of `predict_proba`.
    n_features_in_
        Number of features seen in `fit`.
    n_iter_
        Training steps made.
    module_
        The fitted network, in float64: features to logits, row by row.
    """

    needs_protected: ClassVar[bool] = True
    """Whether the method is about protected traits, so that leaving them out deserves a word."""

    max_iter: int
    random_state: Any
    classes_: Shaped[np.ndarray, " k"]
    n_features_in_: int
    n_iter_: int
    module_: nn.Module

    @abc.abstractmethod
    def _learn(self, people: AuditData, rng: np.random.Generator) -> nn.Module:
        """Fit to people whose ``y`` holds class indices; set ``n_iter_`` and return logits."""

    def fit(self, X: Any, y: Any, protected: Any = None) -> "TrainedClassifier":
        """Train on features ``X`` and labels ``y``.

        Parameters
        ----------
        X, y
            One row a person. Features should be on comparable scales.
        protected
            Protected traits: a mapping of names to columns, one column, or an n × p array. They
            teach the method what to be blind to, and are not features. Without them the
            unconstrained model is trained, with a warning.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self._check()
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidData(
                f"The label has one class only ({self.classes_[0]!r}). Training needs two classes."
            )
        names = getattr(self, "feature_names_in_", ())
        people = AuditData.from_arrays(X, codes, protected, features=[str(name) for name in names])
        if self.needs_protected and not people.protected and not self._informed():
            warnings.warn(
                f"{type(self).__name__} was given no protected traits, so it trains the "
                "unconstrained model. Pass protected=… to fit.",
                TrainingWarning,
                stacklevel=2,
            )
        with one_thread():
            self.module_ = self._learn(people, generator(self.random_state)).double().eval()
        return self

    def to_torch(self) -> nn.Module:
        """Return the fitted network: a module from features to logits, one column a class."""
        check_is_fitted(self)
        return self.module_

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row a person."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        with torch.inference_mode():
            # Copied in order: torch refuses rows in reverse, which NumPy hands out as a view.
            tensor = torch.from_numpy(np.array(rows, order="C"))
            return torch.softmax(self.module_(tensor), dim=1).numpy()

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """Return the likeliest class of each person."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _informed(self) -> bool:
        """Whether the method knows what to be blind to without being shown protected traits."""
        return getattr(self, "directions", None) is not None

    def _check(self) -> None:
        """Refuse choices that make no sense; scikit-learn wants this in `fit`, not before."""
        for name, value in self.get_params(deep=False).items():
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            if numeric and name != "random_state" and value <= 0:
                raise InvalidSettings(f"{name} is {value}; it must be positive.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Adam moves a weight by about the learning rate a step: after a handful of short steps
        # nothing is learned yet, and scikit-learn's checks should not expect a score.
        travel = self.max_iter * getattr(self, "learning_rate", 1.0)
        tags.classifier_tags.poor_score = bool(travel < 0.1)
        return tags


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator for scikit-learn's ``random_state``: None, an integer, or a generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)
