"""Does the flow miss something? A search without gradients looks in the same directions."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import FairMetric, ProjectionMetric
from likewise.methods.perturb_probe import PerturbProbe
from likewise.methods.perturbation import BoundPerturbation
from likewise.methods.reach import Reach
from likewise.outcomes import Outcomes
from likewise.verdict import Verdict

COMPARED = (2000, 7)
"""People on whom flow and search are compared; all who are searched for where there are more."""

TIME, STEPS = 100.0, 100
"""Time and steps of the flow they are compared with: long enough to leave the plausible region."""

MATERIAL = 0.05
"""Mean log ratio by which it must find more: five per cent, one fifth of the usual tolerance."""

SIGNIFICANT = 3.0
"""Standard errors by which the search must find more."""

SEARCH, FLOWED = "reach", "crosscheck: flow"


@final
@dataclasses.dataclass(frozen=True)
class ReachCrosscheck(Check):
    """Secondary analysis of the flow: a search of the plausible region without gradients.

    Parameters
    ----------
    budget
        Model calls a person.
    """

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "reach_crosscheck"

    budget: int = 60

    @override
    def probes(self, method: BoundPerturbation) -> Iterator[PerturbProbe]:
        free = len(method.metric.free) and method.metric.quadratic
        if not free or not isinstance(method.map, GradientFlow):
            return
        metric, some = with_region(method), COMPARED if method.n > len(method.people) else None
        flow = GradientFlow(time=TIME, steps=STEPS, free_only=True)
        for name, map in ((FLOWED, flow), (SEARCH, Reach(self.budget))):
            yield method.probe(name, map, metric, subsample=some, keeps_rows=True)

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        if FLOWED not in stats:
            return Finding()
        blinded, flow_gain, search_gain = compare(stats[FLOWED].outcomes, stats[SEARCH].outcomes)
        tests = tuple(method.tested(stats[SEARCH].tally, Reach.name).records.values())
        note = (
            "The gradient flow misses unfairness in this model: a search without gradients "
            f"multiplies losses by {math.exp(search_gain):.3g} where the flow finds "
            f"{math.exp(flow_gain):.3g} (geometric means); audit it with --method reach."
        )
        return Finding({"secondary": tests}, warnings=(note,) if blinded else ())


def with_region(method: BoundPerturbation) -> FairMetric:
    """Return a metric for searches beside the one that decides.

    The audited people lend a plausible region to a metric that has none.
    """
    metric = method.metric
    if metric.reach is not None:
        return metric
    return ProjectionMetric(metric.free).with_reach(method.x, method.people.weight)


def compare(flowed: Outcomes, searched: Outcomes) -> tuple[bool, float, float]:
    """Tell whether the search finds significantly more, and the mean log ratio of either.

    A flow that follows true gradients leaves the plausible region, and finds more than the search
    does. One that finds less than half of something that matters is not following them: outputs
    that are rounded, or saturated, have none. Logarithms, because one person's ratio may exceed all
    others' together.
    """
    flow, search = (
        np.log(np.maximum(o.loss_after, 1e-300) / np.maximum(o.loss_before, 1e-300))
        for o in (flowed, searched)
    )
    more = search - flow
    error = float(more.std(ddof=1)) / np.sqrt(len(more)) if len(more) > 1 else np.inf
    mean_flow, mean_search = float(flow.mean()), float(search.mean())
    significant = float(more.mean()) > max(SIGNIFICANT * error, MATERIAL)
    return bool(significant and mean_flow < mean_search / 2), mean_flow, mean_search
