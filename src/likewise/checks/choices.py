"""Settings to maps, and back: the choices that were made, wherever they were made."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Sequence

import torch

from likewise.checks.introduce import Introduced
from likewise.checks.judge import error_rate_interval
from likewise.errors import InvalidData, InvalidSettings
from likewise.inference.ratio_tests import (
    ErrorRateRatioTest,
    LossRatioTest,
    MeanLossRatioTest,
    RatioTest,
)
from likewise.maps.base import UnfairMap
from likewise.maps.combine import Worst
from likewise.maps.feasible import Feasible
from likewise.maps.flips import Flips
from likewise.maps.flow import GradientFlow
from likewise.maps.search import Reach
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.reach import Ellipsoid
from likewise.models.base import Model
from likewise.settings import Settings, canonical


def resolve(settings: Settings, model: Model) -> Settings:
    """Return the settings with nothing left open: a model without gradients cannot flow."""
    _refuse_unsuited(settings, model)
    flow, simulation = settings.flow, GradientFlow.paper_simulation()
    if flow.schedule == simulation.schedule and flow.steps != simulation.steps:
        settings = _note_flow(settings, simulation)
    elif isinstance(flow.steps, tuple):
        settings = settings.changed(flow__time=math.fsum(flow.steps))
    if settings.decide.map != "auto":
        return settings
    return settings.changed(decide__map="flow" if model.card.differentiable else "reach")


def _refuse_unsuited(settings: Settings, model: Model) -> None:
    regression = model.card.task == "regression"
    test, interval = settings.decide.test, settings.decide.interval
    if test != "auto" and (test == "mean_loss_ratio") != regression:
        known = "mean_loss_ratio" if regression else "loss_ratio and error_rate_ratio"
        raise InvalidSettings(
            f"The test {test!r} is not for a {model.card.task}: there {known} can decide (--test)."
        )
    if regression and interval == "bootstrap_t":
        raise InvalidSettings(
            "There is no bootstrap-t for a regression's ratio of means: use the interval 'hall' or "
            "'paper' (--interval)."
        )


def choose_map(settings: Settings, who: Introduced, metric: FairMetric) -> UnfairMap:
    """Return the map that the settings let decide."""
    if settings.reach.within is not None:
        raise InvalidSettings(
            "reach.within stands for a reach that was handed over in Python, which settings cannot "
            "hold. Hand it over again, likewise.Reach(within=…), or leave it out."
        )
    if settings.decide.map == "reach":
        return reach(settings, who)
    if settings.decide.map == "flips":
        return _flips(who)
    if settings.decide.map == "worst":
        return Worst((_flow(settings, metric), reach(settings, who)))
    return _flow(settings, metric)


def reach(settings: Settings, who: Introduced) -> Reach:
    """Return the search within reach."""
    chosen = settings.reach
    return _knowing(who, Reach(chosen.budget, price=chosen.price, feasible=chosen.feasible))


def complete(map: UnfairMap, who: Introduced) -> UnfairMap:
    """Return a map that was handed over, with what it is to learn from the audited people."""
    if isinstance(map, Worst):
        return Worst(tuple(complete(part, who) for part in map.maps))
    return _knowing(who, map) if isinstance(map, Reach) else map


def _knowing(who: Introduced, map: Reach) -> Reach:
    """Return the search with the values that these people have, if it is to keep to them."""
    if map.feasible is not True:
        return map
    return dataclasses.replace(map, feasible=Feasible.of(who.data.x, who.data.features))


def reach_beside(settings: Settings, who: Introduced, metric: QuadraticForm) -> Reach:
    """Return the search where it does not decide: the audited people lend it a missing reach.

    It keeps to the free directions, like the flow that it is compared with.
    """
    search = dataclasses.replace(reach(settings, who), price=None)
    if getattr(metric, "reach", None) is not None:
        return search
    within = Ellipsoid.of(who.data.x @ metric.free.numpy().T, who.data.weight)
    return dataclasses.replace(search, within=within)


def _flow(settings: Settings, metric: FairMetric) -> GradientFlow:
    flow = settings.flow
    within = metric.reach if flow.bounded and isinstance(metric, ProjectionMetric) else None
    if flow.bounded and within is None:
        raise InvalidSettings("flow.bounded needs a metric with a reach; a learned metric has one.")
    return GradientFlow(
        lam=flow.lam,
        time=flow.time,
        solver=flow.solver,
        steps=flow.steps,
        free_only=flow.free_only,
        reach=within,
        precision=flow.precision,
        # Euler by name is the paper's algorithm, which has no such rule.
        keeps_start=flow.solver != "euler" if flow.keeps_start is None else flow.keeps_start,
        schedule=flow.schedule,
    )


def _flips(who: Introduced) -> Flips:
    data, front = who.data, who.model.front
    if front is None:
        return Flips.of(data)
    if data.table is None:
        raise InvalidData("To swap a protected column of a pipeline, its table is needed.")
    read = [name for name in data.protected if not front.columns or name in front.columns]
    return Flips.in_table(data.table, read, lambda table: front(table)[0])


def note_choices(settings: Settings, map: UnfairMap | None, tests: Sequence[RatioTest]) -> Settings:
    """Return the settings with what was chosen by handing over a map or tests."""
    if isinstance(map, Reach):
        settings = settings.changed(
            decide__map="reach",
            reach__budget=map.budget,
            reach__price=map.price,
            reach__feasible=map.feasible is not None,
        )
    if isinstance(map, Flips):
        settings = settings.changed(decide__map="flips")
    if isinstance(map, Worst):
        for part in map.maps:
            settings = note_choices(settings, part, ())
        settings = settings.changed(decide__map="worst")
    if isinstance(map, GradientFlow):
        settings = _note_flow(settings.changed(decide__map="flow"), map)
    for test in tests:
        settings = settings.changed(delta=test.delta, alpha=test.alpha)
        if isinstance(test, LossRatioTest | MeanLossRatioTest):
            settings = settings.changed(decide__interval=test.interval, cap=test.cap)
    for test in tests:
        if isinstance(test, ErrorRateRatioTest) and test.interval != error_rate_interval(settings):
            settings = settings.changed(decide__error_rates=test.interval)
    return settings


def _note_flow(settings: Settings, flow: GradientFlow) -> Settings:
    steps = flow.steps
    if isinstance(steps, tuple) and len(set(steps)) == 1:
        steps = len(steps)
    return settings.changed(
        flow__lam=flow.lam,
        flow__time=flow.time,
        flow__solver=flow.solver,
        flow__steps=steps,
        flow__free_only=flow.free_only,
        flow__bounded=flow.reach is not None,
        flow__precision=flow.precision,
        flow__keeps_start=flow.keeps_start,
        flow__schedule=flow.schedule,
    )


def note_reach(settings: Settings, map: UnfairMap, metric: FairMetric) -> Settings:
    """Return the settings with the hash of a reach that a map brought, unless it is the metric's.

    That of two reaches, if the worst of several maps brought them, is the hash of both.
    """
    own = getattr(metric, "reach", None)
    brought = [reach for reach in _reaches(map) if own is None or not _same(reach, own)]
    if not brought:
        return settings
    numbers = [[r.mean.tolist(), r.covariance.tolist(), r.radius] for r in brought]
    return settings.changed(reach__within=hashlib.sha256(canonical(numbers).encode()).hexdigest())


def _reaches(map: UnfairMap) -> Iterator[Ellipsoid]:
    if isinstance(map, Worst):
        for part in map.maps:
            yield from _reaches(part)
    within = map.within if isinstance(map, Reach) else getattr(map, "reach", None)
    if within is not None:
        yield within


def _same(one: Ellipsoid, other: Ellipsoid) -> bool:
    return (
        torch.equal(one.mean, other.mean)
        and torch.equal(one.covariance, other.covariance)
        and one.radius == other.radius
    )
