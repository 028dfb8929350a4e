"""Settings to maps, and back: the choices that were made, wherever they were made."""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from likewise.checks.introduce import Introduced
from likewise.checks.judge import error_rate_interval
from likewise.choices import make, note, parameters
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
from likewise.registry import MAPS
from likewise.settings import Choice, Settings, canonical


def resolve(settings: Settings, model: Model) -> Settings:
    """Return the settings with nothing left open: a model without gradients cannot flow."""
    _refuse_unsuited(settings, model)
    choice = settings.map
    if choice.name == "auto":
        name = "flow" if model.card.differentiable else "reach"
        known = parameters(MAPS.find(name)).keys() | {"bounded"}
        given = {k: v for k, v in choice.params.items() if k in known}
        choice = Choice.model_validate({"name": name, **given})
    # Whatever is wrong with parameters is said now; swaps need people to be made.
    if choice.name in MAPS.names() and choice.name != "flips":
        choice = noted(_made(choice, None, settings, None))
    return settings.changed(map=choice.model_dump())


def _refuse_unsuited(settings: Settings, model: Model) -> None:
    regression = model.card.task == "regression"
    test, interval = settings.decide.test, settings.decide.interval
    if test != "auto" and (test == "mean_loss_ratio") != regression:
        known = "mean_loss_ratio" if regression else "loss_ratio and error_rate_ratio"
        raise InvalidSettings(
            f"The test {test!r} is not for a {model.card.task}: there {known} can decide "
            "(decide.test)."
        )
    if regression and interval == "bootstrap_t":
        raise InvalidSettings(
            "There is no bootstrap-t for a regression's ratio of means: use the interval 'hall' or "
            "'paper' (decide.interval)."
        )


def choose_map(settings: Settings, who: Introduced, metric: FairMetric) -> UnfairMap:
    """Return the map that the settings let decide."""
    return _made(settings.map, who, settings, metric)


def _made(
    choice: Choice, who: Introduced | None, settings: Settings, metric: FairMetric | None
) -> UnfairMap:
    if choice.name == "worst":
        parts = choice.get("maps") or ({"name": "flow"}, {"name": "reach"})
        chosen = [Choice.model_validate(part) for part in parts]
        return Worst(tuple(_made(part, who, settings, metric) for part in chosen))
    if choice.name == "flow":
        return _flow(choice, metric)
    if choice.name == "flips" and who is not None:
        return _flips(who)
    map = make(MAPS, choice, trust=True)
    return complete(map, who) if who is not None else map


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
    budget = settings.checks.params("reach_crosscheck").get(
        "budget", settings.map.get("budget", 60)
    )
    search = Reach(budget=int(budget))
    if settings.map.get("feasible"):
        search = _knowing(who, dataclasses.replace(search, feasible=True))
    if getattr(metric, "reach", None) is not None:
        return search
    within = Ellipsoid.of(who.data.x @ metric.free.T, who.data.weight)
    return dataclasses.replace(search, within=within)


def _flow(choice: Choice, metric: FairMetric | None) -> GradientFlow:
    params = dict(choice.params)
    bounded, keeps_start = params.pop("bounded", False), params.pop("keeps_start", None)
    if params.get("schedule") == "paper_simulation":
        return GradientFlow.paper_simulation()
    flow: GradientFlow = make(MAPS, Choice.model_validate({"name": "flow", **params}))
    # Euler by name is the paper's algorithm, which has no such rule.
    keeps_start = flow.solver != "euler" if keeps_start is None else keeps_start
    within = metric.reach if bounded and isinstance(metric, ProjectionMetric) else None
    if bounded and within is None and metric is not None:
        raise InvalidSettings("map.bounded needs a metric with a reach; a learned metric has one.")
    flow = dataclasses.replace(flow, keeps_start=keeps_start, reach=within)
    return dataclasses.replace(flow, reach=_UNKNOWN) if bounded and metric is None else flow


_UNKNOWN = Ellipsoid(np.zeros(0), np.zeros((0, 0)), 0.0)
"""Stands for the reach of a metric that is not known yet."""


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
    if map is not None:
        settings = settings.changed(map=noted(map).model_dump())
    for test in tests:
        settings = settings.changed(delta=test.delta, alpha=test.alpha)
        if isinstance(test, LossRatioTest | MeanLossRatioTest):
            settings = settings.changed(decide__interval=test.interval, cap=test.cap)
    for test in tests:
        if isinstance(test, ErrorRateRatioTest) and test.interval != error_rate_interval(settings):
            settings = settings.changed(tests__error_rate_ratio={"interval": test.interval})
    return settings


def noted(map: UnfairMap) -> Choice:
    """Return the choice that stands for a map."""
    if isinstance(map, Flips):
        return Choice(name="flips")
    if isinstance(map, Worst):
        parts = [noted(part).model_dump() for part in map.maps]
        return Choice.model_validate({"name": "worst", "maps": parts})
    choice = note(MAPS, map)
    params = choice.params
    if isinstance(map, GradientFlow):
        params |= {"bounded": params.pop("reach") is not None}
        del params["horizons"]
        if isinstance(map.steps, tuple) and len(set(map.steps)) == 1:
            params["steps"] = len(map.steps)
    if isinstance(map, Reach):
        params |= {"feasible": map.feasible is not None, "within": None}
    return Choice.model_validate({"name": choice.name, **params})


def note_reach(settings: Settings, map: UnfairMap, metric: FairMetric) -> Settings:
    """Return the settings with the hash of a reach that a map brought, unless it is the metric's.

    That of two reaches, if the worst of several maps brought them, is the hash of both.
    """
    own = getattr(metric, "reach", None)
    brought = [reach for reach in _reaches(map) if own is None or not _same(reach, own)]
    if not brought:
        return settings
    numbers = [[r.mean.tolist(), r.covariance.tolist(), r.radius] for r in brought]
    sha256 = hashlib.sha256(canonical(numbers).encode()).hexdigest()
    return settings.changed(map__within={"sha256": sha256})


def _reaches(map: UnfairMap) -> Iterator[Ellipsoid]:
    if isinstance(map, Worst):
        for part in map.maps:
            yield from _reaches(part)
    within = map.within if isinstance(map, Reach) else getattr(map, "reach", None)
    if within is not None:
        yield within


def _same(one: Ellipsoid, other: Ellipsoid) -> bool:
    return (
        np.array_equal(one.mean, other.mean)
        and np.array_equal(one.covariance, other.covariance)
        and one.radius == other.radius
    )
