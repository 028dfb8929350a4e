"""Does the flow miss something? A search without gradients looks in the same directions."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.engine.decide import Judgement, judge
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import Move, Variant
from likewise.maps.flow import GradientFlow
from likewise.maps.search import Reach
from likewise.metrics.reach import Ellipsoid
from likewise.outcomes import Outcomes
from likewise.record import TestRecord

COMPARED = (500, 2)
"""People on whom flow and search are compared, whatever was asked for."""

SEARCHED = (2000, 7)
"""People who are searched for where there are many more, and the search cannot decide."""

DOUBTED = (300, 9)
"""People who are searched for twice as long, where the search decides."""

LONG, STEPS = 100.0, 100
"""Time and steps of the flow they are compared with: long enough to come to rest within reach."""

MATERIAL = 0.05
"""Mean log ratio by which it must find more: five per cent, one fifth of the usual tolerance."""

SIGNIFICANT = 3.0
"""Standard errors by which the search must find more."""

SEARCH, FLOWED, SEARCHED_TOO = "reach", "crosscheck: flow", "crosscheck: reach"

AS_IT_IS, DOUBLED = "search: as it is", "search: twice the calls"

WORTH_MORE = 0.02
"""If twice as many calls add more than this share to the loss found, the user should know."""


@final
@dataclasses.dataclass(frozen=True)
class ReachCrosscheck(Check):
    """A second opinion on the flow, by a search within reach.

    Parameters
    ----------
    budget
        Model calls a person.
    feasible
        Whether categories and whole numbers keep to values that were observed.
    """

    name: ClassVar[str] = "reach_crosscheck"

    budget: int = 60
    feasible: bool = False

    @override
    def variants(self, plan: Plan) -> Iterator[Variant]:
        if isinstance(plan.map, Reach) and self.name in plan.asked and len(plan.metric.free):
            calls = plan.map.bind(plan.model, plan.metric).budget
            for name, times in ((AS_IT_IS, 1), (DOUBLED, 2)):
                more = dataclasses.replace(plan.map, budget=times * calls)
                yield Variant(name, (Move(plan.metric, more),), DOUBTED)
        if not _flows(plan):
            return
        search = search_beside(plan, self.budget, feasible=self.feasible)
        flow = GradientFlow(
            time=LONG,
            solver="exponential4",
            steps=STEPS,
            free_only=True,
            reach=search.within or plan.metric.reach,
        )
        yield Variant(FLOWED, (Move(plan.metric, flow),), COMPARED, keeps_rows=True)
        yield Variant(SEARCHED_TOO, (Move(plan.metric, search),), COMPARED, keeps_rows=True)
        if may_replace(plan):
            yield plan.variant(SEARCH, search)
        elif self.name in plan.asked:
            many = plan.n > len(plan.people)
            few = Variant(SEARCH, (Move(plan.metric, search),), SEARCHED)
            yield few if many else plan.variant(SEARCH, search)

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if DOUBLED in stats:
            return more_calls(stats[AS_IT_IS].search, stats[DOUBLED].search)
        if FLOWED not in stats:
            return Finding()
        blinded, flow_gain, search_gain = compare(
            stats[FLOWED].outcomes, stats[SEARCHED_TOO].outcomes
        )
        complaint = (
            "the gradient flow misses unfairness in this model: a search without gradients "
            f"multiplies losses by {math.exp(search_gain):.3g} where the flow finds "
            f"{math.exp(flow_gain):.3g} (geometric means); audit it with --map reach"
        )
        reasons = (complaint,) if blinded else ()
        if SEARCH not in stats:
            return Finding(reasons=reasons, skipped=("second opinion within reach",))
        search = search_beside(plan, self.budget, feasible=self.feasible)
        searched = judge(plan.tests, plan.decider, search.name, stats[SEARCH].tally)
        record: dict[str, Any] = {
            "diagnostics": {"reach": next(iter(searched.records.values())).estimate}
        }
        if blinded and may_replace(plan):
            beside = tuple(judgement.records.values())
            return Finding({**record, "beside": beside}, judgement=searched)
        record["beside"] = tuple(searched.records.values())
        note = "" if blinded else disagreement(judgement.deciding, searched.deciding)
        return Finding(record, reasons=reasons, warnings=(note,) if note else ())


def more_calls(found: Mapping[int, float], doubled: Mapping[int, float]) -> Finding:
    """Say what share of the rise of the loss a search misses that twice the calls would find."""
    start, once, twice = found[min(found)], found[max(found)], doubled[max(doubled)]
    added = max(0.0, (twice - once) / (once - start)) if once > start else float(twice > once)
    words = (
        f"With {max(found)} places a person the search within reach is not at its end: twice "
        f"as many add {added:.0%} to the rise of the loss. Give it more (map.budget)."
    )
    record = {"diagnostics": {"doubled_budget": added}}
    return Finding(record, warnings=(words,) if added > WORTH_MORE else ())


def _flows(plan: Plan) -> bool:
    """Tell whether the map that decides is a flow alone, and has free directions to search."""
    return plan.map.doubled() is not None and len(plan.metric.free) > 0


def may_replace(plan: Plan) -> bool:
    """Tell whether the search decides if the flow turns out to be blind."""
    return _flows(plan) and plan.settings.decide.blinded == "stronger"


def search_beside(plan: Plan, budget: int = 60, feasible: bool = False) -> Reach:
    """Return the search where it does not decide: the audited people lend it a missing reach.

    It keeps to the free directions, like the flow that it is compared with.
    """
    search = Reach(budget, feasible=feasible).knowing(plan.occurring)
    if plan.metric.reach is not None:
        return search
    within = Ellipsoid.of(plan.x @ plan.metric.free.T, plan.people.weight)
    return dataclasses.replace(search, within=within)


def disagreement(flow: TestRecord, search: TestRecord) -> str:
    """Say so if flow and search disagree about the tolerance; an empty text if they do not."""
    if (flow.estimate > flow.delta) == (search.estimate > flow.delta):
        return ""
    return (
        f"The flow and the search within reach disagree about the tolerance {flow.delta:g} "
        f"({flow.estimate:.3g} against {search.estimate:.3g}). The settings said beforehand that "
        "the flow decides."
    )


def compare(flowed: Outcomes, searched: Outcomes) -> tuple[bool, float, float]:
    """Tell whether the search finds significantly more, and the mean log ratio of either.

    A flow that follows true gradients comes to rest near what the search finds. One that finds
    less than half of something that matters is not following them: outputs that are rounded, or
    saturated, have none. Logarithms, because one person's ratio may exceed all others' together.
    """
    flow, search = (
        np.log(np.maximum(o.loss_after, _TINY) / np.maximum(o.loss_before, _TINY))
        for o in (flowed, searched)
    )
    more = search - flow
    error = float(more.std(ddof=1)) / np.sqrt(len(more)) if len(more) > 1 else np.inf
    mean_flow, mean_search = float(flow.mean()), float(search.mean())
    significant = float(more.mean()) > max(SIGNIFICANT * error, MATERIAL)
    return bool(significant and mean_flow < mean_search / 2), mean_flow, mean_search


_TINY = 1e-300
