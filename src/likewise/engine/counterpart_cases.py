"""The people served worst, beside the real pair that visited them, in original columns."""

import math
from typing import Any

import numpy as np
import pyarrow as pa

from likewise.engine.counterpart_audit import CounterpartFindings, CounterpartPlan
from likewise.engine.pool import plain
from likewise.engine.prepare import unlabelled
from likewise.inference.counterpart_verdict import WorstServed
from likewise.losses import probabilities
from likewise.record import CounterpartCase

SHOWN = 10


def worst_served(plan: CounterpartPlan, found: CounterpartFindings) -> tuple[CounterpartCase, ...]:
    """Return the people served worst over all traits, beside the pairs that visited them."""
    rows = [(trait, row) for trait in plan.pairs for row in rows_of(plan, trait, found)]
    rows.sort(key=lambda case: (case[1][0].mean_before - case[1][0].mean_after, case[1][0].row))
    if not rows:
        return ()
    asked = [
        with_member(plan, person, member, trait)
        for trait, (_, _, person, *pair) in rows[:SHOWN]
        for member in (None, *pair)
    ]
    out = plan.ask(pa.concat_tables(asked))
    return tuple(
        _case(plan, trait, out[3 * i : 3 * i + 3], *row)
        for i, (trait, row) in enumerate(rows[:SHOWN])
    )


def _case(
    plan: CounterpartPlan,
    trait: str,
    out: np.ndarray,
    worst: WorstServed,
    label: str,
    person: pa.Table,
    own: pa.Table,
    other: pa.Table,
) -> CounterpartCase:
    """Describe a person as they are, and as both members of the pair visit them.

    Parameters
    ----------
    out
        The model's outputs for the three.
    """
    (was, _), (before, p_before), (after, p_after) = (decision(plan, row[None]) for row in out)
    place = _followed(plan, label)
    same = ("row", "own", "other", "loss", "before", "after", "mean_before", "mean_after")
    return CounterpartCase(
        trait=trait,
        label="" if unlabelled(plan.settings) else label,
        decision=was,
        decision_before=before,
        decision_after=after,
        probability_before=_at(p_before, place),
        probability_after=_at(p_after, place),
        person=_values(person),
        own_member=_values(own.select(_shown(own, plan))),
        other_member=_values(other.select(_shown(other, plan))),
        **{name: getattr(worst, name) for name in same},
    )


def _followed(plan: CounterpartPlan, label: str) -> int | None:
    """Return the class whose probability is shown: the favourable one, or the true one."""
    names = [str(name) for name in plan.classes]
    wanted = plan.loss.favourable or label
    return names.index(wanted) if wanted in names else None


def _at(row: Any, place: int | None) -> float:
    return math.nan if row is None or place is None else float(row[place])


def _shown(table: pa.Table, plan: CounterpartPlan) -> list[str]:
    return [name for name in table.column_names if name != plan.pool.cluster]


def _values(row: pa.Table) -> dict[str, Any]:
    values: dict[str, Any] = row.to_pylist()[0]
    plain = (bool, int, float, str)
    return {k: v if v is None or isinstance(v, plain) else str(v) for k, v in values.items()}


def rows_of(plan: CounterpartPlan, trait: str, findings: CounterpartFindings) -> list[Any]:
    """Return the worst served of a trait with their label, their row, and the pair's two rows."""
    kept = {row: (label, table) for row, label, table in findings.visited[trait].worst}
    pairs, pool = plan.pairs[trait], plan.pool.table
    shown = []
    for worst in findings.evidence[trait].worst:
        if worst.mean_after <= worst.mean_before or worst.row not in kept:
            continue
        first, second = (int(place) for place in pairs.rows[worst.pair])
        own_first = worst.own == pairs.groups[int(pairs.between[worst.pair][0])]
        own, other = (first, second) if own_first else (second, first)
        label, person = kept[worst.row]
        shown.append((worst, label, person, pool.slice(own, 1), pool.slice(other, 1)))
    return shown


def with_member(
    plan: CounterpartPlan, person: pa.Table, member: pa.Table | None, trait: str
) -> pa.Table:
    """Return what the model reads of a person, with the free columns of a member of the pool."""
    names = [name for name in person.column_names if name in plan.ask.columns]
    kept, free = set(plan.pairs[trait].may_matter), person if member is None else member
    return plain(pa.table({name: (person if name in kept else free)[name] for name in names}))


def decision(plan: CounterpartPlan, out: np.ndarray) -> tuple[str, Any]:
    """Return a decision in words, and everyone's probability of the classes (or the value)."""
    if plan.model.card.task == "regression":
        return f"{float(out[0, 0]):.6g}", None
    row = probabilities(out, plan.model.card.output)[0]
    threshold = plan.loss.threshold
    favourable = plan.loss.favourable
    if len(row) == 2 and not math.isnan(threshold):
        wanted = [str(c) for c in plan.classes].index(favourable) if favourable else 1
        place = wanted if row[wanted] > threshold else 1 - wanted
    else:
        place = int(row.argmax())
    return str(plan.classes[place]), row
