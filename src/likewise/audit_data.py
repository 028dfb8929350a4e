"""The people who are audited: features, labels and protected attributes, in numpy."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from likewise.errors import InvalidData, printable_name
from likewise.fingerprints import CHUNK_ROWS, chunk_digests, hash_people

Column = Shaped[np.ndarray, " n"]
COLUMNS = ("x", "y", "weight", "cluster", "id", "row")

GAP = " is missing"
"""After a column's name: the feature that says where it has no value. Nobody is moved along it."""


@dataclasses.dataclass(frozen=True, repr=False)
class AuditData:
    r"""Audit data :math:`\{(x_i, y_i)\}`, with what is known about each person.

    Parameters
    ----------
    x
        What the model sees: one row a person, one column a feature, finite numbers.
    y
        Labels as they stand in the table (classes of any type, or numbers for a regression).
    protected
        Protected attributes by name. A missing value is ``None`` or ``nan``; such a person is
        audited, but belongs to no group and teaches the fair metric nothing.
    features
        Names of the columns of ``x``.
    weight, cluster
        Sampling weights (positive) and the cluster each person belongs to (a household, say).
    id
        What names each person, if a column does.
    table
        The original columns, before encoding, for models that read them and for reports.
    encoder
        What turned ``table`` into ``x``, if anything did; it can go back (`decode`).
    source
        Where the rows came from, in words.
    dropped
        Rows left out on request, by reason. Nothing is ever left out in silence.
    notes
        Sentences for the report: what was read in another way than one may expect.
    row
        Row number of each person in the source, counted from zero; by default 0, 1, 2, …
    named_inputs
        Whether someone said which columns the model reads, so that none may be guessed.
    originals
        What turns features back into original columns, where a model is given those (`decode`).
    """

    x: Float[np.ndarray, "n d"]
    y: Column
    protected: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    features: tuple[str, ...] = ()
    weight: Float[np.ndarray, " n"] | None = None
    cluster: Column | None = None
    id: Column | None = None
    table: pa.Table | None = None
    encoder: Any = None
    source: str = "arrays"
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    row: Int[np.ndarray, " n"] = dataclasses.field(default_factory=lambda: np.arange(0))
    named_inputs: bool = False
    originals: Any = None

    def __post_init__(self) -> None:
        n, d = self.x.shape
        if not len(self.row):
            object.__setattr__(self, "row", np.arange(n))
        if not self.features:
            object.__setattr__(self, "features", tuple(f"x{j}" for j in range(d)))
        if len(self.features) != d:
            raise InvalidData(f"There are {len(self.features)} feature names for {d} columns.")
        if len(set(self.features)) < d:
            twice = next(name for name in self.features if self.features.count(name) > 1)
            raise InvalidData(f"Two features are called {twice!r}. Rename one of them.")
        for name, column in self._columns().items():
            if np.shape(column)[:1] != (n,):
                raise InvalidData(f"{name!r} has {np.size(column)} values for {n} people.")
        if self.weight is not None:
            good = np.isfinite(self.weight) & (self.weight > 0)
            if not good.all():
                raise InvalidData(
                    f"{n - int(good.sum())} of {n} weights are not positive numbers. Drop those "
                    "rows or mend them."
                )
        finite = np.isfinite(self.x)
        if not finite.all():
            names = ", ".join(self.features[j] for j in np.flatnonzero(~finite.all(axis=0))[:5])
            raise InvalidData(
                f"{int((~finite).any(axis=1).sum())} of {n} rows have NaN or infinite features (in "
                f"{names}). Fill them in, or leave those rows out (columns.drop_missing)."
            )

    def _columns(self) -> dict[str, Any]:
        """Return what there is one row a person of, attributes too, but for original columns."""
        own = {name: getattr(self, name) for name in COLUMNS}
        attributes = {f"protected {name}": column for name, column in self.protected.items()}
        return {name: c for name, c in (own | attributes).items() if c is not None}

    def _of_rows(self, columns: Mapping[str, Any], table: pa.Table | None) -> "AuditData":
        """Return other people, of whom there are these columns, as of `_columns`."""
        protected = {name: columns[f"protected {name}"] for name in self.protected}
        own: dict[str, Any] = {name: columns[name] for name in COLUMNS if name in columns}
        return dataclasses.replace(self, protected=protected, table=table, **own)

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        y: Any,
        protected: Any = None,
        *,
        features: Sequence[str] = (),
        weight: Any = None,
        cluster: Any = None,
    ) -> "AuditData":
        """Audit data from arrays.

        Parameters
        ----------
        protected
            A mapping of attribute names to columns, or one column (named ``protected``).
        """
        matrix = _array("x", x, np.float64)
        if matrix.ndim != 2:
            raise InvalidData(f"x must have two dimensions (people, features), not {matrix.ndim}.")
        labels = _array("y", y).reshape(-1)
        if count := int(missing(labels).sum()):
            raise InvalidData(f"{count} of {len(labels)} labels are missing. Leave those rows out.")
        return cls(
            x=matrix,
            y=labels,
            protected=_named(protected),
            features=tuple(printable_name(str(name)) for name in features),
            weight=None if weight is None else _array("weight", weight, np.float64),
            cluster=None if cluster is None else _array("cluster", cluster),
        )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        groups = ", ".join(self.protected) or "none"
        return (
            f"<AuditData: {len(self):,} people from {self.source}, {len(self.features)} features, "
            f"protected: {groups}>"
        )

    def take(self, rows: Shaped[np.ndarray, " m"] | slice) -> "AuditData":
        """Return the people at ``rows`` (indices, a mask, or a slice that copies nobody)."""
        index: Any = rows
        if isinstance(rows, slice):
            begin, end, _ = rows.indices(len(self))
            table = None if self.table is None else self.table.slice(begin, end - begin)
        else:
            index = np.flatnonzero(rows) if rows.dtype == bool else rows
            table = None if self.table is None else self.table.take(_indices(index))
        columns = {name: column[index] for name, column in self._columns().items()}
        return self._of_rows(columns, table)

    def in_columns(self) -> "AuditData":
        """Return people with original columns: of arrays, their features and attributes."""
        if self.table is not None:
            return self
        columns: dict[str, Any] = {name: self.x[:, j] for j, name in enumerate(self.features)}
        for name, column in self.protected.items():
            columns[name] = pa.array(column.tolist(), from_pandas=True)
        return dataclasses.replace(self, table=pa.table(columns))

    @property
    def places(self) -> tuple[Int[np.ndarray, " n"], int]:
        """Numbers of the people among all rows they were read from, and how many rows there were.

        Row numbers, where these are consecutive but for rows left out on request; others are
        counted as they come.
        """
        n, gone = len(self), sum(self.dropped.values())
        if n and (np.diff(self.row) > 0).all() and self.row[-1] < n + gone:
            return self.row, n + gone
        return np.arange(n), n

    def fingerprint(self) -> str:
        """Return the fingerprint of the people: of all that is known of them, in row order.

        It is the same however the rows are cut into files, and whatever encodes them.
        """
        places, rows = self.places
        return hash_people(person_columns(self), len(self), digests(self, places, range(rows)))


