"""Cross-fitting: nobody is moved under a metric that was learned from them."""

import dataclasses

import numpy as np

from likewise.checks.gather import Gathered, Progress, gather, merge
from likewise.checks.introduce import Introduced
from likewise.checks.refit import learned_from, under
from likewise.errors import InvalidSettings
from likewise.maps.base import UnfairMap
from likewise.metrics.base import FairMetric
from likewise.metrics.quadratic import ProjectionMetric
from likewise.settings import Settings


def move_everyone(
    who: Introduced,
    metric: FairMetric,
    map: UnfairMap,
    settings: Settings,
    *,
    threads: int,
    progress: Progress | None = None,
) -> Gathered:
    """Move everyone under the metric; with cross-fitting, under the refit that left them out."""
    if not settings.metric.crossfit:
        return gather(who, metric, map, threads=threads, progress=progress)
    if (
        not isinstance(metric, ProjectionMetric)
        or metric.groups is None
        or not learned_from(metric, who.data)
    ):
        raise InvalidSettings(
            "metric.crossfit is for a metric learned from the audited people; this one was not."
        )
    parts = [
        _numbered(gather(who.take(rows), other, under(map, other), threads=threads), rows)
        for other, rows in (
            (other, np.flatnonzero(metric.groups == group))
            for group, other in enumerate(metric.refits)
        )
    ]
    joined = merge(parts)
    in_order = joined.outcomes.take(np.argsort(joined.outcomes.row))
    return dataclasses.replace(joined, outcomes=dataclasses.replace(in_order, row=who.data.row))


def _numbered(part: Gathered, rows: np.ndarray) -> Gathered:
    """Give the people of a part the places they have among all."""
    return dataclasses.replace(
        part,
        outcomes=dataclasses.replace(part.outcomes, row=rows),
        worst=tuple(dataclasses.replace(case, row=int(rows[case.row])) for case in part.worst),
    )
