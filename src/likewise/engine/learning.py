"""Learns the fair metric from the audited people themselves, where none was given."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from likewise.audit_data import AuditData
from likewise.data.sources import Blocks, Source
from likewise.data.survey import Survey, SurveyJob, total
from likewise.engine.meeting import ModelHandle, Progress, as_seen
from likewise.errors import InvalidData
from likewise.fingerprints import overlap
from likewise.metrics.block_sums import DesignRows
from likewise.metrics.everyone import learn_from_everyone
from likewise.metrics.fair_metric import FairMetric
from likewise.metrics.learn import sensitive_subspace
from likewise.metrics.newton import Standardised
from likewise.metrics.origin import hashes_of
from likewise.models.base import Model
from likewise.scale.executors import Executor
from likewise.settings import Settings

MOST = 200_000
"""People that are learned from in memory; more are read again and again, in blocks."""

READ = 16_384
"""DesignRows of such a block."""


def learn_metric(
    model: Model,
    handle: ModelHandle,
    source: Source,
    known: Survey,
    people: AuditData,
    settings: Settings,
    run: Executor,
    progress: Progress | None = None,
) -> FairMetric:
    """Return the metric that is blind to what predicts the protected traits of everyone."""
    if not known.traits:
        raise InvalidData(
            "Without a fair metric, protected traits are needed to learn one. Name them with "
            "protected (--protected), or give a metric (--metric)."
        )
    if len(people) == known.n:
        return sensitive_subspace(people, **settings.learning, as_read=known.sample)
    drawn = some_of(source, settings.seed, run, progress)
    met = as_seen(model, drawn)
    if known.n > len(drawn):
        reader = Reader(handle, source.blocks(READ), Standardised.of(met.x), run, progress)
        with threadpool_limits(1):
            learned = learn_from_everyone(
                met, known.traits, known.sketch, known.fingerprint, reader, **settings.learning
            )
        if learned is not None:
            return learned
    return sensitive_subspace(met, **settings.learning, as_read=drawn)


def some_of(
    source: Source, seed: int, run: Executor, progress: Progress | None = None
) -> AuditData:
    """Return everyone, or as many people drawn at random as are learned from in memory."""
    job = SurveyJob(source, seed, MOST)
    tasks, parts = list(job.tasks()), []
    for _, part in run.map(job, tasks):
        parts.append(part)
        if progress is not None:
            progress("drawing people", len(parts), len(tasks))
    return total(iter(parts)).sample


@dataclasses.dataclass(frozen=True, eq=False)
class Reader:
    """Reads everyone, block by block, and adds up what is asked of them."""

    handle: ModelHandle
    blocks: Blocks
    columns: Standardised
    run: Executor
    progress: Progress | None

    def __call__(self, ask: Callable[[DesignRows], Any], starts: Sequence[int] = ()) -> Any:
        """Return the sum of the answers for all blocks, in their order.

        Parameters
        ----------
        starts
            Position of every block's first person, once that is known.
        """
        columns = self.columns
        job = AskBlocks(self.handle, self.blocks, columns.mean, columns.scale, ask, tuple(starts))
        tasks = list(self.blocks.tasks(4))
        waiting: dict[int, Any] = {}
        summed, count = None, 0
        for done, (task, answer) in enumerate(self.run.map(job, tasks), start=1):
            waiting[task.start] = answer
            while count < len(tasks) and tasks[count].start in waiting:
                answer = waiting.pop(tasks[count].start)
                summed = answer if summed is None else summed + answer
                count += 1
            if self.progress is not None:
                self.progress("learning the metric", done, len(tasks))
        return summed


@dataclasses.dataclass(frozen=True, eq=False)
class AskBlocks:
    """Asks for something of blocks of people, in whatever process it finds itself in."""

    handle: ModelHandle
    blocks: Blocks
    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    ask: Callable[[DesignRows], Any]
    starts: tuple[int, ...]

    def begin(self) -> Callable[[range], Any]:
        """Open the model, which says what the features are."""
        model = self.handle.open()

        def work(numbers: range) -> Any:
            summed = None
            for number, people in self.blocks.read(numbers):
                answer = self.ask(self._rows(model, number, people))
                summed = answer if summed is None else summed + answer
            return summed

        return work

    def _rows(self, model: Model, number: int, people: AuditData) -> DesignRows:
        x = as_seen(model, people).x
        design = np.column_stack([(x - self.mean) / self.scale, np.ones(len(x))])
        first = self.starts[number] if self.starts else 0
        positions: Int[np.ndarray, " n"] = first + np.arange(len(x))
        return DesignRows(people, design, positions)


MANY = 0.5
"""Share of one in the other, audited or taught from, from which the two are not separate. Coarse
tables have many equal rows: a fifth of the people of Adult's test split are in its training split
as well, and are other people."""


def same_people(metric: FairMetric, known: Survey) -> bool:
    """Tell whether the metric was learned from these people, in any order, or from many of them.

    Old metric files know only a fingerprint of all rows in order.
    """
    if metric.origin is None:
        return False
    if metric.origin.data == known.fingerprint or metric.learned_from is None:
        return metric.origin.data == known.fingerprint
    # Either may be a part of the other: a metric learned from a sample of very many people.
    audited, taught = known.sketch, metric.learned_from.sketch
    return max(overlap(audited, taught), overlap(taught, audited)) > MANY


def groups_of(
    metric: FairMetric, known: Survey, source: Source, block: int
) -> Int[np.ndarray, " n"] | None:
    """Return the group of the metric's sample that everyone belongs to, by position."""
    if metric.groups is None or metric.origin is None or not same_people(metric, known):
        return None
    if metric.origin.data == known.fingerprint or metric.learned_from is None:
        return metric.groups
    blocks = source.blocks(block)
    found = [
        metric.learned_from.groups_of(hashes_of(people), metric.groups)
        for _, people in blocks.read(range(len(blocks)))
    ]
    return np.concatenate(found)