def joined(parts: Sequence[AuditData]) -> AuditData:
    """Return people one after another."""
    if len(parts) == 1:
        return parts[0]
    held = [part._columns() for part in parts]
    columns = {name: np.concatenate([one[name] for one in held]) for name in held[0]}
    tables = [part.table for part in parts if part.table is not None]
    return parts[0]._of_rows(columns, pa.concat_tables(tables) if tables else None)


def person_columns(people: AuditData) -> dict[str, Any]:
    """Return all that is known of each person, by name, for fingerprints.

    Original columns where there are some, else features and attributes: so that the same people are
    the same under another encoder, and arrays are the same as a table of them.
    """
    # No column of a table is called like the three roles: they end in a blank.
    roles = {"label ": people.y, "weight ": people.weight, "cluster ": people.cluster}
    columns = {name: column for name, column in roles.items() if column is not None}
    if people.table is not None:
        return columns | {name: people.table[name] for name in people.table.column_names}
    features = {name: people.x[:, j] for j, name in enumerate(people.features)}
    return {**columns, **features, **people.protected}


def digests(people: AuditData, places: Int[np.ndarray, " n"], rows: range) -> dict[int, bytes]:
    """Return the fingerprint of each chunk of ``rows``, which begin where a chunk begins."""
    begins = range(rows.start, rows.stop, CHUNK_ROWS)
    cuts = [*np.searchsorted(places, begins).tolist(), len(places)]
    found = chunk_digests(person_columns(people), cuts)
    return {b // CHUNK_ROWS: digest for b, digest in zip(begins, found, strict=True)}


def _indices(index: Int[np.ndarray, " m"]) -> Any:
    """Return indices in Arrow; `pyarrow.array` would import pandas to ask whether it knows them."""
    content = pa.py_buffer(np.ascontiguousarray(index, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(index), [None, content])


def missing(column: Column) -> Bool[np.ndarray, " n"]:
    """Tell which values are missing: ``None`` or not a number."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind == "O":
        return np.array([v is None or v != v for v in column], dtype=bool)
    return np.zeros(len(column), dtype=bool)


def _array(name: str, values: Any, dtype: Any = None) -> Shaped[np.ndarray, "..."]:
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        what = "is no column of values" if dtype is None else "holds what is not a number"
        raise InvalidData(f"{name} {what}.") from None


def printable_levels(column: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """Return an attribute whose levels of text can be shown; those that differ still do.

    Names are made printable here, where they come in, and nowhere else: whatever is then looked up
    by a name is found.
    """
    if column.dtype.kind not in "OU" or column.ndim != 1:
        return column
    texts = {value for value in column.tolist() if type(value) is str}
    names = {text: name for text in texts if (name := printable_name(text)) != text}
    if not names:
        return column
    found = [names.get(v, v) if type(v) is str else v for v in column.tolist()]
    return np.array(found, dtype=object)


def _named(protected: Any) -> dict[str, Column]:
    named = protected if isinstance(protected, Mapping) else {"protected": protected}
    return {
        printable_name(str(name)): printable_levels(_array(name, column).reshape(-1))
        for name, column in named.items()
        if column is not None
    }
