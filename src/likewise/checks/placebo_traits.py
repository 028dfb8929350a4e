r"""Would a trait that means nothing look as bad? People are moved under placebo metrics too.

The traits are shuffled B times, and the audit is repeated each time. If rows of traits are
exchangeable given features, labels and model, the true estimate is one of B + 1 that are equally
likely to be the largest, so :math:`p = (1 + \#\{S_b \ge S\}) / (B + 1)` is a p-value at any sample
size. Stopping as soon as h placebos are at least as large keeps it one: then :math:`p = h / b`
after b of them (Besag and Clifford 1991, "Sequential Monte Carlo p-values").
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

from typing_extensions import override

from likewise.checks.reach_crosscheck import ReachCrosscheck, may_replace, search_beside
from likewise.engine.decide import Judgement, judge
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES, Move, Variant
from likewise.inference.ratio_test import RatioTest
from likewise.inference.verdict import AS_SENSITIVE
from likewise.maps.unfair_map import UnfairMap
from likewise.record import PlaceboRecord

ENOUGH = 8
"""Placebos at least as large as the estimate after which no more are needed."""


@final
@dataclasses.dataclass(frozen=True)
class PlaceboComparison:
    """An estimate among those of placebos.

    Parameters
    ----------
    estimate
        With the traits as they are.
    drawn
        With the traits shuffled, in fixed order, as far as they are known.
    planned
        How many placebos there are to be.
    enough
        How many at least as large as the estimate end the comparison.
    """

    estimate: float
    drawn: tuple[float, ...]
    planned: int
    enough: int = ENOUGH

    @functools.cached_property
    def needed(self) -> tuple[float, ...]:
        """The placebos that count: those up to the one that was enough."""
        hits = [i for i, value in enumerate(self.drawn, start=1) if self._at_least(value)]
        return self.drawn[: hits[self.enough - 1]] if len(hits) >= self.enough else self.drawn

    @property
    def complete(self) -> bool:
        """Whether no further placebo is needed."""
        return len(self.drawn) >= self.planned or len(self.needed) < len(self.drawn) or self._full

    @property
    def p_value(self) -> float:
        """How often a trait that means nothing does at least as much."""
        if self._full and len(self.needed) < self.planned:
            return self.enough / len(self.needed)
        return (1 + self._hits) / (len(self.needed) + 1)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest placebo."""
        return min(self.needed, default=math.nan), max(self.needed, default=math.nan)

    @functools.cached_property
    def _hits(self) -> int:
        return sum(map(self._at_least, self.needed))

    @property
    def _full(self) -> bool:
        return self._hits >= self.enough

    def _at_least(self, value: float) -> bool:
        # What is not finite is no smaller; an estimate that is not finite is never remarkable.
        return not (math.isfinite(value) and value < self.estimate)


STREAM = 12
"""Of the people on whom the true metric and placebos are compared."""

WAVE = 8
"""Placebos that are moved at once, before it is asked whether they are enough."""

UNKNOWN = (
    "how sensitive the model is to a trait that means nothing is not known: this metric was "
    "learned without placebos (learn it again with likewise metric)"
)
NOT_TRIED = "no placebo was tried"


