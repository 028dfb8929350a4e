"""Moves everyone in all variants, anywhere, and adds up what became of them in block order."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from likewise.data.sources import Blocks, PeopleSource
from likewise.engine.block_job import MoveBlocks
from likewise.engine.meeting import ModelHandle, Progress, as_seen
from likewise.engine.move_stats import MoveStats
from likewise.engine.packing import unpack
from likewise.engine.plan import Plan
from likewise.engine.variants import People, Variant
from likewise.errors import Untrustworthy
from likewise.models.base import targets
from likewise.scale.executors import Executor, Threads
from likewise.scale.memory import plan_pieces
from likewise.scale.store import Book, MemoryBook
from likewise.statistics.frame import Frame

TOGETHER = 16
"""Blocks that are added up before the rest; a large task is as many, a small one is one block."""

SMALL = 32
"""Up to so many blocks each one is a task of its own, so that all workers have something to do."""


def sweep(
    plan: Plan,
    variants: Sequence[Variant],
    book: Book | None = None,
    progress: Progress | None = None,
) -> dict[str, MoveStats]:
    """Return what became of people in every variant.

    Variants that move the same people are moved in one pass over their blocks.

    Parameters
    ----------
    book
        Where finished blocks of everyone are kept; those of samples are quickly done again.
    """
    found: dict[str, MoveStats] = {}
    for sample in dict.fromkeys(variant.sample for variant in variants):
        same = tuple(variant for variant in variants if variant.sample == sample)
        keep = book if sample is None and book is not None else MemoryBook()
        what = "moving people" if sample is None else "trying other choices"
        found |= _sweep_source(plan, same, keep, _named(progress, what))
    return found


def _named(progress: Progress | None, what: str) -> Callable[[int, int], None]:
    return lambda done, total: None if progress is None else progress(what, done, total)


def _sweep_source(
    plan: Plan, variants: tuple[Variant, ...], book: Book, tell: Callable[[int, int], None]
) -> dict[str, MoveStats]:
    source = plan.source_of(variants[0])
    blocks = source.blocks(plan.block_size)
    n = plan.n if variants[0].sample is None else source.n_rows
    # A few people are done here before other processes have started.
    run = plan.run if variants[0].sample is None or not plan.run.processes else Threads()
    starts = _starts(blocks, n, run)
    limits = _limits(plan, blocks, variants, starts, run)
    frames = {v.name: _frame(plan, v, n, limit) for v, limit in zip(variants, limits, strict=True)}
    job = MoveBlocks(
        model=plan.handle,
        blocks=blocks,
        variants=variants,
        frames=frames,
        classes=plan.classes,
        levels=plan.levels,
        ranges=plan.ranges,
        about={v.name: about(plan, v) for v in variants},
        starts=starts,
        book=book,
    )
    total = InOrder(len(blocks))
    finished = book.done()
    for part in finished:
        total.add(part, unpack(book.tally(part), frames))
    tell(total.people, n)
    per = TOGETHER if len(blocks) > SMALL and _roomy(plan) else 1
    for task, part in run.map(job, blocks.tasks(per, finished)):
        book.put(part)
        total.add(task, unpack(part.tally, frames))
        tell(total.people, n)
    found = total.sums()
    for variant in variants:
        counted = found[variant.name].n if variant.name in found else 0
        if counted != frames[variant.name].n:
            raise Untrustworthy(
                f"{counted} people were moved ({variant.name}), but there are "
                f"{frames[variant.name].n}. Begin again."
            )
    return found


def _roomy(plan: Plan) -> bool:
    """Tell whether memory allows large tasks; refuse if it does not even allow small ones."""
    if plan.run.max_memory is None:
        return True
    pieces = plan_pieces(plan.x.shape[1], plan.run.processes, plan.run.max_memory)
    return pieces.rows >= TOGETHER * plan.block_size


class InOrder:
    """Adds up parts in the order of their blocks, in whatever order they come.

    Sums are rounded, so they depend on which are added first: always the blocks of one
    sixteen, one after another, and then the sixteens.
    """

    def __init__(self, blocks: int) -> None:
        self.people = 0
        self._blocks, self._next = blocks, 0
        self._waiting: dict[int, tuple[range, Mapping[str, MoveStats]]] = {}
        self._inner: dict[str, MoveStats] = {}
        self._outer: dict[str, MoveStats] = {}

    def add(self, part: range, sums: Mapping[str, MoveStats]) -> None:
        """Take the sums of some blocks."""
        self.people += next(iter(sums.values())).n if sums else 0
        self._waiting[part.start] = part, sums
        while self._next in self._waiting:
            blocks, these = self._waiting.pop(self._next)
            _increase(self._inner, these)
            self._next = blocks.stop
            if self._next % TOGETHER == 0 or self._next == self._blocks:
                _increase(self._outer, self._inner)
                self._inner = {}

    def sums(self) -> dict[str, MoveStats]:
        """Return the sums of all blocks."""
        if self._next != self._blocks:
            raise Untrustworthy(f"Block {self._next} of {self._blocks} is missing. Begin again.")
        return self._outer


def _increase(sums: dict[str, MoveStats], by: Mapping[str, MoveStats]) -> None:
    for name, found in by.items():
        sums[name] = sums[name] + found if name in sums else found


def about(plan: Plan, variant: Variant) -> dict[str, Any]:
    """Return what outcomes of a variant say about themselves."""
    card, map = plan.model.card, variant.map
    binary = card.task == "classification" and len(plan.classes) == 2
    return {
        "map": map.name,
        "task": card.task,
        "output": card.output,
        "classes": [str(value) for value in plan.classes],
        "monotone": map.keeps_start and binary,
    }


def _frame(plan: Plan, variant: Variant, n: int, limit: float) -> Frame:
    detailed = variant.detailed
    return Frame(
        n=variant.count(n),
        task=plan.task,
        classes=max(2, len(plan.classes)),
        monotone=bool(about(plan, variant)["monotone"]),
        weighted=plan.known.weighted,
        clustered=plan.people.cluster is not None,
        cap=plan.settings.cap,
        limit=limit,
        traits=plan.levels if detailed else {},
        horizons=tuple(sorted(variant.map.horizons)) if detailed else (),
    )


def _starts(blocks: Blocks, n: int, run: Executor) -> Int[np.ndarray, " b"] | None:
    """Return the position of every block's first person, if rows were left out and it matters."""
    source = blocks.source
    if isinstance(source, PeopleSource):
        firsts = np.arange(len(blocks)) * blocks.size
        return np.searchsorted(source.places, firsts)
    if source.n_rows == n:
        return None
    counts = np.zeros(len(blocks), dtype=np.int64)
    tasks = blocks.tasks(TOGETHER)
    for _, answer in run.map(CountBlocks(blocks), tasks):
        for number, count in answer:
            counts[number] = count
    return np.concatenate([[0], np.cumsum(counts)[:-1]])


