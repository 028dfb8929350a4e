"""A session: one map-reduce loop over blocks of people, for every method and every probe.

Blocks are read and measured anywhere, and their sums are added up here in the order of blocks, so
that every digit is the same wherever the audit runs. Finished blocks go to the journal.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int

from likewise import errors
from likewise.data.source import Blocks, PeopleSource, Source
from likewise.data.survey import TASK_ROWS, Survey, SurveyJob, cut, total
from likewise.files import replacing
from likewise.fingerprints import hash_json
from likewise.method import MAX_ROWS, BoundMethod, Progress
from likewise.packing import pack, unpack
from likewise.probe import PRIMARY, Block, Probe, Subsample
from likewise.run.executors import Executor, Threads
from likewise.run.journal import IF_FULL, FinishedPart, Identity, Journal, Store

TASKS, MAX_BLOCKS = 32, 32
"""About how many tasks the blocks make, and blocks of a task at most. What a task adds up depends
on the number of blocks alone, and where it was done changes no digit."""

LIBRARIES = ("likewise", "numpy")
"""Libraries in whose versions finished blocks may differ."""

Sums = dict[str, Any]
T = TypeVar("T")


class Session(contextlib.ExitStack):
    """Where and how an audit runs: executor, journal, progress. Contexts it enters end with it.

    ``keeps_rows`` says whether rows of many people are wanted; those of few are kept anyway.
    ``asked`` are the names of all probes that were measured.
    """

    def __init__(
        self,
        executor: Executor,
        store: Store,
        progress: Progress | None = None,
        *,
        keeps_rows: bool = False,
    ) -> None:
        super().__init__()
        self.executor, self.store, self.progress = executor, store, progress
        self.keeps_rows = keeps_rows
        self.journal: Journal = Journal()
        self.asked: set[str] = set()

    def tell(self, what: str, done: int, total: int) -> None:
        """Tell how far it is, if anybody listens."""
        if self.progress is not None:
            self.progress(what, done, total)

    def open_journal(self, identity: Identity) -> None:
        """Begin the journal of this audit, or continue one with the same identity."""
        versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
        known = {**identity, "versions": ", ".join(versions)}
        self.journal = self.enter_context(self.store.opened(known))

    def survey(self, source: Source, seed: int, size: int, what: str) -> Survey:
        """Look at all rows once, and draw a sample of so many people."""
        job = SurveyJob(source, seed, size)
        tasks, parts = cut(range(source.n_rows), TASK_ROWS), []
        if len(tasks) < 2:
            return total(map(job.begin(), tasks))
        for _, part in self.executor.map(job, tasks):
            parts.append(part)
            self.tell(what, len(parts), len(tasks))
        return total(iter(parts))

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` returns; a resumed audit reads it, and its warnings, again."""
        place, blocks = self.journal.section(name), range(1)
        if place.resumable and blocks in place.done():
            value, said = unpack(place.read(blocks).tally, {})
            for category, text in said:
                warnings.warn(text, getattr(errors, category), stacklevel=2)
            return value
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = make()
        for one in caught:
            warnings.warn(one.message, one.category, stacklevel=2)
        said = [
            (one.category.__name__, str(one.message))
            for one in caught
            if issubclass(one.category, errors.LikewiseWarning)
        ]
        if place.resumable:
            place.keep(FinishedPart(blocks, pack([value, said], {})))
        return value

    def rows(self, record: Any) -> Iterator[pa.Table]:
        """Yield the rows of everyone that the primary probe kept, in the order of blocks.

        They hold the hashes of what they came from, so that no two audits get mixed up.
        """
        pairs, metric = record.matched_pairs, record.metric
        about = {
            "settings_hash": record.settings_hash,
            "model": record.model.sha256,
            "data": record.data.sha256,
            "metric": "" if metric is None else metric.sha256,
            "learned": metric is not None and metric.learned and not record.paper,
            "pool": "" if pairs is None or pairs.in_pool else pairs.pool_sha256,
        }
        written = {b"likewise.audit": json.dumps(about).encode()}
        for blocks in self.journal.done():
            table = self.journal.read(blocks).outcomes
            if table is not None:
                known = table.schema.metadata or {}
                yield table.replace_schema_metadata({**known, **written})

    def measure(self, method: BoundMethod, probes: Sequence[Probe]) -> Sums:
        """Return the sums of every probe; probes of the same people share one pass over them."""
        of_sample: dict[Subsample | None, list[Probe]] = {}
        for probe in probes:
            of_sample.setdefault(probe.subsample, []).append(probe)
            self.asked.add(probe.name)
        found: Sums = {}
        for subsample, same in of_sample.items():
            found |= self._pass(method, tuple(same), subsample)
        return found

    def _pass(
        self, method: BoundMethod, probes: tuple[Probe, ...], subsample: Subsample | None
    ) -> Sums:
        names = [probe.name for probe in probes]
        first = PRIMARY in names
        journal = self.journal if first else self.journal.section(hash_json(names))
        source, run = method.source, self.executor
        if subsample is not None:
            source = PeopleSource.from_people(method.setup.sample(*subsample))
            if run.remote:  # a few people are done here before other processes have started
                run = Threads()
        blocks = Blocks(source, method.block_size)
        keeps = self.keeps_rows or method.n <= MAX_ROWS
        common = {name: value for probe in probes for name, value in probe.common.items()}
        # Blocks count rows; positions are among all who were not left out.
        starts = np.arange(len(blocks)) * blocks.size
        if subsample is None:
            starts -= np.searchsorted(method.survey.left_out, starts)
        job = MeasureBlocks(method.handle, blocks, probes, starts, common, journal, keeps)
        others = {type(probe).__module__.split(".")[0] for probe in probes} - {"likewise"}
        size = min(max(len(blocks) // TASKS, 1), MAX_BLOCKS)
        tasks = cut(range(len(blocks)), size)
        # Sums of tasks that are done before their turn; none are held of what a journal keeps.
        ready = dict.fromkeys(journal.done() if journal.resumable else (), b"")
        waiting = [task for task in tasks if task not in ready]
        what = "measuring" if first else "checking"
        self.tell(what, sum(map(len, ready)), len(blocks))
        sums: Sums = {}
        with contextlib.closing(run.map(job, waiting)) as answers:
            for task in tasks:
                while task not in ready:
                    done, part = next(answers)
                    # Sums of pairs are large, and those in memory are never read again.
                    journal.put(part if journal.resumable else dataclasses.replace(part, tally=b""))
                    ready[done] = part.tally
                    self.tell(what, sum(map(len, ready)), len(blocks))
                tally = ready[task] or journal.read(task).tally
                ready[task] = b""
                _add_to(sums, unpack(tally, common, others))
        return sums


def write_rows(tables: Iterable[pa.Table], path: Path) -> None:
    """Write one row a person, block after block, whole or not at all."""
    writer: pq.ParquetWriter | None = None
    with replacing(path, if_full=IF_FULL) as file:
        for table in tables:
            if writer is None:
                writer = pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


@dataclasses.dataclass(frozen=True, eq=False)
class MeasureBlocks:
    """Measures blocks of people by several probes; the model is opened once a worker.

    ``starts`` are the positions of every block's first person among all who were not left out,
    ``common`` what sums refer to and is not written with them.
    """

    handle: Any
    blocks: Blocks
    probes: tuple[Probe, ...]
    starts: Int[np.ndarray, " b"]
    common: Mapping[str, Any]
    journal: Journal
    keeps_rows: bool = True

    def begin(self) -> Callable[[range], FinishedPart]:
        """Open the model, and return what measures blocks."""
        model = self.handle.open()

        def work(numbers: range) -> FinishedPart:
            total: Sums = {}
            tables: list[pa.Table] = []
            for number, people in self.blocks.read(numbers):
                sums: Sums = {}
                block = Block(number, people, self.starts[number] + np.arange(len(people)))
                for probe in self.probes if len(people) else ():
                    found = probe.measure(model, block)
                    if found is None:
                        continue
                    sums[probe.name] = found.stats
                    if found.rows is not None and probe.name == PRIMARY and self.keeps_rows:
                        tables.append(found.rows)
                _add_to(total, sums)
            rows = pa.concat_tables(tables) if tables else None
            return self.journal.keep(FinishedPart(numbers, pack(total, self.common), rows))

        return work


def _add_to(sums: Sums, by: Mapping[str, Any]) -> None:
    """Add sums to others, name by name, in place where they are large."""
    for name, found in by.items():
        if name in sums:
            sums[name] += found
        else:
            sums[name] = found
