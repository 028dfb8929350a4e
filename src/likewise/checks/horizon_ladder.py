"""The audit value at several times of one flow: the horizon is a choice, and is shown as one."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ProjectionMetric
from likewise.methods.numerical_error import choose_steps
from likewise.methods.perturb_probe import PerturbProbe
from likewise.methods.perturbation import BoundPerturbation
from likewise.probe import PRIMARY
from likewise.record import StoppingTimeRecord
from likewise.stats.simultaneous import horizon_band
from likewise.stats.tally import Tally
from likewise.verdict import Verdict

SAMPLE = (1000, 3)
"""People who are followed for twice the time, and along free directions only."""

DOUBLED, FREE_ONLY = "twice the time", "free directions only"


@final
@dataclasses.dataclass(frozen=True)
class Horizons(Check):
    r"""Earlier times of the flow, twice the time, and the limit :math:`\lambda \to \infty`.

    A sup-t band holds for all earlier times at once.
    """

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "horizons"

    @override
    def probes(self, method: BoundPerturbation) -> Iterator[PerturbProbe]:
        flow = method.map
        if not isinstance(flow, GradientFlow):
            return
        yield method.probe(DOUBLED, flow.doubled(), subsample=SAMPLE)
        if len(method.metric.free):
            rows = method.drawn(*SAMPLE)
            # Any metric's free directions; how it prices the others does not matter here.
            alike = ProjectionMetric(method.metric.free, reach=method.metric.reach)
            x, y = method.x[rows], method.y[rows]
            free, _ = choose_steps(
                *(flow.with_penalty(math.inf), method.model, alike, x, y),
                n=method.n,
                threads=method.threads,
            )
            yield method.probe(FREE_ONLY, free, alike, subsample=SAMPLE)

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        tally, settings = stats[PRIMARY].tally, method.settings
        times, diagnostics = [], {}
        if tally.frame.horizons:
            band = horizon_band(
                tally,
                rng=np.random.default_rng([settings.seed, 5]),
                alpha=settings.alpha,
                side="both",
                interval="paper" if settings.decide.interval == "paper" else "hall",
            )
            for time, low, high in zip(tally.frame.horizons, band.lower, band.upper, strict=True):
                times.append(_at(method, tally.horizons[time], time, low, high))
        if isinstance(method.map, GradientFlow):
            times.append(_at(method, stats[DOUBLED].tally, 2 * method.map.time))
            diagnostics["free_only"] = math.nan
        if FREE_ONLY in stats:
            free = method.tested(stats[FREE_ONLY].tally)
            diagnostics["free_only"] = free.deciding.estimate
        return Finding({"stopping_times": tuple(times), "diagnostics": diagnostics})


def _at(
    method: BoundPerturbation,
    tally: Tally,
    time: float,
    low: float = math.nan,
    high: float = math.nan,
) -> StoppingTimeRecord:
    verdicts = method.tested(tally).records
    first = next(iter(verdicts.values()))
    errors = verdicts.get("error_rate_ratio")
    return StoppingTimeRecord(
        time=time,
        n=first.n,
        loss_ratio=first.estimate,
        lower_bound=first.lower_bound,
        error_rate_ratio=math.nan if errors is None else errors.estimate,
        band_lower=low,
        band_upper=high,
    )
