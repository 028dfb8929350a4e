"""The same outcomes by other methods: shown beside the verdict, never deciding it."""

from likewise.checks.judge import as_record, error_rate_interval
from likewise.inference.ratio_tests import ErrorRateRatioTest, LossRatioTest, RatioTest
from likewise.outcomes import Outcomes
from likewise.record import TestRecord
from likewise.settings import Settings

BOOTSTRAP_ROWS = 200_000
"""Above this many people the bootstrap-t costs much and adds nothing to Hall's interval."""


def other_methods(outcomes: Outcomes, settings: Settings) -> tuple[TestRecord, ...]:
    """Return the tests by the methods that the settings did not choose."""
    if outcomes.about.get("task") == "regression":
        return ()
    name = str(outcomes.about.get("map", "flow"))
    return tuple(as_record(test(outcomes), name) for test in other_tests(len(outcomes), settings))


def other_tests(n: int, settings: Settings) -> tuple[RatioTest, ...]:
    """Return the tests of ``n`` classified people that the settings did not choose."""
    delta, alpha, chosen = settings.delta, settings.alpha, settings.decide.interval
    other = "auto" if error_rate_interval(settings) == "paper" else "paper"
    return (
        *(
            LossRatioTest(delta, alpha, interval=interval, cap=settings.cap, seed=settings.seed)
            for interval in ("hall", "bootstrap_t", "paper")
            if interval != chosen and (interval != "bootstrap_t" or n <= BOOTSTRAP_ROWS)
        ),
        ErrorRateRatioTest(delta, alpha, interval=other),
    )
