"""The audit value at several times of one flow: the horizon is a choice, and is shown as one."""

import dataclasses
import math
from typing import ClassVar, final

from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.perturbation import BoundPerturbation
from likewise.probe import PRIMARY
from likewise.record import StoppingTimeRecord
from likewise.verdict import Verdict


@final
@dataclasses.dataclass(frozen=True)
class Horizons(Check):
    """Earlier times of the flow, with intervals that hold for all of them at once (Bonferroni)."""

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "horizons"

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        times, horizons = [], stats[PRIMARY].tally.horizons
        for time, tally in horizons.items():
            judgement = method.tested(tally)
            (name, first), *_ = judgement.records.items()
            errors = judgement.records.get("error_rate_ratio")
            bounds, low, high = judgement.evidence[name].bounds, math.nan, math.nan
            if bounds is not None:
                low, high = bounds.interval(method.settings.alpha / len(horizons))
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
