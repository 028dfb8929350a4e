"""Rows of files and data frames, as one stream in a fixed order, with one schema.

A value of a CSV file counts as missing where pandas says so too (an empty field, ``NA``, ``nan``,
``null``, …). Blanks around a number are ignored; blanks around text are kept, since a model may
have been trained on them.
"""

import abc
import contextlib
import dataclasses
import fnmatch
import functools
import glob
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from pyarrow import csv
from typing_extensions import override

from likewise.data.columns import TEXT, check_columns, frame_table, kind, plain_type
from likewise.errors import InvalidData, InvalidFile, in_short, nearest
from likewise.files import replacing
from likewise.settings import make_settings
from likewise.settings.sections import Csv

PARQUET = (".parquet", ".pq")
PACKED = ("", ".gz", ".bz2", ".zst")
TSV = tuple(".tsv" + packed for packed in PACKED)
CSV = tuple(".csv" + packed for packed in PACKED) + TSV

BATCH_ROWS = 32768
BUFFER_BYTES = 1 << 20
CSV_BYTES = 1 << 20

MISSING = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
]
NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[-+]?(\d{1,3}([. '’]\d{3})+|\d*),\d+$"

# What a column may still turn out to be, given what its rows so far were; text is always last.
WIDER: dict[Any, tuple[Any, ...]] = {
    None: (pa.int64(), pa.float64(), pa.bool_()),
    pa.int64(): (pa.int64(), pa.float64()),
    pa.float64(): (pa.float64(),),
    pa.bool_(): (pa.bool_(),),
    TEXT: (),
}


@dataclasses.dataclass(frozen=True)
class Address:
    """A file behind an address such as ``s3://bucket/people.parquet``, read through pyarrow.

    Parameters
    ----------
    root
        The address as it was given, with options and credentials, which are never shown.
    path
        The file, as its file system names it.
    """

    root: str = dataclasses.field(repr=False)
    path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{urlsplit(self.root).scheme}://{self.path}"

    def size(self) -> int:
        """Return the number of bytes."""
        return _file_system(self.root)[0].get_file_info(self.path).size

    def open(self) -> Any:
        """Open the file for reading anywhere in it."""
        return _file_system(self.root)[0].open_input_file(self.path)

    def stream(self) -> Any:
        """Open the file for reading from its beginning, unpacked if its name says it is packed."""
        return _file_system(self.root)[0].open_input_stream(self.path)


Place = Path | Address
"""A file on this machine, or one behind an address."""


@functools.lru_cache(maxsize=16)
def _file_system(root: str) -> tuple[Any, str]:
    return pyarrow.fs.FileSystem.from_uri(root)


def is_parquet(path: Place) -> bool:
    """Tell whether a file is Parquet, by its name."""
    return path.name.lower().endswith(PARQUET)


def is_csv(path: Place) -> bool:
    """Tell whether a file holds comma-separated (or tab-separated) values, by its name."""
    return path.name.lower().endswith(CSV)


def expand(source: Sequence[str | Path]) -> list[Place]:
    """Return the files meant by names, patterns (``part-*.parquet``), folders and addresses.

    Files of a pattern or folder are read in the order of their names.
    """
    paths: list[Place] = []
    for entry in source:
        if isinstance(entry, str) and "://" in entry:
            paths += _behind(entry)
            continue
        try:
            paths += _meant_by(Path(entry))
        except OSError as error:
            raise InvalidFile(f"{str(entry)!r} cannot be read: {error.strerror}.") from None
    if not paths:
        raise InvalidData("No file is named. Name at least one.")
    seen: set[Place] = set()
    for path in paths:
        if not (is_parquet(path) or is_csv(path)):
            raise InvalidFile(
                f"{str(path)!r} is neither Parquet (.parquet) nor CSV (.csv, .tsv) by its name."
            )
        real = path if isinstance(path, Address) else path.resolve()
        if real in seen:
            raise InvalidFile(
                f"The file {str(path)!r} is named twice, so people would count twice."
            )
        seen.add(real)
    return paths


def size_of(place: Place) -> int:
    """Return the number of bytes of a file."""
    return place.size() if isinstance(place, Address) else place.stat().st_size


def check_filled(place: Place) -> None:
    """Refuse a file of no bytes."""
    if size_of(place) == 0:
        raise InvalidFile(f"The file {str(place)!r} is empty.")


def _behind(root: str) -> list[Place]:
    """Return the files that an address means: itself, those of a folder, or those of a pattern."""
    split = urlsplit(root)
    shown = f"{split.scheme}://{split.netloc.rpartition('@')[2]}{split.path}"
    stem = split.path.partition("*")[0].rpartition("/")[0]
    listed = split._replace(path=stem).geturl() if "*" in split.path else root
    try:
        system, path = _file_system(listed)
        info = system.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            return [Address(root, path)]
        folder = pyarrow.fs.FileSelector(path, recursive="*" in split.path)
        found = [] if info.type == pyarrow.fs.FileType.NotFound else system.get_file_info(folder)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(f"{shown!r} cannot be reached ({in_short(error)}).") from None
    wanted = path + split.path[len(stem) :] if "*" in split.path else path.rstrip("/") + "/*"
    files: list[Place] = [
        Address(listed, item.path)
        for item in sorted(found, key=lambda item: item.path)
        if item.is_file and _matches(item.path, wanted)
    ]
    files = [file for file in files if is_parquet(file) or is_csv(file)]
    if not files:
        raise InvalidFile(f"There is no Parquet or CSV file at {shown!r}.")
    return files


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a path fits a pattern, whose ``*`` stay within a folder."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _meant_by(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if is_parquet(p) or is_csv(p))
        if not found:
            raise InvalidFile(f"There is no Parquet or CSV file in the folder {str(path)!r}.")
    elif path.exists():
        found = [path]
    else:
        found = sorted(map(Path, glob.glob(str(path), recursive=True)))
        if not found:
            near = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InvalidFile(f"There is no file {str(path)!r}.{nearest(path.name, near)}")
    return found


@contextlib.contextmanager
def reading(path: Place, options: Csv | None = None) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            if options is None:
                raise InvalidFile(f"{str(path)!r} holds text that is not UTF-8.") from None
            raise InvalidFile(
                f"{str(path)!r} is not {options.encoding or 'UTF-8'} text. Name its encoding: "
                "--set columns.csv.encoding=latin-1 (or cp1252, utf-16)."
            ) from None
        if options is None:
            raise InvalidFile(
                f"{str(path)!r} cannot be read as Parquet ({in_short(error)})."
            ) from None
        mark = _separator(path, options)
        raise InvalidFile(
            f"{str(path)!r} cannot be read as CSV ({in_short(error)}). Values are separated by "
            f"{mark!r} and encoded as {options.encoding or 'UTF-8'}, unless columns.csv.separator "
            "and columns.csv.encoding say otherwise (--set)."
        ) from None


@dataclasses.dataclass(frozen=True)
class RowsPart(abc.ABC):
    """Rows in one place.

    Parameters
    ----------
    name
        Where they are, in words.
    schema
        Columns and their types.
    n_rows
        How many there are.
    """

    name: str
    schema: pa.Schema
    n_rows: int

    @abc.abstractmethod
    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of all rows, in pieces of no particular size."""

    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of the rows from ``begin`` until before ``end``."""
        first = 0
        for batch in self.batches(columns):
            last = first + len(batch)
            if last > begin and first < end:
                yield batch.slice(max(begin - first, 0), min(end, last) - max(begin, first))
            first = last


@dataclasses.dataclass(frozen=True)
class CsvPart(RowsPart):
    """A file of comma-separated values, which can only be read from its beginning."""

    path: Place
    options: Csv

    @override
    def batches(self, columns: list[str]) -> Iterator[Any]:
        types = {name: self.schema.field(name).type for name in columns}
        with reading(self.path, self.options), _csv(self.path, self.options, types) as reader:
            yield from reader


@dataclasses.dataclass(frozen=True)
class ParquetPart(RowsPart):
    """A Parquet file, read row group by row group without reading ahead: memory stays small.

    Parameters
    ----------
    path
        The file, or its address.
    groups
        Rows of each of its row groups.
    """

    path: Place
    groups: tuple[int, ...]

    @classmethod
    def open(cls, path: Place) -> "ParquetPart":
        """Look at a file's schema and the sizes of its row groups."""
        with reading(path):
            check_filled(path)
            with _parquet(path) as file:
                groups = _group_sizes(file)
                return cls(str(path), file.schema_arrow, file.metadata.num_rows, path, groups)

    @override
    def batches(self, columns: list[str]) -> Iterator[Any]:
        yield from self.read(0, self.n_rows, columns)

    @override
    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        ends = list(itertools.accumulate(self.groups))
        with reading(self.path):
            for group, (count, stop) in enumerate(zip(self.groups, ends, strict=True)):
                start = stop - count
                if stop > begin and start < end:
                    cursor = _Cursor.at(self, group, columns, max(begin - start, 0))
                    yield from cursor.read(max(begin - start, 0), min(end - start, count))
                    if cursor.position == count:
                        _Cursor.close()


class _Cursor:
    """A row group that is being read, kept open where the last reading stopped.

    Row groups are often much larger than a task. A worker whose next task goes on in the same
    group continues there, so that it decodes each group once.
    """

    _own: ClassVar[threading.local] = threading.local()

    def __init__(self, part: ParquetPart, group: int, columns: list[str]) -> None:
        self.key = (part.path, group, tuple(columns), part.groups)
        self.position = 0
        self._left: Any = None
        self._file = _parquet(part.path)
        if _group_sizes(self._file) != part.groups:
            raise InvalidData(
                f"{part.name!r} changed while it was audited: its rows are cut otherwise. Restore "
                "the file and continue with --resume, or begin again."
            )
        self._batches = self._file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)

    @classmethod
    def at(cls, part: ParquetPart, group: int, columns: list[str], begin: int) -> "_Cursor":
        """Return this thread's cursor if it can go on from ``begin``, or a new one."""
        cursor: _Cursor | None = getattr(cls._own, "cursor", None)
        key = (part.path, group, tuple(columns), part.groups)
        if cursor is None or cursor.key != key or cursor.position > begin:
            cls.close()
            cursor = cls._own.cursor = cls(part, group, columns)
        return cursor

    @classmethod
    def close(cls) -> None:
        """Let go of the row group that this thread was reading."""
        cursor: _Cursor | None = cls._own.__dict__.pop("cursor", None)
        if cursor is not None:
            cursor._file.close()

    def read(self, begin: int, end: int) -> Iterator[Any]:
        """Yield the rows from ``begin`` until before ``end``; nobody asks for earlier ones."""
        while self.position < end:
            if self._left is None:
                self._left = self._next()
            batch, first = self._left, self.position
            skip, stop = max(begin - first, 0), min(len(batch), end - first)
            self.position = first + max(stop, min(skip, len(batch)))
            rest = batch.slice(self.position - first)
            self._left = rest if len(rest) else None
            if stop > skip:
                yield batch.slice(skip, stop - skip)

    def _next(self) -> Any:
        try:
            batch = next(self._batches, None)
            if batch is None:
                raise pa.ArrowInvalid("it holds fewer rows than it says")
            batch.validate(full=True)  # finds text that is no UTF-8, for one
        except (pa.ArrowException, OSError):
            _Cursor.close()  # no further reading may go on from here
            raise
        return batch


def _parquet(path: Place) -> pq.ParquetFile:
    opened = path.open() if isinstance(path, Address) else path
    # A buffer, or else Arrow holds the compressed columns of a whole row group.
    return pq.ParquetFile(
        opened, pre_buffer=False, buffer_size=BUFFER_BYTES, page_checksum_verification=True
    )


def _group_sizes(file: pq.ParquetFile) -> tuple[int, ...]:
    about = file.metadata
    return tuple(about.row_group(k).num_rows for k in range(about.num_row_groups))


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
        return dataclasses.replace(ParquetPart.open(path), name=part.name)

    def table(self, columns: list[str]) -> pa.Table:
        """Return ``columns`` of all rows at once."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.concat_tables([schema.empty_table(), *self.batches(columns)])


def open_rows(
    source: Any,
    *,
    text: frozenset[str] = frozenset(),
    csv: Csv | Mapping[str, Any] | None = None,
) -> Rows:
    """Open a file, several files (names, patterns, folders, addresses), or a data frame.

    Parameters
    ----------
    text
        Columns to be read as text from a CSV file even where they look like numbers.
    csv
        How CSV files are written: ``separator``, ``decimal`` and ``encoding``.
    """
    if isinstance(source, Rows):
        return source
    if isinstance(source, str | Path):
        source = [source]
    is_paths = isinstance(source, list | tuple) and all(isinstance(s, str | Path) for s in source)
    if not is_paths:
        table, name = frame_table(source)
        check_columns(table.column_names, name)
        part = TablePart(name, table.schema, len(table), table)
        return Rows(name, (part,), _plain(table.schema))
    options = csv if isinstance(csv, Csv) else _csv_options(csv or {})
    paths = expand(source)
    stored = {path: ParquetPart.open(path) for path in paths if is_parquet(path)}
    names = {
        path: stored[path].schema.names if path in stored else _header(path, options)
        for path in paths
    }
    unnamed = [path for path in paths if path not in stored and "" in names[path]]
    for path in paths:
        names[path] = [name for name in names[path] if name or path in stored]
        check_columns(names[path], repr(str(path)))
        _check_same(names[paths[0]], names[path], str(paths[0]), str(path))
    types = CsvTypes(options, text)
    counts = {path: types.add(path, names[path]) for path in paths if path not in stored}
    parts = tuple(
        stored[path]
        if path in stored
        else CsvPart(str(path), types.schema(names[path]), counts[path], path, options)
        for path in paths
    )
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files, {paths[0]} to {paths[-1]}"
    notes = tuple(f"A column of {path.name} has no name and is not read." for path in unnamed)
    return Rows(name, parts, _joint_schema(parts), (*types.notes, *notes))


class CsvTypes:
    """Column types that suit every row of every CSV file, learned by reading all of them once.

    Arrow's own streaming reader takes types from the first block alone, and fails later in a
    column that begins with whole numbers, or empty, and goes on otherwise.

    Parameters
    ----------
    options
        How the files are written.
    text
        Columns known to be text, whatever they look like: an encoder may know them so.
    """

    def __init__(self, options: Csv, text: frozenset[str] = frozenset()) -> None:
        self._options = options
        self._types: dict[str, Any] = dict.fromkeys(text, TEXT)
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was read in another way than one may expect."""
        return tuple(self._notes.values())

    def add(self, path: Place, names: Sequence[str]) -> int:
        """Take the rows of one more file into account, and count them."""
        n_rows = 0
        types = dict.fromkeys(names, TEXT)
        with reading(path, self._options), _csv(path, self._options, types) as reader:
            for batch in reader:
                n_rows += len(batch)
                for name in names:
                    self._widen(path, name, batch[name])
        return n_rows

    def schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the types found; a column without a single value has the type null."""
        return pa.schema([(name, self._types.get(name) or pa.null()) for name in names])

    def _widen(self, path: Place, name: str, column: Any) -> None:
        known = self._types.get(name)
        if known == TEXT or column.null_count == len(column):
            return
        plain = pc.utf8_trim_whitespace(column)
        if self._options.decimal == ",":  # a point is no part of a number then
            plain = pc.replace_substring(pc.replace_substring(plain, ".", "?"), ",", ".")
        found = next((t for t in WIDER[known] if _all_are(plain, t)), TEXT)
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
        numbers = known in (pa.int64(), pa.float64())
        if numbers or 2 * pc.sum(numeric).as_py() > len(column):
            self._notes[name] = (
                f"Column {name!r} is read as text, because it holds {strangers[0].as_py()!r} "
                "among its numbers."
            )


def _csv_options(choices: Mapping[str, Any]) -> Csv:
    return make_settings({"columns": {"csv": dict(choices)}}).columns.csv


def _separator(path: Place, options: Csv) -> str:
    return options.separator or ("\t" if path.name.lower().endswith(TSV) else ",")


def _header(path: Place, options: Csv) -> list[str]:
    """Return the column names in the first line."""
    with reading(path, options):
        check_filled(path)
        with _csv(path, options) as reader:
            names = list(reader.schema.names)
    other = next((mark for mark in ",;\t|" if len(names) == 1 and mark in names[0]), None)
    if other is not None and options.separator is None:
        raise InvalidFile(
            f"{str(path)!r} has a single column, {names[0][:60]!r}. Name what separates values: "
            f"--set 'columns.csv.separator={'tab' if other == chr(9) else other}'."
        )
    return names


def _csv(path: Place, options: Csv, types: Mapping[str, Any] | None = None) -> Any:
    """Open a CSV file, for columns of these types if they are known."""
    return csv.open_csv(
        path.stream() if isinstance(path, Address) else str(path),
        read_options=csv.ReadOptions(block_size=CSV_BYTES, encoding=options.encoding or "utf8"),
        parse_options=csv.ParseOptions(
            delimiter=_separator(path, options), newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=None if types is None else list(types),
            null_values=MISSING,
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
