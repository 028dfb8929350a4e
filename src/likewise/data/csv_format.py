"""How a CSV file is written: what separates its values, its decimal mark, its encoding.

Found out from its beginning, and said wherever it is not the usual one. What the beginning does
not settle is asked for, never guessed.
"""

import contextvars
import csv
import dataclasses
import io
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from likewise.data.paths import Address, Place, is_tsv
from likewise.errors import InvalidFile, InvalidSettings

HEAD = 1 << 16
"""Bytes of a file that are looked at."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SPACES = "\u00a0\u202f\u2009 "
GROUPS = {".": ",'’" + SPACES, ",": ".'’" + SPACES}
"""What may stand between thousands, by decimal mark."""

COMMA = re.compile(r"[-+]?(\d{1,3}([. \u00a0\u202f'’]\d{3})+|\d+),\d+")
MAYBE_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
POINT = re.compile(r"[-+]?(\d{1,3}([, \u00a0\u202f'’]\d{3})+\.\d+|\d*\.(\d{1,2}|\d{4,})|0\.\d+)")
"""Numbers whose point marks a fraction for sure: 1.5, not 1.500."""


@dataclasses.dataclass(frozen=True)
class CsvFormat:
    """How values are written in a CSV file.

    Parameters
    ----------
    separator, decimal
        What stands between values, and in front of a fraction.
    encoding
        ``utf8``, or ``utf-16``.
    names
        The columns, if rows end with a separator that the first line does not have.
    marked
        Columns of numbers with decimal commas, or with marks between thousands.
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf8"
    names: tuple[str, ...] = ()
    marked: frozenset[str] = frozenset()

    def said(self, usual: str = ",") -> str:
        """Return in words what is not usual; empty if nothing is."""
        found = []
        if self.separator != usual:
            marks = SEPARATORS.get(self.separator, repr(self.separator))
            found.append(f"values separated by {marks}")
        if self.decimal == ",":
            found.append("decimal commas")
        if self.encoding != "utf8":
            found.append("text in UTF-16")
        return ", ".join(found)

    def number_text(self, column: Any) -> Any:
        """Return numbers as they are written as plain ones: no thousands marks, decimal points."""
        column = pc.utf8_trim_whitespace(column)
        marks = f"[{re.escape(GROUPS[self.decimal])}]"
        grouped = rf"^[-+]?\d{{1,3}}({marks}\d{{3}})+({re.escape(self.decimal)}\d*)?$"
        whole = pc.replace_substring_regex(column, marks, "")
        column = pc.if_else(pc.match_substring_regex(column, grouped), whole, column)
        if self.decimal == ".":
            return column
        # A point that marks no thousands makes it no number.
        return pc.replace_substring(pc.replace_substring(column, ".", "?"), ",", ".")


@dataclasses.dataclass(frozen=True)
class Said:
    """What the user said about CSV files, if anything."""

    separator: str | None = None
    decimal: str | None = None


SAID: contextvars.ContextVar[Said] = contextvars.ContextVar("said of CSV files")


def say_csv(separator: str | None, decimal: str | None) -> None:
    """Read CSV files from now on as the user says; None is found out."""
    separator = {"tab": "\t", r"\t": "\t", "semicolon": ";", "comma": ","}.get(
        separator or "", separator
    )
    if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
        raise InvalidSettings(
            f"Values are separated by one character (--csv-separator), or tab, not {separator!r}."
        )
    if decimal not in (None, ".", ","):
        raise InvalidSettings(f"A decimal mark (--csv-decimal) is '.' or ',', not {decimal!r}.")
    if decimal is not None and decimal == separator:
        raise InvalidSettings("Values cannot be separated by the decimal mark.")
    SAID.set(Said(separator, decimal))


def sniff(path: Place) -> CsvFormat:
    """Find out how a file is written, but for what the user said."""
    said = SAID.get(Said())
    with path.stream() if isinstance(path, Address) else pa.input_stream(str(path)) as file:
        head = bytes(file.read(HEAD))
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf8"
    text = head.decode("utf-8-sig" if encoding == "utf8" else "utf-16", errors="replace")
    if encoding == "utf-16" and "\n" not in text:
        encoding, text = "utf8", head.decode(errors="replace")  # reading will say what is wrong
    # Without the last line, which may be cut short.
    lines = text if len(head) < HEAD else text[: text.rfind("\n") + 1]
    separator = said.separator or ("\t" if is_tsv(path) else _separator(lines))
    rows = _rows(lines, separator)
    decimal = said.decimal or _decimal(rows[1:], separator, path)
    names = _names_of_longer_rows(rows)
    return CsvFormat(separator, decimal, encoding, names)


def _rows(text: str, separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
    except csv.Error:  # a field without end, say: Arrow says it better
        return []


def _separator(text: str) -> str:
    """Return what cuts most rows into as many fields as the first line; a comma if nothing does."""
    best, most = ",", 0.0
    for mark in SEPARATORS:
        rows = _rows(text, mark)
        if rows and len(rows[0]) > 1:
            width = len(rows[0])
            alike = sum(len(row) in (width, width + 1) for row in rows[1:])
            share = (alike + 1) / len(rows)
            if share > most + 1e-9:
                best, most = mark, share
    return best


def _decimal(rows: Sequence[Sequence[str]], separator: str, path: Place) -> str:
    """Return the decimal mark of the values; ask where they leave it open."""
    values = {value.strip() for row in rows for value in row}
    commas = sorted(value for value in values if COMMA.fullmatch(value))
    sure = [value for value in commas if not MAYBE_THOUSANDS.fullmatch(value)]
    points = sorted(value for value in values if POINT.fullmatch(value))
    if not commas or (separator == "," and (points or not sure)):
        return "."  # numbers with commas are in quotes there, as thousands are
    if sure and not points:
        return ","
    if points and not sure:
        return "."
    beside = f" and {points[0]!r}" if points else ""
    raise InvalidFile(
        f"{str(path)!r} has numbers such as {commas[0]!r}{beside}: is that a decimal comma? Say so "
        "with --csv-decimal , (or --csv-decimal . if it is not)."
    )


def _names_of_longer_rows(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the columns if all rows but the first line end with an empty field too many."""
    if len(rows) < 2:
        return ()
    names, others = rows[0], rows[1:]
    longer = all(len(row) == len(names) + 1 and not row[-1].strip() for row in others)
    return (*names, "") if longer else ()
