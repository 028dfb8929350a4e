"""Reads tables of people: which column is the label, which are protected, what the model sees."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from likewise.audit_data import AuditData
from likewise.data.columns import (
    Bins,
    Names,
    Roles,
    check_finite,
    complete_rows,
    is_missing,
    kind,
    numbers,
    require,
    values,
)
from likewise.data.encoder import Encoder
from likewise.data.rows import Rows, open_rows
from likewise.errors import InvalidData
from likewise.fingerprints import row_hashes
from likewise.settings.sections import Csv


def read(
    source: Any,
    *,
    label: str,
    protected: Names = (),
    weight: str | None = None,
    cluster: str | None = None,
    ignore: Names = (),
    inputs: Names | None = None,
    encoder: Encoder | None = None,
    drop_missing: bool = False,
    raw: bool = False,
    id: str | None = None,
    bins: Bins | None = None,
    csv: Csv | Mapping[str, Any] | None = None,
) -> AuditData:
    """Read the people to audit, from files or a data frame.

    Parameters
    ----------
    source
        A Parquet or CSV file; several of them (a list, a pattern such as ``part-*.parquet``, or
        a folder), read in the order given or by name; or a data frame (pandas, polars, Arrow).
    label
        The column that the model predicts.
    protected
        Protected attributes: columns, or columns crossed (``"sex*race"``). People whose attribute
        is missing stay, and are counted.
    weight, cluster
        Columns with sampling weights and with clusters (households, say).
    ignore
        Columns that nobody reads.
    inputs
        The model's input columns, in its order. By default all columns without another role, in
        the order of the table; protected columns only if they are listed here.
    encoder
        What turns the table into features, fitted on training data. Without one the model gets
        the columns of numbers and true/false as they are; ``left_out`` names the others.
    drop_missing
        Leave out people whose label, weight, cluster or inputs are missing, and count them in
        ``dropped``. Otherwise they are refused.
    raw
        For a pipeline, or a function of data frames, that reads original columns: ``x`` stays
        empty, ``table`` holds the columns, and missing inputs are the model's business.
    id
        Column that names a person. Rows that repeat a person are merged and counted in
        ``dropped``; rows of one person that differ are refused.
    bins
        Limits at which protected columns of numbers are cut into groups: ``{"age": [40]}``.
    csv
        How CSV files are written: ``separator``, ``decimal`` mark and ``encoding`` (by default
        commas, points and UTF-8).

    Notes
    -----
    In a CSV file a value is missing where pandas says so too: an empty field, ``NA``, ``nan``,
    ``None`` and the like. Blanks around text are kept, since a model may have been trained on
    ``" Male"``; blanks around numbers do not matter. The index of a data frame is not read.
    """
    roles = Roles(label, protected, weight, cluster, ignore, inputs, id, bins or {})
    plan = plan_reading(source, roles, encoder, drop_missing, raw, csv)
    data = plan.people(plan.source.table(plan.columns), first=0, where="")
    _check_count(len(data), plan.source.n_rows)
    return data


@dataclasses.dataclass(frozen=True)
class ReadPlan:
    """How rows of one source become people: settled before the first row is read."""

    source: Rows
    roles: Roles
    inputs: tuple[str, ...]
    left_out: tuple[str, ...]
    encoder: Encoder | None
    drop_missing: bool
    notes: tuple[str, ...]
    filled: bool = False
    """Whether a pipeline fills gaps: then rows are left out for other gaps alone."""
    repeated: Int[np.ndarray, " r"] = dataclasses.field(default_factory=lambda: np.empty(0, int))
    """Rows that repeat an earlier one of the same id."""

    @property
    def columns(self) -> list[str]:
        """All columns but the ignored ones."""
        return [name for name in self.source.schema.names if name not in self.roles.ignore]

    def people(self, table: pa.Table, *, first: int, where: str) -> AuditData:
        """Turn rows of the source, the first of which has number ``first``, into people."""
        roles = self.roles
        names = (roles.label, roles.weight, roles.cluster, roles.id)
        needed = [name for name in names if name is not None]
        inputs = self.inputs if self.encoder is None else self.encoder.complete_columns
        unknown = self.encoder is None and not inputs  # a pipeline may read them all
        if self.drop_missing and unknown and not self.filled:
            inputs = tuple(roles.candidates(table.column_names))
        complete, dropped = complete_rows(
            table, [*needed, *inputs], drop=self.drop_missing, where=where, needed=needed
        )
        if again := self._repeated(first, complete):
            dropped[f"repeated {roles.id}"] = again
        if dropped:
            table = table.filter(pa.array(complete))
        original = table.select(roles.original(table.column_names))
        if self.encoder is not None:
            x, features = self.encoder.encode(table), self.encoder.features
        else:
            x, features = _matrix(table, self.inputs), self.inputs
        return AuditData(
            x=x,
            y=np.zeros(len(table), dtype=np.int64)
            if roles.label is None
            else values(roles.label, table[roles.label], "label"),
            protected=roles.attributes(table),
            features=features,
            weight=None if roles.weight is None else numbers(roles.weight, table[roles.weight]),
            cluster=None
            if roles.cluster is None
            else values(roles.cluster, table[roles.cluster], "cluster"),
            id=None if roles.id is None else values(roles.id, table[roles.id], "id"),
            table=original,
            encoder=self.encoder,
            source=self.source.name,
            dropped=dropped,
            left_out=self.left_out,
            notes=self.notes,
            row=first + np.flatnonzero(complete),
            named_inputs=roles.inputs is not None,
        )

    def _repeated(self, first: int, complete: Bool[np.ndarray, " n"]) -> int:
        """Mark rows that repeat an earlier one of the same id as left out, and count them."""
        begin, end = np.searchsorted(self.repeated, [first, first + len(complete)])
        again = self.repeated[begin:end] - first
        count = int(complete[again].sum())
        complete[again] = False
        return count


def plan_reading(
    source: Any,
    roles: Roles,
    encoder: Encoder | None,
    drop_missing: bool,
    raw: bool,
    csv: Csv | Mapping[str, Any] | None = None,
) -> ReadPlan:
    """Open a table, and settle which of its columns are what."""
    if raw and encoder is not None:
        raise InvalidData("A pipeline reads original columns (raw), so it needs no encoder.")
    text = frozenset() if encoder is None else encoder.text_columns
    opened = open_rows(source, text=text, csv=csv)
    schema = opened.schema
    _check_count(opened.n_rows, opened.n_rows)
    roles.check(schema.names)
    if roles.weight is not None and kind(schema.field(roles.weight).type) != "numbers":
        found = kind(schema.field(roles.weight).type)
        raise InvalidData(f"Column {roles.weight!r} (weight) holds {found}, not numbers.")
    for name in schema.names:
        if name not in roles.ignore and pa.types.is_nested(schema.field(name).type):
            raise InvalidData(
                f"Column {name!r} is nested ({schema.field(name).type}). Make plain columns of it, "
                "or ignore it (--ignore)."
            )
    inputs = _inputs(roles, schema, encoder, raw)
    candidates = () if raw else roles.candidates(schema.names)
    left_out = tuple(name for name in candidates if name not in inputs)
    notes = opened.notes + (() if encoder is None else encoder.notes)
    repeated = np.empty(0, int) if roles.id is None else _repeats(opened, roles)
    return ReadPlan(
        opened, roles, inputs, left_out, encoder, drop_missing, notes, repeated=repeated
    )


def _repeats(rows: Rows, roles: Roles) -> Int[np.ndarray, " r"]:
    """Return the numbers of rows that repeat an earlier one of the same id in every column."""
    id = str(roles.id)
    columns = [name for name in rows.schema.names if name not in roles.ignore]
    pieces = []
    for part in rows.batches(columns):
        whole = row_hashes({name: part[name] for name in columns})
        pieces.append((row_hashes({id: part[id]}), whole, is_missing(part[id])))
    ids, contents, unknown = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    known = np.flatnonzero(~unknown)  # rows without an id are refused, or left out, elsewhere
    order = known[np.argsort(ids[known], kind="stable")]
    new = np.append(True, np.diff(ids[order]) != 0)
    firsts = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    if (other := contents[order] != contents[firsts]).any():
        row, earlier = int(order[other][0]), int(firsts[other][0])
        person = rows.read(row, row + 1, [id])[id][0].as_py()
        raise InvalidData(
            f"Rows {earlier + 1} and {row + 1} are both of {id} = {person!r}, but differ. Merge "
            f"them, or let the rows of one person count as dependent: --clusters {id}."
        )
    return np.sort(order[~new])


def _inputs(roles: Roles, schema: pa.Schema, encoder: Encoder | None, raw: bool) -> tuple[str, ...]:
    """Return the columns that ``x`` is made of."""
    if raw:
        return ()
    if encoder is not None:
        _check_encoder(encoder, roles, schema.names)
        return encoder.columns
    candidates = roles.candidates(schema.names)
    inputs = tuple(name for name in candidates if _numeric(schema.field(name).type))
    others = [name for name in candidates if name not in inputs]
    if others and (roles.inputs is not None or not inputs):
        raise InvalidData(
            f"Column {others[0]!r} holds {kind(schema.field(others[0]).type)}, which a model can "
            "read only through an encoder (--encoder)."
        )
    if not inputs:
        raise InvalidData("No column is left to be an input of the model.")
    return inputs


def _check_encoder(encoder: Encoder, roles: Roles, columns: list[str]) -> None:
    described = roles.original(columns)
    for name in encoder.columns:
        require(name, columns, "an input of the encoder")
        if name not in described:
            raise InvalidData(
                f"Column {name!r} is an input of the encoder, so it can be neither label, weight, "
                "cluster nor id, and cannot be ignored."
            )
    if roles.inputs is not None and set(roles.inputs) != set(encoder.columns):
        raise InvalidData(
            f"The inputs named differ from those of the encoder ({', '.join(encoder.columns)}). "
            "Name no inputs: the encoder knows them."
        )


def _check_count(n: int, total: int) -> None:
    if total == 0:
        raise InvalidData("The table has no rows.")
    if n < 2:
        gone = f", after {total - n} were left out for missing values" if n < total else ""
        raise InvalidData(f"An audit needs at least 2 people, and there is {n or 'none'}{gone}.")


def _numeric(column_type: Any) -> bool:
    return kind(column_type) in ("numbers", "true/false")


def _matrix(table: pa.Table, columns: tuple[str, ...]) -> Float[np.ndarray, "n d"]:
    x = np.empty((len(table), len(columns)))
    for j, name in enumerate(columns):
        x[:, j] = numbers(name, table[name])
        check_finite(name, x[:, j])
    return x
