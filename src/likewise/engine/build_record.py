"""From what was added up to the record: everything a report shows and a repeat needs."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import math
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from likewise.audit_data import AuditData
from likewise.data.survey import Survey, sentinel_notes
from likewise.engine.decide import Judgement
from likewise.engine.move_stats import MoveStats, worst_cases
from likewise.engine.plan import Finding, Plan
from likewise.engine.variants import DECIDES
from likewise.metrics.metric_file import metric_fingerprint
from likewise.models.base import ModelCard
from likewise.models.space import WORDS
from likewise.outcomes import troubles
from likewise.record import (
    DataRecord,
    DecidedBy,
    FeatureShift,
    MetricRecord,
    ModelRecord,
    Record,
)
from likewise.report.verdict_words import sentence
from likewise.statistics.frame import TraitLevels
from likewise.statistics.order_statistics import QuantileSketch

SHOWN_CASES = 10
SHOWN_SHIFTS = 30
SHOWN_LOADINGS = 10
BINS = 40
OUTSIDE = "outside_observed_ranges"
SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
LIBRARIES = ("likewise", "numpy", "scipy", "scikit-learn", "torch")


def build_record(
    plan: Plan,
    stats: Mapping[str, MoveStats],
    judgement: Judgement,
    findings: Sequence[Finding],
    *,
    warnings: tuple[str, ...] = (),
    command: str = "",
    seconds: float = 0.0,
) -> Record:
    """Put everything into the record."""
    found, deciding = stats[DECIDES], judgement.deciding
    card, people = plan.model.card, plan.people
    reasons = (
        *_uncertified(plan),
        *troubles(found.tally.status.counts()),
        *(reason for finding in findings for reason in finding.reasons),
    )
    parts = joined(
        [
            {"diagnostics": {"mean_fair_distance": float(found.tally.fair_distance.value[0])}},
            *(finding.record for finding in findings),
        ]
    )
    refitted = any(refit.used for refit in parts.get("refits", {}).values())
    this_metric = not refitted and plan.metric.origin is not None and plan.map.goes_by_metric
    counts = found.tally.status.counts()
    record = Record(
        likewise_version=importlib.metadata.version("likewise"),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        outcome=deciding.outcome,
        sentence=sentence(deciding, this_metric),
        trustworthy=not reasons,
        reasons=reasons,
        decided_by=DecidedBy(
            map=deciding.map,
            test=deciding.test,
            interval=_interval(deciding.method),
            metric="refitted" if refitted else "fixed",
            claim=plan.map.claim if deciding.map == plan.map.name else "",
        ),
        tests=judgement.records,
        rows={"n": found.n, **counts, "below_one": found.below_one, OUTSIDE: found.outside},
        certificate=None if plan.certificate is None else plan.certificate.record(),
        search=found.search,
        distribution=distribution(found.tally.spread),
        delta_curve=judgement.delta_curve,
        worst=worst_cases(found.worst, people, SHOWN_CASES),
        shifts=shifts(found, people.features),
        warnings=warnings,
        skipped=tuple(words for finding in findings for words in finding.skipped),
        model=model_record(
            card,
            plan.classes,
            len(people.features),
            clipped=found.clipped if card.output == "probabilities" or card.bounded else 0,
            fed=WORDS.get(card.space, ""),
            balanced_accuracy=plan.performance.balanced_accuracy,
            auc=plan.performance.auc if plan.classes else math.nan,
        ),
        data=data_record(
            plan.known,
            people,
            source=plan.source.name,
            features=people.features,
            label=plan.settings.columns.label,
            labels=plan.known.labels if plan.classes else {},
            clusters=0 if people.cluster is None else found.tally.clusters.count,
        ),
        metric=metric_record(plan),
        settings=plan.settings,
        settings_hash=plan.settings.hash,
        command=command,
        versions=versions(),
        seconds={"total": seconds},
        **parts,
    )
    return record.model_copy(update={"groups": record.judged_groups()})


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join parts of a record: tuples one after another, dictionaries into one."""
    whole: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name not in whole:
                whole[name] = value
            elif isinstance(value, dict):
                whole[name] = {**whole[name], **value}
            else:
                whole[name] = whole[name] + value
    return whole


