"""Columns of a table: what they hold, what is missing in them, and what they are for."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Shaped
from narwhals.exceptions import NarwhalsError

from likewise.audit_data import printable_levels
from likewise.errors import UNPRINTABLE, InvalidData, MissingValues, few, in_short, nearest

IGNORE = "ignore it with --set columns.ignore=NAME"

MAX_NAMED = 8  # columns that a sentence names

Names = str | Sequence[str]
Bins = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Roles:
    """What columns are for, as `likewise.read` says it."""

    label: str | None = None
    protected: Names = ()
    weight: str | None = None
    cluster: str | None = None
    ignore: Names = ()
    inputs: Names | None = None
    id: str | None = None
    bins: Bins | None = None

    def __post_init__(self) -> None:
        for field in ("protected", "ignore", "inputs"):
            if (names := getattr(self, field)) is not None:
                names = (names,) if isinstance(names, str) else tuple(names)
                object.__setattr__(self, field, names)
        object.__setattr__(self, "bins", {k: _limits(k, v) for k, v in (self.bins or {}).items()})
        taken: dict[str, str] = {}
        for role, name in self._given():
            if name in taken:
                raise InvalidData(
                    f"Column {name!r} is named as {taken[name]} and as {role}. Give it one role."
                )
            taken[name] = role
        check_names(self.inputs or (), "the inputs")
        for name in self.inputs or ():
            if taken.get(name, "protected") != "protected":
                raise InvalidData(
                    f"Column {name!r} is named as {taken[name]}, so it cannot be an input too."
                )

    def _given(self) -> list[tuple[str, str]]:
        """Return roles and the columns that have them."""
        named = {role: [getattr(self, role)] for role in ("label", "weight", "cluster", "id")}
        named |= {"protected": list(self.protected), "ignored": list(self.ignore)}
        return [(role, name) for role, names in named.items() for name in names if name is not None]

    def check(self, columns: Collection[str]) -> None:
        """Refuse a role whose column is not among ``columns``."""
        for role, name in self._given():
            for part in crossed(name, columns) if role == "protected" else (name,):
                require(part, columns, role)
        for name in self.inputs or ():
            require(name, columns, "input")
        for name in self.bins or ():
            require(name, self.protected_columns(columns), "a protected attribute to cut (--bins)")

    def protected_columns(self, columns: Collection[str]) -> tuple[str, ...]:
        """Return the columns that protected attributes are made of."""
        found = (part for name in self.protected for part in crossed(name, columns))
        return tuple(dict.fromkeys(found))

    def attributes(self, table: pa.Table) -> dict[str, Shaped[np.ndarray, " n"]]:
        """Return the protected attributes of everyone, cut and crossed as asked for."""
        found = {}
        for name in self.protected:
            parts = crossed(name, table.column_names)
            columns = []
            for part in parts:
                column = printable_levels(values(part, table[part], "protected"))
                limits = (self.bins or {}).get(part)
                columns.append(column if limits is None else _cut(part, column, limits))
            found["×".join(parts)] = columns[0] if len(parts) == 1 else _crossing(columns)
        return found

    def candidates(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that may be inputs, in the model's order if that is known."""
        if self.inputs is not None:
            return tuple(self.inputs)
        columns = tuple(columns)
        taken = {name for _, name in self._given()} | {*self.protected_columns(columns)}
        return tuple(name for name in columns if name not in taken)

    def original(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that describe a person: no label, weight, cluster, id or ignored."""
        hidden = {self.label, self.weight, self.cluster, self.id, *self.ignore}
        return [name for name in columns if name not in hidden]


def crossed(name: str, columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns that a protected attribute crosses: ``sex*race`` or ``sex×race``."""
    parts = tuple(part.strip() for part in name.replace("*", "×").split("×"))
    return (name,) if name in columns or not all(parts) else parts


def _crossing(columns: Sequence[Shaped[np.ndarray, " n"]]) -> Shaped[np.ndarray, " n"]:
    """Return the intersection of attributes; unknown where one of them is."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    joined = [
        None if any(v is None or v != v for v in row) else " × ".join(map(group_name, row))
        for row in rows
    ]
    return np.array(joined, dtype=object)


def group_name(value: Any) -> str:
    """Return the name of a group: whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _limits(name: str, limits: Any) -> tuple[float, ...]:
    """Check where a column is to be cut."""
    try:
        found = tuple(np.atleast_1d(limits).astype(float).tolist())
    except (TypeError, ValueError):
        found = ()
    if not found or not all(low < high for low, high in itertools.pairwise(found)):
        raise InvalidData(
            f"Column {name!r} cannot be cut at {limits!r}: limits are numbers that rise, as in "
            "--bins age=30:50."
        )
    return found


def _cut(
    name: str, column: Shaped[np.ndarray, " n"], limits: Sequence[float]
) -> Shaped[np.ndarray, " n"]:
    """Return the groups of a column of numbers between limits; unknown where it is missing."""
    if column.dtype.kind not in "iuf":
        raise InvalidData(f"Column {name!r} holds no numbers, so it cannot be cut (--bins).")
    edges = [f"{limit:g}" for limit in limits]
    between = [f"{low} to under {high}" for low, high in itertools.pairwise(edges)]
    groups = [f"under {edges[0]}", *between, f"{edges[-1]} or over", None]
    codes = np.searchsorted(np.asarray(limits), column, side="right")
    codes = np.where(np.isnan(column.astype(np.float64)), len(groups) - 1, codes)
    return np.array(groups, dtype=object)[codes]


def require(name: str, columns: Collection[str], role: str) -> None:
    """Refuse a column that the table does not have."""
    if name not in columns:
        hint = nearest(name, columns) or f" Its columns: {few(columns, 20)}."
        raise InvalidData(f"The table has no column {name!r}, named as {role}.{hint}")


def check_names(names: Sequence[str], where: str, *, shown: bool = True) -> None:
    """Refuse names that occur twice or cannot be shown: models know columns by them."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidData(f"Column {twice!r} occurs twice in {where}. Remove or rename one.")
    if strange := [name for name in names if shown and UNPRINTABLE.search(name)]:
        raise InvalidData(
            f"Column {strange[0]!r} in {where} has characters that cannot be shown. Rename it."
        )


TEXT = pa.large_string()
MIN_DATES = 12
"""Different dates in a column of text above which they are dates, and not names of a few."""


def plain_type(column_type: Any) -> Any:
    """Return the type under which a column is kept: one kind of text, no decimals."""
    types = pa.types
    if types.is_decimal(column_type) or types.is_float16(column_type):
        return pa.float64()
    if types.is_dictionary(column_type):
        return TEXT if plain_type(column_type.value_type) == TEXT else column_type
    is_text = (types.is_string, types.is_large_string, types.is_string_view)
    return TEXT if any(test(column_type) for test in is_text) else column_type


def kind(column_type: Any) -> str:
    """Say what a column of this type holds, in the plural, for a sentence."""
    types, found = pa.types, plain_type(column_type)
    # A column without a single value counts as numbers, all of them missing.
    if types.is_integer(found) or types.is_floating(found) or types.is_null(found):
        return "numbers"
    if types.is_date(found) or types.is_timestamp(found):
        return "dates"
    known = {pa.bool_(): "true/false", TEXT: "text"}
    return known.get(
        found, "categories" if types.is_dictionary(found) else f"values of type {found}"
    )


def without_dictionary(column: Any) -> Any:
    """Return categories as the values they stand for."""
    dictionary = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if dictionary else column


def numbers(name: str, column: Any) -> Float[np.ndarray, " n"]:
    """Return numbers, booleans, or dates (days since 1970) as floats; missing ones are ``nan``."""
    if kind(column.type) in ("dates", "text"):
        try:
            times = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidData(
                f"Column {name!r} holds dates, and other text ({in_short(error)}). Mend that."
            ) from None
        return times.cast(pa.float64(), safe=False).to_numpy() / 86_400_000_000
    try:
        return column.cast(pa.float64()).to_numpy().astype(np.float64, copy=False)
    except pa.ArrowInvalid:
        raise InvalidData(
            f"Column {name!r} holds integers beyond 2^53, which no model can tell apart. "
            f"If it is an identifier: {IGNORE}."
        ) from None


def holds_dates(column: Any, *, times: bool = False) -> bool:
    """Tell whether text holds dates, as 2020-12-31 (or ``times``: 2020-12-31 23:59), and many."""
    if kind(column.type) != "text" or column.null_count == len(column):
        return False
    try:
        column.cast(pa.timestamp("us") if times else pa.date32())
    except pa.ArrowInvalid:
        return False
    return pc.count_distinct(column).as_py() > MIN_DATES


def values(name: str, column: Any, role: str) -> Shaped[np.ndarray, " n"]:
    """Return a label, attribute or cluster as numpy: text and true/false as Python objects or bool.

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
    table: pa.Table, columns: Sequence[str], *, drop: bool, where: str = ""
) -> tuple[Bool[np.ndarray, " n"], dict[str, int]]:
    """Tell which rows miss nothing in ``columns``, and count the others by what they miss.

    A row that misses several columns is counted under the first, so that the counts add up.
    Unless ``drop`` says that such rows are unwanted, one of them is enough to refuse the table.
    """
    gaps = {name: gone for name in columns if (gone := is_missing(table[name])).any()}
    complete, first = np.ones(len(table), dtype=bool), {}
    for name, gone in gaps.items():
        if count := int((gone & complete).sum()):
            first[f"missing {name}"] = count
        complete &= ~gone
    if gaps and not drop:
        counts = few((f"{name!r} ({int(gone.sum())})" for name, gone in gaps.items()), MAX_NAMED)
        raise MissingValues(
            f"Values are missing in {counts}: {int((~complete).sum())} of {len(table)} rows{where}."
            " Fill them in, or leave those rows out (--set columns.drop_missing=true), or ignore "
            "columns that the model does not read (--set columns.ignore=NAME)."
        )
    return complete, first


