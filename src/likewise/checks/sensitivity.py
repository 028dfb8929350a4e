"""How the audit value changes with what was chosen: the metric's directions, and λ."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.engine.decide import Judgement, judge
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import Move, Variant
from likewise.inference.ratio_test import metric_error_bound
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.record import SensitivityRecord

SAMPLE = (1000, 3)
"""People on whom other choices are tried."""

ANGLES = (1, 5, 10)
FACTORS = (0.5, 2.0)

Trial = tuple[str, str, FairMetric, UnfairMap]


@final
@dataclasses.dataclass(frozen=True)
class Sensitivity(Check):
    """Other metrics and prices, tried on some of the people; the first line is the choice itself.

    Bounds are those of a fixed metric, whatever the verdict uses. Swaps do not go by a metric.
    """

    name: ClassVar[str] = "sensitivity"

    @override
    def variants(self, plan: Plan) -> Iterator[Variant]:
        if self.name in plan.asked and plan.map.goes_by_metric:
            for what, change, metric, map in (
                ("as chosen", "", plan.metric, plan.map),
                *_others(plan),
            ):
                yield Variant(_name(what, change), (Move(metric, map),), SAMPLE)

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if self.name not in plan.asked:
            return Finding(skipped=("sensitivity to the metric and λ",))
        tried = []
        for name in stats:
            if not name.startswith(_PREFIX):
                continue
            what, _, change = name.removeprefix(_PREFIX).partition("; ")
            test = judge(plan.tests, plan.decider, plan.map.name, stats[name].tally).deciding
            tried.append(
                SensitivityRecord(
                    what=what,
                    change=change,
                    n=test.n,
                    estimate=test.estimate,
                    lower_bound=test.lower_bound,
                    upper_bound=test.upper_bound,
                    outcome=test.outcome,
                )
            )
        turned = any("turned" in row.change for row in tried)
        unturned = len(plan.metric.free) > 0 and plan.map.goes_by_metric and not turned
        return Finding(
            {
                "sensitivity": tuple(tried),
                "diagnostics": {"theorem_a1_bound": theorem_a1_bound(plan, 1.0)},
            },
            skipped=(_UNTURNED,) if unturned else (),
        )


_PREFIX = "sensitivity: "
_UNTURNED = "turning the free directions (for projections, among people who differ off them)"


def _name(what: str, change: str) -> str:
    return f"{_PREFIX}{what}; {change}"


def _others(plan: Plan) -> Iterator[Trial]:
    metric, map = plan.metric, plan.map
    towards = _priced_direction(plan)
    for i in range(len(metric.free)):
        for angle in ANGLES:
            turned = None
            if towards is not None:
                turned = metric.turned(i, towards, math.radians(angle))
            if turned is not None:
                yield f"direction {i + 1}", f"turned by {angle}°", turned, map
        fewer = metric.without(i) if len(metric.free) > 1 else None
        if fewer is not None:
            yield f"direction {i + 1}", "dropped", fewer, map.without(i)
    for factor in FACTORS:
        other = map.repriced(factor)
        if other is not None:
            yield "λ", f"{other.lam:g}", metric, other


def _priced_direction(plan: Plan) -> Float[np.ndarray, " d"] | None:
    """Return the direction off the free ones along which the model's loss changes most.

    A metric that is off by some angle is off towards *something*; this is where it matters.
    Without gradients it is the direction in which people differ most.
    """
    if not len(plan.metric.free):
        return None
    some = plan.drawn(*SAMPLE)
    rows = plan.x[some]
    if plan.model.card.differentiable:
        rows = plan.model.loss_gradient(rows, plan.y[some]).astype(np.float64)
    else:
        rows = rows - rows.mean(axis=0)
    free = plan.metric.free
    priced = rows - (rows @ free.T) @ free
    # What is left of nothing is rounding.
    if float(np.linalg.norm(priced)) <= 1e-9 * float(np.linalg.norm(rows)):
        return None
    return np.linalg.svd(priced, full_matrices=False)[2][0]


def theorem_a1_bound(plan: Plan, degrees: float) -> float:
    r"""Return Theorem A.1's bound on what a metric that is off by some degrees can do.

    The constants are estimated from the audited people: how fast the loss and its gradient change
    between them, how far apart they are, and the smallest loss. The factor
    :math:`e^{LT}` makes the bound vacuous in practice; it is shown for completeness.
    """
    flow = plan.map.repriced(1.0)
    if flow is None or not plan.model.card.differentiable or plan.metric.without(0) is None:
        return math.nan
    rows = np.arange(len(plan.x))
    if len(rows) > SAMPLE[0]:
        rng = np.random.default_rng([0, SAMPLE[1]])
        rows = np.sort(rng.choice(len(rows), SAMPLE[0], replace=False))
    x, y = plan.x[rows], plan.y[rows]
    gradient = plan.model.loss_gradient(x, y)
    losses = plan.model.loss(plan.model(x), y)
    apart = np.maximum(np.linalg.norm(x - np.roll(x, 1, axis=0), axis=1), 1e-12)
    bend = np.linalg.norm(gradient - np.roll(gradient, 1, axis=0), axis=1)
    try:
        return metric_error_bound(
            lam=flow.lam,
            time=flow.time,
            metric_error=2 * math.sin(math.radians(degrees)),
            lipschitz=2 * flow.lam + float((bend / apart).max()),
            loss_lipschitz=float(np.linalg.norm(gradient, axis=1).max()),
            diameter=2 * float(np.linalg.norm(x - x.mean(axis=0), axis=1).max()),
            smallest_loss=max(float(losses.min()), 1e-300),
        )
    except OverflowError:
        return math.inf