def _uncertified(plan: Plan) -> tuple[str, ...]:
    certificate = plan.certificate
    if certificate is not None and not certificate.certified:
        return (
            "the numerical error of the flow could not be certified; shorten its time, or bound it "
            "by the reach (map.bounded)",
        )
    if certificate is None or not certificate.cap_reached:
        return ()
    return (
        f"after {certificate.evaluations} gradients a person the flow may still be off by "
        f"{certificate.error_in_se:.2g} standard errors; shorten its time, or bound it by the "
        "reach (map.bounded)",
    )


def _interval(method: str) -> str:
    """Return the name that settings have for a method, as it stands in front of its details."""
    name = re.split("[,;]", method)[0]
    return name.lower().replace("mid-p", "midp").replace("-", "_").replace(" ", "_")


def model_record(
    card: ModelCard, classes: Sequence[Any], n_features: int, **seen: Any
) -> ModelRecord:
    """Describe the model; ``seen`` is what else is known of it."""
    return ModelRecord(
        kind=card.kind,
        task=card.task,
        output=card.output,
        classes=tuple(map(str, classes)),
        n_features=n_features,
        sha256=card.fingerprint,
        **seen,
    )


def data_record(
    known: Survey,
    people: AuditData,
    *,
    source: str,
    features: Sequence[str],
    label: str | None,
    labels: Mapping[Any, int],
    clusters: int = 0,
) -> DataRecord:
    """Describe the people.

    Parameters
    ----------
    people
        Some of them, with their original columns if there are any.
    labels
        How often each class occurs, if there are classes.
    """
    levels = {name: TraitLevels.of(counts) for name, counts in known.traits.items()}
    codes = () if people.table is None else sentinel_notes(people.table)
    return DataRecord(
        source=source,
        n=known.n,
        features=tuple(features),
        label=label or "",
        classes=dict(sorted((str(value), count) for value, count in labels.items())),
        protected={
            name: dict(sorted(zip(at.names, at.counts, strict=True), key=lambda pair: -pair[1]))
            for name, at in levels.items()
        },
        missing=dict(known.gaps),
        dropped=dict(known.dropped),
        weighted=people.weight is not None,
        notes=(*people.notes, *codes),
        clusters=clusters,
        sha256=known.fingerprint,
    )


def metric_record(plan: Plan) -> MetricRecord:
    """Describe the fair metric."""
    metric, features = plan.metric, plan.people.features
    return MetricRecord(
        kind=type(metric).__name__,
        learned=metric.origin is not None,
        dimension=len(features),
        directions=tuple(_loadings(row, features) for row in metric.free),
        origin={} if metric.origin is None else dataclasses.asdict(metric.origin),
        same_sample=plan.same_sample,
        sha256=metric_fingerprint(metric),
    )


def _loadings(direction: np.ndarray, features: Sequence[str]) -> dict[str, float]:
    order = np.argsort(-np.abs(direction), kind="stable")[:SHOWN_LOADINGS]
    return {features[j]: float(direction[j]) for j in order}


def distribution(spread: QuantileSketch) -> dict[str, tuple[float, ...]]:
    """Return quantiles of the loss ratios (to one per cent), and their histogram on a log scale."""
    if not spread.n:
        return {}
    edges, counts = spread.histogram(BINS)
    return {
        "shares": SHARES,
        "quantiles": tuple(spread.quantile(share) for share in SHARES),
        "edges": tuple(map(float, edges)),
        "counts": tuple(map(float, counts)),
    }


def shifts(found: MoveStats, features: Sequence[str]) -> tuple[FeatureShift, ...]:
    """Return the features the map pushes most."""
    if found.shifts is None:
        return ()
    mean, absolute = found.shifts.signed.value, found.shifts.absolute.value
    order = np.argsort(-absolute, kind="stable")[:SHOWN_SHIFTS]
    return tuple(
        FeatureShift(feature=features[j], mean_absolute=float(absolute[j]), mean=float(mean[j]))
        for j in order
    )


def versions() -> dict[str, str]:
    """Return the versions of what computed the result."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
