"""Fingerprints: of people, however they are cut into files; of models, metrics and settings.

A fingerprint answers one question: is this the same thing? Values are brought into one form
first, so that the answer does not depend on how they were stored: a number is its float64 (a
whole number beyond 2^53 its digits as well), text its UTF-8 bytes, and anything missing is missing.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Shaped, UInt64

CHUNK_ROWS = 2048
"""Rows that are hashed together. Fixed for ever: the fingerprint of people depends on it."""

SKETCH_SIZE = 4096  # row hashes that a sketch keeps
EXACT = 2**53  # whole numbers up to here are floats, each its own

MISSING = np.array(np.nan).view(np.uint64)[()]

Hashes = UInt64[np.ndarray, "_"]


def canonical(value: Any, *, ascii: bool = False) -> str:
    """Return a value as JSON with sorted keys, every digit, and no room for choice.

    ``ascii`` escapes other characters, as in the hash of settings.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii)


def hash_json(value: Any) -> str:
    """Return the fingerprint of settings, or of anything that JSON can hold."""
    return hash_bytes(canonical(value).encode())


def hash_bytes(*contents: bytes) -> str:
    """Return the fingerprint of some bytes; where one ends and the next begins matters."""
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def hash_people(names: Iterable[str], n: int, chunks: Mapping[int, bytes]) -> str:
    """Return the fingerprint of ``n`` people from those of their chunks of 2048 rows, numbered."""
    return hash_bytes(canonical([sorted(names), n]).encode(), *(chunks[k] for k in sorted(chunks)))


def chunk_digests(columns: Mapping[str, Any], cuts: Sequence[int]) -> list[bytes]:
    """Return 16 bytes for each piece of some rows, which change when any of its values does.

    ``cuts`` are where the pieces begin, and where the last one ends.
    """
    codes = [_codes(columns[name]) for name in sorted(columns)]
    names = canonical(sorted(columns)).encode()
    digests = []
    for begin, end in itertools.pairwise(cuts):
        digest = hashlib.sha256(names)
        for code in codes:
            digest.update(code[begin:end].tobytes())
        digests.append(digest.digest()[:16])
    return digests


def row_hashes(columns: Mapping[str, Any]) -> Hashes:
    """Return a 64-bit number for each row, the same for the same values under the same names."""
    total: Any = np.uint64(0)
    for name, column in columns.items():
        total = total + scattered(_codes(column) ^ _text_codes([name]))
    return scattered(total)


def sketch_of(*hashes: Hashes) -> Hashes:
    """Return the smallest of some row hashes, ascending: the same sample of rows in any order.

    Sketches of parts make the sketch of all; so two sketches tell how many rows two sets of people
    share (Broder, 1997, "On the resemblance and containment of documents").
    """
    return np.sort(np.concatenate(hashes))[:SKETCH_SIZE]


def overlap(some: Hashes, others: Hashes) -> float:
    """Estimate the share of ``some`` people who are among the ``others``, from their sketches.

    Exact where both sketches hold all rows.
    """
    ends = [sketch[-1] for sketch in (some, others) if len(sketch) == SKETCH_SIZE]
    known = some[some <= min(ends)] if ends else some
    return float(np.isin(known, others).mean()) if len(known) else 0.0


def _codes(column: Any) -> Hashes:
    """Return 64 bits for each value, whatever holds them: those of a number, a hash of text."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return _number_codes(column)
    array, types = _arrow(column), pa.types
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    kind = array.type
    if types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif types.is_floating(kind) or types.is_null(kind) or types.is_decimal(kind):
        array = array.cast(pa.float64())
    elif not types.is_integer(kind):
        coded = _text(array).dictionary_encode()
        codes = np.append(_text_codes(coded.dictionary.to_pylist()), MISSING)
        return codes[pc.fill_null(coded.indices, -1).to_numpy()]
    gone = pc.is_null(array).to_numpy(zero_copy_only=False)
    return np.where(gone, MISSING, _number_codes(pc.fill_null(array, 0).to_numpy()))


def _number_codes(values: Shaped[np.ndarray, " n"]) -> Hashes:
    floats = values.astype("<f8") + 0.0  # -0.0 is 0.0
    floats[np.isnan(floats)] = np.nan
    bits = floats.view(np.uint64)
    if values.dtype.kind == "f":
        return bits
    digits = scattered(values.astype("<i8").view(np.uint64))
    return np.where(np.abs(floats) < EXACT, bits, bits ^ digits)


def _text_codes(texts: Iterable[str]) -> Hashes:
    contents = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(contents), "<u8").astype(np.uint64)


def _text(array: Any) -> Any:
    try:
        return array.cast(pa.large_string())
    except pa.ArrowException:  # lists and the like: as Python writes them
        shown = [None if value is None else repr(value) for value in array.to_pylist()]
        return pa.array(shown, pa.large_string())


def _arrow(column: Any) -> Any:
    """Return a column as one Arrow array; values of mixed types become text."""
    if isinstance(column, pa.ChunkedArray | pa.Array):
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        return pa.array(column, from_pandas=True)
    except pa.ArrowException:
        return pa.array([None if v is None or v != v else repr(v) for v in column.tolist()])


def scattered(bits: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """Scatter 64 bits over 64 bits, one to one (the finalizer of SplitMix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
