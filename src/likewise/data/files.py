"""Opens files and data frames as one stream of rows, in a fixed order, with one schema."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from likewise.data import csv_files
from likewise.data.arrow import kind, plain_type
from likewise.data.frames import frame_table
from likewise.data.paths import expand, is_csv, is_parquet, reading
from likewise.data.roles import check_names
from likewise.errors import InvalidData, InvalidFile, in_short

BATCH_ROWS = 65536

Batches = Callable[[list[str]], Iterator[Any]]


@dataclasses.dataclass(frozen=True)
class Part:
    """One file, or one data frame: its columns, its length, and a way to read it."""

    name: str
    schema: pa.Schema
    n_rows: int
    batches: Batches


@dataclasses.dataclass(frozen=True)
class Source:
    """Rows that can be read as often as one likes, without holding all of them.

    Parameters
    ----------
    name
        Where they come from, in words.
    parts
        Files in the order in which they are read.
    schema
        Columns in the order of the first file, with types that suit all files.
    notes
        Sentences about columns that were read in an unexpected way.
    """

    name: str
    parts: tuple[Part, ...]
    schema: pa.Schema
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows in all files."""
        return sum(part.n_rows for part in self.parts)

    def batches(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield ``columns`` of all rows, in order, in pieces of no particular size."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for part in self.parts:
            for batch in part.batches(columns):
                yield _cast(batch, schema, part.name)

    def table(self, columns: list[str]) -> pa.Table:
        """Return ``columns`` of all rows at once."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.concat_tables([schema.empty_table(), *self.batches(columns)])

    def blocks(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield blocks of exactly ``rows`` rows (the last may be shorter), whatever the files."""
        waiting: list[pa.Table] = []
        count = 0
        for batch in self.batches(columns):
            waiting.append(batch)
            count += len(batch)
            while count >= rows:
                joined = pa.concat_tables(waiting)
                yield joined.slice(0, rows)
                waiting, count = [joined.slice(rows)], count - rows
        if count:
            yield pa.concat_tables(waiting)


def open_source(source: Any, *, text: frozenset[str] = frozenset()) -> Source:
    """Open a file, several files (names, patterns, folders), or a data frame.

    Parameters
    ----------
    text
        Columns to be read as text from a CSV file even where they look like numbers.
    """
    if isinstance(source, str | Path):
        source = [source]
    is_paths = isinstance(source, list | tuple) and all(isinstance(s, str | Path) for s in source)
    if not is_paths:
        table, name = frame_table(source)
        check_names(table.column_names, name)
        part = Part(name, table.schema, len(table), lambda c: iter(table.select(c).to_batches()))
        return Source(name, (part,), _plain(table.schema))
    paths = expand(source)
    names = {path: _column_names(path) for path in paths}
    for path in paths[1:]:
        _check_same(names[paths[0]], names[path], str(paths[0]), str(path))
    survey = csv_files.Survey(text)
    counts = {path: _survey(survey, path, names[path]) for path in paths if is_csv(path)}
    parts = tuple(
        _csv_part(path, survey.schema(names[path]), counts[path])
        if path in counts
        else _parquet_part(path)
        for path in paths
    )
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files, {paths[0]} to {paths[-1]}"
    return Source(name, parts, _joint_schema(parts), survey.notes)


def _column_names(path: Path) -> list[str]:
    with reading(path):
        if path.stat().st_size == 0:
            raise InvalidFile(f"The file {str(path)!r} is empty.")
        names = pq.read_schema(path).names if is_parquet(path) else csv_files.names_of(path)
    check_names(names, repr(str(path)))
    return names


def _check_same(first: list[str], other: list[str], first_name: str, other_name: str) -> None:
    for names, lacking, lacks, has in (
        (first, other, other_name, first_name),
        (other, first, first_name, other_name),
    ):
        if stray := [name for name in names if name not in lacking]:
            raise InvalidData(
                f"{lacks!r} has no column {stray[0]!r}, which {has!r} has. "
                "Files that are read together need the same columns."
            )


def _survey(survey: csv_files.Survey, path: Path, names: list[str]) -> int:
    with reading(path):
        return survey.add(path, names)


def _csv_part(path: Path, schema: pa.Schema, n_rows: int) -> Part:
    def batches(columns: list[str]) -> Iterator[Any]:
        with reading(path):
            yield from csv_files.stream(path, {name: schema.field(name).type for name in columns})

    return Part(str(path), schema, n_rows, batches)


def _parquet_part(path: Path) -> Part:
    def batches(columns: list[str]) -> Iterator[Any]:
        # Row group by row group, without reading ahead: memory stays that of one group.
        options = {"pre_buffer": False, "page_checksum_verification": True}
        with reading(path), pq.ParquetFile(path, **options) as file:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                    batch.validate(full=True)  # finds text that is no UTF-8, for one
                    yield batch

    with reading(path), pq.ParquetFile(path) as file:
        return Part(str(path), file.schema_arrow, file.metadata.num_rows, batches)


def _joint_schema(parts: Sequence[Part]) -> pa.Schema:
    """Return types that suit all parts: whole numbers in one and fractions in another are fine."""
    first, *others = [_plain(part.schema) for part in parts]
    fields = []
    for field in first:
        column_type = field.type
        for part, other in zip(parts[1:], others, strict=True):
            other_type = other.field(field.name).type
            try:
                pair = [pa.schema([("c", t)]) for t in (column_type, other_type)]
                column_type = pa.unify_schemas(pair, promote_options="permissive").field("c").type
            except pa.ArrowException:
                raise InvalidData(
                    f"Column {field.name!r} holds {kind(column_type)} in {parts[0].name!r} and "
                    f"{kind(other_type)} in {part.name!r}. Make them one type."
                ) from None
        fields.append(pa.field(field.name, column_type))
    return pa.schema(fields)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])


def _cast(batch: Any, schema: pa.Schema, name: str) -> pa.Table:
    table = pa.Table.from_batches([batch]).select(schema.names)
    try:
        return table.cast(schema)
    except pa.ArrowException as error:
        raise InvalidData(f"{name!r} does not fit the other files ({in_short(error)}).") from None
