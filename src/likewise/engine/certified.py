"""Maps whose flow, if they have one, is solved accurately enough, with earlier times kept."""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Float, Shaped

from likewise.engine.certificate import Certificate, certify
from likewise.engine.fine_solution import fine, first_steps
from likewise.engine.move_stats import HarmedMost, MoveStats
from likewise.engine.plan import Plan
from likewise.maps.flow import GradientFlow
from likewise.maps.observe import Observed, observe
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.models.base import Model

RUNGS = (0.25, 0.5, 0.75, 1.0)
"""Times at which people's places are kept, as shares of the horizon."""

MOST_HALVED = 8
"""Times as many steps as a fine solution has, at most."""

TELLING = 1e-3
"""Steps are halved for a person until the loss changes by less than this share of it."""


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


@np.errstate(all="ignore")  # people who diverge are counted by the audit
def worst_finely(plan: Plan, found: MoveStats) -> tuple[Plan, MoveStats]:
    """Solve the flow of those harmed most again, finely, if its steps were left open.

    The steps of an audit are enough for its value; one person's loss may be far off. If so few
    people move the value by more than its certificate says, the certificate says that too.
    """
    flow, worst, certificate = plan.map, found.worst, plan.certificate
    open_steps = (
        plan.settings.map.get("steps") is None and plan.settings.map.get("schedule") is None
    )
    one_metric = len(plan.deciding.moves) == 1
    if not (isinstance(flow, GradientFlow) and open_steps and one_metric):
        return plan, found
    if worst is None or certificate is None or not len(worst.harm):
        return plan, found
    seen = _solved(plan, flow, worst)
    few = dataclasses.replace(
        worst.outcomes,
        loss_after=seen.outcomes.loss_after,
        decision_after=seen.outcomes.decision_after,
        probability_after=seen.outcomes.probability_after,
        fair_distance=seen.outcomes.fair_distance,
    )
    base = few.loss_before
    if plan.task == "regression":
        base = np.full(len(few), float(plan.model.loss(plan.model(plan.x), plan.y).mean()))
    change = (few.loss_after - worst.outcomes.loss_after) / base
    change = (change if few.weight is None else few.weight * change)[np.isfinite(change)]
    certificate = certificate.less_sure(abs(float(change.sum())) / found.tally.ratio.weight)
    return (
        dataclasses.replace(plan, certificate=certificate),
        dataclasses.replace(found, worst=worst.again(few, seen.moved.x)),
    )


def _solved(plan: Plan, flow: GradientFlow, worst: HarmedMost) -> Observed:
    """Move them with ever shorter steps, until nobody's loss depends on them."""
    double = dataclasses.replace(flow, precision="float64")

    def seen(rows: np.ndarray, steps: int) -> Observed:
        bound = fine(double, plan.metric, steps).bind(plan.model, plan.metric)
        x, y = worst.before[rows], worst.outcomes.y[rows]
        return observe(plan.model, bound, plan.metric, x, y)

    first = first_steps(flow, plan.metric)
    rows, steps = np.arange(len(worst.harm)), first
    last = done = seen(rows, steps)
    while len(rows) and steps < MOST_HALVED * first:
        steps *= 2
        now = seen(rows, steps)
        kept = np.isin(np.arange(len(worst.harm)), rows, invert=True)
        order = np.argsort(np.concatenate([np.flatnonzero(kept), rows]))
        done = Observed.concat([done.take(np.flatnonzero(kept)), now]).take(order)
        after, before = now.outcomes.loss_after, last.outcomes.loss_after
        open_still = np.flatnonzero(np.abs(after - before) > TELLING * np.abs(after))
        rows, last = rows[open_still], now.take(open_still)
    return done
