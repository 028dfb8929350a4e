"""Settings to maps, and back: the choices that were made, wherever they were made."""

from collections.abc import Sequence

from likewise.errors import InvalidSettings
from likewise.inference.ratio_tests import LossRatioTest, RatioTest
from likewise.maps.base import UnfairMap
from likewise.maps.flow import GradientFlow
from likewise.metrics.base import FairMetric
from likewise.metrics.quadratic import ProjectionMetric
from likewise.settings import Settings


def choose_map(settings: Settings, metric: FairMetric) -> UnfairMap:
    """Return the map that the settings let decide."""
    flow = settings.flow
    if flow.schedule == "paper_simulation":
        return GradientFlow.paper_simulation()
    reach = metric.reach if flow.bounded and isinstance(metric, ProjectionMetric) else None
    if flow.bounded and reach is None:
        raise InvalidSettings("flow.bounded needs a metric with a reach; a learned metric has one.")
    return GradientFlow(
        lam=flow.lam,
        time=flow.time,
        solver=flow.solver,
        steps=flow.steps,
        free_only=flow.free_only,
        reach=reach,
        precision=flow.precision,
        # Euler by name is the paper's algorithm, which has no such rule.
        keeps_start=flow.solver != "euler" if flow.keeps_start is None else flow.keeps_start,
    )


def note_choices(settings: Settings, map: UnfairMap | None, tests: Sequence[RatioTest]) -> Settings:
    """Return the settings with what was chosen by handing over a map or tests."""
    if isinstance(map, GradientFlow):
        steps = map.steps
        if isinstance(steps, tuple) and len(set(steps)) == 1:
            steps = len(steps)
        settings = settings.changed(
            decide__map="flow",
            flow__lam=map.lam,
            flow__time=map.time,
            flow__solver=map.solver,
            flow__steps=steps,
            flow__free_only=map.free_only,
            flow__bounded=map.reach is not None,
            flow__precision=map.precision,
            flow__keeps_start=map.keeps_start,
            flow__schedule=map.schedule,
        )
    for test in tests:
        settings = settings.changed(delta=test.delta, alpha=test.alpha)
        if isinstance(test, LossRatioTest):
            settings = settings.changed(decide__interval=test.interval, cap=test.cap)
    return settings
