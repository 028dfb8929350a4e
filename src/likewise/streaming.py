"""The walk for people too many for memory: the same audit in pieces, journalled."""

import contextlib
import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.checks.choices import resolve
from likewise.checks.gather import Progress
from likewise.checks.introduce import Introduced, meet
from likewise.checks.joining import join
from likewise.checks.ladder import certified
from likewise.checks.means import Means
from likewise.checks.occurring import choose_for_everyone
from likewise.checks.pieces import MoveJob, read_sums
from likewise.checks.refit import counts
from likewise.checks.streamed import CHECKED, describe_joined
from likewise.checks.survey import Stream, Survey, learned_from_everyone, look
from likewise.data.encode import Encoder
from likewise.data.paths import expand
from likewise.data.scales import warn_about_scales
from likewise.errors import InvalidData, InvalidSettings, LikewiseWarning
from likewise.metrics.base import FairMetric
from likewise.metrics.saved import check_belongs, metric_fingerprint
from likewise.models import as_model, check, open_model
from likewise.models.performance import performance_of
from likewise.record import Record
from likewise.scale.crew import Task, work_through
from likewise.scale.identity import files_digest, library_versions, text_digest
from likewise.scale.journal import Journal
from likewise.scale.memory import plan_pieces
from likewise.settings import Settings

__all__ = ["Means", "audit_stream"]

ROWS = "rows of a piece"


def audit_stream(
    model: Any,
    paths: Sequence[str | Path],
    *,
    metric: FairMetric,
    settings: Settings,
    encoder: Encoder | None = None,
    trust: bool = False,
    outcomes: Path | None = None,
    redacted: bool = False,
    journal: Path | None = None,
    resume: bool = False,
    means: Means | None = None,
    progress: Progress | None = None,
    command: str = "",
    finish: Callable[[Record], object] | None = None,
) -> Record:
    """Audit people who do not fit into memory, in pieces that can be done anywhere.

    Row by row the same numbers as `likewise.audit`, and the same verdicts to 1e-12, whatever the
    number of workers, the order of work, or interruptions.

    Parameters
    ----------
    model
        The name of a model file, which every worker opens for itself; or a picklable model.
    paths
        Parquet or CSV files, patterns, or folders of them.
    metric
        Who counts as alike; learned beforehand, from other people.
    outcomes, redacted
        Where to write one row a person (Parquet), and whether to hide what identifies them.
    journal
        Folder for finished pieces, removed when the audit is complete. Without one a folder for
        temporary files is used, and nothing can be resumed.
    resume
        Continue the audit in that folder; refused if anything that matters has changed.
    means
        Workers, memory and the like.
    finish
        Given the record before the journal is removed: if writing the result fails, no piece is
        lost.
    """
    began, means = time.perf_counter(), means or Means()
    _check_settings(settings)
    model = means.share(model)
    if means.ray is not None:
        from likewise.scale.ray_crew import announce

        announce()
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always", LikewiseWarning)
        if journal is not None:
            Journal.expect(journal, resume=resume)
        opened = open_model(model, trust=trust) if isinstance(model, str) else model
        output = settings.columns.output
        raw = encoder is None and as_model(opened, output=output).front is not None
        stream = Stream(tuple(map(str, expand(paths))), settings, encoder, raw)
        known = look(stream, progress)
        about: dict[str, Any] = {
            "output": output,
            "encoder": encoder,
            "table": known.sample.table,
            "loss": settings.decide.loss,
            "protected": settings.columns.protected,
            "labels": known.sample.y,
            "positive": settings.columns.positive,
            "space": settings.model.space,
        }
        who = _introduce(as_model(opened, **about), known, metric, settings)
        about |= {"labels": None, "space": who.model.card.space or "auto"}
        settings = resolve(settings, who.model)
        same_sample = learned_from_everyone(metric, stream, known, who.model, progress)
        if same_sample:
            _check_uncertainty(settings, known.n)
        chosen, swaps = choose_for_everyone(settings, stream, known, who, metric, progress)
        chosen.bind(who.model, metric)
        chosen, certificate = certified(chosen, who, metric, n=known.n, seed=settings.seed)
        kept = journal is not None
        if journal is None:
            temporary = tempfile.TemporaryDirectory(prefix="likewise-")
            journal = Path(stack.enter_context(temporary))
        files = files_digest(stream.paths)
        address = getattr(model, "address", "")
        book, rows = _open(journal, files, stream, who, metric, settings, resume, means, address)
        about["table"] = None if known.sample.table is None else known.sample.table.slice(0, 64)
        job = MoveJob(model, trust, about, metric, swaps or chosen, who.classes, means.threads)
        _move_everyone(job, stream, book, rows, who, known, means, progress)
        provenance = {
            "settings_hash": settings.hash,
            "model": who.model.card.fingerprint,
            "metric": metric_fingerprint(metric),
            "data": files,
        }
        joined = join(
            book, known, who, settings, outcomes, provenance, redacted=redacted, progress=progress
        )
        record = describe_joined(
            joined,
            book,
            known,
            who,
            metric,
            chosen,
            settings,
            certificate=certificate,
            same_sample=same_sample,
            files=files,
            threads=means.threads,
            progress=progress,
        )
    said = tuple(str(w.message) for w in caught if issubclass(w.category, LikewiseWarning))
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    seconds = {"total": time.perf_counter() - began}
    update = {"warnings": said, "command": command, "seconds": seconds}
    record = record.model_copy(update=update)
    if finish is not None:
        finish(record)
    if kept:
        book.remove()
    return record


