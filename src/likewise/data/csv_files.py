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
from likewise.data.csv_format import CsvFormat
from likewise.data.paths import Address, Place, is_tsv
from likewise.errors import InvalidData

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
        self.marked: set[str] = set()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was read in another way than one may expect."""
        return tuple(self._notes.values())

    def add(self, path: Place, names: Sequence[str], written: CsvFormat) -> int:
        """Take the rows of one more file into account, and count them."""
        n_rows = 0
        unnamed = [""] if "" not in names and "" in _names(path, written) else []
        for batch in stream(path, dict.fromkeys([*names, *unnamed], TEXT), written):
            n_rows += len(batch)
            for name in names:
                self._widen(name, batch[name], written)
            if unnamed and batch[""].null_count < len(batch):
                raise InvalidData(
                    f"The last column of {str(path)!r} has values but no name. Give it one."
                )
        if said := written.said("\t" if is_tsv(path) else ","):
            self._notes[f"format {path}"] = f"{path.name} is read with {said}."
        if unnamed:
            self._notes[f"end {path}"] = (
                f"{path.name} is read without the empty field at the end of its lines."
            )
        return n_rows

    def schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the types found; a column without a single value has the type null."""
        return pa.schema([(name, self._types.get(name) or pa.null()) for name in names])

    def _widen(self, name: str, column: Any, written: CsvFormat) -> None:
        known = self._types.get(name)
        if known == TEXT or column.null_count == len(column):
            return
        plain = pc.utf8_trim_whitespace(column)
        found = TEXT
        if written.decimal == ".":
            found = next((t for t in NEXT[known] if _all_are(plain, t)), TEXT)
        if found == TEXT:
            plain = written.number_text(plain)
            found = next((t for t in NEXT[known] if _all_are(plain, t)), TEXT)
            if found in (pa.int64(), pa.float64()):
                self._note_marks(name, column, plain)
        self._types[name] = found
        if found == TEXT:
            numeric = pc.match_substring_regex(plain, NUMBER)
            strangers = column.filter(pc.invert(numeric))
            numbers = known in (pa.int64(), pa.float64())
            if len(strangers) and (numbers or 2 * pc.sum(numeric).as_py() > len(column)):
                self._notes[name] = (
                    f"Column {name!r} is read as text, because it holds {strangers[0].as_py()!r} "
                    "among its numbers."
                )

    def _note_marks(self, name: str, column: Any, plain: Any) -> None:
        self.marked.add(name)
        shorter = pc.less(pc.utf8_length(plain), pc.utf8_length(pc.utf8_trim_whitespace(column)))
        marked = pc.fill_null(shorter, False)
        if name not in self._notes and pc.any(marked).as_py():
            self._notes[name] = f"Column {name!r} is read as numbers with marks between thousands."


def names_of(path: Place, written: CsvFormat) -> list[str]:
    """Return the column names in the first line, but for an empty one at its end."""
    names = _names(path, written)
    return names[:-1] if names and not names[-1] and "" not in names[:-1] else names


def stream(path: Place, types: dict[str, Any], written: CsvFormat) -> Iterator[pa.RecordBatch]:
    """Yield the columns in ``types``, block by block."""
    marked = {name: types[name] for name in written.marked if types.get(name, TEXT) != TEXT}
    options = csv.ConvertOptions(
        column_types={**types, **dict.fromkeys(marked, TEXT)},
        include_columns=list(types),
        null_values=MISSING,
        strings_can_be_null=True,
    )
    with _open(path, options, written) as reader:
        for batch in reader:
            yield _with_numbers(batch, marked, written) if marked else batch


def _with_numbers(batch: Any, marked: dict[str, Any], written: CsvFormat) -> pa.RecordBatch:
    """Return rows whose marked columns are numbers, not text."""
    columns = {name: batch[name] for name in batch.schema.names}
    for name, wanted in marked.items():
        columns[name] = written.number_text(columns[name]).cast(wanted)
    return pa.RecordBatch.from_pydict(columns)


def _names(path: Place, written: CsvFormat) -> list[str]:
    with _open(path, csv.ConvertOptions(), written) as reader:
        return list(reader.schema.names)


def _open(path: Place, options: Any, written: CsvFormat) -> Any:
    names = written.names
    return csv.open_csv(
        path.stream() if isinstance(path, Address) else str(path),
        read_options=csv.ReadOptions(
            block_size=BLOCK_BYTES,
            encoding=written.encoding,
            column_names=list(names) or None,
            skip_rows=1 if names else 0,
        ),
        parse_options=csv.ParseOptions(delimiter=written.separator, newlines_in_values=True),
        convert_options=options,
    )


def _all_are(column: Any, column_type: Any) -> bool:
    try:
        pc.cast(column, column_type)
    except pa.ArrowInvalid:
        return False
    return True
