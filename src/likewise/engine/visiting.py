"""Lets pairs of real people visit everyone, anywhere, and adds up what the model makes of it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int, Shaped

from likewise.audit_data import AuditData
from likewise.data.pairs import Pairs
from likewise.data.row_hash import row_hashes
from likewise.data.sources import Blocks
from likewise.engine.meeting import ModelHandle, Progress, by_columns
from likewise.engine.pool import plain
from likewise.maps.ask_visits import PersonLoss
from likewise.maps.counterparts import BoundCounterparts, Counterparts
from likewise.models.base import targets
from likewise.scale.executors import Executor
from likewise.statistics.donors import Donors

KEPT = 10
"""People of a block whose rows are kept, in case they are served worst of all."""

BLOCK = 8192
"""People of a block: finding visitors has a cost that does not depend on how many they are."""


@dataclasses.dataclass(frozen=True, eq=False)
class Visited:
    """What became of people: sums, how many of them are in the pool, and the worst served.

    Parameters
    ----------
    worst
        Original columns of the people served worst, with their row numbers and labels.
    """

    donors: Donors
    in_pool: int
    worst: tuple[tuple[int, str, pa.Table], ...]

    @classmethod
    def of(cls, donors: Donors, in_pool: int, people: AuditData, table: pa.Table) -> "Visited":
        """Keep the rows of the people of a block who may be shown."""
        person = donors.person
        gap = np.where(person["visited"], person["after"] - person["before"], -np.inf)
        first = np.lexsort((person["row"], -gap))[:KEPT]
        return cls(
            donors,
            in_pool,
            tuple((int(people.row[i]), str(people.y[i]), table.slice(i, 1)) for i in first),
        )

    def __add__(self, other: "Visited") -> "Visited":
        return Visited(
            self.donors + other.donors, self.in_pool + other.in_pool, self.worst + other.worst
        )


@dataclasses.dataclass(frozen=True, eq=False)
class VisitBlocks:
    """Lets pairs visit blocks of people; the model is opened once a worker.

    Parameters
    ----------
    model
        How a worker comes by the model.
    blocks
        The people, cut into blocks.
    questions
        What is asked, by name: each question with its pairs.
    pool
        The people that the pairs are among.
    loss, labelled
        The loss of a person, and whether it needs the label.
    classes
        Label values in the order of the model's outputs.
    wrong
        Who is decided wrongly, if labels are known: then it is kept, with the labels.
    """

    model: ModelHandle
    blocks: Blocks
    questions: Mapping[str, tuple[Counterparts, Pairs]]
    pool: pa.Table
    loss: PersonLoss
    labelled: bool
    classes: tuple[Any, ...]
    wrong: PersonLoss | None = None

    def begin(self) -> Callable[[range], dict[str, Visited]]:
        """Open the model, and return what lets pairs visit blocks."""
        model = self.model.open()
        bound: dict[str, BoundCounterparts] = {}
        in_pool = KnownRows(self.pool)

        def work(numbers: range) -> dict[str, Visited]:
            found: dict[str, Visited] = {}
            for _, people in self.blocks.read(numbers):
                if not len(people):
                    continue
                people = people.in_columns()
                assert people.table is not None
                table = plain(people.table)
                if not bound:
                    bound.update(self._bound(by_columns(model, people), table.schema))
                known = in_pool(table)
                known_labels = self.labelled or self.wrong is not None
                y = targets(people.y, self.classes) if known_labels else None
                for name, (question, pairs) in self.questions.items():
                    losses = bound[name](
                        table,
                        label=y if self.labelled else None,
                        weight=people.weight,
                        cluster=cluster_numbers(people.cluster),
                        row=people.row,
                    )
                    donors = Donors.of(losses, question.design(pairs))
                    if self.wrong is not None:
                        assert losses.outputs is not None
                        donors.person.update(y=y, wrong=self.wrong(losses.outputs, y))
                    one = Visited.of(donors, known, people, table)
                    found[name] = found[name] + one if name in found else one
            return found

        return work

    def _bound(self, ask: Any, people: pa.Schema) -> dict[str, BoundCounterparts]:
        """Make every question ready for the model, the pool and people with these columns."""
        return {
            name: question.bind(ask, self.loss, pairs, self.pool, people, ask.columns)
            for name, (question, pairs) in self.questions.items()
        }


def visit_everyone(
    job: VisitBlocks, run: Executor, progress: Progress | None
) -> dict[str, Visited]:
    """Return the sums over everyone, added up in the order of the blocks."""
    parts: dict[int, dict[str, Visited]] = {}
    n, size = job.blocks.source.n_rows, job.blocks.size
    for task, part in run.map(job, job.blocks.tasks(1)):
        parts[task.start] = part
        if progress is not None:
            progress("asking about counterparts", min(len(parts) * size, n), n)
    total: dict[str, Visited] = {}
    for number in sorted(parts):
        for name, part in parts[number].items():
            total[name] = total[name] + part if name in total else part
    return total


class KnownRows:
    """Counts the people whose whole row is in the pool too."""

    def __init__(self, pool: pa.Table) -> None:
        self.pool = pool
        self.rows: dict[tuple[str, ...], Shaped[np.ndarray, " p"]] = {}

    def __call__(self, people: pa.Table) -> int:
        """Count those of one block."""
        shared = tuple(name for name in people.column_names if name in self.pool.column_names)
        if shared not in self.rows:
            self.rows[shared] = row_hashes(self.pool, shared)
        return int(np.isin(row_hashes(people, shared), self.rows[shared]).sum())


def cluster_numbers(cluster: Shaped[np.ndarray, " n"] | None) -> Int[np.ndarray, " n"] | None:
    """Return one number for each cluster, the same in every block."""
    if cluster is None:
        return None
    column = pa.array(cluster.tolist(), from_pandas=True)
    return row_hashes(pa.table({"cluster": column}), ["cluster"]).view(np.int64)
