"""Everything beyond the verdict itself: how far it can be trusted, and what it depends on."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from likewise.checks import describe
from likewise.checks.beside import other_methods
from likewise.checks.gather import Gathered, Progress
from likewise.checks.introduce import Introduced
from likewise.checks.judge import Judged
from likewise.checks.refit import Refitted, learned_from, refit
from likewise.inference.outcomes import Status
from likewise.maps.base import UnfairMap
from likewise.metrics.base import FairMetric
from likewise.record import GroupRecord, Measure, TestRecord
from likewise.settings import Settings


@dataclasses.dataclass(frozen=True)
class Found:
    """What the checks found.

    Parameters
    ----------
    judged
        The tests that stand, with the metric's uncertainty where that counts.
    refitted
        The tests with the metric refitted, whether or not that counts.
    reasons
        Why the result must not be used; none if it may.
    skipped
        What ``checks = "core"`` left out.
    """

    judged: Judged
    refitted: Refitted | None
    beside: tuple[TestRecord, ...]
    groups: tuple[GroupRecord, ...]
    measures: tuple[Measure, ...]
    diagnostics: Mapping[str, float]
    reasons: tuple[str, ...]
    skipped: tuple[str, ...]


def diagnose(
    who: Introduced,
    metric: FairMetric,
    map: UnfairMap,
    gathered: Gathered,
    judged: Judged,
    settings: Settings,
    *,
    threads: int,
    progress: Progress | None = None,
) -> Found:
    """Run the checks that the settings ask for."""
    outcomes = gathered.outcomes
    same_sample = learned_from(metric, who.data)
    refitted = None
    skipped: list[str] = []
    if settings.checks == "full":
        refitted = refit(
            who,
            metric,
            map,
            judged,
            settings,
            same_sample=same_sample,
            threads=threads,
            progress=progress,
        )
    else:
        skipped.append("metric refits")
    if refitted is not None and refitted.used:
        judged = dataclasses.replace(judged, evidence=refitted.evidence)
    return Found(
        judged=judged,
        refitted=refitted,
        beside=other_methods(outcomes, settings),
        groups=describe.groups(outcomes, settings),
        measures=describe.measures(outcomes, settings),
        diagnostics={"mean_fair_distance": float(np.mean(outcomes.fair_distance))},
        reasons=_reasons(gathered),
        skipped=tuple(skipped),
    )


def _reasons(gathered: Gathered) -> tuple[str, ...]:
    counts = gathered.outcomes.counts()
    return tuple(
        f"{counts[status.name.lower()]} of {len(gathered.outcomes)} people: {status.words}"
        for status in Status
        if status is not Status.MOVED and counts[status.name.lower()]
    )
