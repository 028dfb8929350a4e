"""Pieces of an audit: what a worker does with some rows, and the file that comes of it."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from likewise.checks.gather import Case, Gathered, gather
from likewise.checks.introduce import Introduced
from likewise.checks.occurring import Swaps
from likewise.checks.writing import SHOWN_CASES
from likewise.errors import InvalidFile
from likewise.losses import CLIP
from likewise.maps.base import UnfairMap
from likewise.metrics.base import FairMetric
from likewise.models import as_model, check_conversion, open_model
from likewise.outcomes import Outcomes
from likewise.people import AuditData
from likewise.statistics.trait_levels import TraitLevels

META = b"likewise.piece"


@dataclasses.dataclass(frozen=True)
class MoveJob:
    """Moves pieces of the audited people; the model is loaded once a worker.

    Parameters
    ----------
    model
        A model, or the name of its file, which every worker opens for itself.
    trust
        Whether code in that file may be run.
    known
        What `as_model` is told: output, encoder, some rows of the table.
    map
        How everyone is moved, or what a map for each piece is made of.
    classes
        Label values in the order of the model's outputs; labels come as their indices.
    threads
        Blocks moved at a time in one worker.
    """

    model: Any
    trust: bool
    known: Mapping[str, Any]
    metric: FairMetric
    map: UnfairMap | Swaps
    classes: tuple[Any, ...]
    threads: int = 1

    def begin(self) -> Callable[[AuditData], bytes]:
        """Load the model, and return what moves people."""
        opened = self.model
        if isinstance(opened, str):
            opened = open_model(opened, trust=self.trust)
        model = as_model(opened, **self.known)

        def move(data: AuditData) -> bytes:
            table, front = data.table, model.front
            if front is not None and table is not None:
                x, features = front(table)
                data = dataclasses.replace(data, x=x, features=tuple(features), table=None)
            if model.reference is not None:
                check_conversion(model, data.x)
            x0 = np.ascontiguousarray(data.x, dtype=np.float64)
            plain = dataclasses.replace(data, protected={})
            who = Introduced(model, plain, x0, data.y, self.classes)
            map = self.map.over(table, front) if isinstance(self.map, Swaps) else self.map
            return pack(gather(who, self.metric, map, threads=self.threads), data)

        return move


@dataclasses.dataclass(frozen=True)
class Piece:
    """A finished piece: outcomes as they are on disk, and what was added up on the way.

    Parameters
    ----------
    outcomes
        One row a person; protected traits are given as ``levels`` instead of as text.
    levels
        The code of everyone's level, by trait.
    sums
        Counts and sums of this piece, by name.
    """

    outcomes: Outcomes
    levels: Mapping[str, Any]
    sums: Mapping[str, Any]


def pack(gathered: Gathered, data: AuditData) -> bytes:
    """Return the Parquet file of a piece: outcomes, and the sums that they do not hold."""
    outcomes = dataclasses.replace(gathered.outcomes, row=data.row, groups=dict(data.protected))
    ratio = outcomes.ratio
    usable = ratio[np.isfinite(ratio) & (ratio > 0)]
    weight = np.ones(len(outcomes)) if outcomes.weight is None else outcomes.weight
    p = outcomes.probability_before
    sums = {
        "n": len(outcomes),
        "below_one": gathered.below_one,
        "evaluations": gathered.evaluations,
        "shift": gathered.shift.tolist(),
        "absolute_shift": gathered.absolute_shift.tolist(),
        "weight": float(weight.sum()),
        "loss_before": float(weight @ outcomes.loss_before),
        "least": float(usable.min()) if len(usable) else None,
        "greatest": float(usable.max()) if len(usable) else None,
        "clipped": int(((p < CLIP) | (p > 1 - CLIP)).sum()),
        "worst": [
            [case.harm, int(data.row[case.row]), case.before.tolist(), case.after.tolist()]
            for case in gathered.worst[:SHOWN_CASES]
        ],
    }
    table = outcomes.to_arrow()
    metadata = {**(table.schema.metadata or {}), META: json.dumps(sums).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata), sink, compression="zstd", write_page_checksum=True
    )
    return sink.getvalue().to_pybytes()


def read_sums(path: Path) -> dict[str, Any] | None:
    """Return the sums of a piece, or nothing if its file is damaged."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return None
    return json.loads(metadata[META]) if META in metadata else None


def read_piece(path: Path, traits: Mapping[str, TraitLevels]) -> Piece:
    """Read a piece back."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(
            f"{str(path)!r} was damaged after it was written ({error}). Remove that file, and "
            "continue with --resume."
        ) from None
    levels = {name: known.codes(table[f"group:{name}"]) for name, known in traits.items()}
    sums = json.loads(table.schema.metadata[META])
    plain = table.drop_columns([f"group:{name}" for name in traits])
    return Piece(Outcomes.from_arrow(plain, str(path)), levels, sums)


def cases_of(sums: Mapping[str, Any]) -> list[Case]:
    """Return the people harmed most in a piece."""
    return [
        Case(harm, row, np.array(before), np.array(after))
        for harm, row, before, after in sums["worst"]
    ]
