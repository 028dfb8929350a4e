"""The scikit-learn interface of all training methods: checks, protected columns, weights."""

import abc
import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings, LikewiseWarning, nearest
from likewise.methods.learn_metric import sensitive_subspace
from likewise.methods.metric import ProjectionMetric

E = TypeVar("E", bound="FairClassifier")

HELD_OUT, FEWEST_HELD_OUT = 0.2, 10
"""Share of the people on whom a strength ``auto`` is chosen; and people of the smallest class
without whom nothing is held out."""


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


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class FairClassifier(LikeliestClass, abc.ABC):
    """Base class of the training methods: ``fit(X, y, sample_weight=…)``, as scikit-learn has it.

    Protected attributes come from columns of ``X`` that the parameter ``protected`` names (the
    model does not read these), or from ``fit(…, protected=…)``, which metadata routing passes on
    (`set_fit_request`). Subclasses are dataclasses, whose fields are their parameters.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        Label values in the order of the columns of `predict_proba`; features that the model reads.
    n_iter_, held_out_
        Training steps made; and, where a strength is ``auto``, balanced accuracy on held-out
        people, by strength.
    """

    # Run-time type checks stay off constructors: scikit-learn wants `fit` to complain.
    __no_type_check__: ClassVar[bool] = True

    strength: ClassVar[tuple[str, tuple[float, ...]]] = ("", (0.0,))
    """The parameter that may be ``auto``, and its values: none at all, then weak to strong."""

    max_loss: ClassVar[float] = 0.02
    """Balanced accuracy that ``auto`` may lose on held-out people."""

    binary_only: ClassVar[bool] = False
    """Whether labels with more than two classes are refused."""

    protected: Any = None
    random_state: Any = None
    classes_: Shaped[np.ndarray, " k"] = dataclasses.field(init=False)
    n_features_in_: int = dataclasses.field(init=False)
    n_iter_: int = dataclasses.field(init=False)
    held_out_: dict[float, float] = dataclasses.field(init=False)

    @abc.abstractmethod
    def _learn(self, data: TrainingData, rng: np.random.Generator) -> None:
        """Fit to people whose ``y`` holds class indices, and set ``n_iter_``."""

    @abc.abstractmethod
    def _probabilities(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class for checked features."""

    def fit(self: E, X: Any, y: Any, sample_weight: Any = None, *, protected: Any = None) -> E:
        """Train on features ``X`` and labels ``y``.

        Parameters
        ----------
        X, y
            One row per person. Features should be on comparable scales.
        sample_weight
            How much each person counts; people of weight zero are left out.
        protected
            Protected attributes, if no columns of ``X`` were named: a mapping of names to columns,
            one column, or an n × p array.
        """
        X, columns = split_columns(X, self.protected)
        if columns and protected is not None:
            said = "The protected columns are named in the constructor and passed to fit. Do one."
            raise InvalidSettings(said)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self._check_parameters()
        columns = columns or named_columns(protected, len(y))
        weight = np.ones(len(y))
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, weight[:, None], dtype=np.float64)
        kept = np.flatnonzero(weight)
        self.classes_ = np.unique(y[kept])
        if len(self.classes_) < 2:
            only = ", ".join(map(repr, self.classes_))
            raise InvalidData(f"The label has one class only ({only}). Training needs two classes.")
        if self.binary_only and len(self.classes_) > 2:
            # scikit-learn's checks look for this sentence.
            said = "Only binary classification is supported. The type of the target is multiclass."
            raise InvalidData(said)
        if not columns and self._needs_protected():
            none = f"{type(self).__name__} was given no protected attributes (protected=…)"
            warnings.warn(f"{none}: it trains the plain model.", LikewiseWarning, stacklevel=2)
        # A label that only people of weight zero have is nobody's.
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        each = weight / weight[kept].mean() if np.ptp(weight[kept]) else None
        data = TrainingData(X, codes, columns, each, names)
        self._fit(data if len(kept) == len(y) else data.take(kept))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row per person."""
        return self._probabilities(self._rows(X))

    def _rows(self, X: Any) -> Float[np.ndarray, "n d"]:
        """Check people to be predicted, who may have the protected columns or not."""
        check_is_fitted(self)
        rows, _ = split_columns(X, self.protected, self.n_features_in_)
        return validate_data(self, rows, dtype=np.float64, reset=False)

    def _needs_protected(self) -> bool:
        """Tell whether the model is unconstrained without protected attributes."""
        return getattr(self, "directions", None) is None

    def _fit(self, data: TrainingData) -> None:
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = seed.randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        parameter, (none, *_) = self.strength
        if parameter:
            value = getattr(self, parameter)
            if value == "auto":
                fair = bool(data.protected) or not self._needs_protected()
                value = self._chosen_strength(data, rng) if fair else none
            setattr(self, f"{parameter}_", float(value))
        self._learn(data, rng)

    def _chosen_strength(self, data: TrainingData, rng: np.random.Generator) -> float:
        """Return the greatest strength that loses at most `max_loss` on held-out people.

        A fifth of the people, with the shares of the classes, is held out. Strengths are tried from
        the strongest down; the model is then trained on everyone.
        """
        parameter, (none, *strengths) = self.strength
        self.held_out_ = {}
        if np.bincount(data.y).min() < FEWEST_HELD_OUT:
            return strengths[0]
        seed = int(rng.integers(2**31 - 1))
        parts = train_test_split(
            np.arange(len(data.y)), test_size=HELD_OUT, stratify=data.y, random_state=seed
        )
        train, test = (data.take(rows) for rows in parts)
        lost = math.inf
        for value in (none, *reversed(strengths)):
            trial = clone(self).set_params(**{parameter: value, "random_state": seed})
            trial.classes_, trial.n_features_in_ = self.classes_, self.n_features_in_
            trial._fit(train)
            decided = trial._probabilities(test.x).argmax(axis=1)
            score = balanced_accuracy_score(test.y, decided, sample_weight=test.weight)
            self.held_out_[value] = float(score)
            lost = self.held_out_[none] - self.held_out_[value]
            if value != none and lost <= self.max_loss:
                return value
        said = (
            f"The least {parameter} tried, {strengths[0]:g}, loses {lost:.3f} of balanced "
            f"accuracy on held-out people, more than {self.max_loss:g}. It is used."
        )
        warnings.warn(said, LikewiseWarning, stacklevel=4)
        return strengths[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self.binary_only
        return tags

    def _check_parameters(self) -> None:
        """Refuse parameters out of range; scikit-learn wants this in `fit`, not before."""
        parameter, _ = self.strength
        for name, value in self.get_params(deep=False).items():
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            if name == parameter:
                if value != "auto" and not (numeric and 0 <= value < np.inf):
                    said = "it is a number or 'auto', and must not be negative"
                    raise InvalidSettings(f"{name} is {value!r}; {said}.")
            elif numeric and name not in ("random_state", "protected") and not value > 0:
                raise InvalidSettings(f"{name} is {value}; it must be positive.")


def learned_subspace(data: TrainingData) -> ProjectionMetric:
    """Return the paper's metric, which ignores what predicts the protected attributes."""
    people = AuditData.from_arrays(
        data.x, data.y, dict(data.protected), features=data.features, weight=data.weight
    )
    return sensitive_subspace(people, C=1.0, groups=0, controls=0)


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
