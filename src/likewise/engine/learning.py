"""Learns the fair metric from the audited people themselves, where none was given."""

from likewise.audit_data import AuditData
from likewise.data.sources import Source
from likewise.data.survey import Survey, SurveyJob, total
from likewise.engine.meeting import as_seen
from likewise.engine.run_progress import Progress
from likewise.errors import InvalidData
from likewise.metrics.base import FairMetric
from likewise.metrics.learn import sensitive_subspace
from likewise.models.base import Model
from likewise.scale.executors import Executor
from likewise.settings import Settings

MOST = 200_000
"""People that a metric is learned from; more would hardly change it, and its origin says so."""


def learn_metric(
    model: Model,
    source: Source,
    known: Survey,
    people: AuditData,
    settings: Settings,
    run: Executor,
    progress: Progress | None = None,
) -> FairMetric:
    """Return the metric that is blind to what predicts the protected traits of everyone.

    Of very many people, a random sample teaches it; its origin says how large that was.
    """
    if not known.traits:
        raise InvalidData(
            "Without a fair metric, protected traits are needed to learn one. Name them with "
            "protected (--protected), or give a metric (--metric)."
        )
    if len(people) == known.n:
        return sensitive_subspace(people, **settings.learning, as_read=known.sample)
    drawn = some_of(source, settings.seed, run, progress)
    return sensitive_subspace(as_seen(model, drawn), **settings.learning, as_read=drawn)


def some_of(
    source: Source, seed: int, run: Executor, progress: Progress | None = None
) -> AuditData:
    """Return everyone, or as many people drawn at random as a metric is learned from."""
    job = SurveyJob(source, seed, MOST)
    tasks, parts = list(job.tasks()), []
    for _, part in run.map(job, tasks):
        parts.append(part)
        if progress is not None:
            progress("drawing people", len(parts), len(tasks))
    return total(iter(parts)).sample
