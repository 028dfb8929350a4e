"""The metric's own uncertainty: move everyone again under every refit of the metric."""

import dataclasses
import math
import warnings
from collections.abc import Iterator

import numpy as np

from likewise.checks.gather import Progress, gather
from likewise.checks.introduce import Introduced
from likewise.checks.judge import Judged
from likewise.errors import InvalidSettings, StatisticalWarning
from likewise.inference.refits import with_refits
from likewise.inference.verdict import Evidence
from likewise.maps.base import UnfairMap
from likewise.maps.combine import Worst
from likewise.maps.flips import Flips
from likewise.maps.flow import GradientFlow
from likewise.metrics.base import FairMetric
from likewise.metrics.learn import bootstrap_refits
from likewise.metrics.quadratic import ProjectionMetric
from likewise.outcomes import Outcomes
from likewise.people import AuditData
from likewise.record import RefitRecord
from likewise.settings import Settings


@dataclasses.dataclass(frozen=True)
class Refitted:
    """What the tests say with the metric refitted.

    Parameters
    ----------
    before, evidence
        By test, with the metric as it is, and with the total standard error.
    replicates
        The estimate of each refit, by test.
    used
        Whether the verdict uses it.
    """

    before: dict[str, Evidence]
    evidence: dict[str, Evidence]
    replicates: dict[str, tuple[float, ...]]
    used: bool

    def records(self, alpha: float) -> dict[str, RefitRecord]:
        """Return both standard errors and the bounds that follow, by test."""
        return {
            name: RefitRecord(
                method=after.method,
                replicates=self.replicates[name],
                std_error_fixed=self.before[name].estimate.std_error,
                std_error_refitted=after.estimate.std_error,
                lower_bound=math.nan if after.bounds is None else after.bounds.lower_bound(alpha),
                upper_bound=math.nan if after.bounds is None else after.bounds.upper_bound(alpha),
                used=self.used,
            )
            for name, after in self.evidence.items()
        }


def refit(
    who: Introduced,
    metric: FairMetric,
    map: UnfairMap,
    judged: Judged,
    settings: Settings,
    *,
    same_sample: bool,
    threads: int,
    progress: Progress | None = None,
) -> Refitted | None:
    """Repeat the audit under every refit of a learned metric; ``None`` if that says nothing.

    A metric learned from the audited people is refitted without one group of them, who are then
    not audited either; one learned from others brings its refits along, and everyone is audited.
    """
    resampled = settings.metric.refits > 0 and same_sample
    refits = isinstance(metric, ProjectionMetric) and (metric.refits or resampled)
    if not isinstance(metric, ProjectionMetric) or not refits or isinstance(map, Flips):
        if settings.decide.metric == "refitted":
            raise InvalidSettings(
                "decide.metric = 'refitted' needs a learned metric with refits, and a map that "
                "goes by it; here is none."
            )
        return None
    replicates: dict[str, list[Evidence]] = {name: [] for name in judged.tests}
    if settings.metric.refits and not resampled:
        # Said early where that can be known; in pieces everyone has been moved by now.
        warnings.warn(
            f"{_ELSEWHERE} The {len(metric.refits)} refits that came with it took their place.",
            StatisticalWarning,
            stacklevel=2,
        )
    total = settings.metric.refits if resampled else len(metric.refits)
    for done, outcomes in enumerate(
        _replicates(who, metric, map, settings, resampled, same_sample, threads), start=1
    ):
        for name, test in judged.tests.items():
            replicates[name].append(test.evidence_of(outcomes))
        if progress is not None:
            progress("refitting the metric", done, total)
    return Refitted(
        before=dict(judged.evidence),
        evidence={
            name: with_refits(
                judged.evidence[name],
                parts,
                bootstrap=resampled,
                separate=not same_sample,
                directions=len(metric.free),
                root=isinstance(map, GradientFlow),
            )
            for name, parts in replicates.items()
        },
        replicates={
            name: tuple(part.estimate.value for part in parts) for name, parts in replicates.items()
        },
        used=counts(settings, same_sample),
    )


def learned_from(metric: FairMetric, data: AuditData) -> bool:
    """Tell whether the metric was learned from these very people."""
    origin = metric.origin if isinstance(metric, ProjectionMetric) else None
    return origin is not None and origin.data == data.fingerprint()


def check_refits(settings: Settings, metric: FairMetric, data: AuditData) -> None:
    """Refuse bootstrap refits of a metric that was not learned from the audited people."""
    if settings.metric.refits and not learned_from(metric, data):
        raise InvalidSettings(f"{_ELSEWHERE} Without metric.refits, the metric's own refits count.")


_ELSEWHERE = (
    "Bootstrap refits (metric.refits) need the people that the metric was learned from, "
    "and those are not the audited ones."
)


def counts(settings: Settings, same_sample: bool) -> bool:
    """Tell whether the verdict takes the metric's uncertainty into account."""
    if settings.decide.metric == "auto":
        return same_sample and settings.decide.interval != "paper"
    return settings.decide.metric == "refitted"


def under(map: UnfairMap, metric: ProjectionMetric) -> UnfairMap:
    """Return the same map for another metric, whose own reach bounds it if a reach did."""
    if isinstance(map, GradientFlow) and map.reach is not None:
        return dataclasses.replace(map, reach=metric.reach)
    if isinstance(map, Worst):
        return Worst(tuple(under(part, metric) for part in map.maps))
    return map


def _replicates(
    who: Introduced,
    metric: ProjectionMetric,
    map: UnfairMap,
    settings: Settings,
    resampled: bool,
    same_sample: bool,
    threads: int,
) -> Iterator[Outcomes]:
    if resampled:
        for draw in bootstrap_refits(who.data, metric, settings.metric.refits, settings.seed):
            rows = np.flatnonzero(draw.times)
            moved = gather(who.take(rows), draw.metric, under(map, draw.metric), threads=threads)
            yield moved.outcomes.take(np.repeat(np.arange(len(rows)), draw.times[rows]))
        return
    for group, other in enumerate(metric.refits):
        if same_sample and metric.groups is not None:
            kept = who.take(np.flatnonzero(metric.groups != group))
        else:
            kept = who
        yield gather(kept, other, under(map, other), threads=threads).outcomes
