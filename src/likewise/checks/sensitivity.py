"""Sensitivity to what was chosen: the metric's free directions, and the penalty λ."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import FairMetric, ProjectionMetric
from likewise.methods.perturb_probe import PerturbProbe
from likewise.methods.perturbation import BoundPerturbation
from likewise.methods.unfair_map import UnfairMap
from likewise.record import SensitivityRecord
from likewise.stats.ratio_test import metric_error_bound
from likewise.verdict import Verdict

SAMPLE = (1000, 3)
"""People on whom other choices are tried."""

PREFIX = "sensitivity: "

FOUND = ("n", "estimate", "lower_bound", "upper_bound", "outcome")  # what is noted of each test


@final
@dataclasses.dataclass(frozen=True)
class Sensitivity(Check):
    """Other metrics and penalties, tried on some of the people; the first line is the choice made.

    One free direction is dropped at a time, and the penalty λ halved, doubled and made infinite:
    then free directions alone are left. Bounds are those of a fixed metric, whatever the verdict
    uses. Flips do not go by a metric.
    """

    methods: ClassVar[tuple[str, ...]] = ("perturbation",)
    name: ClassVar[str] = "sensitivity"

    @override
    def probes(self, method: BoundPerturbation) -> Iterator[PerturbProbe]:
        if not method.goes_by_metric:
            return
        metric, map = method.metric, method.map
        trials: list[tuple[str, str, FairMetric, UnfairMap]] = [("as chosen", "", metric, map)]
        if isinstance(metric, ProjectionMetric) and len(metric.free) > 1:
            for i in range(len(metric.free)):
                trials.append((f"direction {i + 1}", "dropped", metric.without(i), map))
        if isinstance(map, GradientFlow) and not map.free_only:
            for lam in (0.5 * map.lam, 2.0 * map.lam):
                trials.append(("λ", f"{lam:g}", metric, map.with_penalty(lam)))
            if len(metric.free):  # the limit of an infinite penalty
                free_only = dataclasses.replace(map.with_penalty(map.lam), free_only=True)
                trials.append(("λ", "∞", ProjectionMetric(metric.free), free_only))
        for what, change, other, moved in trials if len(trials) > 1 else ():
            yield method.probe(f"{PREFIX}{what}; {change}", moved, other, subsample=SAMPLE)

    @override
    def read(self, stats: Sums, method: BoundPerturbation, verdict: Verdict) -> Finding:
        tried = []
        for name in stats:
            if not name.startswith(PREFIX):
                continue
            what, _, change = name.removeprefix(PREFIX).partition("; ")
            test = method.tested(stats[name].tally).deciding
            found = {name: getattr(test, name) for name in FOUND}
            tried.append(SensitivityRecord(what=what, change=change, **found))
        bound = theorem_a1_bound(method)
        return Finding({"sensitivity": tuple(tried), "diagnostics": {"theorem_a1_bound": bound}})


def theorem_a1_bound(method: BoundPerturbation) -> float:
    r"""Return Theorem A.1's bound on what a metric that is off by one degree can do.

    The constants are estimated from the audited people: how fast the loss and its gradient change
    between them, how far apart they are, and the smallest loss. The factor
    :math:`e^{LT}` makes the bound vacuous in practice; it is shown for completeness.
    """
    flow, projected = method.map, isinstance(method.metric, ProjectionMetric)
    if not isinstance(flow, GradientFlow) or flow.free_only or not projected:
        return math.nan
    rows = method.setup.drawn(*SAMPLE)
    x, y = method.x[rows], method.y[rows]
    gradient = method.model.loss_gradient(x, y)
    losses = method.model.loss(method.model(x), y)
    apart = np.maximum(np.linalg.norm(x - np.roll(x, 1, axis=0), axis=1), 1e-12)
    bend = np.linalg.norm(gradient - np.roll(gradient, 1, axis=0), axis=1)
    try:
        return metric_error_bound(
            lam=flow.lam,
            time=flow.time,
            metric_error=2 * math.sin(math.radians(1.0)),
            lipschitz=2 * flow.lam + float((bend / apart).max()),
            loss_lipschitz=float(np.linalg.norm(gradient, axis=1).max()),
            diameter=2 * float(np.linalg.norm(x - x.mean(axis=0), axis=1).max()),
            smallest_loss=max(float(losses.min()), 1e-300),
        )
    except OverflowError:
        return math.inf
