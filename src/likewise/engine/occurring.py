"""Which values occur among all audited people, for maps that keep to those."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.audit_data import AuditData
from likewise.data.sources import Blocks, Source
from likewise.data.survey import Survey
from likewise.engine.meeting import ModelHandle, Progress, as_seen
from likewise.models.base import Front
from likewise.scale.executors import Executor

READ = 65536
"""Rows looked at in one task."""


@dataclasses.dataclass(frozen=True, eq=False)
class Occurring:
    """What occurs among all people; a sample of them is at hand, the others are asked for."""

    handle: ModelHandle
    source: Source
    known: Survey
    people: AuditData
    front: Front | None
    run: Executor
    progress: Progress | None = None

    @property
    def n(self) -> int:
        """How many people there are."""
        return self.known.n

    def values(self, trait: str) -> tuple[Any, ...]:
        """Return the values that a column of the table has, if it is a protected trait."""
        table = self.known.sample.table
        whole = table is not None and pa.types.is_integer(table.schema.field(trait).type)
        # Whole numbers are read as floats where one of their block is missing.
        found = {int(v) if whole else v for v in self.known.traits[trait]}
        return tuple(sorted(found, key=lambda value: (str(type(value)), value)))

    def combinations(
        self, columns: Sequence[Sequence[int]], most: float = np.inf
    ) -> list[Float[np.ndarray, "m c"] | None]:
        """Return the combinations of features that occur, sorted; nothing where too many do."""
        if self.n == len(self.people):
            found = [np.unique(self.people.x[:, list(part)], axis=0) for part in columns]
            return [values if len(values) <= most else None for values in found]
        job = DistinctRows(self.handle, self.source.blocks(READ), tuple(map(tuple, columns)), most)
        sums: list[Float[np.ndarray, "m c"] | None] | None = None
        tasks = [range(k, k + 1) for k in range(len(job.blocks))]
        for done, (_, answer) in enumerate(self.run.map(job, tasks), start=1):
            sums = (
                answer
                if sums is None
                else [_join(*pair, most) for pair in zip(sums, answer, strict=True)]
            )
            if self.progress is not None:
                self.progress("finding values", done, len(tasks))
        return [None if v is None else np.unique(v, axis=0) for v in sums or []]


@dataclasses.dataclass(frozen=True, eq=False)
class DistinctRows:
    """Finds the combinations of features that occur in blocks of people."""

    handle: ModelHandle
    blocks: Blocks
    columns: tuple[tuple[int, ...], ...]
    most: float

    def begin(self) -> Callable[[range], list[Float[np.ndarray, "m c"] | None]]:
        """Open the model, which says what the features are."""
        model = self.handle.open()

        def work(numbers: range) -> list[Float[np.ndarray, "m c"] | None]:
            found: list[Float[np.ndarray, "m c"] | None] = [
                np.zeros((0, len(part))) for part in self.columns
            ]
            for _, people in self.blocks.read(numbers):
                x = as_seen(model, people).x
                parts = [x[:, list(part)] for part in self.columns]
                found = [_join(*pair, self.most) for pair in zip(found, parts, strict=True)]
            return found

        return work


def _join(
    some: Float[np.ndarray, "m c"] | None, others: Float[np.ndarray, "k c"] | None, most: float
) -> Float[np.ndarray, "u c"] | None:
    """Return the rows of both that differ, by hashing: sorting so many would take minutes."""
    if some is None or others is None:
        return None
    x = np.concatenate([some, others])
    names = [str(j) for j in range(x.shape[1])]
    table = pa.Table.from_arrays([pa.array(column) for column in x.T], names)
    rows = table.group_by(names, use_threads=False).aggregate([])
    distinct = np.column_stack([rows[name].to_numpy() for name in names])
    return distinct if len(distinct) <= most else None
