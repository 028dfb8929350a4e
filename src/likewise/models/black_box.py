"""Models that only answer: probabilities (or predictions) for rows, and no gradient."""

import dataclasses
import functools
import hashlib
import pickle
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidModel, LikewiseError, in_short
from likewise.losses import Output
from likewise.models.base import DOUBLE, Front, Model, ModelCard, Reference
from likewise.models.scikit import Answer, classes_of, features_of, fitted, is_scikit, width_of
from likewise.models.tree_cells import Cells, tree_cells

Function = Callable[[np.ndarray], Any]

ALIKE = 3
"""Trees of a forest by whose leaves rows are put in order."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BlackBox(Model):
    """A function from a float64 matrix to probabilities or predicted values, one row a person.

    Parameters
    ----------
    card
        What is known of it.
    function
        Takes an n × d array. Returns n probabilities of the second class, or n × k of all.
    dtype
        What it computes in, if that is coarser than float64.
    """

    card: ModelCard
    function: Function
    dtype: np.dtype[Any] = DOUBLE
    declared: bool = True
    reference: Reference | None = None
    front: Front | None = None

    @functools.cached_property
    @override
    def cells(self) -> Cells | None:
        return tree_cells(getattr(getattr(self.function, "method", None), "__self__", None))

    @override
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        rows = np.ascontiguousarray(x, dtype=np.float64)
        try:
            answer = np.asarray(self.function(rows), dtype=np.float64)
        except LikewiseError:
            raise
        except Exception as error:  # it is someone else's code
            raise InvalidModel(
                f"The {self.card.kind} cannot be run on rows of {rows.shape[1]} features: "
                f"{in_short(error)}."
            ) from None
        if answer.ndim == 1:
            answer = answer[:, None]
        if answer.ndim != 2 or len(answer) != len(rows) or answer.shape[1] == 0:
            raise InvalidModel(
                f"The {self.card.kind} returns shape {answer.shape} for {len(rows)} rows; it must "
                "return one row a person, with one column a class (or a single one)."
            )
        bad = int((~np.isfinite(answer)).any(axis=1).sum())
        if bad:
            raise InvalidModel(
                f"The {self.card.kind} returns NaN or infinite numbers for {bad} of {len(rows)} "
                "rows."
            )
        return answer


@dataclasses.dataclass(frozen=True)
class Forest:
    """The answer of a scikit-learn forest, to the last digit, without a job for every tree.

    Those jobs take longer than the trees where few rows are asked about at a time.
    """

    answer: Answer

    @property
    def method(self) -> Any:
        """The forest's own way to answer."""
        return self.answer.method

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Any:
        """Return its probabilities, or its predictions."""
        forest = self.method.__self__
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(x, dtype=np.float32)
        if rows.shape[1] != forest.n_features_in_ or not np.isfinite(rows).all():
            return self.answer(x)  # it knows best what to do, or to say
        trees = [tree.tree_ for tree in forest.estimators_]
        # Rows that end in the same leaves go the same ways in other trees, too, which processors
        # guess right then.
        order = np.lexsort([tree.apply(rows) for tree in trees[:ALIKE]])
        rows = rows[order]
        found = np.zeros((len(rows), getattr(forest, "n_classes_", 1)))
        for tree in trees:
            found += tree.predict(rows)[:, : found.shape[1]]
        found /= len(trees)
        return found[np.argsort(order)]


def _forest(estimator: Any) -> Forest | None:
    """Return a forest that answers tree by tree, if it is one that nobody has changed."""
    kind = type(estimator).__name__.removesuffix("Classifier").removesuffix("Regressor")
    if kind not in ("RandomForest", "ExtraTrees") or getattr(estimator, "n_outputs_", 0) != 1:
        return None
    answer = Answer.of(estimator)
    own = getattr(answer.method, "__func__", None)
    return Forest(answer) if own and own.__module__ == "sklearn.ensemble._forest" else None


def from_callable(
    function: Function,
    *,
    output: Output = "probabilities",
    classes: tuple[Any, ...] = (),
    kind: str | None = None,
) -> BlackBox:
    """Turn a function from arrays to probabilities (or values) into a model."""
    name = getattr(function, "__name__", type(function).__name__)
    card = ModelCard(
        kind=kind or f"function {name}",
        task="regression" if output == "values" else "classification",
        output=output,
        classes=classes,
        differentiable=False,
    )
    return BlackBox(card, function)


def from_predictor(estimator: Any) -> BlackBox:
    """Turn anything with ``predict_proba``, or a regressor, into a model."""
    output = answers(estimator)
    box = from_callable(_forest(estimator) or Answer.of(estimator), output=output)
    # XGBoost takes codes only, so what it calls its classes are not the label's values.
    coded = type(estimator).__module__.startswith("xgboost")
    card = dataclasses.replace(
        box.card,
        kind=type(estimator).__name__,
        classes=() if coded or box.card.task == "regression" else classes_of(estimator),
        n_features=width_of(estimator),
        features=features_of(estimator),
        fingerprint=_fingerprint(estimator),
        decisions=box.card.task == "classification" and not hasattr(estimator, "predict_proba"),
    )
    dtype = np.dtype(getattr(estimator, "computes_in", DOUBLE))
    return dataclasses.replace(box, card=card, dtype=dtype)


def answers(estimator: Any) -> Output:
    """Say whether an estimator gives probabilities (or decisions) or values."""
    if is_scikit(estimator):
        fitted(estimator)
    classes = hasattr(estimator, "predict_proba") or hasattr(estimator, "classes_")
    return "probabilities" if classes else "values"


def _fingerprint(estimator: Any) -> str:
    try:
        return hashlib.sha256(pickle.dumps(estimator, protocol=4)).hexdigest()
    except Exception:  # some hold locks or files: then there is none
        return ""
