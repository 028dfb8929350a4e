"""From what was found to the record: everything a report shows and a repeat needs."""

import dataclasses
import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.checks import describe, identity
from likewise.checks.certificate import Certificate
from likewise.checks.diagnose import Found
from likewise.checks.gather import Case, Gathered
from likewise.checks.introduce import Introduced
from likewise.metrics.base import FairMetric
from likewise.outcomes import Outcomes
from likewise.people import AuditData
from likewise.record import DecidedBy, FeatureShift, Record, WorstCase
from likewise.report.words import sentence
from likewise.settings import Settings

SHOWN_CASES = 10
SHOWN_SHIFTS = 30


def write(
    who: Introduced,
    metric: FairMetric,
    gathered: Gathered,
    found: Found,
    settings: Settings,
    *,
    certificate: Certificate | None = None,
    warnings: tuple[str, ...],
    command: str,
    seconds: float,
) -> Record:
    """Put everything into the record."""
    deciding = found.judged.deciding
    counts_by_status = gathered.outcomes.counts()
    return Record(
        likewise_version=importlib.metadata.version("likewise"),
        created=identity.now(),
        outcome=deciding.outcome,
        sentence=sentence(deciding),
        trustworthy=not found.reasons,
        reasons=found.reasons,
        decided_by=DecidedBy(
            map=deciding.map,
            test=deciding.test,
            interval=_interval(deciding.method),
            metric="refitted" if found.refitted is not None and found.refitted.used else "fixed",
        ),
        tests=found.judged.records,
        beside=found.beside,
        rows={"n": len(gathered.outcomes), **counts_by_status, "below_one": gathered.below_one},
        certificate=None if certificate is None else certificate.record(),
        horizons=found.horizons,
        search=dict(gathered.search),
        refits=found.refitted.records(settings.alpha) if found.refitted is not None else {},
        diagnostics=dict(found.diagnostics),
        distribution=describe.distribution(gathered.outcomes),
        groups=found.groups,
        measures=found.measures,
        sensitivity=found.sensitivity,
        delta_curve=found.judged.delta_curve,
        worst=worst_cases(gathered, who.data, SHOWN_CASES),
        shifts=shifts(gathered, who.data.features),
        warnings=warnings,
        skipped=found.skipped,
        model=identity.model_record(who, gathered.outcomes),
        data=identity.data_record(who, settings.columns.label or ""),
        metric=identity.metric_record(metric, who.data),
        settings=settings,
        settings_hash=settings.hash,
        command=command,
        versions=identity.versions(),
        seconds={"total": seconds},
    )


def _interval(method: str) -> str:
    """Return the name that settings have for a method, as it stands in front of its details."""
    name = re.split("[,;]", method)[0]
    return name.lower().replace("mid-p", "midp").replace("-", "_").replace(" ", "_")


def signed(outcomes: Outcomes, record: Record) -> Outcomes:
    """Return the outcomes with the hashes of what they came from, so that no two get mixed up."""
    about = {
        **outcomes.about,
        "settings_hash": record.settings_hash,
        "model": record.model.sha256,
        "metric": record.metric.sha256,
        "data": record.data.sha256,
    }
    return dataclasses.replace(outcomes, about=about)


def worst_cases(gathered: Gathered, data: AuditData, n: int) -> tuple[WorstCase, ...]:
    """Return the people harmed most, before and after the move."""
    cases = gathered.worst[:n]
    if not cases:
        return ()
    before = _columns(data, np.stack([case.before for case in cases]))
    after = _columns(data, np.stack([case.after for case in cases]))
    return tuple(
        _worst_case(case, gathered.outcomes, b, a)
        for case, b, a in zip(cases, before, after, strict=True)
    )


def _columns(data: AuditData, x: np.ndarray) -> list[dict[str, Any]]:
    """Return rows in original columns where they can be decoded, else by feature name."""
    if data.encoder is not None:
        rows: list[dict[str, Any]] = data.encoder.decode(x).to_pylist()
        return rows
    return [dict(zip(data.features, map(float, row), strict=True)) for row in x]


def _worst_case(
    case: Case, outcomes: Outcomes, before: dict[str, Any], after: dict[str, Any]
) -> WorstCase:
    i = case.row
    classes = outcomes.about.get("classes") or []

    def words(decision: Any) -> str:
        return classes[int(decision)] if classes else f"{float(decision):.6g}"

    return WorstCase(
        row=int(outcomes.row[i]),
        label=words(outcomes.y[i]),
        ratio=float(outcomes.ratio[i]),
        loss_before=float(outcomes.loss_before[i]),
        loss_after=float(outcomes.loss_after[i]),
        decision_before=words(outcomes.decision_before[i]),
        decision_after=words(outcomes.decision_after[i]),
        probability_before=float(outcomes.probability_before[i]),
        probability_after=float(outcomes.probability_after[i]),
        fair_distance=float(outcomes.fair_distance[i]),
        groups={name: values[i] for name, values in outcomes.groups.items()},
        before=before,
        after=after,
    )


def shifts(gathered: Gathered, features: Sequence[str]) -> tuple[FeatureShift, ...]:
    """Return the features the map pushes most."""
    order = np.argsort(-gathered.absolute_shift, kind="stable")[:SHOWN_SHIFTS]
    return tuple(
        FeatureShift(
            feature=features[j],
            mean_absolute=float(gathered.absolute_shift[j]),
            mean=float(gathered.shift[j]),
        )
        for j in order
    )
