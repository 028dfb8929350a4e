"""The audit value at several times of one flow: the horizon is a choice, and is shown as one."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from likewise.checks.certificate import Certificate, certify
from likewise.checks.gather import gather
from likewise.checks.introduce import Introduced
from likewise.checks.judge import default_tests, judge, task_of
from likewise.checks.sensitivity import some
from likewise.inference.simultaneous import horizon_band
from likewise.inference.verdict import Verdict
from likewise.maps.base import UnfairMap
from likewise.maps.combine import Worst
from likewise.maps.flow import GradientFlow
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.outcomes import Outcomes
from likewise.record import HorizonRecord
from likewise.settings import Settings
from likewise.statistics.tally import Tally

RUNGS = (0.25, 0.5, 0.75, 1.0)
"""Times at which people's places are kept, as shares of the horizon."""

PEOPLE = 1000
"""People who are followed for twice the time."""


def with_rungs(flow: GradientFlow) -> GradientFlow:
    """Return the flow with earlier horizons kept, which costs nothing, unless it names its own."""
    if flow.horizons:
        return flow
    times = tuple(share * flow.time for share in RUNGS)
    if isinstance(flow.steps, tuple):
        reached = list(itertools.accumulate(flow.steps))
        times = tuple(sorted({min(reached, key=lambda t: abs(t - time)) for time in times}))
    return dataclasses.replace(flow, horizons=tuple(sorted(set(times))))


def certified(
    map: UnfairMap,
    who: Introduced,
    metric: FairMetric,
    *,
    n: int | None = None,
    seed: int = 0,
    threads: int = 1,
) -> tuple[UnfairMap, Certificate | None]:
    """Return a map whose flow, if it has one, is solved accurately enough, and the certificate."""
    if isinstance(map, GradientFlow):
        ready = with_rungs(map)
        return certify(ready, who.model, metric, who.x, who.y, n=n, seed=seed, threads=threads)
    if not isinstance(map, Worst):
        return map, None
    parts = [certified(p, who, metric, n=n, seed=seed, threads=threads) for p in map.maps]
    errors = [certificate for _, certificate in parts if certificate is not None]
    worst = max(errors, key=lambda certificate: certificate.error_in_se, default=None)
    return Worst(tuple(part for part, _ in parts)), worst


def ladder(
    tally: Tally, settings: Settings, rows: Outcomes | None = None
) -> tuple[HorizonRecord, ...]:
    """Return the statistics at every horizon, with a band that holds for all of them at once.

    Parameters
    ----------
    rows
        Everyone's outcomes, for the bootstrap-t; without them Hall's interval takes its place.
    """
    if not tally.frame.horizons:
        return ()
    if rows is None and settings.decide.interval == "bootstrap_t":
        settings = settings.changed(decide__interval="hall")
    band = horizon_band(
        tally,
        rng=np.random.default_rng([settings.seed, 5]),
        delta=settings.delta,
        alpha=settings.alpha,
        side="both",
        interval="paper" if settings.decide.interval == "paper" else "hall",
    )
    records = []
    for time, low, high in zip(tally.frame.horizons, band.lower, band.upper, strict=True):
        then = None if rows is None else rows.at(time)
        verdicts = [
            test.evidence(tally.at(time), then).verdict(test.delta, test.alpha)
            for test in default_tests(tally.frame.task, settings)
        ]
        records.append(_rung(verdicts, time, low, high))
    return tuple(records)


def doubled(
    who: Introduced, metric: FairMetric, flow: GradientFlow, settings: Settings, *, threads: int
) -> HorizonRecord:
    """Follow some of the people for twice the time."""
    steps = flow.steps
    if isinstance(steps, int):
        steps = 2 * steps
    elif steps is not None:
        steps = steps + steps
    # The simulation's steps go by their name, and Euler's method bears them only there.
    bold = flow.schedule == "paper_simulation"
    longer = dataclasses.replace(
        flow,
        time=2 * flow.time,
        steps=steps,
        horizons=(),
        solver="exponential4" if bold else flow.solver,
        schedule="constant",
    )
    outcomes = gather(some(who, PEOPLE, settings.seed), metric, longer, threads=threads).outcomes
    verdicts = [test(outcomes) for test in default_tests(task_of(outcomes), settings)]
    return _rung(verdicts, longer.time)


def free_only(
    who: Introduced, metric: FairMetric, flow: GradientFlow, settings: Settings, *, threads: int
) -> float:
    r"""Return the audit value along free directions only (:math:`\lambda \to \infty`).

    If it is much smaller, the price was low enough for people to leave their like.
    """
    if not isinstance(metric, QuadraticForm) or not len(metric.free):
        return float("nan")
    sample = some(who, PEOPLE, settings.seed)
    free = dataclasses.replace(
        flow, free_only=True, solver="auto", steps=None, horizons=(), schedule="constant"
    )
    ready, _ = certify(free, who.model, metric, sample.x, sample.y, n=len(who.x), threads=threads)
    return judge(
        gather(sample, metric, ready, threads=threads).outcomes, settings
    ).deciding.estimate


def _rung(
    verdicts: Sequence[Verdict],
    time: float,
    low: float = float("nan"),
    high: float = float("nan"),
) -> HorizonRecord:
    first, last = verdicts[0], verdicts[-1]
    errors = last if len(verdicts) > 1 else None
    return HorizonRecord(
        time=time,
        n=first.n,
        loss_ratio=first.estimate,
        lower_bound=first.lower_bound,
        error_rate_ratio=float("nan") if errors is None else errors.estimate,
        error_rate_lower_bound=float("nan") if errors is None else errors.lower_bound,
        band_lower=low,
        band_upper=high,
    )
