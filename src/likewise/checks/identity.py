"""Who and what was audited, with hashes, so that an audit can be repeated and checked."""

import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import math
import platform
from collections import Counter
from collections.abc import Sequence

import numpy as np

from likewise.checks.introduce import Introduced
from likewise.checks.levels import as_levels
from likewise.checks.refit import learned_from
from likewise.losses import CLIP
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.saved import metric_fingerprint
from likewise.models.space import WORDS
from likewise.outcomes import Outcomes
from likewise.people import AuditData
from likewise.record import DataRecord, MetricRecord, ModelRecord, OriginRecord

SHOWN_LOADINGS = 10


def model_record(who: Introduced, outcomes: Outcomes) -> ModelRecord:
    """Describe the model."""
    card, found = who.model.card, who.performance
    return ModelRecord(
        kind=card.kind,
        task=card.task,
        output=card.output,
        classes=tuple(map(str, who.classes)),
        n_features=who.x.shape[1],
        sha256=card.fingerprint,
        clipped=_clipped(outcomes) if card.output == "probabilities" else 0,
        fed=WORDS.get(card.space, ""),
        balanced_accuracy=math.nan if found is None else found.balanced_accuracy,
        auc=math.nan if found is None or not who.classes else found.auc,
    )


def _clipped(outcomes: Outcomes) -> int:
    p = outcomes.probability_before
    return int(((p < CLIP) | (p > 1 - CLIP)).sum())


def data_record(who: Introduced, label: str) -> DataRecord:
    """Describe the people."""
    data = who.data
    labels = Counter(map(str, data.y.tolist())) if who.classes else {}
    return DataRecord(
        source=data.source,
        n=len(data),
        features=data.features,
        label=label,
        classes=dict(sorted(labels.items())),
        protected={name: counts(as_levels(column)) for name, column in data.protected.items()},
        missing=data.missing_traits(),
        dropped=dict(data.dropped),
        weighted=data.weight is not None,
        notes=data.notes,
        clusters=0 if data.cluster is None else len(set(data.cluster.tolist())),
        sha256=data.fingerprint(),
    )


def metric_record(metric: FairMetric, data: AuditData) -> MetricRecord:
    """Describe the fair metric."""
    free = metric.free if isinstance(metric, QuadraticForm) else np.zeros((0, 1))
    origin = metric.origin if isinstance(metric, ProjectionMetric) else None
    return MetricRecord(
        kind=type(metric).__name__,
        learned=origin is not None,
        dimension=len(data.features),
        directions=tuple(_loadings(row, data.features) for row in free),
        origin=OriginRecord.model_validate({} if origin is None else dataclasses.asdict(origin)),
        same_sample=learned_from(metric, data),
        sha256=_fingerprint(metric),
    )


def _fingerprint(metric: FairMetric) -> str:
    if isinstance(metric, QuadraticForm):
        return metric_fingerprint(metric)
    # A metric of one's own cannot be saved; its name and parameters must do.
    kind = type(metric)
    text = f"{kind.__module__}.{kind.__qualname__} {sorted(vars(metric).items())}"
    return hashlib.sha256(text.encode()).hexdigest()


def _loadings(direction: np.ndarray, features: Sequence[str]) -> dict[str, float]:
    order = np.argsort(-np.abs(direction), kind="stable")[:SHOWN_LOADINGS]
    return {features[j]: float(direction[j]) for j in order}


def counts(column: np.ndarray) -> dict[str, int]:
    """Count the values of a trait, the most frequent first; missing ones are counted apart."""
    return dict(Counter(value for value in column.tolist() if value is not None).most_common())


def versions() -> dict[str, str]:
    """Return the versions of what computed the result, as far as it is installed."""
    found = {"python": platform.python_version()}
    for name in ("likewise", "numpy", "scipy", "scikit-learn", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