def _check_settings(settings: Settings) -> None:
    """Refuse what needs everyone at once, before anybody is read."""
    for name, asked in {
        "metric.crossfit": settings.metric.crossfit,
        "metric.refits": settings.metric.refits,
    }.items():
        if asked:
            raise InvalidSettings(
                f"{name} learns the metric again from the audited people, all at once; an audit in "
                "pieces never holds them together. Leave it out, or audit in memory."
            )


def _check_uncertainty(settings: Settings, n: int) -> None:
    """Refuse a verdict that would ignore what learning from the same people adds to its error."""
    if settings.checks.run == "full" and n > CHECKED and counts(settings, same_sample=True):
        raise InvalidSettings(
            f"The metric was learned from these very {n} people, so that its own uncertainty "
            "counts, which an audit in pieces cannot find. Learn the metric from other people, "
            'audit in memory, or take the metric as given (in the settings: metric = "fixed" '
            "under [decide])."
        )


def _introduce(model: Any, known: Survey, metric: FairMetric, settings: Settings) -> Introduced:
    """Check model, metric and a sample of the people against each other."""
    if known.n < 2:
        raise InvalidData(f"There are {known.n} people; a test needs at least 2.")
    people = meet(model, known.sample)
    y, classes = known.sample.y, ()
    if model.card.task == "classification":
        labels = np.array(list(known.labels), dtype=known.sample.y.dtype)
        _, classes = model.targets(labels, positive=settings.columns.positive)
    check(model, people.x, features=people.features, classes=classes)
    check_belongs(metric, people.features)
    if model.front is None and people.encoder is None:
        warn_about_scales(people.x, people.features, settings.map.get("lam", 50.0))
    x = np.ascontiguousarray(people.x, dtype=np.float64)
    targets = _targets(y, classes)
    return Introduced(model, people, x, targets, classes, performance_of(model, x, targets))


def _targets(y: Any, classes: tuple[Any, ...]) -> Any:
    """Return labels as indices of classes, or as numbers for a regression."""
    if not classes:
        try:
            return np.array(y, dtype=np.float64)
        except ValueError:
            raise InvalidData(
                "The model predicts a number, but the label column holds text."
            ) from None
    place = {value: index for index, value in enumerate(classes)}
    return np.array([place[value] for value in y.tolist()], dtype=np.int64)


def _open(
    folder: Path,
    files: str,
    stream: Stream,
    who: Introduced,
    metric: FairMetric,
    settings: Settings,
    resume: bool,
    means: Means,
    address: str,
) -> tuple[Journal, int]:
    """Open the journal, and settle how many rows a piece has."""
    before = Journal.begun(folder).get(ROWS) if resume else None
    plan = plan_pieces(
        who.x.shape[1],
        means.workers,
        means.max_memory,
        rows=int(before) if before else means.piece_rows,
    )
    encoder = "" if stream.encoder is None else stream.encoder.to_json()
    identity = {
        "settings": settings.hash,
        "model": who.model.card.fingerprint or f"{who.model.card.kind} {address}".strip(),
        "metric": metric_fingerprint(metric),
        "data": files,
        "encoder": text_digest(encoder),
        "versions": library_versions(),
        ROWS: str(plan.rows),
    }
    return Journal.open(folder, identity, resume=resume), plan.rows


def _move_everyone(
    job: MoveJob,
    stream: Stream,
    book: Journal,
    rows: int,
    who: Introduced,
    known: Survey,
    means: Means,
    progress: Progress | None,
) -> None:
    """Move whoever is not in the journal yet, and write them there."""
    sums = {number: read_sums(book.path(number)) for number in book.done()}
    done = {number for number, found in sums.items() if found is not None}
    count = sum(found["n"] for found in sums.values() if found is not None)
    if progress is not None:
        progress("moving people", count, known.n)
    if count == known.n:
        return
    crew = means.crew(job)
    try:
        for task, answer in work_through(_tasks(stream, rows, done, who), crew):
            assert answer.result is not None
            book.write(task.number, answer.result)
            count += len(task.content)
            if progress is not None:
                progress("moving people", count, known.n)
            means.check_memory(answer.memory)
    finally:
        crew.close()


def _tasks(stream: Stream, rows: int, done: set[int], who: Introduced) -> Iterator[Task]:
    for number, block in enumerate(stream.blocks(rows)):
        if number in done or not len(block):
            continue
        y = _targets(block.y, who.classes)
        seen = block if who.model.front is not None else meet(who.model, block)
        table = block.table if who.model.front is not None else None
        content = dataclasses.replace(seen, y=y, table=table, encoder=None)
        yield Task(number, int(block.row[0]), int(block.row[-1]), content)
