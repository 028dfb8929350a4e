"""The walk of an audit by counterparts: people, pool, pairs, visits, verdict."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from likewise.audit_data import AuditData
from likewise.data.sources import PeopleSource, Source
from likewise.engine.carried import with_columns_that_carry
from likewise.engine.counterpart_audit import (
    CounterpartPlan,
    ask_counterparts,
    prepare_counterparts,
)
from likewise.engine.counterpart_record import build_counterpart_record
from likewise.engine.get_ready import find_people, look_at, open_shared, shared_folder
from likewise.engine.meeting import Progress, noted_warnings
from likewise.engine.pool import Pool, divide, read_pool
from likewise.engine.prepare import unlabelled
from likewise.engine.served_worst import served_worst
from likewise.engine.visits_table import visits_table
from likewise.errors import LikewiseError, in_short
from likewise.record import Record
from likewise.scale.executors import Executor, Threads
from likewise.settings import Settings
from likewise.settings.choices import MAPS, make


@dataclasses.dataclass(frozen=True, eq=False)
class Compared:
    """What comparing people with counterparts found.

    Parameters
    ----------
    people
        Some of the people, in original columns.
    visits
        One row a person and trait: the losses that decide.
    below
        The audit of the same people by another map, if there is one.
    """

    record: Record
    people: AuditData
    visits: pa.Table
    below: Any


def compare_with_counterparts(
    model: Any,
    people: Any,
    *,
    pool: Any,
    settings: Settings,
    run: Executor,
    trust: bool,
    progress: Progress | None,
    command: str,
    move: Callable[[Source, Settings], Any],
) -> Compared:
    """Compare people with real people of other groups, and audit them by another map below.

    Parameters
    ----------
    move
        Audits people by the map that would decide if no columns were named; its ``record`` stands
        below, and decides nothing. Where it cannot be done, that is said and no more.
    """
    began = time.perf_counter()
    with noted_warnings() as said, contextlib.ExitStack() as stack:
        plan = get_counterparts_ready(
            model,
            people,
            pool=pool,
            settings=settings,
            run=run,
            trust=trust,
            progress=progress,
            stack=stack,
        )
        everything = settings.checks.run != "core"
        found = ask_counterparts(plan, progress, everything=everything)
        if everything:
            found = with_columns_that_carry(plan, found, progress)
            worst = [one for trait in plan.pairs for one in served_worst(plan, trait)]
            found = dataclasses.replace(found, subgroups=tuple(worst))
        below, skipped = None, ""
        if everything and unlabelled(settings):
            skipped = "moves under a fair metric (no label)"
        elif everything:
            try:
                below = move(plan.source, settings_below(plan))
            except LikewiseError as error:
                skipped = f"moves under a fair metric ({in_short(error)})"
        record = build_counterpart_record(
            plan,
            found,
            None if below is None else below.record,
            skipped=(skipped,) if skipped else (),
            warnings=said(),
            command=command,
            seconds=time.perf_counter() - began,
        )
    return Compared(record, plan.people, visits_table(plan, found), below)


def rehearse_counterparts(
    model: Any, people: Any, *, pool: Any, settings: Settings, trust: bool
) -> str:
    """Check everything, find the pairs, ask about nobody, and say what would be done."""
    with contextlib.ExitStack() as stack:
        plan = get_counterparts_ready(
            model,
            people,
            pool=pool,
            settings=settings,
            trust=trust,
            stack=stack,
        )
        calls = [
            plan.known.n * (len(p.groups) - 1) * 2 * plan.question.m for p in plan.pairs.values()
        ]
    pairs = ", ".join(f"{len(found.rows)} for {trait}" for trait, found in plan.pairs.items())
    lines = [
        f"Model: {plan.model.card.kind}",
        f"People: {plan.known.n} from {plan.source.name}",
        f"Pool: {plan.pool.table.num_rows} from {plan.pool.name}",
        f"May matter: {', '.join(plan.question.may_matter or ()) or 'nothing'}",
        f"Pairs: {pairs}",
        f"Settings {plan.settings.hash[:12]}; at most {sum(calls)} rows for the model.",
        "Everything fits together. Nobody was visited.",
    ]
    return "\n".join(lines)


def settings_below(plan: CounterpartPlan) -> Settings:
    """Return how the same people are moved under a fair metric: what may matter is held."""
    read = plan.ask.columns
    held = tuple(name for name in plan.question.may_matter or () if name in read)
    return plan.settings.changed(
        map="auto", checks=("flow_beside", "placebo"), columns__may_matter=held
    )


def get_counterparts_ready(
    model: Any,
    people: Any,
    *,
    pool: Any,
    settings: Settings,
    stack: contextlib.ExitStack,
    run: Executor = Threads(),  # noqa: B008
    trust: bool = False,
    progress: Progress | None = None,
) -> CounterpartPlan:
    """Find people and pool (a half of the people, if none is given), and the pairs of the pool."""
    model, opened = open_shared(model, run, trust=trust)
    source = find_people(people, opened, settings)
    question = make(MAPS, settings.map, shared={"seed": settings.seed})
    half: Pool | None = None
    if pool is None:
        everyone, _ = source.rows(0, source.n_rows)
        audited, half = divide(everyone, settings.seed, settings.columns.cluster)
        source = PeopleSource.of(audited)
    folder = shared_folder(run, stack)
    source = source if folder is None else source.shared(folder)
    source, known = look_at(source, opened, settings, run, progress)
    sample = known.sample.in_columns().table
    assert sample is not None
    return prepare_counterparts(
        model,
        opened,
        source.knowing(known),
        known,
        pool=half or read_pool(pool, sample, settings.columns.cluster),
        question=question,
        settings=settings,
        run=run,
        trust=trust,
    )
