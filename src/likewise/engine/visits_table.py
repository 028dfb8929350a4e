"""What visits did to people as a table: one row a person and trait, and the sums over pairs."""

import base64
import io
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa

from likewise.engine.counterpart_audit import CounterpartFindings, CounterpartPlan
from likewise.errors import InvalidFile

PAIRS = b"likewise.pairs"
"""Where the schema keeps the sums over pairs, without which no two models can be compared."""


def visits_table(plan: CounterpartPlan, found: CounterpartFindings) -> pa.Table:
    """Return one row a person and trait: the losses that the verdict rests on."""
    tables: list[pa.Table] = []
    sums: dict[str, Any] = {}
    for number, (trait, visited) in enumerate(found.visited.items()):
        donors = visited.donors
        person = donors.person
        names = [one.group for one in found.evidence[trait].groups]
        own = [names[k] if k >= 0 else None for k in person["own"].tolist()]
        columns = {
            "row": person["row"],
            "trait": pa.array([trait] * len(own)),
            "group": pa.array(own, pa.string()),
            **{name: person[name] for name in ("weight", "loss", "before", "after", "far")},
            "visited": person["visited"],
            "grouped": donors.grouped,
            "cluster": person["cluster"],
        }
        if "wrong" in person:
            columns |= {"y": person["y"], "wrong": person["wrong"]}
        tables.append(pa.table(columns))
        sums[f"pair{number}"] = donors.pair[:, :2].astype(np.float32)
        sums[f"swapped{number}"] = donors.swapped.astype(np.float32)
        if plan.pool.cluster is not None:
            sums[f"cluster{number}"] = np.asarray(plan.pairs[trait].cluster)
    file = io.BytesIO()
    np.savez_compressed(file, **sums)
    return pa.concat_tables(tables).replace_schema_metadata(
        {PAIRS: base64.b64encode(file.getvalue())}
    )


def pair_sums(table: pa.Table, source: str) -> dict[str, Any]:
    """Return the sums over pairs, by name and number of the trait."""
    text = (table.schema.metadata or {}).get(PAIRS)
    if text is None:
        raise InvalidFile(
            f"{source!r} does not hold the sums over pairs that a paired comparison needs. Audit "
            "again, with -o outcomes.parquet."
        )
    try:
        with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        raise InvalidFile(f"{source!r} is damaged: its sums over pairs cannot be read.") from None
