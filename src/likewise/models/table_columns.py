"""Which columns of a table a model reads as they are."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from likewise.errors import InvalidModel, LikewiseError
from likewise.models import native, pipeline, scikit
from likewise.models.base import Model
from likewise.models.opened import Opened
from likewise.models.recognise import as_model, is_torch


def columns_read(
    given: Any, table: pa.Table | None, protected: Sequence[str], *, raw: bool
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
    if table is None or isinstance(inner, Model) or is_torch(inner):
        return ()
    if isinstance(inner, native.TableModel):
        answer, width = inner.answer, inner.width
    else:
        if not (hasattr(inner, "predict_proba") or scikit.is_scikit(inner)):
            return ()
        if scikit.is_scikit(inner) and pipeline.is_pipeline(inner):
            return () if _can_be_cut(inner, table, protected) else scikit.features_of(inner)
        found, width = native.table_answer(inner), scikit.width_of(inner)
        if found is None:
            return scikit.features_of(inner) if pipeline.reads_text(inner, table) else ()
        answer = found
    names = answer.columns
    if not names:
        front = pipeline.PipelineFront(None, (), width).among(table, protected)
        names = front.columns or tuple(table.column_names)
    gaps = raw or any(table[name].null_count for name in names if name in table.column_names)
    return names if answer.categories or gaps else ()


def _can_be_cut(whole: Any, table: pa.Table, protected: Sequence[str]) -> bool:
    """Tell whether numbers stand in front of a pipeline's last step, and are all that it reads."""
    try:
        as_model(whole, table=table, protected=protected)
    except InvalidModel:
        return False
    except LikewiseError:  # it cannot read the table either way: let that be said
        return True
    return True
