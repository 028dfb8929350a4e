"""Ratios of mean losses, for regressions: squared errors that a map makes larger."""

from collections.abc import Callable, Iterator

import numpy as np

from calibration_lines import ALPHA, BEYOND, DELTA, Bar, Effort, Row, line
from calibration_lines.designs import outcomes_of
from likewise.outcomes import Outcomes
from likewise.record import TestRecord
from likewise.stats.loss_ratio import MeanLossRatioTest

SIZES = (100, 400, 1000)
Draw = Callable[[np.random.Generator, int], np.ndarray]
ERRORS: dict[str, tuple[Draw, float, float]] = {
    # How errors are drawn, their variance, and their mean absolute value.
    "normal errors": (lambda rng, n: rng.normal(size=n), 1.0, float(np.sqrt(2 / np.pi))),
    "Laplace errors": (lambda rng, n: rng.laplace(size=n), 2.0, 1.0),
}


def drawn(rng: np.random.Generator, n: int, errors: str, ratio: float) -> Outcomes:
    """Draw squared errors whose mean grows by ``ratio`` when predictions are pushed away."""
    draw, variance, absolute = ERRORS[errors]
    error = draw(rng, n)
    # (|e| + s)² with s exponential of mean m has mean v + 2mE|e| + 2m²: solve for the ratio.
    m = (np.sqrt(absolute**2 + 2 * (ratio - 1) * variance) - absolute) / 2
    pushed = np.abs(error) + m * rng.exponential(size=n)
    nobody = np.zeros(n, dtype=bool)
    return outcomes_of(pushed**2, nobody, nobody, loss_before=error**2)


@line
def mean_losses(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Measure the test for regressions: by inversion, and by the paper's delta method."""
    for errors in ERRORS:
        for n in SIZES:
            for interval, name in (("hall", "Hall (default)"), ("paper", "paper's delta")):
                test = MeanLossRatioTest(DELTA, ALPHA, interval=interval)

                def verdicts(ratio: float) -> list[TestRecord]:
                    many = range(effort.inversions)
                    return [test(drawn(rng, n, errors, ratio)) for _ in many]  # noqa: B023

                at, beyond = verdicts(DELTA), verdicts(BEYOND)
                yield Row(
                    name,
                    f"squared errors, {errors}",
                    n,
                    effort.inversions,
                    size=float(np.mean([v.rejected for v in at])),
                    upper_miss=float(np.mean([v.upper_bound < DELTA for v in at])),
                    coverage=float(np.mean([v.interval[0] <= DELTA <= v.interval[1] for v in at])),
                    power=float(np.mean([v.rejected for v in beyond])),
                    bars=(Bar("size", high=0.065),) if interval == "hall" else (),
                )