def check_finite(name: str, column: Float[np.ndarray, " n"]) -> None:
    """Refuse infinite values."""
    if count := int(np.isinf(column).sum()):
        raise InvalidData(
            f"Column {name!r} has infinite values in {count} of {len(column)} rows. "
            "Mend them, or leave those rows out."
        )


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

    def one_hot(family: Sequence[str]) -> bool:
        if any(kind(table[name].type) not in ("numbers", "true/false") for name in family):
            return False
        x = np.column_stack([numbers(name, table[name]) for name in family])
        return bool(np.isin(x, (0.0, 1.0)).all() and (x.sum(axis=1) <= 1).all())

    found: dict[str, tuple[str, ...]] = {}
    for name in columns:
        stem, mark, _ = name.rpartition("=" if "=" in name else "_")
        family = tuple(c for c in columns if stem and c.startswith(stem + mark))
        together = len(family) > 1 and one_hot(family)
        found |= {stem: family} if together else {name: (name,)}
    return found


def frame_table(frame: Any) -> tuple[pa.Table, str]:
    """Return a data frame as an Arrow table, and what it was, in words.

    The index of a pandas data frame is not a column, so it is not read.
    """
    name = f"a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
    try:
        if isinstance(frame, pa.Table):
            return frame, name
        native = nw.from_native(frame, pass_through=True)
        if isinstance(native, nw.DataFrame | nw.LazyFrame):
            eager = native.lazy().collect()
            return eager.to_arrow().select([str(column) for column in eager.columns]), name
        if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
            return pa.table(frame), name  # of a make that narwhals does not know
    except (pa.ArrowException, NarwhalsError) as error:
        raise InvalidData(
            f"Cannot read {name}: a column needs values of one type, and a name of its own "
            f"({in_short(error)})."
        ) from None
    raise InvalidData(
        f"Cannot read {name}: give a file, several files, or a data frame. For arrays there is "
        "AuditData.from_arrays."
    )
