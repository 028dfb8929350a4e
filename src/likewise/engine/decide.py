"""What decides: which map, which test, and whether the metric's own uncertainty counts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from likewise.errors import InvalidSettings, nearest
from likewise.inference.ratio_test import RatioTest, delta_curve
from likewise.inference.verdict import Evidence, Verdict, placebos_against, placebos_tried
from likewise.metrics.fair_metric import FairMetric
from likewise.models.base import ModelCard
from likewise.outcomes import Outcomes
from likewise.record import DeltaCurveRecord, TestRecord, ToleranceRecord
from likewise.settings import Choice, Settings
from likewise.settings.choices import MAPS, TESTS, make, note, parameters
from likewise.statistics.frame import Frame
from likewise.statistics.tally import Tally

EVERY = 4
"""Of a curve's 101 tolerances, the result file keeps every fourth, the first and the last."""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The tests of one map's people, and the one that the settings let decide.

    Parameters
    ----------
    tests, evidence
        The tests by name, and what the people say to each.
    decider
        Name of the test that decides.
    map
        Name of the map that people were moved by.
    against_tolerance
        Why the model is not found within tolerance, whatever the bounds say, in words.
    """

    tests: Mapping[str, RatioTest]
    evidence: Mapping[str, Evidence]
    decider: str
    map: str
    against_tolerance: tuple[str, ...] = ()

    @property
    def records(self) -> dict[str, TestRecord]:
        """The tests as they stand in the result file."""
        return {name: self.record(name) for name in self.tests}

    @property
    def deciding(self) -> TestRecord:
        """The test that decides."""
        return self.record(self.decider)

    @property
    def delta_curve(self) -> DeltaCurveRecord:
        """What the test that decides says about other tolerances."""
        curve = delta_curve(self.evidence[self.decider], self.tests[self.decider].alpha)
        return DeltaCurveRecord(
            unfair_below=curve.unfair_below,
            tolerable_from=curve.tolerable_from,
            points=tuple(
                ToleranceRecord(delta=at.delta, p_value=at.p_value, outcome=at.outcome)
                for at in curve.points[::EVERY]
            ),
        )

    def record(self, name: str) -> TestRecord:
        """Return one test as it stands in the result file."""
        test = self.tests[name]
        verdict = self.evidence[name].verdict(test.delta, test.alpha)
        if verdict.outcome == "within_tolerance" and self.against_tolerance:
            notes = (*verdict.notes, *self.against_tolerance)
            verdict = dataclasses.replace(verdict, outcome="inconclusive", notes=notes)
        return as_record(verdict, self.map, test.claim)


def judge(
    tests: Mapping[str, RatioTest],
    decider: str,
    map: str,
    tally: Tally,
    rows: Outcomes | None = None,
    numerical_error: float = 0.0,
) -> Judgement:
    """Run tests on a tally; those that resample need the rows too, and do without them if none.

    Parameters
    ----------
    numerical_error
        How far a mean loss ratio may be off because people were moved in steps: added to the bounds
        that decide. The paper's interval stays as printed; decisions have none to speak of.
    """
    ready = {
        name: test.without_rows() if test.needs_rows and rows is None else test
        for name, test in tests.items()
    }
    evidence = {name: test.evidence(tally, rows) for name, test in ready.items()}
    for name in {"loss_ratio", "mean_loss_ratio"} & set(ready):
        if getattr(ready[name], "interval", "") != "paper":
            evidence[name] = evidence[name].allowing(numerical_error)
    return Judgement(ready, evidence, decider, map)


def judge_outcomes(outcomes: Outcomes, settings: Settings) -> Judgement:
    """Run the tests that settings ask for on outcomes in memory.

    The metric is taken as given; one that was learned accuses only if its placebos allowed it.
    """
    about = outcomes.about
    task = "regression" if about.get("task") == "regression" else "classification"
    output = "probabilities" if about.get("output") == "probabilities" else "logits"
    card = ModelCard("saved outcomes", task, output)  # type: ignore[arg-type]
    tests = choose_tests(settings, card)
    tally = Tally.of(outcomes, Frame.of(outcomes, settings.cap).bare())
    map = str(about.get("map", "flow"))
    judgement = judge(tests, deciding_test(settings, card, tests, map), map, tally, outcomes)
    if about.get("refitted"):
        why = "The metric's own uncertainty is not in the outcomes, so nothing is within tolerance."
        judgement = dataclasses.replace(judgement, against_tolerance=(why,))
    if settings.decide.interval == "paper":
        return judgement
    evidence = {
        name: found
        if (tried := placebos_tried(about, name)) is None
        else dataclasses.replace(found, held_back=placebos_against(tried, settings.alpha))
        for name, found in judgement.evidence.items()
    }
    return dataclasses.replace(judgement, evidence=evidence)


def deciding_map(choice: Choice, card: ModelCard, metric: FairMetric) -> Choice:
    """Return the map that decides: the search wherever the metric says how far it may go.

    So it is for every kind of model. The flow decides under a metric without a reach, or if a
    parameter is given that only the flow has, for models with gradients.
    """
    if choice.name != "auto":
        return choice
    known = {name: parameters(MAPS.find(name)) for name in ("reach", "flow")}
    for name in choice.params:
        if not any(name in own for own in known.values()):
            raise InvalidSettings(f"Neither the flow nor the reach has a parameter {name!r}.")
    meant = metric.reach is None or not searched(choice)
    chosen = "flow" if card.differentiable and meant else "reach"
    given = {name: value for name, value in choice.params.items() if name in known[chosen]}
    return Choice.model_validate({"name": chosen, **given})


def searched(choice: Choice) -> bool:
    """Tell whether a search within reach was named, or nothing that only another map has."""
    known = parameters(MAPS.find("reach"))
    return choice.name == "reach" or (
        choice.name == "auto" and all(name in known for name in choice.params)
    )


def choose_tests(
    settings: Settings, card: ModelCard, given: Sequence[RatioTest] = (), *, trust: bool = False
) -> dict[str, RatioTest]:
    """Return the tests to run: those handed over, those named, or those for the task."""
    if given:
        return {test.name: test for test in given}
    run = settings.tests.run
    names = tuple(run) if run != "auto" else _USUAL[card.task]
    if run == "auto" and card.decisions:
        names = ("error_rate_ratio",)
    shared = shared_parameters(settings)
    tests = {}
    for name in names:
        cls = TESTS.find(name, trust=trust)
        knows = settings.decide.interval in cls.intervals
        interval = {"interval": settings.decide.interval} if knows else {}
        choice = Choice.model_validate({"name": name, **settings.tests.params(name)})
        test = make(TESTS, choice, trust=trust, shared=shared | interval)
        tests[test.name] = test
    return tests


_USUAL = {
    "classification": ("loss_ratio", "error_rate_ratio"),
    "regression": ("mean_loss_ratio",),
}


def deciding_test(
    settings: Settings, card: ModelCard, tests: Mapping[str, RatioTest], map: str
) -> str:
    """Return the name of the test that decides, unless the settings said so beforehand.

    Probabilities are clipped, and a clipped loss says little about people the model is sure of.
    Where any form of a model can be asked, the error rates decide: they are the same whether it
    gives logits or probabilities. The flow follows the loss, and so its ratio decides there.
    """
    regression = card.task == "regression"
    for test in tests.values():
        if test.task != card.task:
            raise InvalidSettings(
                f"The test {test.name!r} is not for a {card.task}: there "
                f"{' and '.join(_USUAL[card.task])} can decide (decide.test)."
            )
    if regression and settings.decide.interval == "bootstrap_t":
        raise InvalidSettings(
            "There is no bootstrap-t for a regression's ratio of means: use the interval 'hall' or "
            "'paper' (decide.interval)."
        )
    wanted = settings.decide.test
    if wanted != "auto" and wanted not in tests:
        other = [name for names in _USUAL.values() for name in names if name not in tests]
        why = f" It is not for a {card.task}." if wanted in other else nearest(wanted, tests)
        raise InvalidSettings(
            f"The test {wanted!r} cannot decide (decide.test): only {', '.join(tests)} are "
            f"run.{why}"
        )
    if card.decisions and wanted not in ("auto", "error_rate_ratio"):
        raise InvalidSettings(
            f"The {card.kind} gives decisions and no probabilities, so only its error rates can "
            "decide (decide.test). To audit losses, wrap it in CalibratedClassifierCV."
        )
    if wanted != "auto":
        return wanted
    rates = card.output == "probabilities" or map in ("reach", "flips")
    usual = "error_rate_ratio" if rates else "loss_ratio"
    return usual if usual in tests else next(iter(tests))


def note_tests(
    settings: Settings, tests: Mapping[str, RatioTest], task: str, *, given: bool
) -> Settings:
    """Return the settings with the tests as they are run, and nothing left open.

    Parameters
    ----------
    given
        Whether they were handed over: then what tests share is theirs, and not the settings'.
    """
    if given:
        own = [note(TESTS, test).params for test in reversed(list(tests.values()))]
        merged = {name: value for params in own for name, value in params.items()}
        known = [getattr(t, "interval", "hall") for t in tests.values() if "hall" in t.intervals]
        settings = settings.changed(
            **{name: merged[name] for name in ("delta", "alpha", "cap") if name in merged},
            **({"decide__interval": known[0]} if known else {}),
        )
    shared = shared_parameters(settings) | {"interval": settings.decide.interval}
    sections = {
        TESTS.name_of(type(test)): {
            name: value
            for name, value in note(TESTS, test).params.items()
            if name not in shared or shared[name] != value
        }
        for test in tests.values()
    }
    run = "auto" if tuple(sections) == _USUAL[task] else list(sections)
    return settings.changed(tests={"run": run, **sections})


def shared_parameters(settings: Settings) -> dict[str, Any]:
    """Return what the settings say to all tests that have such a parameter."""
    return {
        "delta": settings.delta,
        "alpha": settings.alpha,
        "cap": settings.cap,
        "seed": settings.seed,
    }


def metric_counts(settings: Settings, metric: FairMetric) -> bool:
    """Tell whether the verdict takes the metric's own uncertainty into account.

    It does whenever the metric was learned, from whomever, unless the settings ask about this very
    metric; the paper's procedure takes it as given.
    """
    if settings.decide.metric == "auto":
        return metric.origin is not None and settings.decide.interval != "paper"
    return settings.decide.metric == "refitted"


def as_record(verdict: Verdict, map_name: str, claim: str = "") -> TestRecord:
    """Return a verdict as it stands in the result file."""
    return TestRecord.model_validate({"map": map_name, "claim": claim, **verdict.to_dict()})
