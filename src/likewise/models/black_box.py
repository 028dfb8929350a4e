"""Models that only answer: probabilities (or predictions) for rows, and no gradient."""

import dataclasses
import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidModel, LikewiseError, in_short
from likewise.loss import Output
from likewise.models.base import DOUBLE, Front, Model, ModelCard, Reference
from likewise.models.sklearn import (
    TableAnswer,
    classes_of,
    features_of,
    fitted,
    is_scikit,
    width_of,
)

Function = Callable[[np.ndarray], Any]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BlackBox(Model):
    """A function from a float64 matrix to probabilities or predicted values, one row a person.

    It returns n probabilities of the second class, or n × k of all; or scores by class, as
    dictionaries (see `score_matrix`). ``answer`` is its answer to typed columns, if it can be
    asked with them.
    """

    card: ModelCard
    function: Function
    dtype: np.dtype[Any] = DOUBLE
    declared: bool = True
    reference: Reference | None = None
    front: Front | None = None
    answer: "ColumnAnswer | None" = None

    @override
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        rows = np.ascontiguousarray(x, dtype=np.float64)
        return call_model(self.function, rows, len(rows), self.card)


@runtime_checkable
class ColumnAnswer(Protocol):
    """What a model answers to typed columns of a table."""

    def prepare(self, table: pa.Table) -> Mapping[str, Any]:
        """Return the columns with the types that the model takes, in arrays with ``take``."""
        ...

    def ask(self, columns: Mapping[str, Any]) -> Any:
        """Return probabilities or values for rows given by such columns."""
        ...


def call_model(
    function: Callable[[Any], Any], rows: Any, n: int, card: ModelCard
) -> Float[np.ndarray, "n k"]:
    """Ask somebody's code about rows; return its outputs as a matrix, or say what is wrong."""
    try:
        answer = function(rows)
    except LikewiseError:
        raise
    except (Exception, SystemExit) as error:  # it is someone else's code
        array = isinstance(rows, np.ndarray)
        width = rows.shape[1] if array else len(getattr(rows, "columns", rows))
        what = "features" if array else "columns"
        raise InvalidModel(
            f"The {card.kind} cannot be run on rows of {width} {what}: {in_short(error)}."
        ) from None
    return output_matrix(answer, n, card)


def output_matrix(answer: Any, n: int, card: ModelCard) -> Float[np.ndarray, "n k"]:
    """Return a model's outputs as a matrix; refuse what is not one finite row a person."""
    if scores_by_class(answer):
        answer = score_matrix(answer, card.classes)
    try:
        found = np.asarray(answer)
        if found.dtype.kind in "cSU":  # NumPy would drop imaginary parts, and read digits in text
            raise TypeError(f"values of type {found.dtype}")
        out = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModel(
            f"The {card.kind} returns {type(answer).__name__}, which is no array of numbers: "
            f"{in_short(error)}."
        ) from None
    if out.ndim == 1:
        out = out[:, None]
    if out.ndim != 2 or len(out) != n or out.shape[1] == 0:
        raise InvalidModel(
            f"The {card.kind} returns shape {out.shape} for {n} rows; it must return one row a "
            "person, with one column a class (or a single one)."
        )
    bad = int((~np.isfinite(out)).any(axis=1).sum())
    if bad:
        raise InvalidModel(
            f"The {card.kind} returns NaN or infinite numbers for {bad} of {n} rows."
        )
    return out


def scores_by_class(answer: Any) -> tuple[str, ...]:
    """Return the classes, sorted, of scores that are given by class; none if they are not.

    Scores by class are a dictionary of columns, or for each row a dictionary of scores or a list
    of ``{"label": …, "score": …}``.
    """
    if isinstance(answer, Mapping):
        return tuple(sorted(map(str, answer)))
    if not isinstance(answer, Sequence) or isinstance(answer, str) or not len(answer):
        return ()
    rows = [_by_class(row) for row in answer]
    return tuple(sorted({name for row in rows if row is not None for name in row}))


def score_matrix(answer: Any, classes: Sequence[Any]) -> Float[np.ndarray, "n k"]:
    """Return scores that are given by class as a matrix, in the order of the classes."""
    names = [str(name) for name in classes] or list(scores_by_class(answer))
    if isinstance(answer, Mapping):
        columns = {str(name): np.asarray(scores) for name, scores in answer.items()}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        rows = [_by_class(row) or {} for row in answer]
    lacking = next((n for n in names for row in rows if n not in row), None)
    if lacking is not None or len(names) < 2:
        raise InvalidModel(
            f"The model does not give every row a score for the class {lacking or names[0]!r} and "
            "for all others. Let it return the scores of all classes (top_k=None in a Hugging "
            "Face pipeline)."
        )
    return np.array([[row[name] for name in names] for row in rows], dtype=np.float64)


def _by_class(row: Any) -> dict[str, Any] | None:
    if isinstance(row, Mapping) and {"label", "score"} <= row.keys():
        row = [row]
    if isinstance(row, Mapping):
        return {str(name): score for name, score in row.items()}
    listed = isinstance(row, list) and row and all(isinstance(part, Mapping) for part in row)
    if listed and all({"label", "score"} <= part.keys() for part in row):
        return {str(part["label"]): part["score"] for part in row}
    return None


def from_callable(
    function: Function,
    *,
    output: Output = "probabilities",
    classes: tuple[Any, ...] = (),
    kind: str | None = None,
) -> BlackBox:
    """Turn a function from arrays to probabilities (or values) into a model."""
    name = getattr(function, "__name__", type(function).__name__)
    card = ModelCard.from_output(kind or f"function {name}", output, classes)
    return BlackBox(dataclasses.replace(card, differentiable=False), function)


def from_answer(
    kind: str,
    answer: TableAnswer,
    output: Output,
    width: int | None,
    classes: tuple[Any, ...] = (),
    declared: bool = True,
    exact: bool = True,
) -> BlackBox:
    """Turn what a native file answers into a model.

    Parameters
    ----------
    declared
        Whether the file says what the outputs mean.
    exact
        Whether it computes in double precision.
    """
    card = ModelCard.from_output(kind, output, classes)
    card = dataclasses.replace(
        card, n_features=width, features=answer.columns, differentiable=False
    )
    dtype = np.dtype(np.float64 if exact else np.float32)
    return BlackBox(card, answer.matrix, dtype, declared, answer=answer)


def from_predictor(estimator: Any) -> BlackBox:
    """Turn anything with ``predict_proba``, or a regressor, into a model."""
    if is_scikit(estimator):
        fitted(estimator)
    probabilities = hasattr(estimator, "predict_proba")
    values = not (probabilities or hasattr(estimator, "classes_"))
    matrix = TableAnswer.from_estimator(estimator).matrix
    box = from_callable(matrix, output="values" if values else "probabilities")
    # XGBoost takes codes only, so what it calls its classes are not the label's values.
    coded = type(estimator).__module__.startswith("xgboost")
    card = dataclasses.replace(
        box.card,
        kind=type(estimator).__name__,
        classes=() if coded or values else classes_of(estimator),
        n_features=width_of(estimator),
        features=features_of(estimator),
        fingerprint=_fingerprint(estimator),
        decisions=not (values or probabilities),
    )
    dtype = np.dtype(getattr(estimator, "computes_in", DOUBLE))
    return dataclasses.replace(box, card=card, dtype=dtype)


def _fingerprint(estimator: Any) -> str:
    try:
        return hashlib.sha256(pickle.dumps(estimator, protocol=4)).hexdigest()
    except Exception:  # some hold locks or files: then there is none
        return ""
