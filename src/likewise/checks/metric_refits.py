"""The metric's own uncertainty: everyone is moved again under every refit of the metric."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

from typing_extensions import override

from likewise.checks.reach_crosscheck import ReachCrosscheck, may_replace, search_beside
from likewise.engine.decide import Judgement, metric_counts
from likewise.engine.learning import some_of
from likewise.engine.meeting import as_seen
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import Move, ResampledPeople, Variant
from likewise.errors import InvalidSettings
from likewise.inference.refits import with_refits
from likewise.inference.verdict import Evidence
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.learn import Resample, bootstrap_refits
from likewise.record import RefitRecord

EVERYONE_KNOWN = (10_000, 0)
"""The survey's sample: enough to tell what another metric from elsewhere would change."""


@final
@dataclasses.dataclass(frozen=True)
class Refits(Check):
    """What the verdict is with the metric learned anew, from other people of the same kind.

    A metric learned from the audited people is refitted without one group of them, who are then
    not audited either; one learned from others brings its refits along, and everyone is audited.
    """

    name: ClassVar[str] = "refits"

    @override
    def variants(self, plan: Plan) -> Iterator[Variant]:
        if not self._runs(plan):
            return
        maps = [plan.map]
        if may_replace(plan):
            maps.append(search_beside(plan, **plan.settings.checks.params(ReachCrosscheck.name)))
        for map in maps:
            yield from refitted_variants(plan, map)

    def _runs(self, plan: Plan) -> bool:
        counts = metric_counts(plan.settings, plan.metric)
        if not plan.map.goes_by_metric or not (plan.metric.refits or _resampled(plan)):
            if plan.settings.decide.metric == "refitted":
                raise InvalidSettings(
                    "decide.metric = 'refitted' needs a learned metric with refits, and a map that "
                    "goes by it; here is none."
                )
            return False
        return counts or self.name in plan.asked

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        after, records = with_refitted(judgement, stats, plan)
        if not records:
            skipped = self.name not in plan.asked and plan.map.goes_by_metric
            return Finding(skipped=("metric refits",) if skipped else ())
        return Finding({"refits": records}, judgement=after)


def with_refitted(
    judgement: Judgement, stats: Mapping[str, MoveStats], plan: Plan
) -> tuple[Judgement, dict[str, RefitRecord]]:
    """Return a judgement with the metric's own uncertainty where that counts, and the refits."""
    found = [stats[name] for name in stats if name.startswith(_prefix(judgement.map))]
    if not found:
        return judgement, {}
    flows = judgement.map == "flow"
    used = metric_counts(plan.settings, plan.metric)
    fewer = not plan.same_sample and found[0].n < plan.n
    seen = f", seen on {found[0].n} people" if fewer else ""
    evidence: dict[str, Evidence] = {}
    records: dict[str, RefitRecord] = {}
    for name, test in judgement.tests.items():
        quick = test.without_rows()
        parts = [quick.evidence(part.tally) for part in found]
        before = judgement.evidence[name]
        after = with_refits(
            before,
            parts,
            bootstrap=_resampled(plan),
            separate=not plan.same_sample,
            directions=len(plan.metric.free),
            root=flows,
        )
        evidence[name] = after
        verdict = after.verdict(test.delta, test.alpha)
        records[name] = RefitRecord(
            method=after.method + seen,
            replicates=tuple(part.estimate.value for part in parts),
            std_error_fixed=before.estimate.std_error,
            std_error_refitted=after.estimate.std_error,
            lower_bound=verdict.lower_bound,
            upper_bound=verdict.upper_bound,
            used=used,
        )
    return (dataclasses.replace(judgement, evidence=evidence) if used else judgement), records


def _resampled(plan: Plan) -> bool:
    return plan.settings.metric.refits > 0 and plan.same_sample


def _prefix(map: str) -> str:
    return f"refits, {map}: "


def refitted_variants(plan: Plan, map: UnfairMap) -> Iterator[Variant]:
    """Yield everyone moved by a map under every refit."""
    draws = _draws(plan) if _resampled(plan) else ()
    for number, draw in enumerate(draws):
        people = ResampledPeople(draw.times)
        move = Move(draw.metric, map.under(draw.metric), people)
        yield Variant(f"{_prefix(map.name)}{number}", (move,))
    if draws:
        return
    for number in range(len(plan.metric.refits)):
        variant = plan.refitted(f"{_prefix(map.name)}{number}", map, number)
        many = plan.n > len(plan.people) and not plan.same_sample
        yield dataclasses.replace(variant, sample=EVERYONE_KNOWN) if many else variant


def _draws(plan: Plan) -> tuple[Resample, ...]:
    """Learn the metric again from bootstrap samples of everyone."""
    settings, people = plan.settings, plan.people
    if len(people) < plan.n:
        people = as_seen(plan.model, some_of(plan.source, settings.seed, plan.run))
    return bootstrap_refits(
        people, plan.metric, settings.metric.refits, settings.seed, plan.known.fingerprint
    )
