"""The paper's flow beside a search that decides: shown, and able to stop a finding of tolerance."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

from typing_extensions import override

from likewise.checks.metric_refits import refitted_variants, with_refitted
from likewise.checks.placebo_traits import Placebo, as_sensitive, learned, placebo_record
from likewise.engine.certified import certified
from likewise.engine.decide import Judgement, judge
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES, Variant
from likewise.maps.flow import GradientFlow
from likewise.maps.unfair_map import UnfairMap

FLOW = "flow"


@final
@dataclasses.dataclass(frozen=True)
class FlowBeside(Check):
    r"""The gradient flow where the metric was learned and a search within reach decides.

    A model is not within tolerance if the flow accuses it: with the metric's own uncertainty, and
    more than under shuffled traits, where that is known. So the flow is run if the search would
    find the model within tolerance, whatever was asked for.

    Parameters
    ----------
    lam, time
        Price :math:`\lambda` of moving unlike oneself, and time T of the flow.
    """

    name: ClassVar[str] = "flow_beside"

    lam: float = 50.0
    time: float = 5.0
    _solved: list[UnfairMap] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @override
    def variants(self, plan: Plan) -> Iterator[Variant]:
        if _applies(plan) and self.name in plan.asked:
            yield plan.variant(FLOW, self._flow(plan))

    @override
    def more(self, stats: Mapping[str, MoveStats], plan: Plan) -> Iterator[Variant]:
        if not _applies(plan):
            return
        found = judge(plan.tests, plan.decider, plan.map.name, stats[DECIDES].tally)
        if found.deciding.outcome == "within_tolerance":
            yield plan.variant(FLOW, self._flow(plan))
            yield from refitted_variants(plan, self._flow(plan))
        if FLOW not in stats:
            return
        flowed = judge(plan.tests, plan.decider, FLOW, stats[FLOW].tally)
        if Placebo.name in plan.asked or flowed.deciding.rejected:
            yield from _placebo(plan).waves(stats, plan, self._flow(plan), FLOW)

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if FLOW not in stats:
            return Finding(skipped=("the flow beside the search",) if _applies(plan) else ())
        flowed = judge(plan.tests, plan.decider, FLOW, stats[FLOW].tally)
        flowed, _ = with_refitted(flowed, stats, plan)
        placebo, flow = _placebo(plan), self._flow(plan)
        evidence, records = dict(flowed.evidence), {}
        for name, test in flowed.tests.items():
            found = placebo.compared(stats, plan, flow, FLOW, test)
            if found is not None:
                records[name] = placebo_record(found, stats, flow, used=name == flowed.decider)
                as_much = as_sensitive(found) if found.p_value > test.alpha else ""
                evidence[name] = dataclasses.replace(evidence[name], held_back=as_much)
        flowed = dataclasses.replace(flowed, evidence=evidence)
        record = {"beside": tuple(flowed.records.values()), "placebo_beside": records}
        if flowed.deciding.outcome != "evidence_of_unfairness":
            return Finding(record)
        why = (
            f"The gradient flow finds more than {flowed.deciding.lower_bound:.3g}, above the "
            "tolerance, so that the model is not within it."
        )
        against = (*judgement.against_tolerance, why)
        return Finding(record, judgement=dataclasses.replace(judgement, against_tolerance=against))

    def _flow(self, plan: Plan) -> UnfairMap:
        """Return the flow of this audit, solved accurately enough; that is seen to once."""
        if not self._solved:
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
            self._solved.append(flow)
        return self._solved[0]


def _applies(plan: Plan) -> bool:
    searches = plan.map.goes_by_metric and plan.map.doubled() is None
    return searches and learned(plan) and plan.model.card.differentiable


def _placebo(plan: Plan) -> Placebo:
    return Placebo(**plan.settings.checks.params(Placebo.name))