@final
@dataclasses.dataclass(frozen=True)
class Placebo(Check):
    """Whether the model is more sensitive to the traits than to shuffled ones, which mean nothing.

    A learned metric accuses only if it is: the share of placebo metrics that do at least as much
    must be small (`likewise.checks.placebo_traits`). The paper's own procedure shows it and decides
    without it. Searches look at fewer places here, with the true traits as with shuffled ones: any
    rule that treats all of them alike gives a p-value.

    Parameters
    ----------
    people
        How many people are moved, the same under every metric.
    enough
        Placebos that do at least as much after which no more are tried.
    """

    name: ClassVar[str] = "placebo"

    people: int = 2000
    enough: int = ENOUGH

    @override
    def more(self, stats: Mapping[str, MoveStats], plan: Plan) -> Iterator[Variant]:
        if learned(plan) and self._wanted(stats, plan):
            for map in _maps(plan):
                yield from self.waves(stats, plan, map, _whole(map, plan))

    def waves(
        self, stats: Mapping[str, MoveStats], plan: Plan, map: UnfairMap, whole: str
    ) -> Iterator[Variant]:
        """Yield the next placebos of a map, unless there were enough.

        Parameters
        ----------
        whole
            The variant in which everyone was moved by that map.
        """
        if not plan.metric.placebos:
            return
        rough = map.rough(plan.metric)
        if self._apart(plan, map) and _real(map) not in stats:
            yield Variant(_real(map), (Move(plan.metric, rough),), (self.people, STREAM))
        known = self.compared(stats, plan, map, whole, plan.tests[plan.decider])
        if known is not None and known.complete:
            return
        drawn = _drawn(map, stats)
        for number, other in enumerate(plan.metric.placebos[drawn : drawn + WAVE], start=drawn):
            move = Move(other, rough.under(other))
            yield Variant(_placebo(map, number), (move,), (self.people, STREAM))

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if not learned(plan):
            return Finding()
        decides = plan.settings.decide.interval != "paper"
        map = next((map for map in _maps(plan) if map.name == judgement.map), plan.map)
        evidence, records = dict(judgement.evidence), {}
        for name, test in judgement.tests.items():
            found = self.compared(stats, plan, map, _whole(map, plan), test)
            reason = NOT_TRIED if plan.metric.placebos else UNKNOWN
            if found is not None:
                reason = "" if found.p_value <= test.alpha else as_sensitive(found)
                records[name] = placebo_record(found, stats, map, used=decides)
            if decides:
                evidence[name] = dataclasses.replace(evidence[name], held_back=reason)
        skipped = () if records or not plan.metric.placebos else ("placebo",)
        return Finding(
            {"placebo": records},
            judgement=dataclasses.replace(judgement, evidence=evidence),
            skipped=skipped,
        )

    def _wanted(self, stats: Mapping[str, MoveStats], plan: Plan) -> bool:
        """Tell whether it was asked for, or can decide: somebody may have to be accused."""
        if self.name in plan.asked:
            return True
        names = [name for name in (DECIDES, "reach") if name in stats]
        found = [judge(plan.tests, plan.decider, plan.map.name, stats[n].tally) for n in names]
        return any(judgement.deciding.rejected for judgement in found)

    def _apart(self, plan: Plan, map: UnfairMap) -> bool:
        """Tell whether the whole audit has other people than the placebos, or looks closer."""
        closer = map.rough(plan.metric) != map
        return closer or plan.n > self.people or plan.settings.metric.crossfit

    def compared(
        self,
        stats: Mapping[str, MoveStats],
        plan: Plan,
        map: UnfairMap,
        whole: str,
        test: RatioTest,
    ) -> PlaceboComparison | None:
        """Return what is known so far, in the order of the placebos."""
        drawn = _drawn(map, stats)
        real = _real(map) if self._apart(plan, map) else whole
        if not drawn or real not in stats:
            return None
        quick = test.without_rows()
        values = [
            quick.evidence(stats[name].tally).estimate.value
            for name in (real, *(_placebo(map, number) for number in range(drawn)))
        ]
        planned = len(plan.metric.placebos)
        return PlaceboComparison(values[0], tuple(values[1:]), planned, self.enough)


def as_sensitive(found: PlaceboComparison) -> str:
    """Say that traits which mean nothing do as much."""
    low, high = found.range
    shuffled = f"shuffled {low:.3g} to {high:.3g}, p = {found.p_value:.2g}"
    return f"{AS_SENSITIVE} (with the traits as they are {found.estimate:.3g}, {shuffled})"


def placebo_record(
    found: PlaceboComparison, stats: Mapping[str, MoveStats], map: UnfairMap, *, used: bool
) -> PlaceboRecord:
    """Return a comparison as it stands in the result file."""
    return PlaceboRecord(
        estimate=found.estimate,
        placebos=found.needed,
        p_value=found.p_value,
        planned=found.planned,
        n=stats[_placebo(map, 0)].n,
        used=used,
    )


def learned(plan: Plan) -> bool:
    """Tell whether the map goes by a metric that was learned."""
    return plan.metric.origin is not None and plan.map.goes_by_metric


def _maps(plan: Plan) -> list[UnfairMap]:
    """Return the maps that may decide."""
    maps: list[UnfairMap] = [plan.map]
    if may_replace(plan):
        maps.append(search_beside(plan, **plan.settings.checks.params(ReachCrosscheck.name)))
    return maps


def _drawn(map: UnfairMap, stats: Mapping[str, MoveStats]) -> int:
    number = 0
    while _placebo(map, number) in stats:
        number += 1
    return number


def _real(map: UnfairMap) -> str:
    return f"placebo, {map.name}: traits as they are"


def _whole(map: UnfairMap, plan: Plan) -> str:
    return DECIDES if map is plan.map else "reach"


def _placebo(map: UnfairMap, number: int) -> str:
    return f"placebo, {map.name}: {number}"
