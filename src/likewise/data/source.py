"""Where people come from: arrays, data frames, files; read in parts, by anyone.

Rows of a source are numbered from 0. A block is a range of rows, so it holds the same people
whoever reads it, and however the rows are cut into files and row groups.
"""

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from typing_extensions import override

from likewise.audit_data import AuditData, digests, joined
from likewise.data.columns import (
    IGNORE,
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
    without_dictionary,
)
from likewise.data.encoder import Encoder
from likewise.data.rows import Rows, open_rows
from likewise.data.survey import READ_ROWS, Survey, cut
from likewise.errors import InvalidData, InvalidSettings
from likewise.fingerprints import CHUNK_ROWS, hash_json, row_hashes
from likewise.settings import Csv
from likewise.settings.choices import digest


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
        the columns of numbers and true/false as they are.
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
    given = locals()
    opened = as_source(given.pop("source"), **given)
    data, _ = opened.rows(0, opened.n_rows)
    check_count(len(data), opened.n_rows)
    return data


@dataclasses.dataclass(frozen=True)
class Source(abc.ABC):
    """People who can be read in parts, as often as one likes.

    ``name`` says where they are, in words; ``n_rows`` includes rows left out on request. Rows that
    do not have the fingerprints ``expected`` of their chunks any more are refused, once those are
    known.
    """

    name: str
    n_rows: int
    expected: Mapping[int, bytes] | None = dataclasses.field(default=None, kw_only=True, repr=False)

    @abc.abstractmethod
    def identity(self) -> dict[str, str]:
        """Return fingerprints of how rows become features, by name; the rows have their own."""

    @abc.abstractmethod
    def rows(self, begin: int, end: int) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        """Return the people among some rows, and their numbers among all rows of the source."""

    @abc.abstractmethod
    def schema(self) -> pa.Schema:
        """Return the original columns of a person, and their types."""

    @abc.abstractmethod
    def everyone(self, role: str) -> Any:
        """Return the ids or clusters of all people, if there are any."""

    def shared(self, folder: Path) -> "Source":
        """Return the same people so that sending a table to a worker costs nothing.

        One in memory is written to ``folder`` for it, where every worker must find it.
        """
        return self

    def knowing(self, survey: Survey) -> "Source":
        """Return the source that refuses rows that are not those of the survey any more."""
        return dataclasses.replace(self, expected=survey.chunks)

    def unchanged(self, rows: range) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        """Return what `rows` does, for whole chunks, unless they have changed since the survey."""
        people, places = self.rows(rows.start, rows.stop)
        if self.expected is not None:
            for chunk, digest in digests(people, places, rows).items():
                if digest != self.expected[chunk]:
                    first = chunk * CHUNK_ROWS
                    last = min(first + CHUNK_ROWS, self.n_rows)
                    raise InvalidData(
                        f"Rows {first + 1} to {last} of {self.name} changed while they were "
                        "audited. Restore them and continue with --resume, or begin again."
                    )
        return people, places


