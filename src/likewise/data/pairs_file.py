"""Pairs as a Parquet file: row numbers, and how they were found."""

import dataclasses
import json
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
from jaxtyping import Int

from likewise.data.pairs import Pairs
from likewise.data.ruler import Ruler
from likewise.errors import InvalidFile, in_short
from likewise.files import read_whole, replacing

KEY = b"likewise.pairs"
VERSION = 2
MOST_BYTES = 2**32
NUMBERS = (
    *("first", "second", "first_group", "second_group"),
    *("first_cluster", "second_cluster"),
)


def write_pairs(pairs: Pairs, path: str | Path) -> None:
    """Write pairs, whole or not at all."""
    about = {name: getattr(pairs, name) for name in PLAIN} | {
        "version": VERSION,
        "numbers": pairs.ruler.numbers,
        "origin": pairs.ruler.origin,
        "scale": pairs.ruler.scale,
    }
    table = pa.table(
        {
            "first": pairs.rows[:, 0],
            "second": pairs.rows[:, 1],
            "first_group": pairs.between[:, 0].astype(np.int16),
            "second_group": pairs.between[:, 1].astype(np.int16),
            "distance": pairs.distance,
            "first_cluster": pairs.cluster[:, 0],
            "second_cluster": pairs.cluster[:, 1],
        }
    ).replace_schema_metadata({KEY: json.dumps(about).encode()})
    with replacing(path) as file:
        pq.write_table(table, file)


def holds_pairs(path: str | Path) -> bool:
    """Tell whether a file is one of pairs; one that cannot be read is not."""
    try:
        return KEY in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def read_pairs(path: str | Path, pool: pa.Table) -> Pairs:
    """Read pairs, and refuse a pool other than theirs."""
    try:
        content = read_whole(path, most=MOST_BYTES)
        table = pq.read_table(pa.BufferReader(content))
        stated = _About.model_validate_json((table.schema.metadata or {}).get(KEY, b"{}"))
        columns = [table[name].cast(pa.int64()).to_numpy() for name in NUMBERS]
        distance = table["distance"].cast(pa.float64()).to_numpy().copy()
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise InvalidFile(
            f"{str(path)!r} cannot be read as pairs: {in_short(error)}. Find them again with "
            "find_pairs (likewise pairs)."
        ) from None
    about = stated.model_dump(exclude={"version"})
    rows, between, cluster = (np.column_stack(columns[k : k + 2]) for k in (0, 2, 4))
    pairs = Pairs(rows, between, distance, cluster, ruler=Ruler((), (), (), (), {}), **about)
    pairs.check_pool(pool)
    if not (
        _within(rows, len(pool))
        and _within(between, len(pairs.groups))
        and len(pairs.groups) == len(pairs.group_sizes)
        and len(np.unique(rows)) == rows.size
        and (distance >= 0).all()
    ):
        raise InvalidFile(f"{str(path)!r} holds pairs that cannot be: find them again.")
    # Everything else about the ruler follows from the pool, which is the same.
    return dataclasses.replace(pairs, ruler=Ruler.fit(pool, pairs.may_matter))


class _About(pydantic.BaseModel):
    """What a file of pairs says of itself."""

    version: Literal[2]
    trait: str
    groups: tuple[str, ...]
    group_sizes: tuple[int, ...]
    may_matter: tuple[str, ...]
    free: tuple[str, ...]
    caliper: float
    seed: int
    pool_fingerprint: str
    pool_size: int


PLAIN = tuple(name for name in _About.model_fields if name != "version")


def _within(places: Int[np.ndarray, "q 2"], count: int) -> bool:
    return bool(((places >= 0) & (places < count)).all())
