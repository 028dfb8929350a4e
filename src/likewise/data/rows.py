"""Rows of files and data frames, as one stream in a fixed order, with one schema.

A value of a CSV file counts as missing where pandas says so too (an empty field, ``NA``, ``nan``,
``null``, …). Blanks around a number are ignored; blanks around text are kept, since a model may
have been trained on them. CSV files are kept as Parquet in a temporary folder, where any row can be
read without those before it.
"""

import contextlib
import dataclasses
import fnmatch
import glob
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from pyarrow import csv

from likewise.data.columns import TEXT, check_columns, frame_table, kind, plain_type
from likewise.errors import InvalidData, InvalidFile, in_short, nearest
from likewise.files import TemporaryFolder, replacing
from likewise.settings import Csv, make_settings

PARQUET = (".parquet", ".pq")
COMPRESSED = ("", ".gz", ".bz2", ".zst")
TSV = tuple(".tsv" + packed for packed in COMPRESSED)
CSV = tuple(".csv" + packed for packed in COMPRESSED) + TSV

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


@dataclasses.dataclass(frozen=True)
class File:
    """A file on this machine, or behind an address such as ``s3://bucket/people.parquet``.

    Its file system holds options and credentials, which are never shown.
    """

    system: Any = dataclasses.field(repr=False)
    path: str
    scheme: str = ""

    @classmethod
    def local(cls, path: Path) -> "File":
        """Return a file on this machine."""
        return cls(pyarrow.fs.LocalFileSystem(), str(path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}" if self.scheme else self.path


def is_parquet(file: File) -> bool:
    """Tell whether a file is Parquet, by its name."""
    return file.name.lower().endswith(PARQUET)


def _is_table(file: File) -> bool:
    return file.name.lower().endswith(PARQUET + CSV)


def size_of(file: File) -> int:
    """Return the number of bytes of a file."""
    return int(file.system.get_file_info(file.path).size or 0)


def expand(source: Sequence[str | Path]) -> list[File]:
    """Return the files meant by names, patterns (``part-*.parquet``), folders and addresses.

    Files of a pattern or folder are read in the order of their names.
    """
    files: list[File] = []
    for entry in source:
        if isinstance(entry, str) and "://" in entry:
            files += _remote_files(entry)
            continue
        try:
            files += _local_files(Path(entry))
        except OSError as error:
            raise InvalidFile(f"{str(entry)!r} cannot be read: {error.strerror}.") from None
    if not files:
        raise InvalidData("No file is named. Name at least one.")
    seen: set[str] = set()
    for file in files:
        if not _is_table(file):
            raise InvalidFile(
                f"{str(file)!r} is neither Parquet (.parquet) nor CSV (.csv, .tsv) by its name."
            )
        real = str(file) if file.scheme else str(Path(file.path).resolve())
        if real in seen:
            raise InvalidFile(
                f"The file {str(file)!r} is named twice, so people would count twice."
            )
        seen.add(real)
    return files


def _remote_files(address: str) -> list[File]:
    """Return the files that an address means: itself, those of a folder, or those of a pattern."""
    split = urlsplit(address)
    shown = f"{split.scheme}://{split.netloc.rpartition('@')[2]}{split.path}"
    stem = split.path.partition("*")[0].rpartition("/")[0]
    listed = split._replace(path=stem).geturl() if "*" in split.path else address
    try:
        system, path = pyarrow.fs.FileSystem.from_uri(listed)
        info = system.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            return [File(system, path, split.scheme)]
        folder = pyarrow.fs.FileSelector(path, recursive="*" in split.path)
        found = [] if info.type == pyarrow.fs.FileType.NotFound else system.get_file_info(folder)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(f"{shown!r} cannot be reached ({in_short(error)}).") from None
    wanted = path + split.path[len(stem) :] if "*" in split.path else path.rstrip("/") + "/*"
    paths = sorted(item.path for item in found if item.is_file and _matches(item.path, wanted))
    files = [file for file in (File(system, p, split.scheme) for p in paths) if _is_table(file)]
    if not files:
        raise InvalidFile(f"There is no Parquet or CSV file at {shown!r}.")
    return files


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a path fits a pattern, whose ``*`` stay within a folder."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _local_files(path: Path) -> list[File]:
    if path.is_dir():
        found = [file for file in map(File.local, sorted(path.iterdir())) if _is_table(file)]
        if not found:
            raise InvalidFile(f"There is no Parquet or CSV file in the folder {str(path)!r}.")
    elif path.exists():
        found = [File.local(path)]
    else:
        found = [File.local(Path(name)) for name in sorted(glob.glob(str(path), recursive=True))]
        if not found:
            near = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InvalidFile(f"There is no file {str(path)!r}.{nearest(path.name, near)}")
    return found


@contextlib.contextmanager
def _reading(file: File, options: Csv | None = None) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        no_text = isinstance(error, UnicodeError) or "UTF8" in str(error)
        if options is None:
            why = "holds text that is not UTF-8"
            why = why if no_text else f"cannot be read as Parquet ({in_short(error)})"
            raise InvalidFile(f"{str(file)!r} {why}.") from None
        encoding = options.encoding or "UTF-8"
        if no_text:
            raise InvalidFile(
                f"{str(file)!r} is not {encoding} text. Name its encoding: "
                "--set columns.csv.encoding=latin-1 (or cp1252, utf-16)."
            ) from None
        raise InvalidFile(
            f"{str(file)!r} cannot be read as CSV ({in_short(error)}). Values are separated by "
            f"{_separator(file, options)!r} and encoded as {encoding}, unless "
            "columns.csv.separator and columns.csv.encoding say otherwise (--set)."
        ) from None


@dataclasses.dataclass(frozen=True)
class ParquetPart:
    """A Parquet file, read row group by row group without reading ahead: memory stays small.

    ``name`` says where the rows come from: the CSV file that it was made from, say. ``groups`` are
    the sizes of row groups. A temporary ``folder`` goes with the last part that holds it.
    """

    name: str
    schema: pa.Schema
    file: File
    groups: tuple[int, ...]
    folder: TemporaryFolder | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def open(cls, file: File, name: str = "", folder: Any = None) -> "ParquetPart":
        """Look at a file's schema and the sizes of its row groups."""
        with _reading(file):
            _check_filled(file)
            with _parquet(file) as opened:
                groups = _group_sizes(opened)
                return cls(name or str(file), opened.schema_arrow, file, groups, folder)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(self.groups)

    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of the rows from ``begin`` until before ``end``, in batches."""
        start = 0
        with _reading(self.file):
            for group, count in enumerate(self.groups):
                first, last = max(begin - start, 0), min(end - start, count)
                if first < last:
                    yield from _Cursor.read(self, group, columns, first, last)
                start += count

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "folder": None}


class _Cursor:
    """A row group that a thread is reading, kept open where its last reading stopped.

    Row groups are often much larger than a task. A worker whose next task goes on in the same
    group continues there, so that it decodes each group once.
    """

    own: ClassVar[threading.local] = threading.local()

    def __init__(self, part: ParquetPart, group: int, columns: list[str]) -> None:
        self.key = (part.file.path, part.groups, group, columns)
        self.position = 0
        self.rest: Any = None
        self.file = _parquet(part.file)
        if _group_sizes(self.file) != part.groups:
            raise InvalidData(
                f"{part.name!r} changed while it was audited: its rows are cut otherwise. Restore "
                "the file and continue with --resume, or begin again."
            )
        self.batches = self.file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)

    @classmethod
    def read(
        cls, part: ParquetPart, group: int, columns: list[str], begin: int, end: int
    ) -> Iterator[Any]:
        """Yield rows of a group, by this thread's cursor if it can go on from there."""
        cursor: _Cursor | None = getattr(cls.own, "cursor", None)
        key = (part.file.path, part.groups, group, columns)
        if cursor is None or cursor.key != key or cursor.position > begin:
            cls.close()
            cursor = cls.own.cursor = cls(part, group, columns)
        while cursor.position < end:
            batch = cursor.rest or cursor._next()
            skip = min(max(begin - cursor.position, 0), len(batch))
            piece = batch.slice(skip, min(end - cursor.position, len(batch)) - skip)
            used = skip + len(piece)
            cursor.position += used
            cursor.rest = batch.slice(used)
            if len(piece):
                yield piece
        if cursor.position == part.groups[group]:
            cls.close()

    @classmethod
    def close(cls) -> None:
        """Let go of the row group that this thread was reading."""
        cursor: _Cursor | None = cls.own.__dict__.pop("cursor", None)
        if cursor is not None:
            cursor.file.close()

    def _next(self) -> Any:
        try:
            batch = next(self.batches, None)
            if batch is None:
                raise pa.ArrowInvalid("it holds fewer rows than it says")
            batch.validate(full=True)  # finds text that is no UTF-8, for one
        except (pa.ArrowException, OSError):
            _Cursor.close()  # no further reading may go on from here
            raise
        return batch


def _parquet(file: File) -> pq.ParquetFile:
    # A buffer, or else Arrow holds the compressed columns of a whole row group.
    return pq.ParquetFile(
        file.system.open_input_file(file.path),
        pre_buffer=False,
        buffer_size=BUFFER_BYTES,
        page_checksum_verification=True,
    )


def _group_sizes(file: pq.ParquetFile) -> tuple[int, ...]:
    about = file.metadata
    return tuple(about.row_group(k).num_rows for k in range(about.num_row_groups))


@dataclasses.dataclass(frozen=True)
class TablePart:
    """A table in memory."""

    name: str
    table: pa.Table = dataclasses.field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types."""
        return self.table.schema

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.table)

    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of the rows from ``begin`` until before ``end``, in batches."""
        yield from self.table.slice(begin, end - begin).select(columns).to_batches()


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows that can be read as often as one likes, without holding all of them.

    Columns stand in the order of the first file, with types that suit all files; ``notes`` are
    sentences about columns that were read in an unexpected way.
    """

    name: str
    parts: tuple[ParquetPart | TablePart, ...]
    schema: pa.Schema
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows in all files."""
        return sum(part.n_rows for part in self.parts)

    def read(self, begin: int, end: int, columns: list[str]) -> pa.Table:
        """Return ``columns`` of rows ``begin`` to before ``end``, counted over all files."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        found = [schema.empty_table()]
        start = 0
        for part in self.parts:
            first, last = max(begin - start, 0), min(end - start, part.n_rows)
            if first < last:
                found += [_cast(b, schema, part.name) for b in part.read(first, last, columns)]
            start += part.n_rows
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
        if not any(isinstance(part, TablePart) for part in self.parts):
            return self
        path = folder / "rows.parquet"
        _write(path, self.schema, self.batches(self.schema.names))
        return dataclasses.replace(self, parts=(ParquetPart.open(File.local(path), self.name),))


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
    """Open a file, several files (names, patterns, folders, addresses), or a data frame.

    Columns ``text`` are read as text from a CSV file even where they look like numbers.
    """
    if isinstance(source, Rows):
        return source
    if isinstance(source, str | Path):
        source = [source]
    is_paths = isinstance(source, list | tuple) and all(isinstance(s, str | Path) for s in source)
    if not is_paths:
        table, name = frame_table(source)
        check_columns(table.column_names, name)
        return Rows(name, (TablePart(name, table),), _plain(table.schema))
    files = expand(source)
    if not isinstance(csv, Csv):
        csv = make_settings({"columns": {"csv": dict(csv or {})}}).columns.csv
    types = CsvTypes(csv, text)
    stored = [ParquetPart.open(file) if is_parquet(file) else None for file in files]
    names = [
        types.header(file) if part is None else part.schema.names
        for file, part in zip(files, stored, strict=True)
    ]
    for file, own in zip(files, names, strict=True):
        check_columns(own, repr(str(file)))
        _check_same(names[0], own, str(files[0]), str(file))
    texts = [
        (file, own) for file, own, part in zip(files, names, stored, strict=True) if part is None
    ]
    for file, own in texts:
        types.add(file, own)
    made = types.parquet(texts)
    parts = tuple(next(made) if part is None else part for part in stored)
    name = str(files[0]) if len(files) == 1 else f"{len(files)} files, {files[0]} to {files[-1]}"
    return Rows(name, parts, _joint_schema(parts), types.notes)


class CsvTypes:
    """Column types that suit every row of every CSV file, learned by reading all of them once.

    Arrow's own streaming reader takes types from the first block alone, and fails later in a
    column that begins with whole numbers, or empty, and goes on otherwise. Columns ``text`` are
    known to be text, whatever they look like: an encoder may know them so.
    """

    def __init__(self, options: Csv, text: frozenset[str] = frozenset()) -> None:
        self._options = options
        self._types: dict[str, Any] = dict.fromkeys(text, TEXT)
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was read in another way than one may expect."""
        return tuple(self._notes.values())

    def header(self, file: File) -> list[str]:
        """Return the column names in the first line; a column without one is not read."""
        with _reading(file, self._options):
            _check_filled(file)
            with _csv(file, self._options) as reader:
                names = list(reader.schema.names)
        other = next((mark for mark in ",;\t|" if len(names) == 1 and mark in names[0]), None)
        if other is not None and self._options.separator is None:
            raise InvalidFile(
                f"{str(file)!r} has a single column, {names[0][:60]!r}. Name what separates "
                f"values: --set 'columns.csv.separator={'tab' if other == chr(9) else other}'."
            )
        if not any(names):
            raise InvalidFile(f"No column of {str(file)!r} has a name in the first line.")
        if "" in names:
            self._notes[str(file)] = f"A column of {file.name} has no name and is not read."
        return [name for name in names if name]

    def add(self, file: File, names: Sequence[str]) -> None:
        """Take the rows of one more file into account."""
        for batch in self._batches(file, dict.fromkeys(names, TEXT)):
            for name in names:
                self._widen(file, name, batch[name])

    def parquet(self, files: Sequence[tuple[File, Sequence[str]]]) -> Iterator[ParquetPart]:
        """Yield files as Parquet in a temporary folder; a column without a value is null there."""
        folder = TemporaryFolder() if files else None
        for number, (file, names) in enumerate(files):
            assert folder is not None
            types = {name: self._types.get(name) or pa.null() for name in names}
            path = Path(folder.name) / f"rows-{number:05d}.parquet"
            batches = self._batches(file, types)
            _write(path, pa.schema(types), (pa.Table.from_batches([b]) for b in batches))
            yield ParquetPart.open(File.local(path), str(file), folder)

    def _batches(self, file: File, types: Mapping[str, Any]) -> Iterator[Any]:
        with _reading(file, self._options), _csv(file, self._options, types) as reader:
            yield from reader

    def _widen(self, file: File, name: str, column: Any) -> None:
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
                f"Column {name!r} of {str(file)!r} holds {strangers[0].as_py()!r}: is that a "
                "decimal comma? Name the decimal mark: --set columns.csv.decimal=, (or =. and the "
                "column is text)."
            )
        numbers = known in (pa.int64(), pa.float64())
        if numbers or 2 * pc.sum(numeric).as_py() > len(column):
            self._notes[name] = (
                f"Column {name!r} is read as text, because it holds {strangers[0].as_py()!r} "
                "among its numbers."
            )


