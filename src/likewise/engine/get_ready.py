"""From what was handed over to a plan: find the people, look at them once, fit all together."""

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.audit_data import AuditData
from likewise.data.sources import Source, as_source
from likewise.data.survey import SAMPLE, Survey, SurveyJob, total
from likewise.engine.meeting import Progress, share_calls
from likewise.engine.plan import Plan
from likewise.engine.prepare import prepare
from likewise.errors import MissingValues
from likewise.inference.ratio_test import RatioTest
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.models import answers_gaps, as_model, open_model, takes_gaps
from likewise.scale.executors import Executor, Inline, Threads
from likewise.settings import Settings
from likewise.settings.choices import MAPS, check_names, note


def chosen(
    settings: Settings | None,
    map: Any,
    checks: str | Sequence[str] | None,
    output: str | None,
    *,
    tests: Sequence[RatioTest] = (),
    trust: bool = False,
) -> Settings:
    """Return the settings with what was named beside them; all names stand for something."""
    named: dict[str, Any] = {
        "map": map if isinstance(map, str) else None,
        "columns__output": output,
        "checks": checks if checks is None or isinstance(checks, str) else tuple(checks),
    }
    if map is not None and MAPS.name_of(type(map)) == "counterparts":
        named["map"] = note(MAPS, map).model_dump(exclude_none=True)
    given = {name: value for name, value in named.items() if value is not None}
    settings = (settings or Settings()).changed(**given)
    handed = {"map": map is not None and not named["map"], "tests": bool(tests)}
    check_names(settings, [what for what, over in handed.items() if over], trust=trust)
    return settings


def get_ready(
    model: Any,
    people: Any,
    *,
    metric: FairMetric | None,
    map: UnfairMap | str | None,
    settings: Settings,
    stack: contextlib.ExitStack,
    tests: Sequence[RatioTest] = (),
    run: Executor = Threads(),  # noqa: B008
    trust: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """Find the people and look at all of them once; then see whether everything fits together."""
    model, opened = open_shared(model, run, trust=trust)
    folder = shared_folder(run, stack)
    source = find_people(people, opened, settings)
    source = source if folder is None else source.shared(folder)
    source, known = look_at(source, opened, settings, run, progress)
    return prepare(
        model,
        opened,
        source.knowing(known),
        known,
        metric=metric,
        map=None if isinstance(map, str) else map,
        tests=tests,
        settings=settings,
        run=run,
        trust=trust,
        progress=progress,
    )


def open_shared(model: Any, run: Executor, *, trust: bool) -> tuple[Any, Any]:
    """Return the model as workers are told of it, and as it is in this process."""
    model = share_calls(model, run)
    return model, open_model(model, trust=trust) if isinstance(model, str) else model


def shared_folder(run: Executor, stack: contextlib.ExitStack) -> Path | None:
    """Return a folder that all workers can read, unless they are threads of this process."""
    if not run.processes and isinstance(run, Inline | Threads):
        return None
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="likewise-")))


def find_people(people: Any, model: Any, settings: Settings) -> Source:
    """Return where the people are, read as the settings say."""
    columns = settings.columns
    if isinstance(people, AuditData):
        return as_source(people)
    source = (
        people
        if isinstance(people, Source)
        else as_source(
            people,
            label=columns.label,
            raw=as_model(model, output=columns.output).front is not None,
            unlabelled=settings.decide.favourable is not None,
            **columns.reading,
        )
    )
    filled = source.filled() if columns.drop_missing else None
    if filled is not None and answers_gaps(model, filled.rows(0, SAMPLE)[0]):
        return filled
    return source


def look_at(
    source: Source, opened: Any, settings: Settings, run: Executor, progress: Progress | None
) -> tuple[Source, Survey]:
    """Look at everyone; where values are missing, as columns if the model takes them so."""
    try:
        return source, look(source, settings.seed, run, progress)
    except MissingValues:
        raw = source.raw()
        if raw is None or not takes_gaps(opened):
            raise
        return raw, look(raw, settings.seed, run, progress)


def look(source: Source, seed: int, run: Executor, progress: Progress | None) -> Survey:
    """Look at everyone once, before anybody is moved: a bad row is found now."""
    job = SurveyJob(source, seed)
    tasks = list(job.tasks())
    if len(tasks) < 2:
        return source.survey(seed)
    parts = []
    for task, part in run.map(job, tasks):
        parts.append(part)
        if progress is not None:
            progress("reading people", task.stop, source.n_rows)
    return total(iter(parts))
