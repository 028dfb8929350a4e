"""Learns the fair metric from the audited people themselves, where none was given."""

from likewise.audit_data import AuditData
from likewise.data.sources import Source
from likewise.data.survey import Survey
from likewise.engine.meeting import as_seen
from likewise.engine.run_progress import Progress
from likewise.errors import InvalidData
from likewise.metrics.base import FairMetric
from likewise.metrics.learn import sensitive_subspace
from likewise.models.base import Model
from likewise.scale.executors import Executor
from likewise.settings import Settings


def learn_metric(
    model: Model,
    source: Source,
    known: Survey,
    people: AuditData,
    settings: Settings,
    run: Executor,
    progress: Progress | None = None,
) -> FairMetric:
    """Return the metric that is blind to what predicts the protected traits of everyone."""
    if not known.traits:
        raise InvalidData(
            "Without a fair metric, protected traits are needed to learn one. Name them with "
            "protected (--protected), or give a metric (--metric)."
        )
    if len(people) == known.n:
        return sensitive_subspace(people, **settings.learning, as_read=known.sample)
    everyone = everyone_of(source)
    return sensitive_subspace(as_seen(model, everyone), **settings.learning, as_read=everyone)


def everyone_of(source: Source) -> AuditData:
    """Return all people at once."""
    return source.rows(0, source.n_rows)[0]
