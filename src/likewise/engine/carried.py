"""Which free columns carry what counterparts found, and what follows if one of them may matter."""

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from likewise.data.arrow import column_groups
from likewise.data.pairs import Pairs
from likewise.engine.counterpart_audit import CounterpartFindings, CounterpartPlan
from likewise.engine.meeting import Progress
from likewise.engine.pool import plain
from likewise.engine.visiting import cluster_numbers
from likewise.errors import LikewiseError
from likewise.inference.column_shares import MOST_EXACT, ColumnShare, column_shares, parts_of
from likewise.inference.counterpart_verdict import TraitEvidence
from likewise.maps.counterparts import Counterparts
from likewise.models.base import targets
from likewise.statistics.honest_worst import honest
from likewise.statistics.visit_losses import VisitLosses

MOST_ROWS = 400_000
"""Rows that the model is asked about for each trait."""

MOST_MOVED = 6
"""Free columns that are tried among those that may matter: those that carry most."""


def with_columns_that_carry(
    plan: CounterpartPlan, found: CounterpartFindings, progress: Progress | None
) -> CounterpartFindings:
    """Add, for every trait, which free columns carry it, and what if one of them may matter."""
    shares = {trait: carried(plan, trait, progress) for trait in plan.pairs}
    return dataclasses.replace(
        found,
        carried=shares,
        moved_in={trait: moved_in(plan, trait, shares[trait], progress) for trait in plan.pairs},
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Judged:
    """Visits by the worst other group, one row each.

    Parameters
    ----------
    person
        Place of the person in the sample.
    own, other
        Rows of the two members in the pool.
    pair, share
        The pair, and how much the visit counts for the person.
    """

    person: Int[np.ndarray, " r"]
    own: Int[np.ndarray, " r"]
    other: Int[np.ndarray, " r"]
    pair: Int[np.ndarray, " r"]
    share: Float[np.ndarray, " r"]


def carried(
    plan: CounterpartPlan, trait: str, progress: Progress | None = None
) -> tuple[ColumnShare, ...]:
    r"""Share out what is found about a trait among the free columns that the model reads.

    As in the audit the worst other group is chosen on one half of the visits; in the other half
    groups of columns C come from the member k of that group, and the rest from the member j of the
    own group: :math:`\ell(f(x_{iL}, x_{kC}, x_{j, F \setminus C}), y_i)`. With no column from k
    that is the yardstick, with all of them the audit itself. Mixtures of two members may not occur.
    """
    pairs = plan.pairs[trait]
    free = [name for name in plan.ask.columns if name not in pairs.may_matter]
    groups = column_groups(plan.pool.table, free)
    if not groups:
        return ()
    cost = 2 ** len(groups) if len(groups) <= MOST_EXACT else 4 * (len(groups) + 1)
    visits = min(plan.question.m, max(4, MOST_ROWS // (cost * 500)))
    rng = np.random.default_rng([plan.settings.seed, 16])
    size = max(100, MOST_ROWS // (cost * visits))
    order = rng.permutation(len(plan.people))[:size]
    people = plan.people.take(np.sort(order))
    assert people.table is not None
    table = plain(people.table)
    y = targets(people.y, plan.classes) if plan.loss.labelled else None
    bound = plan.question.bind(
        plan.ask, plan.loss.of_person, pairs, plan.pool.table, table.schema, plan.ask.columns
    )
    losses = bound(table, label=y, weight=people.weight, cluster=cluster_numbers(people.cluster))
    judged = _judged(losses, pairs, visits)
    if not len(judged.person):
        return ()
    names = list(groups)
    done = 0

    def ask(rows: Int[np.ndarray, " k"], mask: Bool[np.ndarray, "k g"]) -> Float[np.ndarray, " k"]:
        nonlocal done
        who = judged.person[rows]
        columns: dict[str, Any] = {}
        for name in plan.ask.columns:
            g = next((g for g, group in enumerate(groups.values()) if name in group), None)
            if g is None:
                columns[name] = table[name].take(pa.array(who))
            else:
                source = np.where(mask[:, g], judged.other[rows], judged.own[rows])
                columns[name] = plan.pool.table[name].take(pa.array(source))
        done += 1
        if progress is not None:
            progress(f"which columns carry it ({trait})", done, cost + 1)
        out = plan.ask(pa.table(columns))
        return plan.loss.of_person(out, None if y is None else y[who])

    parts = parts_of(ask, len(judged.person), len(groups), rng)
    known = losses.own >= 0
    yardstick = honest(losses.after, losses.before).before
    return column_shares(
        names,
        parts,
        level=float(losses.weight[known] @ yardstick[known]),
        weight=losses.weight[judged.person] * judged.share,
        unit=losses.cluster[judged.person],
        pair=judged.pair,
        inflation=visits / (visits - 2),
        alpha=plan.settings.alpha,
    )


def _judged(losses: VisitLosses, pairs: Pairs, visits: int) -> _Judged:
    """Return the visits that are judged: of whoever seems served worse on the other half."""
    found = []
    rows = np.arange(len(losses))
    for half in (0, 1):
        gain = (losses.after - losses.before)[:, :, half::2].mean(axis=2)
        worst = gain.argmax(axis=1)
        harmed = (gain[rows, worst] > 0) & (losses.own >= 0) & (losses.pair[:, 0, 0] >= 0)
        who = np.flatnonzero(harmed)
        taken = losses.pair[who, worst[who], 1 - half :: 2][:, : visits // 2]
        side = (losses.own[who] > losses.other[who, worst[who]]).astype(np.int64)
        members = pairs.rows[taken]
        places = np.arange(len(who))
        found.append(
            (
                np.repeat(who, taken.shape[1]),
                members[places, :, side].reshape(-1),
                members[places, :, 1 - side].reshape(-1),
                taken.reshape(-1),
            )
        )
    person, own, other, pair = (np.concatenate(x) for x in zip(*found, strict=True))
    return _Judged(person, own, other, pair, np.full(len(person), 1 / visits))


def moved_in(
    plan: CounterpartPlan, trait: str, shares: tuple[ColumnShare, ...], progress: Progress | None
) -> dict[str, TraitEvidence]:
    """Ask again with free columns among those that may matter, one at a time.

    Only columns in which pairs can be found: nobody is both a husband and a woman.
    """
    pairs = plan.pairs[trait]
    questions: dict[str, tuple[Counterparts, Pairs]] = {}
    tried = [one.column for one in shares if one.column not in plan.known.traits]
    for column in tried[:MOST_MOVED]:
        if column not in plan.pool.table.column_names:
            continue
        other = dataclasses.replace(
            plan.question, may_matter=(*pairs.may_matter, column), free=None
        )
        try:
            questions[column] = other, other.pairs(plan.pool.table, trait, plan.pool.cluster)
        except LikewiseError:
            continue
    visited = plan.visits(questions, progress) if questions else {}
    return {
        column: plan.evidence(trait, found, visited[column])
        for column, (_, found) in questions.items()
    }
