"""Everything beyond the verdict itself: how far it can be trusted, and what it depends on."""

import dataclasses
import warnings
from collections.abc import Mapping

import numpy as np

from likewise.checks import describe
from likewise.checks.beside import other_methods
from likewise.checks.certificate import Certificate
from likewise.checks.gather import Gathered, Progress
from likewise.checks.introduce import Introduced
from likewise.checks.judge import Judged
from likewise.checks.ladder import doubled, free_only, ladder
from likewise.checks.refit import Refitted, learned_from, refit
from likewise.checks.robust import robust_measure
from likewise.checks.second import disagreement, second_opinion
from likewise.checks.sensitivity import sensitivity, theorem_a1_bound
from likewise.errors import StatisticalWarning
from likewise.maps.base import UnfairMap
from likewise.maps.flips import Flips
from likewise.maps.flow import GradientFlow
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.outcomes import troubles
from likewise.record import (
    GroupRecord,
    HorizonRecord,
    Measure,
    SensitivityRecord,
    TestRecord,
)
from likewise.settings import Settings
from likewise.statistics.frame import Frame
from likewise.statistics.tally import Tally

SKIPPED = (
    "distributionally robust fairness",
    "metric refits",
    "sensitivity to the metric and λ",
    "second opinion within reach",
    "twice the time",
    "free directions only",
)


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
    sensitivity: tuple[SensitivityRecord, ...]
    diagnostics: Mapping[str, float]
    horizons: tuple[HorizonRecord, ...]
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
    certificate: Certificate | None = None,
    threads: int,
    progress: Progress | None = None,
) -> Found:
    """Run the checks that the settings ask for."""
    outcomes = gathered.outcomes
    tally = Tally.of(outcomes, Frame.of(outcomes, settings.cap))
    refitted, second = None, None
    tried: tuple[SensitivityRecord, ...] = ()
    robust: tuple[Measure, ...] = ()
    diagnostics = {"mean_fair_distance": float(np.mean(outcomes.fair_distance))}
    reasons = list(_reasons(gathered, certificate))
    horizons = list(ladder(tally, settings, outcomes))
    beside = list(other_methods(outcomes, settings))
    full = settings.checks.run == "full"
    deciding = map
    if full and isinstance(map, GradientFlow):
        horizons.append(doubled(who, metric, map, settings, threads=threads))
        diagnostics["free_only"] = free_only(who, metric, map, settings, threads=threads)
        second = second_opinion(who, metric, settings, threads=threads, progress=progress)
    if second is not None:
        diagnostics["reach"] = next(iter(second.judged.records.values())).estimate
        # What a sample says of the search cannot be the verdict on everyone.
        everyone = judged.deciding.n == len(outcomes)
        if second.blinded and settings.decide.blinded == "stronger" and everyone:
            beside += judged.records.values()
            judged, deciding = second.judged, second.search
        else:
            beside += second.judged.records.values()
            if second.blinded:
                reasons.append(second.complaint)
    if full:
        refitted = refit(
            who,
            metric,
            deciding,
            judged,
            settings,
            same_sample=learned_from(metric, who.data),
            threads=threads,
            progress=progress,
        )
        robust = robust_measure(who, metric, settings)
        tried = sensitivity(who, metric, deciding, settings, threads=threads, progress=progress)
        diagnostics["theorem_a1_bound"] = theorem_a1_bound(who, metric, map, 1.0)
    if refitted is not None and refitted.used:
        judged = dataclasses.replace(judged, evidence=refitted.evidence)
    if second is not None and not second.blinded:
        note = disagreement(judged.deciding, second.judged.deciding)
        if note:
            warnings.warn(note, StatisticalWarning, stacklevel=2)
    return Found(
        judged=judged,
        refitted=refitted,
        beside=tuple(beside),
        groups=describe.groups(tally, settings),
        measures=describe.measures(tally, settings) + robust,
        sensitivity=tried,
        diagnostics=diagnostics,
        reasons=tuple(reasons),
        horizons=tuple(horizons),
        skipped=(
            _unturned(metric, deciding, tried)
            if full
            else SKIPPED[: None if isinstance(map, GradientFlow) else 3]
        ),
    )


def _unturned(
    metric: FairMetric, map: UnfairMap, tried: tuple[SensitivityRecord, ...]
) -> tuple[str, ...]:
    """Say so if free directions could not be turned, to see what a wrong metric would do."""
    free = isinstance(metric, QuadraticForm) and len(metric.free) > 0
    if not free or isinstance(map, Flips) or any("turned" in row.change for row in tried):
        return ()
    return ("turning the free directions (for projections, among people who differ off them)",)


def _reasons(gathered: Gathered, certificate: Certificate | None) -> tuple[str, ...]:
    capped: tuple[str, ...] = ()
    if certificate is not None and certificate.cap_reached:
        capped = (
            f"after {certificate.evaluations} gradients a person the flow may still be off by "
            f"{certificate.error_in_se:.2g} standard errors; shorten its time, or bound it by the "
            "reach (map.bounded)",
        )
    return capped + troubles(gathered.outcomes.counts())
