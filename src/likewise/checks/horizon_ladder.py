"""The audit value at several times of one flow: the horizon is a choice, and is shown as one."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar, final

from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.perturb_probe import PerturbProbe
from likewise.methods.perturbation import BoundPerturbation
from likewise.probe import PRIMARY
from likewise.record import StoppingTimeRecord
from likewise.verdict import Verdict

SAMPLE = (1000, 3)
"""People who are followed for twice the time."""

DOUBLED = "twice the time"


@final
@dataclasses.dataclass(frozen=True)
class Horizons(Check):
    """Earlier times of the flow, and twice the time.

    Intervals at earlier times hold for all of them at once (Bonferroni).
    """

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "horizons"

    @override
    def probes(self, method: BoundPerturbation) -> Iterator[PerturbProbe]:
        if isinstance(method.map, GradientFlow):
            yield method.probe(DOUBLED, method.map.doubled(), subsample=SAMPLE)

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        times, found = [], dict(stats[PRIMARY].tally.horizons)
        earlier = len(found)
        if isinstance(method.map, GradientFlow):
            found[2 * method.map.time] = stats[DOUBLED].tally
        for place, (time, tally) in enumerate(found.items()):
            judgement = method.tested(tally)
            (name, first), *_ = judgement.records.items()
            errors = judgement.records.get("error_rate_ratio")
            bounds, low, high = judgement.evidence[name].bounds, math.nan, math.nan
            if place < earlier and bounds is not None:
                low, high = bounds.interval(method.settings.alpha / earlier)
            times.append(
                StoppingTimeRecord(
                    time=time,
                    n=first.n,
                    loss_ratio=first.estimate,
                    lower_bound=first.lower_bound,
                    error_rate_ratio=math.nan if errors is None else errors.estimate,
                    band_lower=low,
                    band_upper=high,
                )
            )
        return Finding({"stopping_times": tuple(times)})
