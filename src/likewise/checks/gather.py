"""Moves everyone, block by block, and keeps what the report needs in constant memory."""

import dataclasses
import heapq
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from likewise.checks.introduce import Introduced
from likewise.checks.levels import as_levels
from likewise.maps.base import BoundMap, UnfairMap
from likewise.maps.observe import observe
from likewise.metrics.base import FairMetric
from likewise.outcomes import Outcomes
from likewise.scale.blocks import block_size, run_blocks

KEPT = 100
"""People kept with their place before and after: enough for any list of worst cases."""

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One person before and after the move; ``row`` is their place among the outcomes."""

    harm: float
    row: int
    before: Float[np.ndarray, " d"]
    after: Float[np.ndarray, " d"]


@dataclasses.dataclass(frozen=True)
class Gathered:
    """What moving everyone gave.

    Parameters
    ----------
    outcomes
        One row a person, in the order of the data.
    worst
        The people harmed most, worst first.
    shift, absolute_shift
        Mean move of each feature, signed and absolute.
    evaluations
        Gradient or model evaluations spent on each person.
    below_one
        People whose loss fell, before any rule that keeps them where they were.
    search
        The mean loss found by the number of model calls spent on each person: what more calls
        bought (for maps that search).
    """

    outcomes: Outcomes
    worst: tuple[Case, ...]
    shift: Float[np.ndarray, " d"]
    absolute_shift: Float[np.ndarray, " d"]
    evaluations: int
    below_one: int
    search: Mapping[int, float] = dataclasses.field(default_factory=dict)


def gather(
    who: Introduced,
    metric: FairMetric,
    map: UnfairMap,
    *,
    threads: int,
    progress: Progress | None = None,
) -> Gathered:
    """Move everyone and observe what became of them."""
    bound = map.bind(who.model, metric)

    def block(rows: slice) -> Gathered:
        return _observe_block(who, metric, bound, rows)

    def tell(done: int) -> None:
        if progress is not None:
            progress("moving people", done, len(who.x))

    size = block_size(who.x.shape[1])
    parts = run_blocks(block, len(who.x), size=size, threads=threads, progress=tell)
    return _describe(merge(parts), who, map)


def merge(parts: Sequence[Gathered]) -> Gathered:
    """Join blocks in their order."""
    sizes = np.array([len(part.outcomes) for part in parts], dtype=float)
    share = sizes / sizes.sum()
    cases = heapq.nlargest(
        KEPT, (c for part in parts for c in part.worst), key=lambda c: (c.harm, -c.row)
    )
    return Gathered(
        outcomes=Outcomes.concat([part.outcomes for part in parts]),
        worst=tuple(cases),
        shift=share @ np.stack([part.shift for part in parts]),
        absolute_shift=share @ np.stack([part.absolute_shift for part in parts]),
        evaluations=max(part.evaluations for part in parts),
        below_one=sum(part.below_one for part in parts),
        search={
            calls: float(share @ [part.search[calls] for part in parts])
            for calls in parts[0].search
            if all(calls in part.search for part in parts)
        },
    )


def _observe_block(who: Introduced, metric: FairMetric, bound: BoundMap, rows: slice) -> Gathered:
    x0, y = who.x[rows], who.y[rows]
    observed = observe(who.model, bound, metric, x0, y, row=np.arange(rows.start, rows.stop))
    outcomes, moved = observed.outcomes, observed.moved
    delta = moved.x - x0
    harm = outcomes.ratio
    if who.model.card.task == "regression":
        harm = outcomes.loss_after - outcomes.loss_before
    top = np.argsort(-np.nan_to_num(harm, nan=-np.inf), kind="stable")[:KEPT]
    return Gathered(
        outcomes=outcomes,
        worst=tuple(
            Case(float(harm[i]), rows.start + int(i), x0[i].copy(), moved.x[i].copy()) for i in top
        ),
        shift=delta.mean(axis=0),
        absolute_shift=np.abs(delta).mean(axis=0),
        evaluations=moved.evaluations,
        below_one=observed.below_one,
        search={calls: float(loss.mean()) for calls, loss in moved.trace.items()},
    )


def _describe(gathered: Gathered, who: Introduced, map: UnfairMap) -> Gathered:
    data, card = who.data, who.model.card
    outcomes = dataclasses.replace(
        gathered.outcomes,
        row=data.row,
        weight=data.weight,
        cluster=data.cluster,
        groups={name: as_levels(column) for name, column in data.protected.items()},
        about={
            "map": map.name,
            "task": card.task,
            "output": card.output,
            "classes": [str(value) for value in who.classes],
            "monotone": map.keeps_start and card.task == "classification" and len(who.classes) == 2,
        },
    )
    return dataclasses.replace(gathered, outcomes=outcomes)
