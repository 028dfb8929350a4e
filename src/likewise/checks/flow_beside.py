"""The paper's flow beside a search that decides: shown, and able to stop a finding of tolerance."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

from typing_extensions import override

from likewise.checks.metric_refits import refitted_variants, with_refitted
from likewise.engine.certified import certified
from likewise.engine.decide import Judgement, judge
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES, Variant
from likewise.maps.flow import GradientFlow

FLOW = "flow"


@final
@dataclasses.dataclass(frozen=True)
class FlowBeside(Check):
    r"""The gradient flow where the metric was learned and a search within reach decides.

    A model is not within tolerance if the flow accuses it, with the metric's own uncertainty.
    So the flow is run if the search would find the model within tolerance, whatever was asked for.

    Parameters
    ----------
    lam, time
        Price :math:`\lambda` of moving unlike oneself, and time T of the flow.
    """

    name: ClassVar[str] = "flow_beside"

    lam: float = 50.0
    time: float = 5.0

    @override
    def variants(self, plan: Plan) -> Iterator[Variant]:
        if self._applies(plan) and self.name in plan.asked:
            yield self._everyone(plan)

    @override
    def more(self, stats: Mapping[str, MoveStats], plan: Plan) -> Iterator[Variant]:
        if not self._applies(plan):
            return
        found = judge(plan.tests, plan.decider, plan.map.name, stats[DECIDES].tally)
        if found.deciding.outcome == "within_tolerance":
            flow = self._everyone(plan)
            yield flow
            yield from refitted_variants(plan, flow.map)

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if FLOW not in stats:
            return Finding(skipped=("the flow beside the search",) if self._applies(plan) else ())
        flowed = judge(plan.tests, plan.decider, FLOW, stats[FLOW].tally)
        flowed, _ = with_refitted(flowed, stats, plan)
        record = {"beside": tuple(flowed.records.values())}
        if flowed.deciding.outcome != "evidence_of_unfairness":
            return Finding(record)
        why = (
            f"The gradient flow finds more than {flowed.deciding.lower_bound:.3g}, above the "
            "tolerance, so that the model is not within it."
        )
        against = (*judgement.against_tolerance, why)
        return Finding(record, judgement=dataclasses.replace(judgement, against_tolerance=against))

    def _applies(self, plan: Plan) -> bool:
        searches = plan.map.goes_by_metric and plan.map.doubled() is None
        return searches and plan.metric.origin is not None and plan.model.card.differentiable

    def _everyone(self, plan: Plan) -> Variant:
        flow, _ = certified(
            GradientFlow(lam=self.lam, time=self.time),
            plan.model,
            plan.metric,
            plan.x,
            plan.y,
            n=plan.n,
            seed=plan.settings.seed,
            threads=plan.threads,
            rungs=False,
        )
        return plan.variant(FLOW, flow)
