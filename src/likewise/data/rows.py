"""Rows of files and data frames, as one stream in a fixed order, with one schema.

CSV files are kept as Parquet in a temporary folder, where any row can be read without those before
it. What their values mean, `likewise.read` says.
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

from likewise.data.columns import TEXT, check_names, frame_table, plain_type
from likewise.errors import InvalidData, InvalidFile, in_short, nearest
from likewise.files import TemporaryFolder, replacing
from likewise.settings import Csv, make_settings

PARQUET = (".parquet", ".pq")
TSV = (".tsv", ".tsv.gz", ".tsv.bz2", ".tsv.zst")
CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", *TSV)

BATCH_ROWS = 32768
BUFFER_BYTES = 1 << 20
CSV_BYTES = 1 << 20

MISSING_VALUES = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
]
NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[-+]?(\d{1,3}([. '’]\d{3})+|\d*),\d+$"

# What a column may still turn out to be, given what its rows so far were; text is always last.
WIDER_TYPES: dict[Any, tuple[Any, ...]] = {
    None: (pa.int64(), pa.float64(), pa.bool_()),
    pa.int64(): (pa.int64(), pa.float64()),
    pa.float64(): (pa.float64(),),
    pa.bool_(): (pa.bool_(),),
}


def is_parquet(path: Path) -> bool:
    """Tell whether a file is Parquet, by its name."""
    return path.name.lower().endswith(PARQUET)


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
                    f"The file {str(path)!r} is named twice, so people would count twice."
                )
            if path.stat().st_size == 0:
                raise InvalidFile(f"The file {str(path)!r} is empty.")
            files[path.resolve()] = path
    if not files:
        raise InvalidData("No file is named. Name at least one.")
    return list(files.values())


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        tables = [p for p in sorted(path.iterdir()) if p.name.lower().endswith(PARQUET + CSV)]
        if not tables:
            raise InvalidFile(f"There is no Parquet or CSV file in the folder {str(path)!r}.")
        return tables
    found = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        near = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InvalidFile(f"There is no file {str(path)!r}.{nearest(path.name, near)}")
    return found


@contextlib.contextmanager
def _reading(path: Path, options: Csv | None = None) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        no_text = isinstance(error, UnicodeError) or "UTF8" in str(error)
        if options is None:
            why = f"cannot be read as Parquet ({in_short(error)})."
            why = "holds text that is not UTF-8." if no_text else why
        elif no_text:
            why = (
                f"is not {options.encoding or 'UTF-8'} text. Name its encoding: --set "
                "columns.csv.encoding=latin-1 (or cp1252, utf-16)."
            )
        else:
            why = (
                f"cannot be read as CSV ({in_short(error)}). Values are separated by "
                f"{_separator(path, options)!r} and encoded as {options.encoding or 'UTF-8'}, "
                "unless columns.csv.separator and columns.csv.encoding say otherwise (--set)."
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

    ``name`` says where the rows come from: the CSV file that it was made from, say. ``groups`` are
    the sizes of row groups. A temporary ``folder`` goes with the last part that holds it.
    """

    name: str
    schema: pa.Schema
    path: Path
    groups: tuple[int, ...]
    folder: TemporaryFolder | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, path: Path, name: str = "", folder: Any = None) -> "ParquetPart":
        """Look at a file's schema and the sizes of its row groups."""
        with _reading(path), _parquet(path) as file:
            return cls(name or str(path), file.schema_arrow, path, _group_sizes(file), folder)

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
                    cursor = _Cursor(key, self.name)
                yield from cursor.rows(first, last)
                if last < self.groups[group]:
                    _THREAD.cursor = cursor

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "folder": None}


_THREAD = threading.local()
"""Holds the row group that this thread is reading."""


