"""Scikit-learn pipelines, cut in front of their last step."""

import contextlib
import dataclasses
import importlib.util
import re
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped

from likewise.errors import InvalidData, InvalidModel, LikewiseError, in_short, nearest
from likewise.models.decoded import Decoder
from likewise.models.scikit import Answer, features_of, fitted


@final
@dataclasses.dataclass(frozen=True, eq=False)
class PipelineFront:
    """All steps of a pipeline but the last: raw columns in, the last step's inputs out.

    Parameters
    ----------
    steps
        The fitted pipeline without its last step; None if there was one step only.
    columns
        Names of the raw columns; empty if the pipeline was fitted without names.
    width
        How many raw columns it takes, if it says.
    named
        Whether it was fitted with these names, and is given them.
    """

    steps: Any
    columns: tuple[str, ...]
    width: int | None
    named: bool = True

    def __call__(
        self, rows: pa.Table | Shaped[np.ndarray, "n c"]
    ) -> tuple[Float[np.ndarray, "n d"], tuple[str, ...]]:
        """Transform raw rows as the pipeline does, and name the columns that come out."""
        if self.steps is None:
            raw = self.raw(rows)
            return _dense(raw, "The columns of the table"), self.columns or _numbered(raw.shape[1])
        x = _dense(self.transform(rows), "What the pipeline's last step is given")
        return x, self.names(x.shape[1])

    def transform(self, rows: pa.Table | Shaped[np.ndarray, "n c"]) -> Any:
        """Return what the last step is given, as it is: it may be sparse."""
        raw = self.raw(rows)
        try:
            return raw if self.steps is None else self.steps.transform(raw)
        except Exception as error:
            where = _holding(rows, str(error))
            raise InvalidData(
                f"The pipeline cannot read the data{where}: {in_short(error)}."
            ) from None

    def raw(self, rows: pa.Table | Shaped[np.ndarray, "n c"]) -> Any:
        """Return rows in the form that the first step reads."""
        if self.named or not isinstance(rows, pa.Table):
            return raw_columns(rows, self.columns, self.width)
        return raw_columns(rows.select(list(self.columns)), (), self.width)

    def line(
        self, units: Decoder
    ) -> tuple[Float[np.ndarray, "d c"], Float[np.ndarray, " d"]] | None:
        """Return the matrix and the offset that the steps apply to numbers, if they do no more.

        They are tried at the mean, a standard deviation off in every column, and at forty places
        up to ten of them away: a bend anywhere there is found.
        """
        scale, mean = units.line(units.columns)
        c = len(mean)
        places = np.random.default_rng(0).uniform(-10, 10, size=(40, c))
        rows = np.vstack([np.zeros(c), np.eye(c), places]) @ scale.T + mean
        named = self.columns and self.named
        given = pa.table(dict(zip(units.columns, rows.T, strict=True))) if named else rows
        try:
            out = self(given)[0]
        except LikewiseError:
            return None
        matrix = ((out[1 : c + 1] - out[0]) / np.diag(scale)[:, None]).T
        offset = out[0] - matrix @ mean
        off = np.abs(out - (rows @ matrix.T + offset)).max()
        return (matrix, offset) if off <= 1e-9 * max(1.0, np.abs(out).max()) else None

    def among(self, table: pa.Table, protected: Sequence[str]) -> "PipelineFront":
        """Return the front that knows its columns in a table, if it was fitted without names.

        It takes as many as it was fitted with: all, all but the protected ones, or of either only
        those with numbers.
        """
        numbers = [field.name for field in table.schema if _is_number(field.type)]
        kinds = (table.column_names, numbers)
        choices = [[n for n in names if n not in protected] for names in kinds] + [*kinds]
        fitting = [names for names in choices if len(names) == self.width]
        if self.columns or not fitting or table.num_columns == self.width:
            return self
        return dataclasses.replace(self, columns=tuple(fitting[0]), named=False)

    def names(self, width: int) -> tuple[str, ...]:
        """Return the names the pipeline gives to what comes out, or numbers."""
        with contextlib.suppress(Exception):  # not every transformer can say
            names = tuple(str(name) for name in self.steps.get_feature_names_out())
            if len(names) == width:
                return names
        return _numbered(width)


def is_pipeline(model: Any) -> bool:
    """Tell whether an object is a scikit-learn pipeline (or an heir of it)."""
    from sklearn.pipeline import Pipeline

    return isinstance(model, Pipeline)