def _check_filled(file: File) -> None:
    if size_of(file) == 0:
        raise InvalidFile(f"The file {str(file)!r} is empty.")


def _separator(file: File, options: Csv) -> str:
    return options.separator or ("\t" if file.name.lower().endswith(TSV) else ",")


def _csv(file: File, options: Csv, types: Mapping[str, Any] | None = None) -> Any:
    """Open a CSV file, for columns of these types if they are known."""
    return csv.open_csv(
        file.system.open_input_stream(file.path),
        read_options=csv.ReadOptions(block_size=CSV_BYTES, encoding=options.encoding or "utf8"),
        parse_options=csv.ParseOptions(
            delimiter=_separator(file, options), newlines_in_values=True
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


def _joint_schema(parts: Sequence[ParquetPart | TablePart]) -> pa.Schema:
    """Return types that suit all parts: whole numbers in one and fractions in another are fine."""
    joint = _plain(parts[0].schema)
    for part in parts[1:]:
        other = _plain(part.schema)
        for place, field in enumerate(joint):
            pair = [pa.schema([field]), pa.schema([other.field(field.name)])]
            try:
                (found,) = pa.unify_schemas(pair, promote_options="permissive")
            except pa.ArrowException:
                raise InvalidData(
                    f"Column {field.name!r} holds {kind(field.type)} in {parts[0].name!r} and "
                    f"{kind(other.field(field.name).type)} in {part.name!r}. Make them one type."
                ) from None
            joint = joint.set(place, found)
    return joint


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])


def _cast(batch: Any, schema: pa.Schema, name: str) -> pa.Table:
    table = pa.Table.from_batches([batch]).select(schema.names)
    try:
        return table.cast(schema)
    except pa.ArrowException as error:
        raise InvalidData(f"{name!r} does not fit the other files ({in_short(error)}).") from None
