"""Runs the tests that go with a task, and says which one decides."""

import dataclasses
from collections.abc import Mapping, Sequence

from likewise.inference.delta_curve import delta_curve
from likewise.inference.ratio_tests import (
    ErrorRateRatioTest,
    LossRatioTest,
    MeanLossRatioTest,
    RatioTest,
)
from likewise.inference.verdict import Evidence, Verdict
from likewise.outcomes import Outcomes
from likewise.record import DeltaCurveRecord, TestRecord, ToleranceRecord
from likewise.settings import Settings

EVERY = 4
"""Of a curve's 101 tolerances, the result file keeps every fourth, the first and the last."""


@dataclasses.dataclass(frozen=True)
class Judged:
    """The tests of one map's outcomes, and the one that the settings let decide.

    Parameters
    ----------
    tests, evidence
        The tests by name, and what the outcomes say to each.
    decider
        Name of the test that decides.
    map
        Name of the map that the outcomes came from.
    """

    tests: Mapping[str, RatioTest]
    evidence: Mapping[str, Evidence]
    decider: str
    map: str

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
        return as_record(self.evidence[name].verdict(test.delta, test.alpha), self.map)


def judge(outcomes: Outcomes, settings: Settings, tests: Sequence[RatioTest] = ()) -> Judged:
    """Run the tests on outcomes; by default those that the settings ask for."""
    chosen = {test.name: test for test in tests or default_tests(task_of(outcomes), settings)}
    evidence = {name: test.evidence_of(outcomes) for name, test in chosen.items()}
    decider = deciding_test(outcomes, settings)
    if decider not in chosen:
        decider = next(iter(chosen))
    return Judged(chosen, evidence, decider, str(outcomes.about.get("map", "flow")))


def task_of(outcomes: Outcomes) -> str:
    """Return what the model does: ``classification`` or ``regression``."""
    return str(outcomes.about.get("task", "classification"))


def default_tests(task: str, settings: Settings) -> tuple[RatioTest, ...]:
    """Return the tests for this task, with the settings' tolerance, level and interval."""
    delta, alpha = settings.delta, settings.alpha
    interval = settings.decide.interval
    if task == "regression":
        method = "paper" if interval == "paper" else "hall"
        return (MeanLossRatioTest(delta, alpha, interval=method, cap=settings.cap),)
    return (
        LossRatioTest(delta, alpha, interval=interval, cap=settings.cap, seed=settings.seed),
        ErrorRateRatioTest(delta, alpha, interval=error_rate_interval(settings)),
    )


def error_rate_interval(settings: Settings) -> str:
    """Return how the error rates' bounds are computed: as chosen, or as goes with the losses'."""
    chosen = settings.tests.params("error_rate_ratio").get("interval")
    if chosen is not None:
        return str(chosen)
    return "paper" if settings.decide.interval == "paper" else "auto"


def deciding_test(outcomes: Outcomes, settings: Settings) -> str:
    """Return the name of the test that decides.

    Probabilities alone are clipped, and a clipped loss says little about people the model is
    sure of; so there the error rates decide unless the settings said otherwise beforehand.
    """
    if outcomes.about.get("task") == "regression":
        return "mean_loss_ratio"
    if settings.decide.test != "auto":
        return settings.decide.test
    probabilities = outcomes.about.get("output") == "probabilities"
    return "error_rate_ratio" if probabilities else "loss_ratio"


def as_record(verdict: Verdict, map_name: str) -> TestRecord:
    """Return a verdict as it stands in the result file."""
    return TestRecord.model_validate({"map": map_name, **verdict.to_dict()})
