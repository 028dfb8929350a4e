"""The outcomes of everyone: read back, or written to one Parquet file, whole or not at all."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from likewise.errors import InvalidSample
from likewise.files import replacing
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.report.redact import redact_outcomes
from likewise.scale.folder_store import IF_FULL
from likewise.scale.store import Book, MemoryBook
from likewise.settings.choices import MAPS

MOST_ROWS = 200_000
"""People whose outcomes are held in memory together; above it, resampling adds nothing to sums."""


@dataclasses.dataclass(frozen=True)
class OutcomesFile:
    """Where outcomes are written.

    Parameters
    ----------
    path
        The Parquet file.
    redacted
        Whether what identifies people is hidden.
    """

    path: Path
    redacted: bool = False

    def write(self, book: Book, provenance: Mapping[str, Any]) -> None:
        """Write all finished blocks, in their order, and what they came from."""
        numbers: dict[Any, int] = {}
        writer: pq.ParquetWriter | None = None
        with replacing(self.path, if_full=IF_FULL) as file:
            for table in book.tables():
                if table is None:
                    continue
                outcomes = with_provenance(Outcomes.from_arrow(table), provenance)
                table = (_hidden(outcomes, numbers) if self.redacted else outcomes).to_arrow()
                if writer is None:
                    writer = pq.ParquetWriter(file, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()


def with_provenance(outcomes: Outcomes, provenance: Mapping[str, Any]) -> Outcomes:
    """Return outcomes with the hashes of what they came from, so that no two get mixed up."""
    return dataclasses.replace(outcomes, about={**outcomes.about, **provenance})


def _hidden(outcomes: Outcomes, numbers: dict[Any, int]) -> Outcomes:
    """Hide what identifies people; a cluster keeps its number in all parts."""
    hidden = redact_outcomes(outcomes)
    if outcomes.cluster is None:
        return hidden
    cluster = [numbers.setdefault(name, len(numbers)) for name in outcomes.cluster.tolist()]
    return dataclasses.replace(hidden, cluster=np.array(cluster))


def reader(book: Book, n: int) -> Callable[[], Outcomes] | None:
    """Return what reads everyone's outcomes, unless they are too many."""
    return functools.cache(lambda: joined(book)) if n <= MOST_ROWS else None


def joined(book: Book) -> Outcomes:
    """Return everyone's outcomes, in the order of their blocks."""
    return Outcomes.from_arrow(pa.concat_tables(t for t in book.tables() if t is not None))


def keep_outcomes(
    book: Book, record: Record, outcomes: str | Path | OutcomesFile | None
) -> Callable[[], Outcomes]:
    """Write the outcomes where they are wanted, and return what reads them once all is done."""
    provenance = provenance_of(record)
    if outcomes is not None:
        file = outcomes if isinstance(outcomes, OutcomesFile) else OutcomesFile(Path(outcomes))
        file.write(book, provenance)
    if isinstance(book, MemoryBook) or record.data.n <= MOST_ROWS:
        tables = [table for table in book.tables() if table is not None]
        return lambda: with_provenance(Outcomes.from_arrow(pa.concat_tables(tables)), provenance)
    if outcomes is not None:
        return lambda: Outcomes.read(file.path)
    return too_many


def too_many() -> Outcomes:
    """Say that the outcomes of so many people are not held."""
    raise InvalidSample(
        f"The outcomes of more than {MOST_ROWS} people are not held in memory: have them written "
        "(outcomes=…)."
    )


def write_visits(visits: pa.Table, outcomes: str | Path | OutcomesFile) -> None:
    """Write what visits did to people, one row a person and trait."""
    file = outcomes if isinstance(outcomes, OutcomesFile) else OutcomesFile(Path(outcomes))
    hidden = [name for name in ("group", "y") if name in visits.column_names]
    shown = visits.drop_columns(hidden) if file.redacted else visits
    with replacing(file.path, if_full=IF_FULL) as place:
        pq.write_table(shown, place)


def nobody_moved() -> Outcomes:
    """Say that there are no outcomes."""
    raise InvalidSample(
        "Nobody was moved in this audit: people were compared with counterparts (result.visits)."
    )


def provenance_of(record: Record) -> dict[str, Any]:
    """Return what outcomes are signed with: hashes, and what shuffled traits gave."""
    map = record.decided_by.map
    goes_by_metric = map not in MAPS.built_in or getattr(MAPS.find(map), "goes_by_metric", False)
    gated = record.metric.learned and goes_by_metric
    shuffled = {name: found.p_value for name, found in record.placebo.items()}
    return {
        "placebo": shuffled if gated else None,
        "refitted": record.decided_by.metric == "refitted",
        "settings_hash": record.settings_hash,
        "model": record.model.sha256,
        "metric": record.metric.sha256,
        "data": record.data.sha256,
    }
