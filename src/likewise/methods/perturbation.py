"""Methods that perturb people: gradient flow, reach and flip, bound to a model and a metric."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.data.notes import warn_about_scales
from likewise.data.source import Blocks
from likewise.data.survey import drawn_rows
from likewise.errors import InvalidSettings
from likewise.handle import ModelHandle, as_seen
from likewise.loss import CustomLoss
from likewise.method import BoundMethod
from likewise.methods.decide import (
    Judgement,
    by_group,
    choose_tests,
    decide_with_groups,
    deciding_map,
    deciding_test,
)
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.jackknife import groups_between, refitted_probes, unit_hashes, with_refitted
from likewise.methods.learn_metric import learn_metric, same_people
from likewise.methods.metric import FairMetric, FunctionMetric, as_metric, places_of
from likewise.methods.metric import metric as function_metric
from likewise.methods.metric_file import check_belongs, metric_fingerprint
from likewise.methods.negative_control import control_probes, with_control
from likewise.methods.numerical_error import choose_steps
from likewise.methods.perturb_probe import PerturbProbe, PerturbStats, perturbed_people
from likewise.methods.unfair_map import UnfairMap, among
from likewise.models import check
from likewise.models.base import Model, targets
from likewise.models.behaviour import spread
from likewise.models.black_box import call_model
from likewise.models.performance import Performance, performance_of
from likewise.outcomes import troubles
from likewise.probe import PRIMARY, Probe, Subsample
from likewise.record import DecidedBy, MetricRecord, NumericalErrorRecord
from likewise.run.executors import Threads, block_size, processors
from likewise.settings import Settings
from likewise.settings.choices import METHODS, METRICS, note
from likewise.setup import Setup
from likewise.stats.frame import AttributeLevels, Frame
from likewise.stats.ratio_test import RatioTest
from likewise.stats.sums import QuantileSketch
from likewise.stats.tally import Tally
from likewise.verdict import Verdict

TRIED_PEOPLE = 20  # people on whom it is seen whether a method goes by the metric
LOADINGS, BINS = 10, 40  # those shown of each direction, and those of the histogram

UNBOUNDED = (
    "the numerical error of the flow could not be bounded; shorten its time, or search the "
    "plausible region (--method reach)"
)

SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class BoundPerturbation(BoundMethod):
    """Model, people, metric, map and tests that go together.

    Parameters
    ----------
    model, handle
        The model of this process, and how workers come by theirs.
    people
        The survey's sample of the people, as the model sees them; everyone if there are few.
    metric, map
        Who counts as alike, and how the adversarial example is found.
    tests, decider
        By name, and the name of the test that decides.
    same_sample
        Whether the metric was learned from these people, or from many of them.
    limit
        What a regression's losses are capped at.
    """

    setup: Setup
    model: Model
    handle: ModelHandle
    people: AuditData
    classes: tuple[Any, ...]
    metric: FairMetric
    map: UnfairMap
    tests: Mapping[str, RatioTest]
    decider: str
    same_sample: bool
    settings: Settings
    performance: Performance
    limit: float = math.inf
    numerical_error: NumericalErrorRecord | None = None

    kind: ClassVar[str] = "perturbation"

    @property
    @override
    def name(self) -> str:
        return self.map.name

    @property
    def canary(self) -> Callable[[], Float[np.ndarray, "m k"]]:
        """Asks the model about a few people; again when all is done."""
        few = self.x[spread(len(self.x))]
        return lambda: call_model(self.model, few, self.model.card)

    @property
    def clusters(self) -> int:
        """How many clusters the people of the sample are in; 0 without any."""
        return 0 if self.people.cluster is None else len(set(self.people.cluster.tolist()))

    @functools.cached_property
    def x(self) -> Float[np.ndarray, "m d"]:
        """Features of the sample."""
        return np.ascontiguousarray(self.people.x, dtype=np.float64)

    @functools.cached_property
    def y(self) -> Shaped[np.ndarray, " m"]:
        """Labels of the sample, as the loss wants them."""
        return targets(self.people.y, self.classes)

    @property
    def block_size(self) -> int:  # type: ignore[override]
        """People of a block."""
        return block_size(self.x.shape[1])

    @property
    def threads(self) -> int:
        """Threads that this process may use itself."""
        run = self.setup.session.executor
        return run.workers or processors() if isinstance(run, Threads) else 1

    @functools.cached_property
    def frame(self) -> Frame:
        """The terms in which everyone is summed up."""
        card = self.model.card
        return Frame(
            n=self.n,
            task=card.task,
            classes=max(2, len(self.classes)),
            weighted=self.survey.weighted,
            clustered=self.people.cluster is not None,
            cap=self.settings.cap,
            limit=self.limit,
            attributes={
                k: AttributeLevels.from_counts(counts)
                for k, counts in self.survey.attributes.items()
            },
        )

    def probe(
        self,
        name: str,
        map: UnfairMap,
        metric: FairMetric | None = None,
        *,
        subsample: tuple[int, int] | None = None,
        groups: Int[np.ndarray, " n"] | None = None,
        left_out: int = -1,
        detailed: bool = False,
        keeps_rows: bool = False,
    ) -> PerturbProbe:
        """Return people moved by a map under a metric (by default the one that decides)."""
        n, card = self.n, self.model.card
        if groups is not None:
            n = int((groups != left_out).sum())
        elif subsample is not None:
            n = min(subsample[0], len(self.people))
        binary = card.task == "classification" and len(self.classes) == 2
        frame = dataclasses.replace(
            self.frame if detailed else self.frame.bare(),
            n=n,
            monotone=bool(map.keeps_start and binary),
        )
        metric = self.metric if metric is None else metric
        some = None if subsample is None else Subsample(*subsample)
        about = (self.classes, some, groups, left_out, detailed, keeps_rows)
        return PerturbProbe(name, map, metric, frame, *about)

    @functools.cached_property
    def groups(self) -> Int[np.ndarray, " n"] | None:
        """Everyone's group of the jackknife; none if the metric was learned elsewhere.

        People who were not learned from are dealt to groups by the same rule, so that a group left
        out leaves out its share of them too: one jackknife covers both samples, however they
        overlap.
        """
        if self.metric.cuts is None or not self.same_sample:
            return None
        blocks = Blocks(self.source, self.block_size)
        read = (people for _, people in blocks.read(range(len(blocks))))
        return groups_between(unit_hashes(read), self.metric.cuts)

    @functools.cached_property
    def goes_by_metric(self) -> bool:
        """Whether another metric moves people elsewhere: tried on a few people, where it matters.

        A method of another package that ignores the metric has no use for refits and controls.
        """
        others = (*self.metric.controls, *self.metric.refits)[:1]
        if not others or METHODS.name_of(type(self.map)) in METHODS.built_in:
            return self.map.goes_by_metric
        rows = np.arange(min(TRIED_PEOPLE, len(self.x)))
        bound = (self.map.bind(self.model, metric) for metric in (self.metric, *others))
        one, other = (among(b, self.people, rows)(self.x[rows], self.y[rows]).x for b in bound)
        return not np.array_equal(one, other, equal_nan=True)

    @property
    def learned(self) -> bool:
        """Whether the method goes by a metric that was learned."""
        return self.metric.origin is not None and self.goes_by_metric

    @functools.cached_property
    def primary(self) -> PerturbProbe:
        """The probe that decides."""
        return self.probe(PRIMARY, self.map, detailed=True)

    @property
    @override
    def probes(self) -> Sequence[Probe]:
        return [self.primary, *refitted_probes(self)]

    @override
    def follow_up(self, stats: Mapping[str, Any]) -> Iterable[Probe]:
        return control_probes(stats, self)

    @override
    def judge(self, stats: Mapping[str, Any]) -> Verdict:
        found: PerturbStats = stats[PRIMARY]
        judgement, jackknife = with_refitted(self._judge_everyone(found.tally), stats, self)
        judgement, control = with_control(judgement, stats, self)
        counts, deciding = found.tally.status, judgement.deciding
        outcome, reason = deciding.outcome, deciding.held_back
        groups = by_group(found.tally, self.settings)
        if groups and not self.settings.paper:
            errors = jackknife.get(self.decider)
            outcome, reason, groups = decide_with_groups(
                deciding,
                groups,
                **({} if errors is None else errors.widening(len(self.metric.free))),
                held_back=judgement.evidence[self.decider].held_back,
            )
        skipped = {
            "jackknife over the metric's sample": self.learned and not jackknife,
            "negative control": self.learned and self.metric.controls and not control,
        }
        parameters = {name: getattr(self.map, name, None) for name in ("lam", "time", "budget")}
        record = {
            "jackknife": jackknife,
            "control": control,
            "parameters": {k: float(value) for k, value in parameters.items() if value is not None},
            "tests": judgement.records,
            "decided_by": DecidedBy(
                test=deciding.test,
                interval=deciding.interval_method.partition(",")[0],
                metric="refitted" if jackknife else "fixed",
                claim=self.map.claim,
            ),
            "rows": {"n": found.n, **counts, "below_one": found.below_one},
            "groups": groups,
            "numerical_error": self.numerical_error,
            "distribution": distribution(found.tally.spread),
            "delta_curve": judgement.delta_curve,
            "perturbed": perturbed_people(found.worst, self.people) if found.worst else (),
            "metric": metric_record(self) if self.goes_by_metric else None,
            "diagnostics": {"mean_fair_distance": found.tally.fair_distance / found.n},
            "skipped": tuple(name for name, left_out in skipped.items() if left_out),
        }
        error, causes = self.numerical_error, troubles(counts)
        if error is not None and math.isinf(error.error_bound):
            causes = (UNBOUNDED, *causes)
        return Verdict(outcome, reason, record=record, detail=judgement).refused(*causes)

    def tested(self, tally: Tally, map: str | None = None) -> Judgement:
        """Run the tests on sums as they are, also those of another probe."""
        evidence = {name: test.evidence(tally) for name, test in self.tests.items()}
        return Judgement(self.tests, evidence, self.decider, map or self.map.name)

    def _judge_everyone(self, tally: Tally) -> Judgement:
        """Run the tests on everyone, allowing for the numerical error of mean loss ratios.

        The paper's interval stays as printed; decisions have no error to speak of.
        """
        judgement, error = self.tested(tally), self.numerical_error
        evidence = dict(judgement.evidence)
        for name in {"loss_ratio", "mean_loss_ratio"} & set(self.tests):
            if error is not None and getattr(self.tests[name], "interval", "") != "paper":
                evidence[name] = evidence[name].allowing(error.error_bound)
        against = []
        if self.settings.decide.interval == "paper":
            against.append("By the paper's interval nothing is found within tolerance.")
        unmoved = evidence[self.decider].unmoved and self.numerical_error is not None
        if unmoved and not len(self.metric.free) and np.ptp(self.model(self.x), 0).any():
            against.append("No gradient moves anybody, but outputs that jump have none either.")
        return dataclasses.replace(judgement, evidence=evidence, against_tolerance=tuple(against))

    @override
    def describe(self) -> list[str]:
        classes = ", ".join(str(value) for value in self.classes) or "none"
        lines = [
            f"Model: {self.model.card.kind}, {self.x.shape[1]} features, classes {classes}",
            f"People: {self.n:,} from {self.source.name}",
            str(self.metric),
        ]
        if not self.metric.quadratic and self.numerical_error is not None:
            lines.append(
                "This metric is not a quadratic form: an explicit solver takes about "
                f"{self.numerical_error.evaluations:,} gradients a person."
            )
        return [*lines, f"Method: {self.map.name}; settings {self.settings.hash[:12]}"]


def bind_perturbation(setup: Setup) -> BoundPerturbation:
    """Check model, people, metric, map and tests against each other; learn what is missing."""
    settings, trust = setup.settings, setup.trust
    survey = setup.survey
    metric, settings = _choose_metric(setup, settings)
    map: UnfairMap | None = setup.method
    wrapped, handle = setup.adapt()
    name = settings.method.name if map is None else map.name
    search = name == "reach" or (name == "auto" and not wrapped.card.differentiable)
    units = search if metric is None else getattr(metric, "attached", {}).get("encoder", False)
    if units:
        wrapped, handle = setup.adapt(units=units)
    people = as_seen(wrapped, survey.sample)
    classes = setup.classes(wrapped)
    setup.favourable_place(wrapped.card.task, classes)
    check(wrapped, people.x, features=people.features, classes=classes)
    if isinstance(wrapped.loss, CustomLoss):
        wrapped.loss.check(wrapped(people.x[:10]), targets(people.y[:10], classes))
    performance = performance_of(wrapped, people.x, targets(people.y, classes))
    if metric is None:
        learn = functools.partial(learn_metric, setup, wrapped, people)
        metric = setup.session.once("learned metric", learn)
        if handle.units is not None:
            attached = {"encoder": handle.units.to_json()}
            metric = dataclasses.replace(metric, attached=attached)
    else:
        metric = as_metric(metric, people.x, people.features)
    check_belongs(metric, people.features)
    _check_held(metric, people, settings)
    same_sample = same_people(metric, survey)
    tests, settings = choose_tests(settings, wrapped.card, trust=trust)
    if map is None:
        map = METHODS.make(*deciding_map(settings.method, wrapped.card), trust=trust)
    if map.asks_answers:
        wrapped, handle = handle.bounded()
    decider = deciding_test(settings, wrapped.card, tests, map.name)
    settings = settings.changed(method=note(METHODS, map).model_dump())
    if people.originals is None and people.encoder is None:
        warn_about_scales(people.x, people.features, getattr(map, "lam", math.nan))
    map = map.learned(people, wrapped.front, survey.attributes)
    map.bind(wrapped, metric)
    bound = BoundPerturbation(
        setup=dataclasses.replace(setup, settings=settings),
        model=wrapped,
        handle=handle,
        people=people,
        classes=classes,
        metric=metric,
        map=map,
        tests=tests,
        decider=decider,
        same_sample=same_sample,
        settings=settings,
        performance=performance,
    )
    # Read in pieces only these are known: the same people, so that cap and steps are the same.
    rows = np.isin(survey.places, drawn_rows(bound.source.n_rows, settings.seed))
    x, y = bound.x[rows], bound.y[rows]
    weight = None if people.weight is None else people.weight[rows]
    if wrapped.card.task == "regression":
        mean = float(np.average(wrapped.loss(wrapped(x), y), weights=weight))
        bound = dataclasses.replace(bound, limit=settings.cap * mean)
    if not isinstance(map, GradientFlow):
        return bound
    flow, error = choose_steps(
        map, wrapped, metric, x, y, n=bound.n, weight=weight, threads=bound.threads
    )
    return dataclasses.replace(bound, map=flow, numerical_error=error)


def _choose_metric(setup: Setup, settings: Settings) -> tuple[Any, Settings]:
    """Return the metric that was handed over or named, noted if it is of another package."""
    given, name = setup.metric, settings.metric.name
    if given is None and name != "auto":
        given = METRICS.find(name, trust=setup.trust)
        if isinstance(given, type):
            given = METRICS.make(name, settings.metric.params, trust=setup.trust)
    if callable(given) and not isinstance(given, FairMetric):
        given = function_metric(given)
    if isinstance(given, FunctionMetric):
        noted: dict[str, Any] = {"name": given.name}
    elif isinstance(given, FairMetric) and METRICS.name_of(type(given)) not in METRICS.built_in:
        noted = note(METRICS, given).model_dump()
    else:
        return given, settings
    own = settings.metric.model_dump(exclude={"name", *settings.metric.params})
    return given, settings.changed(metric={**own, **noted})


def _check_held(metric: FairMetric, people: AuditData, settings: Settings) -> None:
    """Refuse a metric along whose free directions something changes that may matter."""
    features = people.features
    for j in places_of(features, settings.columns.may_matter, "that may matter", people.table):
        if len(metric.free) and np.abs(metric.free[:, j]).max() > 1e-9:
            raise InvalidSettings(
                f"Under this metric people who differ in {features[j]!r} are alike, but that may "
                "matter (columns.may_matter). Learn the metric with --may-matter."
            )


def metric_record(bound: BoundPerturbation) -> MetricRecord:
    """Describe the fair metric, with the largest loadings of its free directions."""
    metric, features = bound.metric, bound.people.features
    directions = tuple(
        {features[j]: float(row[j]) for j in np.argsort(-np.abs(row), kind="stable")[:LOADINGS]}
        for row in metric.free
    )
    return MetricRecord(
        kind=type(metric).__name__,
        learned=metric.origin is not None,
        directions=directions,
        origin={} if metric.origin is None else dataclasses.asdict(metric.origin),
        same_sample=bound.same_sample,
        sha256=metric_fingerprint(metric),
    )


def distribution(spread: QuantileSketch) -> dict[str, tuple[float, ...]]:
    """Return quantiles of the loss ratios (to one per cent), and their histogram on a log scale."""
    if not spread.n:
        return {}
    edges, counts = spread.histogram(BINS)
    return {
        "shares": SHARES,
        "quantiles": tuple(spread.quantile(share) for share in SHARES),
        "edges": tuple(map(float, edges)),
        "counts": tuple(map(float, counts)),
    }