class _Cursor:
    """A row group that is being read: its batches, the next row's number, the rest of a batch."""

    def __init__(self, key: tuple[Path, tuple[int, ...], int, list[str]], name: str) -> None:
        self.key, self.position = key, 0
        self.rest: Any = None
        path, groups, group, columns = key
        file = _parquet(path)
        if _group_sizes(file) != groups:
            raise InvalidData(
                f"{name!r} changed while it was audited: its rows are cut otherwise. Restore the "
                "file and continue with --resume, or begin again."
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

    def read(self, begin: int, end: int, columns: list[str]) -> pa.Table:
        """Return ``columns`` of rows ``begin`` to before ``end``, counted over all files."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        found = [schema.empty_table()]
        for number, first, last in _overlaps(map(len, self.parts), begin, end):
            part = self.parts[number]
            if isinstance(part, ParquetPart):
                batches: Iterable[Any] = part.read(first, last, columns)
            else:
                batches = part.slice(first, last - first).select(columns).to_batches()
            for batch in batches:
                try:
                    table = pa.Table.from_batches([batch]).select(columns)
                    found.append(table.cast(schema))
                except pa.ArrowException as error:
                    name = getattr(part, "name", self.name)
                    raise InvalidData(
                        f"{name!r} does not fit the other files ({in_short(error)})."
                    ) from None
        return pa.concat_tables(found)

    def batches(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield ``columns`` of all rows, in order, in pieces."""
        for begin in range(0, self.n_rows, BATCH_ROWS):
            yield self.read(begin, begin + BATCH_ROWS, columns)

    def table(self, columns: list[str]) -> pa.Table:
        """Return ``columns`` of all rows at once."""
        return self.read(0, self.n_rows, columns)

    def on_disk(self, folder: Path) -> "Rows":
        """Return the same rows so that sending them elsewhere costs nothing: a table as a file."""
        if all(isinstance(part, ParquetPart) for part in self.parts):
            return self
        path = folder / "rows.parquet"
        _write(path, self.schema, self.batches(self.schema.names))
        return dataclasses.replace(self, parts=(ParquetPart.open(path, self.name),))


def _write(path: Path, schema: pa.Schema, pieces: Iterable[pa.Table]) -> None:
    with (
        replacing(path) as file,
        pq.ParquetWriter(file, schema, write_page_checksum=True) as writer,
    ):
        for piece in pieces:
            writer.write_table(piece, row_group_size=BATCH_ROWS)


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
    tables = _CsvTables(csv, text)
    parts = {path: ParquetPart.open(path) for path in paths if is_parquet(path)}
    names = {
        path: parts[path].schema.names if path in parts else tables.header(path) for path in paths
    }
    for path, own in names.items():
        check_names(own, repr(str(path)))
        for lacks, has in ((path, paths[0]), (paths[0], path)):
            if stray := [name for name in names[has] if name not in names[lacks]]:
                raise InvalidData(
                    f"{str(lacks)!r} has no column {stray[0]!r}, which {str(has)!r} has. "
                    "Files that are read together need the same columns."
                )
    parts |= tables.parquet({path: own for path, own in names.items() if path not in parts})
    ordered = tuple(parts[path] for path in paths)
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files, {paths[0]} to {paths[-1]}"
    return Rows(name, ordered, _joint_schema(ordered), tuple(tables.notes.values()))


class _CsvTables:
    """CSV files as Parquet, with column types that suit every row of every file.

    All files are read once to learn the types: Arrow's own streaming reader takes them from the
    first block alone, and fails later in a column that begins with whole numbers, or empty, and
    goes on otherwise. ``notes`` say what was read in another way than one may expect.
    """

    def __init__(self, options: Csv, text: frozenset[str]) -> None:
        self._options = options
        self._types: dict[str, Any] = dict.fromkeys(text, TEXT)
        self.notes: dict[str, str] = {}

    def header(self, path: Path) -> list[str]:
        """Return the column names in the first line; a column without one is not read."""
        with _reading(path, self._options), _csv(path, self._options) as reader:
            names = list(reader.schema.names)
        other = next((mark for mark in ",;\t|" if len(names) == 1 and mark in names[0]), None)
        if other is not None and self._options.separator is None:
            raise InvalidFile(
                f"{str(path)!r} has a single column, {names[0][:60]!r}. Name what separates "
                f"values: --set 'columns.csv.separator={'tab' if other == chr(9) else other}'."
            )
        if not any(names):
            raise InvalidFile(f"No column of {str(path)!r} has a name in the first line.")
        if "" in names:
            self.notes[str(path)] = f"A column of {path.name} has no name and is not read."
        return [name for name in names if name]

    def parquet(self, files: Mapping[Path, Sequence[str]]) -> dict[Path, ParquetPart]:
        """Return files as Parquet in a temporary folder; a column without a value is null there."""
        for path, names in files.items():
            first = 1
            for batch in self._batches(path, dict.fromkeys(names, TEXT)):
                for name in names:
                    self._widen(path, name, batch[name], first)
                first += len(batch)
        folder = TemporaryFolder() if files else None
        found: dict[Path, ParquetPart] = {}
        for path, names in files.items():
            assert folder is not None
            types = {name: self._types.get(name) or pa.null() for name in names}
            copy = Path(folder.name) / f"rows-{len(found):05d}.parquet"
            batches = self._batches(path, types)
            _write(copy, pa.schema(types), (pa.Table.from_batches([b]) for b in batches))
            found[path] = ParquetPart.open(copy, str(path), folder)
        return found

    def _batches(self, path: Path, types: Mapping[str, Any]) -> Iterator[Any]:
        with _reading(path, self._options), _csv(path, self._options, types) as reader:
            yield from reader

    def _widen(self, path: Path, name: str, column: Any, first: int) -> None:
        """Take further values of a column into account, from row ``first`` of the file on."""
        known = self._types.get(name)
        if known == TEXT or column.null_count == len(column):
            return
        plain = pc.utf8_trim_whitespace(column)
        if self._options.decimal == ",":  # a point is no part of a number then
            plain = pc.replace_substring(pc.replace_substring(plain, ".", "?"), ",", ".")
        found = next((t for t in WIDER_TYPES[known] if _all_are(plain, t)), TEXT)
        self._types[name] = found
        if found != TEXT:
            return
        numeric = pc.match_substring_regex(plain, NUMBER)
        strangers = column.filter(pc.invert(numeric))
        if not len(strangers):
            return
        commas = pc.match_substring_regex(pc.utf8_trim_whitespace(strangers), DECIMAL_COMMA)
        if self._options.decimal is None and pc.all(commas).as_py():
            raise InvalidFile(
                f"Column {name!r} of {str(path)!r} holds {strangers[0].as_py()!r}: is that a "
                "decimal comma? Name the decimal mark: --set columns.csv.decimal=, (or =. and the "
                "column is text)."
            )
        if known in (pa.int64(), pa.float64()) or 2 * pc.sum(numeric).as_py() > len(column):
            row = first + pc.index(numeric, False).as_py()
            self.notes[name] = (
                f"Column {name!r} of {path.name} is read as text, because row {row} holds "
                f"{strangers[0].as_py()!r} among its numbers."
            )


def _separator(path: Path, options: Csv) -> str:
    return options.separator or ("\t" if path.name.lower().endswith(TSV) else ",")


def _csv(path: Path, options: Csv, types: Mapping[str, Any] | None = None) -> Any:
    """Open a CSV file, for columns of these types if they are known."""
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=CSV_BYTES, encoding=options.encoding or "utf8"),
        parse_options=csv.ParseOptions(
            delimiter=_separator(path, options), newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=None if types is None else list(types),
            null_values=MISSING_VALUES,
            strings_can_be_null=True,
            decimal_point=options.decimal or ".",
        ),
    )


def _all_are(column: Any, column_type: Any) -> bool:
    try:
        pc.cast(column, column_type)
    except pa.ArrowInvalid:
        return False
    return True


def _joint_schema(parts: Sequence[ParquetPart]) -> pa.Schema:
    """Return types that suit all parts: whole numbers in one and fractions in another are fine."""
    try:
        return pa.unify_schemas([_plain(p.schema) for p in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidData(
            f"A column is of another type in another file ({in_short(error)}). Make them one type."
        ) from None


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])
