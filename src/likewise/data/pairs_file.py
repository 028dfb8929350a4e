"""Pairs as a Parquet file: row numbers, and how they were found."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from likewise.data.pairs import Pairs
from likewise.data.ruler import Ruler
from likewise.errors import InvalidFile, in_short
from likewise.files import replacing

KEY = b"likewise.pairs"
VERSION = 1
PLAIN = (
    *("trait", "groups", "group_sizes", "may_matter", "free", "caliper", "seed"),
    *("pool_fingerprint", "pool_size"),
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
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFile(f"{str(path)!r} cannot be read as pairs: {in_short(error)}.") from None
    about: dict[str, Any] = json.loads((table.schema.metadata or {}).get(KEY, b"{}"))
    if about.get("version") != VERSION:
        raise InvalidFile(
            f"{str(path)!r} holds no pairs of this version. Find them again with find_pairs."
        )
    plain = {name: _tuple(about[name]) for name in PLAIN}
    columns = {name: table[name].to_numpy() for name in table.column_names}
    pairs = Pairs(
        rows=np.column_stack([columns["first"], columns["second"]]),
        between=np.column_stack([columns["first_group"], columns["second_group"]]).astype(np.int64),
        distance=columns["distance"].copy(),
        cluster=np.column_stack([columns["first_cluster"], columns["second_cluster"]]),
        ruler=Ruler((), (), (), (), {}),
        **plain,
    )
    pairs.check_pool(pool)
    # Everything else about the ruler follows from the pool, which is the same.
    return Pairs(**{**vars(pairs), "ruler": Ruler.fit(pool, pairs.may_matter)})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
