"""Does everything fit together? Settles every choice before anybody is moved."""

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.audit_data import AuditData
from likewise.data.scales import warn_about_scales
from likewise.data.sources import Source
from likewise.data.survey import Survey, drawn_rows
from likewise.engine.certified import certified
from likewise.engine.decide import choose_tests, deciding_map, deciding_test, note_tests, searched
from likewise.engine.learning import MOST, learn_metric, same_people
from likewise.engine.meeting import ModelHandle, Progress, as_seen, own_encoder, units_of
from likewise.engine.occurring import Occurring
from likewise.engine.plan import Plan
from likewise.errors import (
    ConversionWarning,
    InvalidData,
    InvalidSettings,
    StatisticalWarning,
    nearest,
)
from likewise.inference.ratio_test import RatioTest
from likewise.maps.unfair_map import UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.metrics.metric_file import check_belongs
from likewise.metrics.sample import held_features
from likewise.models import as_model, check
from likewise.models.base import Model, targets
from likewise.models.performance import performance_of
from likewise.scale.executors import Executor
from likewise.settings import Choice, Settings
from likewise.settings.choices import CHECKS, MAPS, METRICS, make, note

MANY_FREE = 4
"""Free directions from which on they are compared with their number of all."""

ROWS_FOR_WORKERS = 64
"""Rows of the table that travel with the model, so that a pipeline can be tried out again."""


