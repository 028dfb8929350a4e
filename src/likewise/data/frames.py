"""Data frames of any make (pandas, polars, Arrow, …) as Arrow tables, by way of narwhals."""

from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals.exceptions import DuplicateError, NarwhalsError

from likewise.data.roles import check_names
from likewise.errors import InvalidData, in_short


def frame_table(frame: Any) -> tuple[pa.Table, str]:
    """Return a data frame as an Arrow table, and what it was, in words.

    The index of a pandas data frame is not a column, so it is not read.
    """
    name = f"a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        return frame, name
    try:
        native = nw.from_native(frame)
        eager = native.collect() if isinstance(native, nw.LazyFrame) else native
        names = [str(column) for column in eager.columns]
        check_names(names, name)
        return _to_arrow(eager).select(names), name
    except DuplicateError:
        check_names([str(column) for column in frame.columns], name)
        raise
    except TypeError:
        if hasattr(frame, "__arrow_c_stream__"):  # of a make that narwhals does not know
            return pa.table(frame), name
        raise InvalidData(
            f"Cannot read {name}: give a file, several files, or a data frame. "
            "For arrays there is AuditData.from_arrays."
        ) from None
    except NarwhalsError as error:
        raise InvalidData(f"Cannot read {name} ({in_short(error)}).") from None


def _to_arrow(frame: Any) -> pa.Table:
    try:
        return frame.to_arrow()
    except (pa.ArrowException, TypeError) as error:
        for column in frame.columns:
            try:
                frame.select(column).to_arrow()
            except (pa.ArrowException, TypeError):
                found = sorted({type(value).__name__ for value in frame[column].to_list()})
                raise InvalidData(
                    f"Column {str(column)!r} mixes types ({', '.join(found)}). Make them one."
                ) from None
        raise InvalidData(f"The data frame cannot be read ({in_short(error)}).") from None
