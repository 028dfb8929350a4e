"""Fingerprints: of people, however they are cut into files; of models, metrics and settings.

A fingerprint answers one question: is this the same thing? Values are brought into one form
first, so that the answer does not depend on how they were stored: a number is its float64 (a
whole number beyond 2^53 its digits as well), text its UTF-8 bytes, and anything missing is missing.
"""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int64, Shaped, UInt8, UInt64

CHUNK_ROWS = 2048
"""Rows that are hashed together. Fixed for ever: the fingerprint of people depends on it."""

SKETCH_SIZE = 1024  # row hashes that a sketch keeps
EXACT = 2**53  # whole numbers up to here are floats, each its own

TEXT = pa.large_string()


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys, every digit, and no room for choice."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_json(value: Any) -> str:
    """Return the fingerprint of settings, or of anything that JSON can hold."""
    return hash_bytes(canonical(value).encode())


def hash_bytes(*contents: bytes) -> str:
    """Return the fingerprint of some bytes; where one ends and the next begins matters."""
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") if len(contents) > 1 else b"")
        digest.update(content)
    return digest.hexdigest()


def hash_arrays(arrays: Mapping[str, Shaped[np.ndarray, "..."]], about: Any = None) -> str:
    """Return the fingerprint of named arrays: types, shapes and every digit.

    ``about`` is what else belongs to the thing, as JSON: its kind, say, or names of features.
    """
    contents = [canonical(about).encode()]
    for name, array in sorted(arrays.items()):
        contents.append(canonical([name, array.dtype.str, array.shape]).encode())
        contents.append(np.ascontiguousarray(array).tobytes())
    return hash_bytes(*contents)


def hash_people(names: Iterable[str], n: int, digests: Sequence[bytes]) -> str:
    """Return the fingerprint of ``n`` people from those of their chunks of 2048 rows, in order."""
    return hash_bytes(canonical([sorted(names), n]).encode(), *digests)


def chunk_digests(columns: Mapping[str, Any], cuts: Sequence[int]) -> list[bytes]:
    """Return 16 bytes for each piece of some rows, which change when any of its values does.

    ``cuts`` are where the pieces begin, and where the last one ends.
    """
    plain = [(name, _plain(columns[name])) for name in sorted(columns)]
    digests = []
    for begin, end in itertools.pairwise(cuts):
        digest = hashlib.sha256()
        for name, column in plain:
            digest.update(f"{len(name)}{name}".encode())
            for content in column.contents(begin, end):
                digest.update(content)
        digests.append(digest.digest()[:16])
    return digests


def row_hashes(columns: Mapping[str, Any]) -> UInt64[np.ndarray, " n"]:
    """Return a 64-bit number for each row, the same for the same values under the same names."""
    total: Any = np.uint64(0)
    for name, column in columns.items():
        salt = np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], "<u8")[0]
        total = total + scattered(_plain(column).hashes() ^ salt)
    return scattered(total)


@dataclasses.dataclass(frozen=True)
class Sketch:
    """Recognises a set of people by the smallest of their row hashes, in any order.

    The k smallest hashes are a random sample of the distinct rows, the same sample in every set
    that holds those rows; so two sketches tell how many rows two sets share (Broder, 1997, "On
    the resemblance and containment of documents"). A row more or less changes little.
    ``smallest`` are up to 1024 distinct row hashes, ascending, and ``copies`` how often each of
    them occurs, where that is known; ``n`` is the number of rows.
    """

    smallest: UInt64[np.ndarray, " k"]
    n: int
    copies: Int64[np.ndarray, " c"] = dataclasses.field(default_factory=lambda: np.zeros(0, int))

    @classmethod
    def from_hashes(cls, hashes: UInt64[np.ndarray, " n"]) -> "Sketch":
        """Return the sketch of some rows."""
        rows, copies = np.unique(hashes, return_counts=True)
        return cls(rows[:SKETCH_SIZE], len(hashes), copies[:SKETCH_SIZE])

    def __add__(self, other: "Sketch") -> "Sketch":
        both = np.concatenate([self.smallest, other.smallest])
        smallest, place = np.unique(both, return_inverse=True)
        # What is among the smallest hashes of both is among the smallest of each that has it.
        copies = np.zeros(len(smallest), dtype=np.int64)
        np.add.at(copies, place, np.concatenate([self.copies, other.copies]))
        return Sketch(smallest[:SKETCH_SIZE], self.n + other.n, copies[:SKETCH_SIZE])


