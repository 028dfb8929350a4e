"""The audit value at several times of one flow: the horizon is a choice, and is shown as one."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.engine.certified import certified
from likewise.engine.decide import Judgement, judge
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES, Move, Variant
from likewise.inference.simultaneous import horizon_band
from likewise.record import HorizonRecord
from likewise.statistics.tally import Tally

SAMPLE = (1000, 3)
"""People who are followed for twice the time, and along free directions only."""

DOUBLED, FREE_ONLY = "twice the time", "free directions only"


@final
@dataclasses.dataclass(frozen=True)
class Horizons(Check):
    r"""Earlier times of the flow, twice the time, and the limit :math:`\lambda \to \infty`."""

    name: ClassVar[str] = "horizons"

    @override
    def variants(self, plan: Plan) -> Iterator[Variant]:
        if self.name not in plan.asked:
            return
        longer, free = plan.map.doubled(), plan.map.along_free_directions()
        if longer is not None:
            yield Variant(DOUBLED, (Move(plan.metric, longer),), SAMPLE)
        if free is not None and len(plan.metric.free):
            rows = plan.drawn(*SAMPLE)
            x, y = plan.x[rows], plan.y[rows]
            ready, _ = certified(
                free, plan.model, plan.metric, x, y, n=plan.n, threads=plan.threads, rungs=False
            )
            yield Variant(FREE_ONLY, (Move(plan.metric, ready),), SAMPLE)

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        tally = stats[DECIDES].tally
        horizons = list(_ladder(plan, tally))
        diagnostics: dict[str, float] = {}
        flows = plan.map.doubled() is not None
        if DOUBLED in stats:
            found = stats[DOUBLED].tally
            longer = plan.map.doubled()
            time = math.nan if longer is None else longer.time
            horizons.append(_rung(plan, found, time))
        if flows and self.name in plan.asked:
            diagnostics["free_only"] = math.nan
        if FREE_ONLY in stats:
            free = judge(plan.tests, plan.decider, plan.map.name, stats[FREE_ONLY].tally)
            diagnostics["free_only"] = free.deciding.estimate
        skipped = (DOUBLED, FREE_ONLY) if flows and self.name not in plan.asked else ()
        return Finding({"horizons": tuple(horizons), "diagnostics": diagnostics}, skipped=skipped)


def _ladder(plan: Plan, tally: Tally) -> Iterator[HorizonRecord]:
    """Yield the statistics at every horizon, with a band that holds for all of them at once."""
    if not tally.frame.horizons:
        return
    settings = plan.settings
    band = horizon_band(
        tally,
        rng=np.random.default_rng([settings.seed, 5]),
        delta=settings.delta,
        alpha=settings.alpha,
        side="both",
        interval="paper" if settings.decide.interval == "paper" else "hall",
    )
    for time, low, high in zip(band.labels, band.lower, band.upper, strict=True):
        yield _rung(plan, tally.at(float(time)), float(time), low, high)


def _rung(
    plan: Plan, tally: Tally, time: float, low: float = math.nan, high: float = math.nan
) -> HorizonRecord:
    verdicts = judge(plan.tests, plan.decider, plan.map.name, tally).records
    first = next(iter(verdicts.values()))
    errors = verdicts.get("error_rate_ratio")
    return HorizonRecord(
        time=time,
        n=first.n,
        loss_ratio=first.estimate,
        lower_bound=first.lower_bound,
        error_rate_ratio=math.nan if errors is None else errors.estimate,
        error_rate_lower_bound=math.nan if errors is None else errors.lower_bound,
        band_lower=low,
        band_upper=high,
    )
