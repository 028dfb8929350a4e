"""The same outcomes by other methods: shown beside the verdict, never deciding it."""

from likewise.checks.judge import as_record, error_rate_interval
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest, RatioTest
from likewise.record import TestRecord
from likewise.settings import Settings

BOOTSTRAP_ROWS = 200_000
"""Above this many people the bootstrap-t costs much and adds nothing to Hall's interval."""


def other_methods(outcomes: Outcomes, settings: Settings) -> tuple[TestRecord, ...]:
    """Return the tests by the methods that the settings did not choose."""
    if outcomes.about.get("task") == "regression":
        return ()
    delta, alpha, chosen = settings.delta, settings.alpha, settings.decide.interval
    tests: list[RatioTest] = []
    for interval in ("hall", "bootstrap_t", "paper"):
        costly = interval == "bootstrap_t" and len(outcomes) > BOOTSTRAP_ROWS
        if interval != chosen and not costly:
            tests.append(
                LossRatioTest(delta, alpha, interval=interval, cap=settings.cap, seed=settings.seed)
            )
    other = "auto" if error_rate_interval(settings) == "paper" else "paper"
    tests.append(ErrorRateRatioTest(delta, alpha, interval=other))
    name = str(outcomes.about.get("map", "flow"))
    return tuple(as_record(test(outcomes), name) for test in tests)