def cut(pipeline: Any) -> tuple[PipelineFront, Any]:
    """Cut a fitted pipeline in front of its last step."""
    whole, pipeline = pipeline, _flat(pipeline)
    last = pipeline.steps[-1][1]
    if last is None or last == "passthrough":
        raise InvalidModel("The pipeline's last step is no model.")
    fitted(last)
    steps = pipeline[:-1] if len(pipeline.steps) > 1 else None
    width = getattr(whole, "n_features_in_", None)
    return PipelineFront(steps, features_of(whole), width), last


def _flat(pipeline: Any) -> Any:
    """Return a pipeline that ends in a pipeline as one."""
    steps = list(pipeline.steps)
    while is_pipeline(steps[-1][1]):
        name, inner = steps.pop()
        steps += [(f"{name}-{step}", part) for step, part in inner.steps]
    return pipeline if len(steps) == len(pipeline.steps) else type(pipeline)(steps)


@dataclasses.dataclass(frozen=True, eq=False)
class RawAnswer:
    """What a whole pipeline answers to a table of original columns."""

    answer: Answer
    width: int | None

    @classmethod
    def of(cls, estimator: Any) -> "RawAnswer":
        """Take a classifier's probabilities, a regressor's predictions."""
        return cls(Answer.of(estimator), getattr(estimator, "n_features_in_", None))

    def __call__(self, table: pa.Table) -> Any:
        """Return probabilities or predictions, one row a person."""
        return self.answer.method(raw_columns(table, self.answer.features, self.width))


@dataclasses.dataclass(frozen=True, eq=False)
class SparseAnswer:
    """What an estimator answers to sparse rows: some read what these leave out as missing."""

    method: Any

    @classmethod
    def of(cls, estimator: Any) -> "SparseAnswer":
        """Take a classifier's probabilities, a regressor's predictions."""
        return cls(Answer.of(estimator).method)

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Any:
        """Return probabilities or predictions, one row a person."""
        from scipy.sparse import csr_matrix

        return self.method(csr_matrix(x))


def reads_text(estimator: Any, table: pa.Table) -> bool:
    """Tell whether an estimator was fitted with columns of the table that are not numbers."""
    names = features_of(estimator)
    known = bool(names) and set(names) <= set(table.column_names)
    return known and not all(_is_number(table.schema.field(name).type) for name in names)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def raw_columns(
    rows: pa.Table | Shaped[np.ndarray, "n c"], columns: tuple[str, ...], width: int | None
) -> Any:
    """Give a table the form scikit-learn reads: a data frame, or a matrix if it has no names."""
    if isinstance(rows, pa.Table) and columns:
        for name in columns:
            if name not in rows.column_names:
                raise InvalidData(
                    f"The pipeline reads a column {name!r}, which the table does not have."
                    f"{nearest(name, rows.column_names)}"
                )
        return _frame(rows.select(list(columns)))
    given = rows.num_columns if isinstance(rows, pa.Table) else rows.shape[1]
    if width is not None and given != width:
        raise InvalidData(
            f"The pipeline takes {width} columns, but the data have {given}. It was fitted without "
            "column names: leave out the others with ignore (--ignore)."
        )
    if isinstance(rows, pa.Table):
        arrays = [column.to_numpy() for column in rows.columns]
        text = any(array.dtype.kind not in "biuf" for array in arrays)
        return np.column_stack([a.astype(object) for a in arrays] if text else arrays)
    return rows


def _frame(table: pa.Table) -> Any:
    if importlib.util.find_spec("pandas") is not None:
        frame = table.to_pandas()
        for name in frame.columns:
            if frame[name].dtype == object:  # imputers look for nan, not for None
                frame[name] = frame[name].where(frame[name].notna(), np.nan)
        return frame
    if importlib.util.find_spec("polars") is not None:
        import polars

        return polars.from_arrow(table)
    raise InvalidModel(
        "The pipeline reads named columns, which needs pandas or polars: pip install pandas."
    )


def _dense(out: Any, what: str) -> Float[np.ndarray, "n d"]:
    out = out.toarray() if hasattr(out, "toarray") else out
    try:
        return np.asarray(out).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModel(
            f"{what} cannot be read as numbers ({in_short(error)}), so there is no space in front "
            "of that step to audit in."
        ) from None


def _holding(rows: Any, problem: str) -> str:
    """Name the column of text that holds what could not be read as a number."""
    found = re.search(r"convert string to float: (['\"])(.*)\1", problem)
    for name in rows.column_names if found and isinstance(rows, pa.Table) else ():
        if found and found[2] in rows[name].to_pylist():
            return f" in {name!r}, which it takes for numbers"
    return ""


def _numbered(width: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(width))
