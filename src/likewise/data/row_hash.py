"""Numbers that stand for rows: the same for the same values, whatever the order of the rows."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import UInt64

from likewise.data.arrow import is_missing, kind, without_dictionary
from likewise.fingerprints import scattered

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MISSING = np.uint64(0x6D697373696E6721)


def mixed(bits: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """Scramble 64-bit numbers, one to one (Steele, Lea and Flood 2014, SplitMix)."""
    with np.errstate(over="ignore"):
        return scattered(bits + _ODD)


def together(
    one: UInt64[np.ndarray, "..."], other: UInt64[np.ndarray, "..."]
) -> UInt64[np.ndarray, "..."]:
    """Return a number that stands for two others, in either order."""
    with np.errstate(over="ignore"):
        return mixed(one + other)


def row_hashes(table: pa.Table, columns: Sequence[str], seed: int = 0) -> UInt64[np.ndarray, " n"]:
    """Return one number for each row, from the values in ``columns`` alone.

    Numbers count by their value (1 and 1.0 are the same), everything else by its text; a missing
    value is a value too. The order of the columns does not matter.
    """
    total = np.full(len(table), mixed(np.array([seed], dtype=np.uint64))[0])
    for name in sorted(columns):
        salt = _of_text(name)
        total = mixed(total ^ mixed(_of_column(table[name]) ^ salt))
    return total


def table_fingerprint(table: pa.Table) -> str:
    """Return a fingerprint of all rows of a table, in their order."""
    rows = row_hashes(table, table.column_names)
    names = "\0".join(sorted(table.column_names)).encode()
    return hashlib.sha256(names + b"\0" + rows.tobytes()).hexdigest()


def _of_column(column: Any) -> UInt64[np.ndarray, " n"]:
    column = without_dictionary(column)
    if pa.types.is_float64(column.type) and not column.null_count:
        # Adding zero turns -0.0 into 0.0, which is the same number.
        values = column.to_numpy() + 0.0
        return np.where(np.isnan(values), _MISSING, values.view(np.uint64))
    gone = is_missing(column)
    if kind(column.type) in ("numbers", "true/false"):
        values = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy() + 0.0
        bits = np.ascontiguousarray(values).view(np.uint64)
    else:
        encoded = pc.dictionary_encode(column.combine_chunks())
        texts = [_of_text(str(value)) for value in encoded.dictionary.to_pylist()]
        known = np.array([*texts, _MISSING], dtype=np.uint64)
        bits = known[encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
    return np.where(gone, _MISSING, bits)


def _of_text(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))
