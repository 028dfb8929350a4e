"""Arrow columns: what they hold, what is missing in them, and the way to numpy."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Shaped
from narwhals.exceptions import DuplicateError, NarwhalsError

from likewise.data.roles import check_names
from likewise.errors import InvalidData, MissingValues, in_short

TEXT = pa.large_string()
MANY_DATES = 12
"""Different dates in a column of text above which they are dates, and not names of a few."""


def plain_type(column_type: Any) -> Any:
    """Return the type under which a column is kept: one kind of text, no decimals."""
    types = pa.types
    if types.is_decimal(column_type) or types.is_float16(column_type):
        return pa.float64()
    if types.is_dictionary(column_type):
        value_type = plain_type(column_type.value_type)
        return value_type if value_type == TEXT else column_type
    is_text = (types.is_string, types.is_large_string, types.is_string_view)
    return TEXT if any(test(column_type) for test in is_text) else column_type


def kind(column_type: Any) -> str:
    """Say what a column of this type holds, in the plural, for a sentence."""
    types = pa.types
    column_type = plain_type(column_type)
    # A column without a single value counts as numbers, all of them missing.
    numeric = (types.is_integer, types.is_floating, types.is_null)
    if any(test(column_type) for test in numeric):
        return "numbers"
    if types.is_date(column_type) or types.is_timestamp(column_type):
        return "dates"
    if types.is_boolean(column_type):
        return "true/false"
    if column_type == TEXT:
        return "text"
    return "categories" if types.is_dictionary(column_type) else f"values of type {column_type}"


def without_dictionary(column: Any) -> Any:
    """Return categories as the values they stand for."""
    dictionary = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if dictionary else column


def numbers(name: str, column: Any) -> Float[np.ndarray, " n"]:
    """Return a column of numbers or booleans as floats; missing ones become ``nan``."""
    try:
        return column.cast(pa.float64()).to_numpy().astype(np.float64, copy=False)
    except pa.ArrowInvalid:
        raise InvalidData(
            f"Column {name!r} holds integers beyond 2^53, which no model can tell apart. "
            "If it is an identifier, ignore it (--ignore)."
        ) from None


def days(column: Any) -> Float[np.ndarray, " n"]:
    """Return dates and times as days since 1970; missing ones become ``nan``."""
    if kind(column.type) == "text":
        column = column.cast(pa.date32())
    times = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return times.cast(pa.float64(), safe=False).to_numpy() / 86_400_000_000


def holds_dates(column: Any) -> bool:
    """Tell whether a column of text holds dates, as 2020-12-31, and many of them."""
    if kind(column.type) != "text" or column.null_count == len(column):
        return False
    if not pc.all(pc.match_substring_regex(column, r"^\d{4}-\d{2}-\d{2}$")).as_py():
        return False
    try:
        column.cast(pa.date32())
    except pa.ArrowInvalid:
        return False
    return pc.count_distinct(column).as_py() > MANY_DATES


def values(name: str, column: Any, role: str) -> Shaped[np.ndarray, " n"]:
    """Return a label, trait or cluster as numpy: text and true/false as Python objects or bool.

    Missing text and booleans are ``None``; missing numbers are ``nan``.
    """
    column = without_dictionary(column)
    if pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    if kind(column.type) not in ("numbers", "true/false", "text"):
        raise InvalidData(
            f"Column {name!r} ({role}) holds {kind(column.type)}. "
            "It must hold text, numbers or true/false."
        )
    return column.to_numpy()


def is_missing(column: Any) -> Bool[np.ndarray, " n"]:
    """Tell which values are missing: empty, or not a number."""
    return pc.is_null(column, nan_is_null=True).to_numpy()


def complete_rows(
    table: pa.Table,
    columns: Sequence[str],
    *,
    drop: bool,
    where: str = "",
    needed: Sequence[str] = (),
) -> tuple[Bool[np.ndarray, " n"], dict[str, int]]:
    """Tell which rows miss nothing in ``columns``, and count the others by what they miss.

    A row that misses several columns is counted under the first, so that the counts add up.
    Unless ``drop`` says that such rows are unwanted, one of them is enough to refuse the table.
    Those ``needed`` (the label, say) are no inputs, so that no model can do without.
    """
    complete = np.ones(len(table), dtype=bool)
    counts: dict[str, int] = {}
    first: dict[str, int] = {}
    for name in columns:
        gone = is_missing(table[name])
        if gone.any():
            counts[name] = int(gone.sum())
            first[f"missing {name}"] = int((gone & complete).sum())
            complete &= ~gone
    if counts and not drop:
        said = (
            f"Values are missing in {_listed(counts)}: {int((~complete).sum())} of {len(table)} "
            f"rows{where}. Fill them in, "
        )
        if {*counts} <= {*needed}:
            raise MissingValues(
                f"{said}or leave those rows out with drop_missing (--drop-missing). Rows with "
                "other gaps stay, if the model is a pipeline that answers for them."
            )
        raise MissingValues(
            f"{said}leave those rows out with drop_missing (--drop-missing), "
            "or ignore columns that the model does not read (--ignore). Models that read gaps, and "
            "pipelines that fill them, are audited as they are (in Python: likewise.read with "
            "raw=True)."
        )
    return complete, {reason: count for reason, count in first.items() if count}


def check_finite(name: str, column: Float[np.ndarray, " n"]) -> None:
    """Refuse infinite values."""
    if count := int(np.isinf(column).sum()):
        raise InvalidData(
            f"Column {name!r} has infinite values in {count} of {len(column)} rows. "
            "Mend them, or leave those rows out."
        )


def _listed(counts: Mapping[str, int], most: int = 8) -> str:
    named = [f"{name!r} ({count})" for name, count in counts.items()]
    more = f" and {len(named) - most} more columns" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def column_groups(table: pa.Table, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return columns by the name of their group: a column alone, or all levels of one category.

    Columns named ``race_White`` or ``race=White`` are one category if all of them hold zeros and
    ones, and nobody has two ones.

    Examples
    --------
    >>> column_groups(pa.table({"race=A": [1, 0], "race=B": [0, 1], "age": [3, 4]}),
    ...     ["race=A", "race=B", "age"])
    {'race': ('race=A', 'race=B'), 'age': ('age',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in columns:
        mark = "=" if "=" in name else "_"
        stem = name.rpartition(mark)[0]
        level = f"{stem}{mark}"
        family = tuple(c for c in columns if stem and c.startswith(level))
        if len(family) > 1 and _one_hot(table, family):
            found[stem] = family
        else:
            found[name] = (name,)
    return found


def _one_hot(table: pa.Table, columns: Sequence[str]) -> bool:
    total = np.zeros(len(table))
    for name in columns:
        kind = table.schema.field(name).type
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            return False
        values = table[name].cast(pa.float64()).to_numpy()
        if not np.isin(values, (0.0, 1.0)).all():
            return False
        total += values
    return bool((total <= 1).all())


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
