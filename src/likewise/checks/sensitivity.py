"""How the audit value changes with what was chosen: the metric's directions, and λ."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from likewise.checks.gather import Progress, gather
from likewise.checks.introduce import Introduced
from likewise.checks.judge import judge
from likewise.inference.delta_curve import metric_error_bound
from likewise.maps.base import UnfairMap
from likewise.maps.combine import Worst
from likewise.maps.flips import Flips
from likewise.maps.flow import GradientFlow
from likewise.maps.search import Reach
from likewise.metrics.base import FairMetric
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.reach import Ellipsoid
from likewise.record import SensitivityRecord
from likewise.settings import Settings

PEOPLE = 1000
"""People on whom other choices are tried."""

ANGLES = (1, 5, 10)
FACTORS = (0.5, 2.0)


def sensitivity(
    who: Introduced,
    metric: FairMetric,
    map: UnfairMap,
    settings: Settings,
    *,
    threads: int,
    progress: Progress | None = None,
) -> tuple[SensitivityRecord, ...]:
    """Try other metrics and prices on some of the people; the first line is the choice itself.

    Bounds are those of a fixed metric, whatever the verdict uses. Swaps do not go by a metric.
    """
    if isinstance(map, Flips):
        return ()
    sample = some(who, PEOPLE, settings.seed)
    trials = [("as chosen", "", metric, map), *_others(sample, metric, map)]
    records = []
    for done, (what, change, other, way) in enumerate(trials, start=1):
        outcomes = gather(sample, other, way, threads=threads).outcomes
        test = judge(outcomes, settings).deciding
        records.append(
            SensitivityRecord(
                what=what,
                change=change,
                n=len(outcomes),
                estimate=test.estimate,
                lower_bound=test.lower_bound,
                upper_bound=test.upper_bound,
                outcome=test.outcome,
            )
        )
        if progress is not None:
            progress("trying other choices", done, len(trials))
    return tuple(records)


def some(who: Introduced, most: int, seed: int) -> Introduced:
    """Return a random part of the people, or everyone if they are few."""
    if len(who.x) <= most:
        return who
    rng = np.random.default_rng([seed, 3])
    return who.take(np.sort(rng.choice(len(who.x), most, replace=False)))


def _others(
    who: Introduced, metric: FairMetric, map: UnfairMap
) -> Iterator[tuple[str, str, FairMetric, UnfairMap]]:
    if isinstance(metric, ProjectionMetric) and len(metric.free):
        towards = _priced_direction(who, metric)
        for i in range(len(metric.free)):
            if towards is not None:
                for angle in ANGLES:
                    free = _turned(metric.free, i, towards, angle)
                    turned = ProjectionMetric(free, metric.features, reach=metric.reach)
                    yield f"direction {i + 1}", f"turned by {angle}°", turned, map
            if len(metric.free) > 1:
                rest = np.delete(metric.free, i, axis=0)
                fewer = ProjectionMetric(rest, metric.features, reach=_cut(metric.reach, i))
                yield f"direction {i + 1}", "dropped", fewer, _fitting(map, i)
    if isinstance(map, GradientFlow) and not map.free_only:
        for factor in FACTORS:
            # Explicit solvers would need shorter steps at a higher price.
            other = dataclasses.replace(map, lam=factor * map.lam, solver="auto", steps=None)
            yield "λ", f"{factor * map.lam:g}", metric, other


def _priced_direction(who: Introduced, metric: ProjectionMetric) -> Float[np.ndarray, " d"] | None:
    """Return the direction off the free ones along which the model's loss changes most.

    A metric that is off by some angle is off towards *something*; this is where it matters.
    Without gradients it is the direction in which people differ most.
    """
    if who.model.card.differentiable:
        rows = who.model.loss_gradient(who.x, who.y).astype(np.float64, copy=False)
    else:
        rows = who.x - who.x.mean(axis=0)
    priced = rows - (rows @ metric.free.T) @ metric.free
    # What is left of nothing is rounding.
    if np.linalg.norm(priced) <= 1e-9 * np.linalg.norm(rows):
        return None
    return np.linalg.svd(priced, full_matrices=False).Vh[0]


def _turned(
    free: Float[np.ndarray, "k d"], i: int, towards: Float[np.ndarray, " d"], angle: float
) -> Float[np.ndarray, "k d"]:
    turned = free.copy()
    radians = math.radians(angle)
    turned[i] = math.cos(radians) * free[i] + math.sin(radians) * towards
    return turned


def _cut(reach: Ellipsoid | None, i: int) -> Ellipsoid | None:
    """Return a reach without its i-th coordinate."""
    if reach is None:
        return None
    left = [j for j in range(len(reach.mean)) if j != i]
    return dataclasses.replace(
        reach, mean=reach.mean[left], covariance=reach.covariance[left][:, left]
    )


def _fitting(map: UnfairMap, i: int) -> UnfairMap:
    """Return a map whose own reach, if it brought one, does without the i-th coordinate."""
    if isinstance(map, GradientFlow):
        return dataclasses.replace(map, reach=_cut(map.reach, i))
    if isinstance(map, Reach):
        return dataclasses.replace(map, within=_cut(map.within, i))
    if isinstance(map, Worst):
        return Worst(tuple(_fitting(part, i) for part in map.maps))
    return map


def theorem_a1_bound(who: Introduced, metric: FairMetric, map: UnfairMap, degrees: float) -> float:
    r"""Return Theorem A.1's bound on what a metric that is off by some degrees can do.

    The constants are estimated from the audited people: how fast the loss and its gradient change
    between them, how far apart they are, and the smallest loss. The factor
    :math:`e^{LT}` makes the bound vacuous in practice; it is shown for completeness.
    """
    if not isinstance(map, GradientFlow) or not isinstance(metric, ProjectionMetric):
        return math.nan
    if not who.model.card.differentiable or not len(metric.free):
        return math.nan
    sample = some(who, PEOPLE, 0)
    gradient = sample.model.loss_gradient(sample.x, sample.y)
    losses = sample.model.loss(sample.model(sample.x), sample.y)
    apart = np.maximum(_lengths(sample.x - np.roll(sample.x, 1, axis=0)), 1e-12)
    curvature = float((_lengths(gradient - np.roll(gradient, 1, axis=0)) / apart).max())
    try:
        return metric_error_bound(
            lam=map.lam,
            time=map.time,
            metric_error=2 * math.sin(math.radians(degrees)),
            lipschitz=2 * map.lam + curvature,
            loss_lipschitz=float(_lengths(gradient).max()),
            diameter=2 * float(_lengths(sample.x - sample.x.mean(axis=0)).max()),
            smallest_loss=max(float(losses.min()), 1e-300),
        )
    except OverflowError:
        return math.inf


def _lengths(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    return np.linalg.norm(rows, axis=1)