@dataclasses.dataclass(frozen=True, eq=False)
class CountBlocks:
    """Counts the people of blocks, where some rows are left out."""

    blocks: Blocks

    def begin(self) -> Callable[[range], list[tuple[int, int]]]:
        """Return what counts."""
        return lambda numbers: [(k, len(people)) for k, people in self.blocks.read(numbers)]


def _limits(
    plan: Plan,
    blocks: Blocks,
    variants: Sequence[Variant],
    starts: Int[np.ndarray, " b"] | None,
    run: Executor,
) -> list[float]:
    """Return what losses after the map are held down to: the cap times the mean before it."""
    if plan.task != "regression":
        return [math.inf] * len(variants)
    chosen = tuple(tuple(move.people for move in variant.moves) for variant in variants)
    job = LossBlocks(plan.handle, blocks, plan.classes, chosen, starts)
    sums: list[list[tuple[float, float]]] = [[] for _ in variants]
    for _, answer in run.map(job, blocks.tasks(TOGETHER)):
        for k, parts in enumerate(answer):
            sums[k] += parts
    cap = plan.settings.cap
    # Exact sums, so that their order does not matter.
    return [
        cap * math.fsum(loss for loss, _ in parts) / math.fsum(weight for _, weight in parts)
        for parts in sums
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class LossBlocks:
    """Adds up losses before the move: the mean loss of a regression is needed beforehand."""

    handle: ModelHandle
    blocks: Blocks
    classes: tuple[Any, ...]
    people: tuple[tuple[People, ...], ...]
    starts: Int[np.ndarray, " b"] | None

    def begin(self) -> Callable[[range], list[list[tuple[float, float]]]]:
        """Open the model."""
        model = self.handle.open()

        def work(numbers: range) -> list[list[tuple[float, float]]]:
            sums: list[list[tuple[float, float]]] = [[] for _ in self.people]
            for number, people in self.blocks.read(numbers):
                if not len(people):
                    continue
                x = np.ascontiguousarray(as_seen(model, people).x, dtype=np.float64)
                loss = model.loss(model(x), targets(people.y, self.classes))
                weight = np.ones(len(x)) if people.weight is None else people.weight
                first = number * self.blocks.size if self.starts is None else self.starts[number]
                positions = int(first) + np.arange(len(x))
                for k, chosen in enumerate(self.people):
                    rows = np.concatenate([part.rows(positions) for part in chosen])
                    sums[k].append((float(weight[rows] @ loss[rows]), float(weight[rows].sum())))
            return sums

        return work