def prepare(
    model: Any,
    opened: Any,
    source: Source,
    known: Survey,
    *,
    metric: FairMetric | None,
    map: UnfairMap | None,
    tests: Sequence[RatioTest],
    settings: Settings,
    run: Executor,
    trust: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """Check model, people, metric, map and tests against each other; learn what is missing.

    Parameters
    ----------
    model, opened
        The model as it was handed over or named, and as it is in this process.
    """
    if known.n < 2:
        raise InvalidData(f"There are {known.n} people; a test needs at least 2.")
    metric, settings = choose_metric(metric, settings, trust=trust)
    search = searched(settings.map) if map is None else map.name == "reach"
    units = search if metric is None else metric.attached.get("encoder", False)
    wrapped, handle = meet(model, opened, known, settings, trust=trust, units=units)
    people = as_seen(wrapped, known.sample)
    classes = label_classes(wrapped, known, settings)
    if settings.decide.favourable is not None:
        favourable_place(settings.decide.favourable, wrapped.card.task, classes)
    check(wrapped, people.x, features=people.features, classes=classes)
    performance = performance_of(wrapped, people.x, targets(people.y, classes))

    if metric is None:
        metric = learn_metric(wrapped, handle, source, known, people, settings, run, progress)
        if handle.about.get("units") is not None:
            attached = {"encoder": handle.about["units"].to_json()}
            metric = dataclasses.replace(metric, attached=attached)  # type: ignore[type-var]
    check_belongs(metric, people.features)
    check_held(metric, people, settings)
    warn_of_freedom(metric)
    same_sample = same_people(metric, known)
    very = metric.origin is not None and metric.origin.data == known.fingerprint
    check_refits(metric, settings, known.n, same_sample=very)

    chosen = choose_tests(settings, wrapped.card, tests, trust=trust)
    settings = note_tests(settings, chosen, wrapped.card.task, given=bool(tests))
    if map is None:
        map = make(MAPS, deciding_map(settings.map, wrapped.card, metric), trust=trust)
    if map.asks_answers:
        wrapped, handle = handle.bounded()
    decider = deciding_test(settings, wrapped.card, chosen, map.name)
    settings = settings.changed(map=note(MAPS, map).model_dump())
    if wrapped.front is None and people.encoder is None:
        warn_about_scales(people.x, people.features, getattr(map, "lam", math.nan))
    occurring = Occurring(handle, source, known, people, wrapped.front, run, progress)
    map = map.knowing(occurring)
    map.bind(wrapped, metric)
    return Plan(
        model=wrapped,
        handle=handle,
        source=source,
        known=known,
        people=people,
        classes=classes,
        metric=metric,
        map=map,
        tests=chosen,
        decider=decider,
        asked=asked_checks(settings),
        same_sample=same_sample,
        settings=settings,
        run=run,
        occurring=occurring,
        performance=performance,
    )


def meet(
    model: Any,
    opened: Any,
    known: Survey,
    settings: Settings,
    *,
    trust: bool,
    units: bool | str = False,
) -> tuple[Model, ModelHandle]:
    """Return the model made ready for these people, and how workers come by theirs.

    Parameters
    ----------
    units
        Whether a model of numbers is given them in standard deviations, so that neither the
        table's units nor a scaler say who is similar; or the encoder (JSON) whose units count.
    """
    about: dict[str, Any] = {
        "output": settings.columns.output,
        "table": known.sample.table,
        "encoder": known.sample.encoder,
        "loss": settings.decide.loss,
        "protected": tuple(known.traits),
        "labels": None if unlabelled(settings) else known.sample.y,
        "positive": settings.columns.positive,
        "space": settings.model.space,
        "threshold": settings.decide.threshold,
        "own": own_encoder(opened, known.sample),
    }
    wrapped = as_model(opened, **about)
    if units and about["own"] is None:
        about["units"] = units_of(opened, wrapped, known.sample, units)
        wrapped = wrapped if about["units"] is None else as_model(opened, **about)
    if wrapped.card.decisions:
        warnings.warn(
            f"The {wrapped.card.kind} gives no probabilities, so it is audited by its decisions: "
            "error rates (the 0-1 loss) decide. Scores only lead the search.",
            ConversionWarning,
            stacklevel=2,
        )
    about |= {"labels": None, "space": wrapped.card.space or "auto"}
    if known.sample.table is not None:
        about["table"] = known.sample.table.slice(0, ROWS_FOR_WORKERS)
    return wrapped, ModelHandle(model, trust, about, wrapped)


def with_certificate(plan: Plan) -> Plan:
    """Return the plan with a map that is solved accurately enough, and the certificate of it."""
    # In pieces only these are known: the same people, so that the steps are the same.
    rows = np.isin(plan.known.places, drawn_rows(plan.source.n_rows, plan.settings.seed))
    weight = plan.people.weight
    map, certificate = certified(
        plan.map,
        plan.model,
        plan.metric,
        plan.x[rows],
        plan.y[rows],
        n=plan.n,
        weight=None if weight is None else weight[rows],
        seed=plan.settings.seed,
        threads=plan.threads,
    )
    return dataclasses.replace(plan, map=map, certificate=certificate)


def unlabelled(settings: Settings) -> bool:
    """Tell whether people have no labels, since only the favourable decision counts."""
    return settings.columns.label is None and settings.decide.favourable is not None


def label_classes(model: Model, known: Survey, settings: Settings) -> tuple[Any, ...]:
    """Return the classes behind the labels, in the order of the model's outputs."""
    if model.card.task == "regression":
        return ()
    if known.many_labels:
        raise InvalidData(
            "The label has more than 10 000 different values, and the model decides among "
            "classes. Name the column with the class (--label)."
        )
    if len(known.labels) == 1 and not unlabelled(settings):
        (only,) = known.labels
        name = "" if settings.columns.label is None else f" ({settings.columns.label!r})"
        warnings.warn(
            f"Everyone has the same label{name}, {only!r}: how people of another class are served "
            "cannot be seen. Is it the true outcome, of all people?",
            StatisticalWarning,
            stacklevel=2,
        )
    labels = np.array(list(known.labels), dtype=known.sample.y.dtype)
    return model.targets(labels, positive=settings.columns.positive)[1]


def favourable_place(value: str, task: str, classes: tuple[Any, ...]) -> tuple[int, str]:
    """Return the place of the decision that people want among the model's, and its name."""
    if task == "regression":
        if value != "above":
            raise InvalidSettings(
                f"The model predicts a number, so the favourable decision is 'above' the "
                f"threshold (decide.threshold), not {value!r}."
            )
        return 1, value
    names = [str(name) for name in classes]
    if value not in names:
        raise InvalidSettings(
            f"{value!r} is no decision of this model, which decides among {', '.join(names)} "
            f"(--favourable).{nearest(value, names)}"
        )
    return names.index(value), value


def choose_metric(
    metric: FairMetric | None, settings: Settings, *, trust: bool
) -> tuple[FairMetric | None, Settings]:
    """Return the metric that was handed over or named, noted if it is of another package."""
    name = settings.metric.name
    if metric is None and name != "auto":
        choice = Choice.model_validate({"name": name, **settings.metric.params})
        metric = make(METRICS, choice, trust=trust)
    if metric is not None and METRICS.name_of(type(metric)) not in METRICS.built_in:
        own = settings.metric.model_dump(exclude={"name", *settings.metric.params})
        settings = settings.changed(metric={**own, **note(METRICS, metric).model_dump()})
    return metric, settings


def check_refits(metric: FairMetric, settings: Settings, n: int, *, same_sample: bool) -> None:
    """Refuse refits and cross-fitting that need another metric than this."""
    if settings.metric.refits and n > MOST:
        raise InvalidSettings(
            f"Bootstrap refits (metric.refits) learn from people in memory, at most {MOST}, not "
            f"{n}. Without metric.refits, the metric's own refits count."
        )
    if settings.metric.refits and not same_sample:
        raise InvalidSettings(
            "Bootstrap refits (metric.refits) need the people that the metric was "
            "learned from, and those are not the audited ones. Without metric.refits, the metric's "
            "own refits count."
        )
    if settings.metric.crossfit and (metric.groups is None or not same_sample):
        raise InvalidSettings(
            "metric.crossfit is for a metric learned from the audited people; this one was not."
        )


def check_held(metric: FairMetric, people: AuditData, settings: Settings) -> None:
    """Refuse a metric along whose free directions something changes that may matter."""
    features = people.features
    for j in held_features(features, settings.columns.may_matter, people.table):
        if len(metric.free) and np.abs(metric.free[:, j]).max() > 1e-9:
            raise InvalidSettings(
                f"Under this metric people who differ in {features[j]!r} are alike, but that may "
                "matter (columns.may_matter). Learn the metric with --may-matter."
            )


def warn_of_freedom(metric: FairMetric) -> None:
    """Warn if more than half of all directions are free: then almost everyone is alike."""
    if len(metric.free) < MANY_FREE:
        return
    k, d = metric.free.shape
    if 2 * k > d:
        warnings.warn(
            f"{k} of {d} directions are free under this metric, more than half: people who have "
            "little in common count as alike. Name fewer traits, or the columns that may matter "
            "(--may-matter).",
            StatisticalWarning,
            stacklevel=2,
        )


def asked_checks(settings: Settings) -> frozenset[str]:
    """Return the names of the checks that were asked for."""
    run = settings.checks.run
    if run == "core":
        return frozenset()
    return frozenset(CHECKS.names() if run == "full" else run)
