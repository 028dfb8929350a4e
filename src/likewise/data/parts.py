"""One file: its rows from the first, or any range of them."""

import abc
import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from likewise.data import csv_files
from likewise.data.csv_format import CsvFormat
from likewise.data.paths import Address, Place, check_filled, reading
from likewise.errors import InvalidData

BATCH_ROWS = 32768
BUFFER_BYTES = 1 << 20


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

    seekable: ClassVar[bool] = True
    """Whether reading some rows costs no more than about those rows."""

    @abc.abstractmethod
    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of all rows, in pieces of no particular size."""

    @abc.abstractmethod
    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        """Yield ``columns`` of the rows from ``begin`` until before ``end``."""


@dataclasses.dataclass(frozen=True)
class CsvPart(RowsPart):
    """A file of comma-separated values, which can only be read from its beginning."""

    path: Place
    written: CsvFormat

    seekable: ClassVar[bool] = False

    @override
    def batches(self, columns: list[str]) -> Iterator[Any]:
        with reading(self.path):
            types = {name: self.schema.field(name).type for name in columns}
            yield from csv_files.stream(self.path, types, self.written)

    @override
    def read(self, begin: int, end: int, columns: list[str]) -> Iterator[Any]:
        first = 0
        for batch in self.batches(columns):
            last = first + len(batch)
            if last > begin and first < end:
                yield batch.slice(max(begin - first, 0), min(end, last) - max(begin, first))
            first = last


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
    def at(cls, path: Place) -> "ParquetPart":
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