@final
@dataclasses.dataclass(frozen=True)
class Blocks:
    """A source cut into numbered blocks of ``size`` rows; the last may hold fewer."""

    source: Source
    size: int

    def __len__(self) -> int:
        return -(-self.source.n_rows // self.size)

    def read(self, numbers: range) -> Iterator[tuple[int, AuditData]]:
        """Yield the blocks with these numbers; only rows that overlap them are read."""
        n_rows = self.source.n_rows
        end = min(numbers.stop * self.size, n_rows)
        begin = numbers.start * self.size // CHUNK_ROWS * CHUNK_ROWS
        last = min(-(-end // CHUNK_ROWS) * CHUNK_ROWS, n_rows)
        waiting: list[AuditData] = []
        for rows in cut(range(begin, last), READ_ROWS):
            people, places = self.source.unchanged(rows)
            for number in range(rows.start // self.size, -(-rows.stop // self.size)):
                if number not in numbers:
                    continue
                limits = [number * self.size, (number + 1) * self.size]
                some = people.take(slice(*np.searchsorted(places, limits).tolist()))
                waiting.append(dataclasses.replace(some, dropped={}))
                if min(limits[1], n_rows) <= rows.stop:
                    yield number, joined(waiting)
                    waiting = []


@final
@dataclasses.dataclass(frozen=True)
class TableSource(Source):
    """People in a table: files or a data frame. What is what is settled beforehand.

    ``inputs`` are the columns that ``x`` is made of, ``repeated`` the rows that repeat an earlier
    one of the same id.
    """

    table: Rows
    roles: Roles
    inputs: tuple[str, ...]
    encoder: Encoder | None
    drop_missing: bool
    repeated: Int[np.ndarray, " r"]

    @override
    def identity(self) -> dict[str, str]:
        encoder = "" if self.encoder is None else self.encoder.to_json()
        return {"inputs": hash_json([list(self.inputs), encoder])}

    @override
    def rows(self, begin: int, end: int) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        roles, encoder = self.roles, self.encoder
        table = self.table.read(begin, end)
        named = (roles.label, roles.weight, roles.cluster, roles.id)
        needed = [name for name in named if name is not None]
        inputs = self.inputs if encoder is None else encoder.complete_columns
        if self.drop_missing and encoder is None and not inputs:
            inputs = roles.candidates(table.column_names)  # a pipeline may read them all
        where = f" of {self.name}" if len(table) == self.n_rows else f" from {begin + 1} to {end}"
        complete, dropped = complete_rows(
            table, [*needed, *inputs], drop=self.drop_missing, where=where
        )
        first, last = np.searchsorted(self.repeated, [begin, end])
        again = self.repeated[first:last] - begin
        if complete[again].any():
            dropped[f"repeated {roles.id}"] = int(complete[again].sum())
            complete[again] = False
        if dropped:
            table = table.filter(pa.array(complete))

        def column(role: str) -> Any:
            name = getattr(roles, role)
            return None if name is None else values(name, table[name], role)

        y, weight = column("label"), column("weight")
        people = AuditData(
            x=_matrix(table, self.inputs) if encoder is None else encoder.encode(table),
            y=np.zeros(len(table), dtype=np.int64) if y is None else y,
            protected=roles.attributes(table),
            features=self.inputs if encoder is None else encoder.features,
            weight=None if weight is None else weight.astype(np.float64),
            cluster=column("cluster"),
            id=column("id"),
            table=table.select(roles.original(table.column_names)),
            encoder=encoder,
            source=self.name,
            dropped=dropped,
            notes=self.table.notes,
            row=begin + np.flatnonzero(complete),
            named_inputs=roles.inputs is not None,
        )
        return people, people.row

    @override
    def schema(self) -> pa.Schema:
        whole = self.table.schema
        return pa.schema([whole.field(name) for name in self.roles.original(whole.names)])

    @override
    def everyone(self, role: str) -> Any:
        name = getattr(self.roles, role)
        return None if name is None else self.table.select([name]).table()[name]

    def raw(self) -> "TableSource | None":
        """Return the same people before features are made of them; None if that is settled."""
        settled = self.encoder is not None or not self.inputs
        return None if settled else dataclasses.replace(self, inputs=())

    @override
    def shared(self, folder: Path) -> "TableSource":
        return dataclasses.replace(self, table=self.table.on_disk(folder))


def _repeats(rows: Rows, id: str) -> Int[np.ndarray, " r"]:
    """Return the numbers of rows that repeat an earlier one of the same id in every column."""
    pieces = []
    for part in rows.batches():
        whole = row_hashes({name: part[name] for name in part.column_names})
        pieces.append((row_hashes({id: part[id]}), whole, is_missing(part[id])))
    ids, contents, unknown = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    known = np.flatnonzero(~unknown)  # rows without an id are refused, or left out, elsewhere
    _, first, person = np.unique(ids[known], return_index=True, return_inverse=True)
    firsts = known[first][person]
    if (other := contents[known] != contents[firsts]).any():
        row, earlier = int(known[other][0]), int(firsts[other][0])
        name = rows.read(row, row + 1)[id][0].as_py()
        raise InvalidData(
            f"Rows {earlier + 1} and {row + 1} are both of {id} = {name!r}, but differ. Merge "
            f"them, or let the rows of one person count as dependent: --clusters {id}."
        )
    return known[known != firsts]


def _inputs(roles: Roles, schema: pa.Schema, encoder: Encoder | None) -> tuple[str, ...]:
    """Return the columns that ``x`` is made of."""
    if encoder is not None:
        for name in encoder.columns:
            require(name, schema.names, "an input of the encoder")
            if name not in roles.original(schema.names):
                raise InvalidData(
                    f"Column {name!r} is an input of the encoder, so it can be neither label, "
                    "weight, cluster nor id, and cannot be ignored."
                )
        if roles.inputs is not None:
            raise InvalidData(
                f"Name no inputs: the encoder knows them ({', '.join(encoder.columns)})."
            )
        return encoder.columns
    candidates = roles.candidates(schema.names)
    held = {name: kind(schema.field(name).type) for name in candidates}
    inputs = tuple(name for name in candidates if held[name] in ("numbers", "true/false"))
    others = [name for name in candidates if name not in inputs]
    if others and (roles.inputs is not None or not inputs):
        raise InvalidData(
            f"Column {others[0]!r} holds {held[others[0]]}, which a model can "
            "read only through an encoder (--encoder)."
        )
    if not inputs:
        raise InvalidData("No column is left to be an input of the model.")
    return inputs


def check_count(n: int, rows: int) -> None:
    """Refuse fewer than two people, of so many rows."""
    if n < 2:
        raise InvalidData(
            f"An audit needs at least 2 people, and there are {n}: the table has {rows} rows."
        )


def _matrix(table: pa.Table, columns: tuple[str, ...]) -> Float[np.ndarray, "n d"]:
    x = np.empty((len(table), len(columns)))
    for j, name in enumerate(columns):
        x[:, j] = numbers(name, table[name])
        check_finite(name, x[:, j])
    return x


@final
@dataclasses.dataclass(frozen=True)
class PeopleSource(Source):
    """People in memory, read already.

    They keep their row numbers where these are consecutive but for rows left out on request, so
    that blocks are those of the table they were read from; others are numbered as they come.
    """

    people: AuditData = dataclasses.field(repr=False)
    places: Int[np.ndarray, " n"] = dataclasses.field(repr=False)

    @classmethod
    def from_people(cls, people: AuditData) -> "PeopleSource":
        """Give the people their numbers."""
        places, n_rows = people.places
        return cls(people.source, n_rows, people, places)

    @override
    def identity(self) -> dict[str, str]:
        return {"inputs": digest([self.people.x, self.people.features])}

    @override
    def rows(self, begin: int, end: int) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        first, last = np.searchsorted(self.places, [begin, end]).tolist()
        dropped = self.people.dropped if begin == 0 else {}
        people = dataclasses.replace(self.people.take(slice(first, last)), dropped=dropped)
        return people, self.places[first:last]

    @override
    def schema(self) -> pa.Schema:
        table: Any = self.people.in_columns().table
        return table.schema

    @override
    def everyone(self, role: str) -> Any:
        return getattr(self.people, role)


def as_source(
    people: Any,
    *,
    encoder: Encoder | None = None,
    drop_missing: bool = False,
    raw: bool = False,
    csv: Csv | Mapping[str, Any] | None = None,
    unlabelled: bool = False,
    **named: Any,
) -> Source:
    """Return people as a source, of what `likewise.read` takes, and `AuditData`.

    Which columns of a table are what is settled here, ``named`` as in `Roles`. People who are
    ``unlabelled`` may do without a label (it is 0 then).
    """
    if isinstance(people, AuditData):
        return PeopleSource.from_people(people)
    if named.get("label") is None and not unlabelled:
        raise InvalidSettings("Which column is the label? Name it with label (--label).")
    if raw and encoder is not None:
        raise InvalidData("A pipeline reads original columns (raw), so it needs no encoder.")
    roles = Roles(**named)
    rows = open_rows(people, text=frozenset() if encoder is None else encoder.text_columns, csv=csv)
    check_count(rows.n_rows, rows.n_rows)
    roles.check(rows.schema.names)
    read = rows.select(name for name in rows.schema.names if name not in roles.ignore)
    for name, found in zip(read.schema.names, read.schema.types, strict=True):
        if name == roles.weight and kind(found) != "numbers":
            raise InvalidData(f"Column {name!r} (weight) holds {kind(found)}, not numbers.")
        if pa.types.is_nested(found):
            raise InvalidData(
                f"Column {name!r} is nested ({found}). Make plain columns of it, or {IGNORE}."
            )
    inputs = () if raw else _inputs(roles, rows.schema, encoder)
    repeated = np.empty(0, int) if roles.id is None else _repeats(read, roles.id)
    return TableSource(rows.name, rows.n_rows, read, roles, inputs, encoder, drop_missing, repeated)


def read_pool(
    pool: Any,
    source: Source,
    *,
    label: str | None = None,
    cluster: str | None = None,
    id: str | None = None,
    csv: Csv | Mapping[str, Any] | None = None,
    drop_missing: bool = False,
    **roles: Any,
) -> AuditData:
    """Read a reference sample: people other than the audited, in the same columns and groups.

    Columns that only the pool has are left out, and types are those of the audited people.
    Whoever is audited, or of an audited cluster, leaves the pool and is counted in ``dropped``.
    Without the label, cluster or id of the audited people (``source``) it is read all the same;
    labels are kept only if everyone has one. ``drop_missing`` as for the audited people.
    """
    schema, encoder = source.schema(), getattr(source, "encoder", None)
    if isinstance(pool, AuditData):
        found = pool.in_columns()
    else:
        opened = open_rows(pool, csv=csv)
        has = opened.schema.names
        label, cluster, id = (name if name in has else None for name in (label, cluster, id))
        if label is not None and is_missing(opened.select([label]).table()[label]).any():
            label = None
        unasked = tuple(n for n in has if n not in (label, cluster, id, *schema.names))
        named = {"label": label, "cluster": cluster, "id": id, "ignore": unasked, **roles}
        people = as_source(opened, raw=True, unlabelled=True, **named)
        found, _ = people.rows(0, opened.n_rows)
    table = _same_types(found.table, schema)
    found = dataclasses.replace(found, table=table)
    if drop_missing:
        needed = Roles(**roles).candidates(table.column_names)
        needed = needed if encoder is None else encoder.complete_columns
        complete, dropped = complete_rows(table, needed, drop=True)
        found = dataclasses.replace(found.take(complete), dropped={**found.dropped, **dropped})
    for role in ("id", "cluster"):
        theirs, ours = getattr(found, role), source.everyone(role)
        if theirs is not None and ours is not None:
            both = np.isin(row_hashes({role: theirs}), row_hashes({role: ours}))
            gone = {f"{role} is audited": int(both.sum())} if both.any() else {}
            if role == "cluster" and both.all():
                raise InvalidData(
                    f"Every {cluster or role!r} in the pool is audited too, and no cluster may be "
                    "in both. Leave out --pool, so that each half of the people is the other's; "
                    "or give a pool of other clusters."
                )
            found = dataclasses.replace(found.take(~both), dropped={**found.dropped, **gone})
    if not len(found):
        raise InvalidData(
            "Everyone in the pool is audited, or misses a value. Give other people (--pool)."
        )
    return found


def _same_types(table: Any, schema: pa.Schema) -> pa.Table:
    """Return the columns that the audited people have, in their types."""
    columns = {}
    for name in (name for name in table.column_names if name in schema.names):
        column, wanted = without_dictionary(table[name]), schema.field(name).type
        wanted = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
        try:
            columns[name] = column.cast(wanted)
        except pa.ArrowException:
            raise InvalidData(
                f"Column {name!r} holds {kind(column.type)} in the pool and {kind(wanted)} among "
                "the people audited. Write both in the same way."
            ) from None
    return pa.table(columns)
