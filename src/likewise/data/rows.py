"""Opens files and data frames as one stream of rows, in a fixed order, with one schema."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from likewise.data import csv_files
from likewise.data.arrow import frame_table, kind, plain_type
from likewise.data.csv_format import CsvFormat, sniff
from likewise.data.parts import BATCH_ROWS, CsvPart, ParquetPart, RowsPart
from likewise.data.paths import Place, check_filled, expand, is_csv, reading
from likewise.data.roles import check_names
from likewise.errors import InvalidData, in_short
from likewise.files import replacing


@dataclasses.dataclass(frozen=True)
class TablePart(RowsPart):
    """A table in memory."""

    table: pa.Table = dataclasses.field(repr=False)

    @override
    def batches(self, columns: list[str]) -> Iterator[Any]:
        yield from self.table.select(columns).to_batches()

    @override
    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        yield from self.table.slice(begin, end - begin).select(columns).to_batches()


@dataclasses.dataclass(frozen=True)
class Rows:
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
    parts: tuple[RowsPart, ...]
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

    def read(self, begin: int, end: int, columns: list[str]) -> pa.Table:
        """Return ``columns`` of rows ``begin`` to before ``end``, counted over all files."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        found = [schema.empty_table()]
        first = 0
        for part in self.parts:
            last = first + part.n_rows
            if last > begin and first < end:
                asked = max(begin - first, 0), min(end, last) - first
                found += [_cast(b, schema, part.name) for b in part.read(*asked, columns)]
            first = last
        return pa.concat_tables(found)

    def on_disk(self, folder: Path) -> "Rows":
        """Return the same rows so that any range can be read, and sent elsewhere, cheaply.

        What is in memory or in CSV files is written to ``folder`` as Parquet; the rest stays.
        """
        parts = tuple(
            part
            if isinstance(part, ParquetPart)
            else self._as_parquet(part, folder / f"rows-{number:05d}.parquet")
            for number, part in enumerate(self.parts)
        )
        return dataclasses.replace(self, parts=parts)

    def _as_parquet(self, part: RowsPart, path: Path) -> RowsPart:
        with (
            replacing(path) as file,
            pq.ParquetWriter(file, self.schema, write_page_checksum=True) as writer,
        ):
            for batch in part.batches(self.schema.names):
                writer.write_table(_cast(batch, self.schema, part.name), row_group_size=BATCH_ROWS)
        return dataclasses.replace(ParquetPart.at(path), name=part.name)

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


def open_rows(source: Any, *, text: frozenset[str] = frozenset()) -> Rows:
    """Open a file, several files (names, patterns, folders, addresses), or a data frame.

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
        part = TablePart(name, table.schema, len(table), table)
        return Rows(name, (part,), _plain(table.schema))
    paths = expand(source)
    written = {path: _sniffed(path) for path in paths if is_csv(path)}
    stored = {path: ParquetPart.at(path) for path in paths if path not in written}
    names = {path: _column_names(path, written, stored) for path in paths}
    for path in paths[1:]:
        _check_same(names[paths[0]], names[path], str(paths[0]), str(path))
    survey = csv_files.CsvTypes(text)
    counts = {path: _survey(survey, path, names[path], form) for path, form in written.items()}
    marked = frozenset(survey.marked)
    parts = tuple(
        stored[path]
        if path in stored
        else CsvPart(
            str(path),
            survey.schema(names[path]),
            counts[path],
            path,
            dataclasses.replace(written[path], marked=marked),
        )
        for path in paths
    )
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files, {paths[0]} to {paths[-1]}"
    return Rows(name, parts, _joint_schema(parts), survey.notes)


def _sniffed(path: Place) -> CsvFormat:
    with reading(path):
        check_filled(path)
        return sniff(path)


def _column_names(
    path: Place, written: Mapping[Place, CsvFormat], stored: Mapping[Place, ParquetPart]
) -> list[str]:
    if path in stored:
        names = stored[path].schema.names
    else:
        with reading(path):
            names = csv_files.names_of(path, written[path])
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


def _survey(survey: csv_files.CsvTypes, path: Place, names: list[str], written: CsvFormat) -> int:
    with reading(path):
        return survey.add(path, names, written)


def _joint_schema(parts: Sequence[RowsPart]) -> pa.Schema:
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
