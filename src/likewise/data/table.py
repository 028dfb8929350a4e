"""Reads tables of people: which column is the label, which are protected, what the model sees."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.audit_data import AuditData
from likewise.data.arrow import check_finite, complete_rows, is_missing, kind, numbers, values
from likewise.data.encode import Encoder
from likewise.data.roles import Names, Roles, require
from likewise.data.rows import Rows, open_rows
from likewise.errors import InvalidData, InvalidSettings


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
        Protected traits. People whose trait is missing stay, and are counted.
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

    Notes
    -----
    In a CSV file a value is missing where pandas says so too: an empty field, ``NA``, ``nan``,
    ``None`` and the like. Blanks around text are kept, since a model may have been trained on
    ``" Male"``; blanks around numbers do not matter. The index of a data frame is not read.
    """
    plan = plan_reading(
        source, Roles(label, protected, weight, cluster, ignore, inputs), encoder, drop_missing, raw
    )
    data = plan.people(plan.source.table(plan.columns), first=0, where="")
    _check_count(len(data), plan.source.n_rows)
    return data


def scan(
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
    rows: int = 65536,
) -> Iterator[AuditData]:
    """Read people block by block, without ever holding the whole table.

    Takes what `read` takes. A block holds ``rows`` rows of the source (the last may hold fewer)
    however the files are cut, minus those left out on request; its ``row`` gives their numbers
    in the whole. Roles and columns are checked at once, values when their block comes.
    """
    if rows < 1:
        raise InvalidSettings(f"A block holds at least one row, not {rows}.")
    plan = plan_reading(
        source, Roles(label, protected, weight, cluster, ignore, inputs), encoder, drop_missing, raw
    )
    return plan.blocks(rows)


def with_inputs(data: AuditData, columns: Sequence[str]) -> AuditData:
    """Return the same people with these numeric columns as features.

    A table does not say which columns the model reads; its names or number of inputs may.
    """
    if data.table is None or data.encoder is not None:
        raise InvalidData("Only people read from a table without an encoder can change inputs.")
    for name in columns:
        if name not in data.features and (count := int(is_missing(data.table[name]).sum())):
            # Rows were left out before anyone knew that the model reads this column.
            raise InvalidData(
                f"The model seems to read the column {name!r}, which is missing in {count} of "
                f"{len(data)} rows. Fill it in, or name all columns the model reads with inputs "
                "(columns.inputs) and leave those rows out with drop_missing (--drop-missing)."
            )
    features = tuple(columns)
    unread = (name for name in data.features if name not in columns)
    left_out = tuple(dict.fromkeys((*data.left_out, *unread)))
    x = _matrix(data.table, features)
    return dataclasses.replace(data, x=x, features=features, left_out=left_out)


def numeric_columns(data: AuditData) -> tuple[str, ...]:
    """Return the columns of numbers or true/false, which a model may read as they are."""
    return (
        () if data.table is None else tuple(f.name for f in data.table.schema if _numeric(f.type))
    )


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

    @property
    def columns(self) -> list[str]:
        """All columns but the ignored ones."""
        return [name for name in self.source.schema.names if name not in self.roles.ignore]

    def people(self, table: pa.Table, *, first: int, where: str) -> AuditData:
        """Turn rows of the source, the first of which has number ``first``, into people."""
        roles = self.roles
        needed = [n for n in (roles.label, roles.weight, roles.cluster) if n is not None]
        inputs = self.inputs if self.encoder is None else self.encoder.complete_columns
        unknown = self.encoder is None and not inputs  # a pipeline may read them all
        if self.drop_missing and unknown and not self.filled:
            inputs = tuple(roles.candidates(table.column_names))
        complete, dropped = complete_rows(
            table, [*needed, *inputs], drop=self.drop_missing, where=where, needed=needed
        )
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
            protected={name: values(name, table[name], "protected") for name in roles.protected},
            features=features,
            weight=None if roles.weight is None else numbers(roles.weight, table[roles.weight]),
            cluster=None
            if roles.cluster is None
            else values(roles.cluster, table[roles.cluster], "cluster"),
            table=original,
            encoder=self.encoder,
            source=self.source.name,
            dropped=dropped,
            left_out=self.left_out,
            notes=self.notes,
            row=first + np.flatnonzero(complete),
            named_inputs=roles.inputs is not None,
        )

    def blocks(self, rows: int) -> Iterator[AuditData]:
        """Yield people block by block."""
        first = kept = 0
        for table in self.source.blocks(self.columns, rows):
            where = f" (of rows {first + 1} to {first + len(table)})"
            data = self.people(table, first=first, where=where)
            first, kept = first + len(table), kept + len(data)
            yield data
        _check_count(kept, self.source.n_rows)


def plan_reading(
    source: Any, roles: Roles, encoder: Encoder | None, drop_missing: bool, raw: bool
) -> ReadPlan:
    """Open a table, and settle which of its columns are what."""
    if raw and encoder is not None:
        raise InvalidData("A pipeline reads original columns (raw), so it needs no encoder.")
    opened = open_rows(source, text=frozenset() if encoder is None else encoder.text_columns)
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
    return ReadPlan(opened, roles, inputs, left_out, encoder, drop_missing, notes)


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
                f"Column {name!r} is an input of the encoder, so it can be neither label, weight "
                "nor cluster, and cannot be ignored."
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
