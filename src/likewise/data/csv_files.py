"""Comma-separated files, read in blocks, with column types that suit every row of every file.

A value counts as missing where pandas says so too (an empty field, ``NA``, ``nan``, ``null``, …).
Blanks around a number are ignored; blanks around text are kept, since a model may have been
trained on them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from likewise.data.arrow import TEXT
from likewise.data.paths import Address, Place, is_tsv

MISSING = [
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
]
BLOCK_BYTES = 1 << 20
NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

# What a column may still turn out to be, given what its rows so far were; text is always last.
NEXT: dict[Any, tuple[Any, ...]] = {
    None: (pa.int64(), pa.float64(), pa.bool_()),
    pa.int64(): (pa.int64(), pa.float64()),
    pa.float64(): (pa.float64(),),
    pa.bool_(): (pa.bool_(),),
    TEXT: (),
}


class CsvTypes:
    """What a first reading of CSV files learns: types that suit all rows, and how many there are.

    Arrow's own streaming reader takes types from the first block alone, and fails later in a
    column that begins with whole numbers, or empty, and goes on otherwise.

    Parameters
    ----------
    text
        Columns known to be text, whatever they look like: an encoder may know them so.
    """

    def __init__(self, text: frozenset[str] = frozenset()) -> None:
        self._types: dict[str, Any] = dict.fromkeys(text, TEXT)
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about columns that are text because of a few values among numbers."""
        return tuple(self._notes.values())

    def add(self, path: Place, names: Sequence[str]) -> int:
        """Take the rows of one more file into account, and count them."""
        n_rows = 0
        for batch in stream(path, dict.fromkeys(names, TEXT)):
            n_rows += len(batch)
            for name in names:
                self._widen(name, batch[name])
        return n_rows

    def schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the types found; a column without a single value has the type null."""
        return pa.schema([(name, self._types.get(name) or pa.null()) for name in names])

    def _widen(self, name: str, column: Any) -> None:
        known = self._types.get(name)
        if known == TEXT or column.null_count == len(column):
            return
        trimmed = pc.utf8_trim_whitespace(column)
        found = next((t for t in NEXT[known] if _all_are(trimmed, t)), TEXT)
        self._types[name] = found
        if found != TEXT:
            return
        numeric = pc.match_substring_regex(trimmed, NUMBER)
        strangers = column.filter(pc.invert(numeric))
        mostly = known in (pa.int64(), pa.float64()) or 2 * pc.sum(numeric).as_py() > len(column)
        if mostly and len(strangers):
            self._notes[name] = (
                f"Column {name!r} is read as text, because it holds {strangers[0].as_py()!r} "
                "among its numbers."
            )


def names_of(path: Place) -> list[str]:
    """Return the column names in the first line."""
    with _open(path, csv.ConvertOptions()) as reader:
        return list(reader.schema.names)


def stream(path: Place, types: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the columns in ``types``, block by block."""
    options = csv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=MISSING,
        strings_can_be_null=True,
    )
    with _open(path, options) as reader:
        yield from reader


def _open(path: Place, options: Any) -> Any:
    return csv.open_csv(
        path.stream() if isinstance(path, Address) else str(path),
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=csv.ParseOptions(
            delimiter="\t" if is_tsv(path) else ",", newlines_in_values=True
        ),
        convert_options=options,
    )


def _all_are(column: Any, column_type: Any) -> bool:
    try:
        pc.cast(column, column_type)
    except pa.ArrowInvalid:
        return False
    return True
