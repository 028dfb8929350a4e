"""Maps whose flow, if they have one, is solved accurately enough, with earlier times kept."""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Float, Shaped

from likewise.engine.certificate import Certificate, certify
from likewise.maps.base import UnfairMap
from likewise.maps.flow import GradientFlow
from likewise.metrics.base import FairMetric
from likewise.models.base import Model

RUNGS = (0.25, 0.5, 0.75, 1.0)
"""Times at which people's places are kept, as shares of the horizon."""


def certified(
    map: UnfairMap,
    model: Model,
    metric: FairMetric,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    *,
    n: int,
    weight: Float[np.ndarray, " n"] | None = None,
    seed: int = 0,
    threads: int = 1,
    rungs: bool = True,
) -> tuple[UnfairMap, Certificate | None]:
    """Return a map whose flow, if it has one, is solved accurately enough, and the certificate.

    Parameters
    ----------
    rungs
        Whether people's places at earlier times are kept too.
    """
    if isinstance(map, GradientFlow):
        flow = with_rungs(map) if rungs else map
        return certify(flow, model, metric, x, y, weight=weight, n=n, seed=seed, threads=threads)
    if len(map.parts) < 2:
        return map, None
    found = [
        certified(part, model, metric, x, y, n=n, weight=weight, seed=seed, threads=threads)
        for part in map.parts
    ]
    errors = [certificate for _, certificate in found if certificate is not None]
    worst = max(errors, key=lambda certificate: certificate.error_in_se, default=None)
    return map.with_parts(tuple(part for part, _ in found)), worst


def with_rungs(flow: GradientFlow) -> GradientFlow:
    """Return the flow with earlier horizons kept, which costs nothing, unless it names its own."""
    if flow.horizons:
        return flow
    times = tuple(share * flow.time for share in RUNGS)
    if isinstance(flow.steps, tuple):
        reached = list(itertools.accumulate(flow.steps))
        times = tuple(sorted({min(reached, key=lambda t: abs(t - time)) for time in times}))
    return dataclasses.replace(flow, horizons=tuple(sorted(set(times))))
