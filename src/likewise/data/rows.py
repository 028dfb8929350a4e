"""Rows of files and data frames, as one stream in a fixed order, with one schema.

Parquet files stay where they are; CSV files, as data frames, are kept in memory. What their values
mean, `likewise.read` says.
"""

import contextlib
import dataclasses
import glob
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from likewise.data.columns import TEXT, check_names, frame_table, kind, plain_type
from likewise.errors import InvalidData, InvalidFile, in_short, nearest
from likewise.files import replacing
from likewise.settings import Csv, make_settings

PARQUET = (".parquet", ".pq")
TSV = (".tsv", ".tsv.gz", ".tsv.bz2", ".tsv.zst")
CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", *TSV)

BATCH_ROWS = 32768
BUFFER_BYTES = 1 << 20

MISSING_VALUES = [*csv.ConvertOptions().null_values, "None", "<NA>"]  # those of pandas
NUMBER = r"^-?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?$"
COMMON = [{*types, pa.null()} for types in ((pa.int64(), pa.float64()), (pa.bool_(),), (TEXT,))]
"""Types that a column may have in several CSV files; of any others it is text."""

DECIMAL_COMMA = r"^[-+]?(\d{1,3}([. '’]\d{3})+|\d*),\d+$"


def expand(source: Sequence[str | Path]) -> list[Path]:
    """Return the files meant by names, patterns (``part-*.parquet``) and folders.

    Files of a pattern or folder are read in the order of their names.
    """
    files: dict[Path, Path] = {}
    for entry in source:
        try:
            found = _files(Path(entry))
        except OSError as error:
            raise InvalidFile(f"{str(entry)!r} cannot be read: {error.strerror}.") from None
        for path in found:
            if not path.name.lower().endswith(PARQUET + CSV):
                raise InvalidFile(
                    f"{str(path)!r} is neither Parquet (.parquet) nor CSV (.csv, .tsv) by its name."
                )
            if path.resolve() in files:
                raise InvalidFile(
                    f"The file {str(path)!r} is named twice: people would count twice."
                )
            files[path.resolve()] = path
    if not files:
        raise InvalidData("No file is named. Name at least one.")
    return list(files.values())


def _files(path: Path) -> list[Path]:
    folder = path.is_dir()
    if folder:
        found = [p for p in sorted(path.iterdir()) if p.name.lower().endswith(PARQUET + CSV)]
    else:
        found = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        near = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = " The folder holds no Parquet or CSV." if folder else nearest(path.name, near)
        raise InvalidFile(f"There is no file {'in ' * folder}{str(path)!r}.{hint}")
    return found


@contextlib.contextmanager
def _reading(path: Path, options: Csv | None = None) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError, LookupError) as error:
        encoding = (options and options.encoding) or "UTF-8"
        why = f"cannot be read as {'Parquet' if options is None else 'CSV'} ({in_short(error)})."
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            why = f"holds text that is not {encoding}."
        if options is not None:
            why += (
                f" Values are separated by {_separator(path, options)!r} and encoded as {encoding},"
                " unless columns.csv.separator (say tab) and columns.csv.encoding (say latin-1) say"
                " otherwise (--set)."
            )
        raise InvalidFile(f"{str(path)!r} {why}") from None


def _overlaps(sizes: Iterable[int], begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield which pieces of these sizes hold rows ``begin`` to before ``end``, and which rows."""
    for number, size in enumerate(sizes):
        if begin < size and end > 0 < size:
            yield number, max(begin, 0), min(end, size)
        begin, end = begin - size, end - size


@dataclasses.dataclass(frozen=True)
class ParquetPart:
    """A Parquet file, read row group by row group without reading ahead: memory stays small.

    ``groups`` are the sizes of row groups.
    """

    path: Path
    schema: pa.Schema
    groups: tuple[int, ...]

    @classmethod
    def open(cls, path: Path) -> "ParquetPart":
        """Look at a file's schema and the sizes of its row groups."""
        with _reading(path), _parquet(path) as file:
            check_names(file.schema_arrow.names, repr(str(path)))
            return cls(path, file.schema_arrow, _group_sizes(file))

    def __len__(self) -> int:
        return sum(self.groups)

    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of the rows from ``begin`` until before ``end``, in batches.

        Row groups are often much larger than a task. A thread whose next task goes on in the same
        group goes on where it stopped, so that each group is decoded once.
        """
        with _reading(self.path):
            for group, first, last in _overlaps(self.groups, begin, end):
                key = (self.path, self.groups, group, columns)
                # Taken out, so that it is not kept where reading fails.
                cursor: _Cursor | None = _THREAD.__dict__.pop("cursor", None)
                if cursor is None or cursor.key != key or cursor.position > first:
                    cursor = _Cursor(key)
                yield from cursor.rows(first, last)
                if last < self.groups[group]:
                    _THREAD.cursor = cursor


_THREAD = threading.local()
"""Holds the row group that this thread is reading."""


class _Cursor:
    """A row group that is being read: its batches, the next row's number, the rest of a batch."""

    def __init__(self, key: tuple[Path, tuple[int, ...], int, list[str]]) -> None:
        self.key, self.position = key, 0
        self.rest: Any = None
        path, groups, group, columns = key
        file = _parquet(path)
        if _group_sizes(file) != groups:
            raise InvalidData(
                f"{str(path)!r} changed while it was audited: its rows are cut otherwise. Restore "
                "the file and continue with --resume, or begin again."
            )
        self.batches = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)

    def rows(self, begin: int, end: int) -> Iterator[Any]:
        """Yield the rows of the group from ``begin``, which is still to come, until ``end``."""
        while self.position < end:
            batch = self.rest or self._next_batch()
            skip = min(max(begin - self.position, 0), len(batch))
            used = min(end - self.position, len(batch))
            self.position, self.rest = self.position + used, batch.slice(used)
            if skip < used:
                yield batch.slice(skip, used - skip)

    def _next_batch(self) -> Any:
        batch = next(self.batches, None)
        if batch is None:
            raise pa.ArrowInvalid("it holds fewer rows than it says")
        batch.validate(full=True)  # finds text that is no UTF-8, for one
        return batch


