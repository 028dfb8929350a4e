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
from likewise.stats.tally import Tally
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
        earlier = stats[PRIMARY].tally.horizons
        each = method.settings.alpha / max(len(earlier), 1)
        times = [_at(method, tally, time, each) for time, tally in earlier.items()]
        if isinstance(method.map, GradientFlow):
            times.append(_at(method, stats[DOUBLED].tally, 2 * method.map.time))
        return Finding({"stopping_times": tuple(times)})


def _at(
    method: BoundPerturbation, tally: Tally, time: float, alpha: float | None = None
) -> StoppingTimeRecord:
    """Return what is found at a time, with an interval at level ``alpha`` of the first test."""
    judgement = method.tested(tally)
    (name, first), *_ = judgement.records.items()
    errors, bounds = judgement.records.get("error_rate_ratio"), judgement.evidence[name].bounds
    low = high = math.nan
    if alpha is not None and bounds is not None:
        low, high = bounds.interval(alpha)
    return StoppingTimeRecord(
        time=time,
        n=first.n,
        loss_ratio=first.estimate,
        lower_bound=first.lower_bound,
        error_rate_ratio=math.nan if errors is None else errors.estimate,
        band_lower=low,
        band_upper=high,
    )