def overlap(some: Sketch, others: Sketch) -> float:
    """Estimate the share of ``some`` people who are among the ``others``.

    Exact where both sketches hold all rows. Otherwise the share J of the joint sketch's rows
    that both have estimates the sets' intersection over their union, with a standard error of at
    most 1/64; sizes turn it into a share.
    """
    if not some.n or not others.n:
        return 0.0
    joint = np.union1d(some.smallest, others.smallest)
    if max(len(some.smallest), len(others.smallest)) == SKETCH_SIZE:
        joint = joint[:SKETCH_SIZE]
    shared = np.isin(joint, some.smallest) & np.isin(joint, others.smallest)
    if len(some.smallest) < SKETCH_SIZE and len(others.smallest) < SKETCH_SIZE:
        return float(shared.sum() / len(some.smallest))
    jaccard = float(shared.mean())
    return min(1.0, jaccard * (some.n + others.n) / ((1 + jaccard) * some.n))


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """A column of numbers; missing ones are the one quiet not-a-number."""

    values: Float64[np.ndarray, " n"]
    digits: Int64[np.ndarray, " n"] | None
    mark: bytes = b"n"

    def contents(self, begin: int, end: int) -> list[bytes]:
        values = self.values[begin:end]
        found = [self.mark, values.tobytes()]
        if self.digits is not None and (np.abs(values) >= EXACT).any():
            found.append(self.digits[begin:end].tobytes())
        return found

    def hashes(self) -> UInt64[np.ndarray, " n"]:
        bits = self.values.view(np.uint64)
        if self.digits is not None:
            wide = np.abs(self.values) >= EXACT
            bits = np.where(wide, bits ^ scattered(self.digits.view(np.uint64)), bits)
        return scattered(bits)


@dataclasses.dataclass(frozen=True)
class _Text:
    """A column of text, as one Arrow array."""

    array: Any

    def contents(self, begin: int, end: int) -> list[bytes]:
        """Return the lengths of the values, -1 for missing ones, and then all their bytes."""
        array = self.array.slice(begin, end - begin)
        lengths = pc.fill_null(pc.binary_length(array), -1).to_numpy().astype("<i8")
        return [b"t", lengths.tobytes(), _bytes(pc.fill_null(array, ""))[1].tobytes()]

    def hashes(self) -> UInt64[np.ndarray, " n"]:
        """Return the sum of a random number for each (byte, place), the same for equal values."""
        coded = self.array.dictionary_encode()
        starts, data = _bytes(coded.dictionary)
        lengths = np.diff(starts)
        place = np.arange(len(data)) - np.repeat(starts[:-1], lengths)
        terms = scattered(data.astype(np.uint64) + (place.astype(np.uint64) << np.uint64(8)))
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        sums = running[starts[1:]] - running[starts[:-1]] + lengths.astype(np.uint64)
        missing = np.array([0x9E3779B97F4A7C15], dtype=np.uint64)  # found by the code -1
        codes = pc.fill_null(coded.indices, -1).to_numpy()
        return scattered(np.concatenate([sums, missing]))[codes]


def _bytes(array: Any) -> tuple[Int64[np.ndarray, " m"], UInt8[np.ndarray, " b"]]:
    """Return where each value of a text array begins, and where the last ends, in its bytes."""
    if not len(array):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64)[array.offset :][: len(array) + 1]
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return starts - starts[0], content[starts[0] : starts[-1]]


def _plain(column: Any) -> _Numbers | _Text:
    """Return a column in the form that is hashed."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return _numbers(column)
    array = _arrow(column)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    types, kind = pa.types, array.type
    if types.is_integer(kind):
        found = _numbers(pc.fill_null(array, 0).to_numpy())
        gone = pc.is_null(array).to_numpy(zero_copy_only=False)
        return dataclasses.replace(found, values=np.where(gone, np.nan, found.values))
    if types.is_boolean(kind):
        floats = _numbers(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
        return dataclasses.replace(floats, mark=b"b")
    if types.is_floating(kind) or types.is_null(kind) or types.is_decimal(kind):
        return _numbers(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    try:
        return _Text(array.cast(TEXT))
    except pa.ArrowException:  # lists and the like: as Python writes them
        shown = [None if value is None else repr(value) for value in array.to_pylist()]
        return _Text(pa.array(shown, TEXT))


def _arrow(column: Any) -> Any:
    """Return a column as one Arrow array; values of mixed types become text."""
    if isinstance(column, pa.ChunkedArray | pa.Array):
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        return pa.array(column, from_pandas=True)
    except pa.ArrowException:
        return pa.array([None if v is None or v != v else repr(v) for v in column.tolist()])


def _numbers(values: Shaped[np.ndarray, " n"]) -> _Numbers:
    floats = values.astype("<f8") + 0.0  # -0.0 is 0.0
    if values.dtype.kind == "f":
        floats[np.isnan(floats)] = np.nan
        return _Numbers(floats, None)
    wide = values.dtype.itemsize == 8 and bool((np.abs(floats) >= EXACT).any())
    return _Numbers(floats, values.astype("<i8", casting="unsafe") if wide else None)


def scattered(bits: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """Scatter 64 bits over 64 bits, one to one (the finalizer of SplitMix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