def _parquet(path: Path) -> pq.ParquetFile:
    # A buffer, or else Arrow holds the compressed columns of a whole row group.
    return pq.ParquetFile(
        path, pre_buffer=False, buffer_size=BUFFER_BYTES, page_checksum_verification=True
    )


def _group_sizes(file: pq.ParquetFile) -> tuple[int, ...]:
    about = file.metadata
    sizes = tuple(about.row_group(k).num_rows for k in range(about.num_row_groups))
    if min(sizes, default=0) < 0:
        raise pa.ArrowInvalid("its number of rows is negative")
    return sizes


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows that can be read as often as one likes, without holding all of them.

    Parts are Parquet files, or a table in memory. Columns stand in the order of the first file,
    with types that suit all files; ``notes`` are sentences about columns that were read in an
    unexpected way.
    """

    name: str
    parts: tuple[Any, ...] = dataclasses.field(repr=False)
    schema: pa.Schema
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows in all files."""
        return sum(map(len, self.parts))

    def select(self, columns: Iterable[str]) -> "Rows":
        """Return the same rows with these columns alone; others are not read."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return dataclasses.replace(self, schema=schema)

    def read(self, begin: int, end: int) -> pa.Table:
        """Return rows ``begin`` to before ``end``, counted over all files."""
        columns, found = self.schema.names, [self.schema.empty_table()]
        for number, first, last in _overlaps(map(len, self.parts), begin, end):
            part = self.parts[number]
            if isinstance(part, ParquetPart):
                table = pa.Table.from_batches(list(part.read(first, last, columns)))
            else:
                table = part.slice(first, last - first)
            try:
                found.append(table.select(columns).cast(self.schema))
            except pa.ArrowException as error:
                raise InvalidData(
                    f"A file of {self.name} does not fit the others ({in_short(error)})."
                ) from None
        return pa.concat_tables(found)

    def batches(self) -> Iterator[pa.Table]:
        """Yield all rows, in order, in pieces."""
        for begin in range(0, self.n_rows, BATCH_ROWS):
            yield self.read(begin, begin + BATCH_ROWS)

    def table(self) -> pa.Table:
        """Return all rows at once."""
        return self.read(0, self.n_rows)

    def on_disk(self, folder: Path) -> "Rows":
        """Return the same rows so that sending them elsewhere costs nothing: a table as a file."""
        if all(isinstance(part, ParquetPart) for part in self.parts):
            return self
        path = folder / "rows.parquet"
        with (
            replacing(path) as file,
            pq.ParquetWriter(file, self.schema, write_page_checksum=True) as writer,
        ):
            for piece in self.batches():
                writer.write_table(piece, row_group_size=BATCH_ROWS)
        return dataclasses.replace(self, parts=(ParquetPart.open(path),))


def open_rows(
    source: Any,
    *,
    text: frozenset[str] = frozenset(),
    csv: Csv | Mapping[str, Any] | None = None,
) -> Rows:
    """Open a file, several files (names, patterns, folders), or a data frame.

    Columns ``text`` are read as text from a CSV file even where they look like numbers.
    """
    if isinstance(source, Rows):
        return source
    if isinstance(source, str | Path):
        source = [source]
    if not (isinstance(source, list | tuple) and all(isinstance(s, str | Path) for s in source)):
        table, name = frame_table(source)
        check_names(table.column_names, name)
        return Rows(name, (table,), _plain(table.schema))
    paths = expand(source)
    if not isinstance(csv, Csv):
        csv = make_settings({"columns": {"csv": dict(csv or {})}}).columns.csv
    tables, notes = _read_csv_files([p for p in paths if p.name.lower().endswith(CSV)], csv, text)
    parts = [tables[path] if path in tables else ParquetPart.open(path) for path in paths]
    names = [set(part.schema.names) for part in parts]
    for path, own in zip(paths, names, strict=True):
        if stray := sorted(own ^ names[0]):
            lacks, has = (path, paths[0]) if stray[0] in names[0] else (paths[0], path)
            raise InvalidData(
                f"{str(lacks)!r} has no column {stray[0]!r}, which {str(has)!r} has. "
                "Files that are read together need the same columns."
            )
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files, {paths[0]} to {paths[-1]}"
    try:  # whole numbers in one file and fractions in another are fine
        schemas = [_plain(part.schema) for part in parts]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidData(
            f"A column is of another type in another file ({in_short(error)}). Make them one type."
        ) from None
    return Rows(name, tuple(parts), schema, notes)


def _read_csv_files(
    paths: Sequence[Path], options: Csv, text: frozenset[str]
) -> tuple[dict[Path, pa.Table], tuple[str, ...]]:
    """Return CSV files as tables with column types that suit all of them, and notes.

    Columns hold numbers or true/false, as Arrow finds, or text: dates, and what is a number in one
    file and none in another, are as they were written. Notes say what one may not expect.
    """
    tables = {path: _read_csv(path, options, text) for path in paths}
    held: dict[str, set[Any]] = {}
    for table in tables.values():
        for field in _plain(table.schema):
            held.setdefault(field.name, {pa.null()}).add(field.type)
    mixed = [name for name, found in held.items() if not any(found <= one for one in COMMON)]
    if mixed:
        tables = {path: _read_csv(path, options, text.union(mixed)) for path in paths}
    notes: dict[str, str] = {}
    for path, table in tables.items():
        if "" in table.column_names:
            notes[str(path)] = f"A column of {path.name} has no name and is not read."
            tables[path] = table = table.drop_columns("")
        for name in table.column_names:
            if name not in text and kind(table[name].type) == "text":
                notes |= _among_numbers(path, name, table[name], options)
    return tables, tuple(notes.values())


def _read_csv(path: Path, options: Csv, text: frozenset[str]) -> pa.Table:
    """Read a CSV file, columns ``text`` as text; a column without a name may have any type."""
    with _reading(path, options):
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(encoding=options.encoding or "utf8"),
            parse_options=csv.ParseOptions(
                delimiter=_separator(path, options), newlines_in_values=True
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(text, TEXT),
                null_values=MISSING_VALUES,
                strings_can_be_null=True,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                decimal_point=options.decimal or ".",
            ),
        )
        names = table.column_names
    other = next((mark for mark in ",;\t|" if len(names) == 1 and mark in names[0]), None)
    if other is not None and options.separator is None:
        raise InvalidFile(
            f"{str(path)!r} has a single column, {names[0][:60]!r}. Name what separates values: "
            f"--set 'columns.csv.separator={'tab' if other == chr(9) else other}'."
        )
    if not any(names):
        raise InvalidFile(f"No column of {str(path)!r} has a name in the first line.")
    check_names(names, repr(str(path)))
    return table


def _among_numbers(path: Path, name: str, column: Any, options: Csv) -> dict[str, str]:
    """Return a note on a column of text that is numbers for the most part; refuse 1,5 there."""
    plain = pc.utf8_trim_whitespace(column)
    numeric = pc.match_substring_regex(plain, NUMBER.replace(".", options.decimal or "."))
    strangers = plain.filter(pc.invert(numeric))
    if not len(strangers):
        return {}
    commas = pc.match_substring_regex(strangers, DECIMAL_COMMA)
    if options.decimal is None and pc.all(commas).as_py():
        raise InvalidFile(
            f"Column {name!r} of {str(path)!r} holds {strangers[0].as_py()!r}: is that a "
            "decimal comma? Name the decimal mark: --set columns.csv.decimal=, (or =. and the "
            "column is text)."
        )
    if 2 * len(strangers) >= len(column) - column.null_count:
        return {}
    row = pc.index(numeric, False).as_py()
    return {
        name: f"Column {name!r} of {path.name} is read as text, because row {row + 1} holds "
        f"{column[row].as_py()!r} among its numbers."
    }


def _separator(path: Path, options: Csv) -> str:
    return options.separator or ("\t" if path.name.lower().endswith(TSV) else ",")


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])
