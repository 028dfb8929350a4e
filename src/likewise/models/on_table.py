"""A model and a table: which columns it reads as they are, and what it says about their rows."""

import dataclasses
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from likewise.audit_data import AuditData
from likewise.errors import InvalidModel, LikewiseError
from likewise.models import native, pipeline, scikit
from likewise.models.base import Model, Opened
from likewise.models.decoded import Decoding
from likewise.models.recognise import as_model, asked_with_frames, is_torch
from likewise.models.scikit import Answer

SOME = 64
"""Rows with gaps that a pipeline is asked about, to see whether it answers."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class OnTable:
    """A model that is asked about rows of a table, with gaps and categories as they are.

    Parameters
    ----------
    model
        The model.
    columns
        The columns that it reads.
    encoder
        What makes the model's features of them; None if they are its inputs.
    """

    model: Model
    columns: tuple[str, ...]
    encoder: Any = None

    def __call__(self, table: pa.Table) -> Float[np.ndarray, "n k"]:
        """Return outputs, as `Model` does, one row a person."""
        inner = getattr(self.model, "function", None)
        if isinstance(inner, Decoding):  # it reads columns: no way there and back
            out = np.asarray(inner.of_table(table), dtype=np.float64)
            return out[:, None] if out.ndim == 1 else out
        if self.model.front is not None:
            return self.model(self.model.front(table)[0])
        if self.encoder is not None:
            return self.model(self.encoder.encode(table.select(list(self.columns))))
        arrays = [table[name].cast(pa.float64()).to_numpy() for name in self.columns]
        return self.model(np.column_stack(arrays))


def on_table(model: Model, data: AuditData) -> OnTable:
    """Return what asks a model about people by their original columns.

    Parameters
    ----------
    data
        The people as the model sees them: they say what its columns are.
    """
    if data.table is None:
        raise InvalidModel(
            "The model is to be asked about original columns, and these people are arrays. Read "
            "them from a data frame or a file (likewise.read)."
        )
    if model.front is not None:
        columns = model.front.columns or tuple(data.table.column_names)
    elif data.encoder is not None:
        inner = getattr(model, "function", None)
        columns = inner.columns if isinstance(inner, Decoding) else data.encoder.columns
    else:
        columns = data.features
    return OnTable(model, columns, data.encoder if model.front is None else None)


def columns_read(
    given: Any, table: pa.Table, protected: Sequence[str], *, raw: bool
) -> tuple[str, ...]:
    """Return the columns that a model reads as they are, categories and gaps included.

    None if it is fed numbers, or cut in front of its last step.

    Parameters
    ----------
    raw
        Whether the people's features are still to be made.
    """
    inner = given.content if isinstance(given, Opened) else given
    inner, _ = scikit.looked_through(inner)
    if isinstance(inner, Model) or is_torch(inner):
        return ()
    if isinstance(inner, native.TableModel):
        answer, width = inner.answer, inner.width
    else:
        if not scikit.is_scikit(inner) and raw and asked_with_frames(inner):
            return tuple(name for name in table.column_names if name not in protected)
        if not (hasattr(inner, "predict_proba") or scikit.is_scikit(inner)):
            return ()
        if scikit.is_scikit(inner) and pipeline.is_pipeline(inner):
            if _can_be_cut(inner, table, protected):
                return ()
            return _named(scikit.features_of(inner), scikit.width_of(inner), table, protected)
        found, width = native.table_answer(inner), scikit.width_of(inner)
        if found is None:
            return scikit.features_of(inner) if pipeline.reads_text(inner, table) else ()
        answer = found
    names = _named(answer.columns, width, table, protected)
    gaps = raw or any(table[name].null_count for name in names if name in table.column_names)
    return names if answer.categories or gaps else ()


def answers_gaps(given: Any, people: AuditData) -> bool:
    """Tell whether a pipeline answers for people with gaps in what it reads; there must be some."""
    inner = given.content if isinstance(given, Opened) else given
    inner, _ = scikit.looked_through(inner)
    table = people.table
    if table is None or not pipeline.is_pipeline(inner):
        return False
    try:
        front = as_model(inner, table=table, protected=tuple(people.protected)).front
        assert isinstance(front, pipeline.PipelineFront)
        rows = _with_gaps(front, table)
        answers = np.asarray(Answer.of(inner).method(front.raw(rows)), dtype=np.float64)
    except Exception:  # it does not: rows with gaps are left out
        return False
    return bool(len(rows) and np.isfinite(answers).all())


def _named(
    names: tuple[str, ...], width: int | None, table: pa.Table, protected: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of a table that a model reads, if it was fitted without their names."""
    front = pipeline.PipelineFront(None, names, width).among(table, protected)
    return front.columns or tuple(table.column_names)


def _can_be_cut(whole: Any, table: pa.Table, protected: Sequence[str]) -> bool:
    """Tell whether numbers stand in front of a pipeline's last step, and are all that it reads.

    Not if the steps pass gaps on to the last, and it answers: then nobody can be moved there.
    """
    try:
        front = as_model(whole, table=table, protected=protected).front
    except InvalidModel:
        return False
    except LikewiseError:  # it cannot read the table either way: let that be said
        return True
    if not isinstance(front, pipeline.PipelineFront):
        return True
    rows = _with_gaps(front, table)
    if not len(rows):
        return True
    try:
        rows = rows.filter(pa.array(~np.isfinite(front(rows)[0]).all(axis=1)))
        answers = Answer.of(whole).method(front.raw(rows.slice(0, SOME))) if len(rows) else np.inf
    except Exception:  # it does not take them whole either: let that be said
        return True
    return not np.isfinite(np.asarray(answers, dtype=np.float64)).all()


def _with_gaps(front: pipeline.PipelineFront, table: pa.Table) -> pa.Table:
    """Return the rows with gaps in what a pipeline reads."""
    columns = [table[name] for name in front.columns or table.column_names]
    gaps = np.logical_or.reduce([pc.is_null(c, nan_is_null=True).to_numpy() for c in columns])
    return table.filter(pa.array(gaps))
