"""What every worker does: read blocks of people, move them in all variants, and add up.

Blocks are the same whoever reads them, so rows are the same to the last digit wherever the audit
runs.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from likewise.audit_data import AuditData
from likewise.data.sources import Blocks
from likewise.engine.meeting import ModelHandle, as_seen
from likewise.engine.move_stats import MoveStats
from likewise.engine.packing import pack
from likewise.engine.variants import DECIDES, Move, Variant
from likewise.maps.observe import Observed, Seen, observe, see
from likewise.maps.unfair_map import BoundMap, among
from likewise.models import check_conversion
from likewise.models.base import Model, targets
from likewise.models.recalled import Recalled
from likewise.outcomes import Outcomes
from likewise.scale.store import Book, FinishedPart, MemoryBook
from likewise.statistics.frame import Frame, TraitLevels

FEWEST = 64
"""Blocks are filled up to a power of two, at least this many rows."""


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Some people as the model sees them, made ready to be moved in many variants."""

    people: AuditData
    x: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, " n"]
    positions: Int[np.ndarray, " n"]
    levels: Mapping[str, Int[np.ndarray, " n"]]
    before: Seen


@dataclasses.dataclass(frozen=True, eq=False)
class MoveBlocks:
    """Moves blocks of people in several variants; the model is opened once a worker.

    Parameters
    ----------
    model
        How a worker comes by the model.
    blocks
        The people, cut into blocks.
    variants, frames
        How people are moved, and the terms in which each variant is added up.
    classes
        Label values in the order of the model's outputs.
    levels
        The levels of each protected trait.
    starts
        Position of every block's first person among all, where rows were left out.
    ranges
        The smallest and the largest value of every feature that was observed.
    about
        What the outcomes of every variant say about themselves.
    book
        Where outcomes of the deciding variant are kept.
    """

    model: ModelHandle
    blocks: Blocks
    variants: tuple[Variant, ...]
    frames: Mapping[str, Frame]
    classes: tuple[Any, ...]
    levels: Mapping[str, TraitLevels]
    ranges: Float[np.ndarray, "2 d"]
    about: Mapping[str, Mapping[str, Any]]
    starts: Int[np.ndarray, " b"] | None = None
    book: Book = dataclasses.field(default_factory=MemoryBook)

    def begin(self) -> Callable[[range], FinishedPart]:
        """Open the model, and return what binds the maps and moves blocks."""
        opened = self.model.open()

        def work(numbers: range) -> FinishedPart:
            sums: dict[str, MoveStats] = {}
            tables: list[pa.Table] = []
            for number, people in self.blocks.read(numbers):
                if not len(people):
                    continue
                # Answers are kept for as long as the same people are moved.
                model = opened if opened.card.differentiable else Recalled(opened)
                block = self._ready(model, number, people)
                for variant in self.variants:
                    name = variant.name
                    bound = [move.map.bind(model, move.metric) for move in variant.moves]
                    rows, seen = move(model, variant, bound, block)
                    if seen is None:
                        continue
                    seen = self._described(name, block, rows, seen)
                    found = self._stats(variant, block, rows, seen)
                    sums[name] = sums[name] + found if name in sums else found
                    if name == DECIDES:
                        tables.append(self._table(seen.outcomes, block))
            outcomes = pa.concat_tables(tables) if tables else None
            return self.book.keep(FinishedPart(numbers, pack(sums, self.frames), outcomes))

        return work

    def _ready(self, model: Model, number: int, people: AuditData) -> Block:
        met = as_seen(model, people)
        if model.reference is not None:
            check_conversion(model, met.x)
        x = np.ascontiguousarray(met.x, dtype=np.float64)
        y = targets(people.y, self.classes)
        first = number * self.blocks.size if self.starts is None else int(self.starts[number])
        return Block(
            people=met,
            x=x,
            y=y,
            positions=first + np.arange(len(x)),
            levels={
                name: _codes(known, people.protected[name]) for name, known in self.levels.items()
            },
            before=_before(model, x, y),
        )

    def _described(
        self, name: str, block: Block, rows: Int[np.ndarray, " m"], seen: Observed
    ) -> Observed:
        """Return outcomes with what is known of the people besides."""
        people = block.people
        outcomes = dataclasses.replace(
            seen.outcomes,
            row=people.row[rows],
            weight=None if people.weight is None else people.weight[rows],
            cluster=None if people.cluster is None else people.cluster[rows],
            about=self.about[name],
        )
        return dataclasses.replace(seen, outcomes=outcomes)

    def _stats(
        self, variant: Variant, block: Block, rows: Int[np.ndarray, " m"], seen: Observed
    ) -> MoveStats:
        return MoveStats.of(
            seen,
            block.x[rows],
            self.frames[variant.name],
            {name: codes[rows] for name, codes in block.levels.items()},
            self.ranges,
            detailed=variant.detailed,
            keeps_rows=variant.keeps_rows,
        )

    def _table(self, outcomes: Outcomes, block: Block) -> pa.Table:
        """Return the rows of a block as they are kept, with the names of their groups."""
        table = outcomes.to_arrow()
        for name, codes in block.levels.items():
            column = self.levels[name].named(codes)
            table = table.append_column(pa.field(f"group:{name}", pa.string()), column)
        return table


def move(
    model: Model, variant: Variant, bound: Sequence[BoundMap], block: Block
) -> tuple[Int[np.ndarray, " m"], Observed | None]:
    """Move the people of a block who are in a variant; return their places, and what was seen."""
    parts = []
    for part, ready in zip(variant.moves, bound, strict=True):
        rows = part.people.rows(block.positions)
        if len(rows):
            parts.append((rows, _observed(model, part, ready, block, rows)))
    if not parts:
        return np.zeros(0, dtype=np.int64), None
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([rows for rows, _ in parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], Observed.concat([seen for _, seen in parts]).take(order)


def _observed(
    model: Model, part: Move, ready: BoundMap, block: Block, rows: Int[np.ndarray, " m"]
) -> Observed:
    once, back = rows, None
    if len(rows) > 1 and (np.diff(rows) == 0).any():
        once, back = np.unique(rows, return_inverse=True)
    everyone = len(once) == len(block.x)
    rows = filled(once, model)
    seen = observe(
        model,
        among(ready, block.people, rows),
        part.metric,
        block.x[rows],
        block.y[rows],
        n=len(once),
        before=block.before if everyone else block.before.take(once),
    )
    return seen if back is None else seen.take(back)


def _before(model: Model, x: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Seen:
    rows = filled(np.arange(len(x)), model)
    return see(model, x[rows], y[rows]).take(slice(0, len(x)))


def filled(rows: Int[np.ndarray, " n"], model: Model) -> Int[np.ndarray, " m"]:
    """Repeat the last row until a block has a usual size, so that its products round alike.

    Models without gradients answer row by row, and every call may be dear: theirs stay as they are.
    """
    if not model.card.differentiable:
        return rows
    power = 1 << (len(rows) - 1).bit_length()
    # A whole block has 65 times a power of two (`block_size`): that is usual, too.
    size = max(FEWEST, min(s for s in (65 * power // 128, power) if s >= len(rows)))
    return np.concatenate([rows, np.full(size - len(rows), rows[-1])])


def _codes(known: TraitLevels, column: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return the code of everyone's level."""
    try:
        return known.codes(pa.chunked_array([pa.array(column, from_pandas=True)]))
    except pa.ArrowException:  # values of several types
        return np.array([known.code.get(value, -1) for value in column.tolist()], dtype=np.int64)
