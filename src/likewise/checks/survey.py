"""One look at all rows before anybody is moved: bad values, classes, levels, and a sample."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from likewise.checks.gather import Progress
from likewise.checks.introduce import meet
from likewise.data.encode import Encoder
from likewise.data.files import open_rows
from likewise.data.table import scan
from likewise.errors import InvalidSettings
from likewise.metrics.base import FairMetric
from likewise.metrics.quadratic import ProjectionMetric
from likewise.models.base import Model
from likewise.people import AuditData, fingerprint, missing
from likewise.settings import Settings

READ = 65536
"""Rows read at a time."""

SAMPLE = 10_000
"""People drawn at random for everything that has to see some of them before the rest."""


@dataclasses.dataclass(frozen=True)
class Stream:
    """A table that is read block by block, as often as needed, always in the same way."""

    paths: tuple[str, ...]
    settings: Settings
    encoder: Encoder | None
    raw: bool

    def blocks(self, rows: int) -> Iterator[AuditData]:
        """Yield people in blocks of so many rows of the files."""
        columns = self.settings.columns
        if columns.label is None:
            raise InvalidSettings("Which column is the label? Name it with --label.")
        return scan(
            list(self.paths),
            label=columns.label,
            protected=columns.protected,
            weight=columns.weight,
            cluster=columns.cluster,
            ignore=columns.ignore,
            inputs=columns.inputs,
            encoder=self.encoder,
            drop_missing=columns.drop_missing,
            raw=self.raw,
            rows=rows,
        )

    @functools.cached_property
    def n_rows(self) -> int:
        """Rows of the files, those left out included."""
        return open_rows(list(self.paths)).n_rows

    def told(self, what: str, progress: Progress | None) -> Iterator[AuditData]:
        """Yield everyone, and tell how far that is."""
        for done, block in enumerate(self.blocks(READ), start=1):
            yield block
            if progress is not None:
                progress(what, min(done * READ, self.n_rows), self.n_rows)


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is known of all people after reading them once.

    Parameters
    ----------
    n
        How many there are.
    sample
        Some of them at random, in row order; everybody if there are few.
    labels
        How often each label occurs.
    traits
        By protected trait, how often each value occurs; missing ones not counted.
    gaps
        People whose trait is missing, by trait.
    weights
        Smallest and largest weight.
    dropped
        Rows left out on request, by reason.
    """

    n: int
    sample: AuditData
    labels: Mapping[Any, int]
    traits: Mapping[str, Mapping[Any, int]]
    gaps: Mapping[str, int]
    weights: tuple[float, float]
    dropped: Mapping[str, int]

    @property
    def weighted(self) -> bool:
        """Whether weights differ; equal ones count as none."""
        return self.weights[0] < self.weights[1]


def look(stream: Stream, progress: Progress | None = None) -> Survey:
    """Look at everyone in a stream once, before anybody is moved."""
    return survey(stream.told("reading people", progress), stream.n_rows, stream.settings.seed)


def learned_from_everyone(
    metric: FairMetric,
    stream: Stream,
    known: Survey,
    model: Model,
    progress: Progress | None = None,
) -> bool:
    """Tell whether the metric was learned from the very people of a stream.

    They are read once more for it, but only where their number is that of the metric's sample.
    """
    origin = metric.origin if isinstance(metric, ProjectionMetric) else None
    if origin is None or origin.n != known.n:
        return False
    blocks = stream.told("looking for the metric's people", progress)
    return origin.data == fingerprint(meet(model, block) for block in blocks)


def survey(blocks: Iterable[AuditData], n_rows: int, seed: int) -> Survey:
    """Read everyone once.

    A row that cannot be audited is found now, not after hours.

    Parameters
    ----------
    blocks
        The people, as `likewise.data.table.scan` gives them.
    n_rows
        Rows of the source, those left out included.
    """
    rng = np.random.default_rng([seed, 8])
    drawn = np.sort(rng.choice(n_rows, min(SAMPLE, n_rows), replace=False))
    parts: list[AuditData] = []
    n, least, greatest = 0, np.inf, -np.inf
    labels: collections.Counter[Any] = collections.Counter()
    dropped: collections.Counter[str] = collections.Counter()
    traits: dict[str, collections.Counter[Any]] = {}
    gaps: collections.Counter[str] = collections.Counter()
    for block in blocks:
        n += len(block)
        dropped.update(block.dropped)
        labels.update(block.y.tolist())
        for name, column in block.protected.items():
            gone = missing(column)
            gaps[name] += int(gone.sum())
            traits.setdefault(name, collections.Counter()).update(column[~gone].tolist())
        if block.weight is not None and len(block):
            least = min(least, float(block.weight.min()))
            greatest = max(greatest, float(block.weight.max()))
        chosen = np.flatnonzero(np.isin(block.row, drawn, assume_unique=True))
        if len(chosen) or not parts:
            parts.append(block.take(chosen))
    return Survey(n, _joined(parts), labels, traits, dict(gaps), (least, greatest), dict(dropped))


def _joined(parts: list[AuditData]) -> AuditData:
    first = parts[0]

    def join(columns: list[Any]) -> Any:
        return None if columns[0] is None else np.concatenate(columns)

    return dataclasses.replace(
        first,
        x=join([part.x for part in parts]),
        y=join([part.y for part in parts]),
        protected={
            name: join([part.protected[name] for part in parts]) for name in first.protected
        },
        weight=join([part.weight for part in parts]),
        cluster=join([part.cluster for part in parts]),
        table=None
        if first.table is None
        else pa.concat_tables([part.table for part in parts if part.table is not None]),
        row=join([part.row for part in parts]),
        dropped={},
    )
