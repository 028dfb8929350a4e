"""How the audit value changes with what was chosen: the metric's directions, and λ."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.method import Check, Finding
from likewise.methods.decide import judge
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import FairMetric, ProjectionMetric
from likewise.methods.perturb_probe import PerturbProbe, PerturbStats
from likewise.methods.perturbation import BoundPerturbation
from likewise.methods.unfair_map import UnfairMap
from likewise.record import SensitivityRecord
from likewise.stats.ratio_test import metric_error_bound
from likewise.verdict import Verdict

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

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "sensitivity"

    @override
    def probes(self, method: BoundPerturbation) -> Iterator[PerturbProbe]:
        if method.goes_by_metric:
            for what, change, metric, map in (
                ("as chosen", "", method.metric, method.map),
                *_others(method),
            ):
                yield method.probe(_name(what, change), map, metric, subsample=SAMPLE)

    @override
    def read(
        self, stats: Mapping[str, PerturbStats], method: BoundPerturbation, verdict: Verdict
    ) -> Finding:
        tried = []
        for name in stats:
            if not name.startswith(_PREFIX):
                continue
            what, _, change = name.removeprefix(_PREFIX).partition("; ")
            test = judge(method.tests, method.decider, method.map.name, stats[name]).deciding
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
        unturned = len(method.metric.free) > 0 and method.goes_by_metric and not turned
        return Finding(
            {
                "sensitivity": tuple(tried),
                "diagnostics": {"theorem_a1_bound": theorem_a1_bound(method, 1.0)},
            },
            skipped=(_UNTURNED,) if unturned else (),
        )


_PREFIX = "sensitivity: "
_UNTURNED = "turning the free directions (for projections, among people who differ off them)"


def _name(what: str, change: str) -> str:
    return f"{_PREFIX}{what}; {change}"


def _others(method: BoundPerturbation) -> Iterator[Trial]:
    metric, map = method.metric, method.map
    if isinstance(metric, ProjectionMetric):
        towards = _priced_direction(method)
        for i in range(len(metric.free)):
            for angle in ANGLES:
                if towards is not None:
                    turned = metric.turned(i, towards, math.radians(angle))
                    yield f"direction {i + 1}", f"turned by {angle}°", turned, map
            if len(metric.free) > 1:
                yield f"direction {i + 1}", "dropped", metric.without(i), map
    if isinstance(map, GradientFlow) and not map.free_only:
        for factor in FACTORS:
            yield "λ", f"{factor * map.lam:g}", metric, map.with_penalty(factor * map.lam)


def _priced_direction(method: BoundPerturbation) -> Float[np.ndarray, " d"] | None:
    """Return the direction off the free ones along which the model's loss changes most.

    A metric that is off by some angle is off towards *something*; this is where it matters.
    Without gradients it is the direction in which people differ most.
    """
    if not len(method.metric.free):
        return None
    some = method.drawn(*SAMPLE)
    rows = method.x[some]
    if method.model.card.differentiable:
        rows = method.model.loss_gradient(rows, method.y[some]).astype(np.float64)
    else:
        rows = rows - rows.mean(axis=0)
    free = method.metric.free
    priced = rows - (rows @ free.T) @ free
    # What is left of nothing is rounding.
    if float(np.linalg.norm(priced)) <= 1e-9 * float(np.linalg.norm(rows)):
        return None
    return np.linalg.svd(priced, full_matrices=False)[2][0]


def theorem_a1_bound(method: BoundPerturbation, degrees: float) -> float:
    r"""Return Theorem A.1's bound on what a metric that is off by some degrees can do.

    The constants are estimated from the audited people: how fast the loss and its gradient change
    between them, how far apart they are, and the smallest loss. The factor
    :math:`e^{LT}` makes the bound vacuous in practice; it is shown for completeness.
    """
    flow, projected = method.map, isinstance(method.metric, ProjectionMetric)
    if not isinstance(flow, GradientFlow) or flow.free_only or not projected:
        return math.nan
    rows = np.arange(len(method.x))
    if len(rows) > SAMPLE[0]:
        rng = np.random.default_rng([0, SAMPLE[1]])
        rows = np.sort(rng.choice(len(rows), SAMPLE[0], replace=False))
    x, y = method.x[rows], method.y[rows]
    gradient = method.model.loss_gradient(x, y)
    losses = method.model.loss(method.model(x), y)
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
