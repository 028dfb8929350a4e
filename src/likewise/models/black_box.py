"""Models that only answer: probabilities (or predictions) for rows, and no gradient."""

import contextlib
import dataclasses
import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from typing_extensions import override

from likewise.errors import InvalidModel, LikewiseError, in_short
from likewise.loss import Output, Outputs, Rows
from likewise.models.base import DOUBLE, Model, ModelCard
from likewise.models.sklearn import TableAnswer, classes_of, fitted, is_scikit, width_of


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BlackBox(Model):
    """A function from a float64 matrix to probabilities or predicted values, one row a person.

    It returns n probabilities of the second class, or n × k of all; or scores by class, as
    dictionaries (see `rows_by_class`).
    """

    card: ModelCard
    function: Callable[[Any], Any]
    dtype: np.dtype[Any] = DOUBLE

    @override
    def __call__(self, x: Rows) -> Outputs:
        rows = np.ascontiguousarray(x, dtype=np.float64)
        return call_model(self.function, rows, self.card)


def call_model(function: Callable[[Any], Any], rows: Any, card: ModelCard) -> Outputs:
    """Ask somebody's code about rows, a matrix or columns; return its outputs as a matrix."""
    array = isinstance(rows, np.ndarray)
    try:
        answer = function(rows)
    except LikewiseError:
        raise
    except (Exception, SystemExit) as error:  # it is someone else's code
        what = f"{rows.shape[1]} features" if array else f"{len(rows)} columns"
        why = f"cannot be run on rows of {what}: {in_short(error)}"
        raise InvalidModel(f"The {card.kind} {why}.") from None
    return output_matrix(answer, len(rows if array else next(iter(rows.values()))), card)


def output_matrix(answer: Any, n: int, card: ModelCard) -> Outputs:
    """Return a model's outputs as a matrix; refuse what is not one finite row a person."""
    if rows := rows_by_class(answer):
        answer = _score_matrix(rows, card.classes)
    try:
        found = np.asarray(answer)
        if found.dtype.kind in "cSU":  # NumPy would drop imaginary parts, and read digits in text
            raise TypeError(f"values of type {found.dtype}")
        out = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        what = f"{type(answer).__name__}, which is no array of numbers: {in_short(error)}"
        raise InvalidModel(f"The {card.kind} returns {what}.") from None
    if out.ndim == 1:
        out = out[:, None]
    if out.ndim != 2 or len(out) != n or out.shape[1] == 0:
        raise InvalidModel(
            f"The {card.kind} returns shape {out.shape} for {n} rows; it must return one row a "
            "person, with one column a class (or a single one)."
        )
    if bad := int((~np.isfinite(out)).any(axis=1).sum()):
        raise InvalidModel(
            f"The {card.kind} returns NaN or infinite numbers for {bad} of {n} rows. If values are "
            "missing there, leave such rows out: --set columns.drop_missing=true."
        )
    return out


def rows_by_class(answer: Any) -> list[dict[str, Any]]:
    """Return scores that are given by class, a dictionary a row; nothing if they are not.

    Scores by class are a dictionary of columns, or for each row a dictionary of scores or a list
    of ``{"label": …, "score": …}``.
    """
    if isinstance(answer, Mapping):
        columns = {str(name): np.atleast_1d(scores) for name, scores in answer.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        return []
    found = []
    for row in answer:
        parts = row if isinstance(row, list) else [row]
        if parts and all(isinstance(p, Mapping) and {"label", "score"} <= p.keys() for p in parts):
            row = {part["label"]: part["score"] for part in parts}
        named = row if isinstance(row, Mapping) else {}
        found.append({str(name): score for name, score in named.items()})
    return found if any(found) else []


def _score_matrix(rows: Sequence[Mapping[str, Any]], classes: Sequence[Any]) -> Outputs:
    names = [str(name) for name in classes] or sorted({name for row in rows for name in row})
    lacking = next((n for n in names for row in rows if n not in row), None)
    if lacking is not None or len(names) < 2:
        raise InvalidModel(
            f"The model does not give every row a score for the class {lacking or names[0]!r}. Let "
            "it return the scores of all classes (top_k=None in a Hugging Face pipeline)."
        )
    return np.array([[row[name] for name in names] for row in rows], dtype=np.float64)


def from_answer(
    kind: str,
    answer: TableAnswer,
    output: Output | None,
    width: int | None,
    classes: tuple[Any, ...] = (),
    dtype: Any = DOUBLE,
) -> Model:
    """Turn what an estimator or a native file answers into a model."""
    card = ModelCard(kind, output, classes, width, answer.columns, differentiable=False)
    return BlackBox(card, answer.matrix, np.dtype(dtype)).replaced(answer=answer)


def from_predictor(estimator: Any) -> Model:
    """Turn anything with ``predict_proba``, or a regressor, into a model."""
    if is_scikit(estimator):
        fitted(estimator)
    probabilities = hasattr(estimator, "predict_proba")
    values = not (probabilities or hasattr(estimator, "classes_"))
    # XGBoost takes codes only, so what it calls its classes are not the label's values.
    coded = type(estimator).__module__.startswith("xgboost")
    fingerprint = ""
    with contextlib.suppress(Exception):  # some hold locks or files: then there is none
        fingerprint = hashlib.sha256(pickle.dumps(estimator, protocol=4)).hexdigest()
    model = from_answer(
        type(estimator).__name__,
        TableAnswer.from_estimator(estimator),
        "values" if values else "probabilities",
        width_of(estimator),
        () if coded or values else classes_of(estimator),
        getattr(estimator, "computes_in", DOUBLE),
    )
    decisions = not (values or probabilities)
    return model.with_card(fingerprint=fingerprint, decisions=decisions)
