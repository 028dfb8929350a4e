"""Weights and clusters: coverage of the mean ratio and of the error-rate ratio."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import ndtr

from calibration_lines import ALPHA, DELTA, Bar, Effort, Row, line
from likewise.outcomes import Outcomes
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.loss_ratio import LossRatioTest
from likewise.stats.ratio_test import RatioTest

COVERED = (Bar("size", high=0.065), Bar("coverage", low=0.93))
BASE = 0.19


def outcomes_of(
    loss: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    weight: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    loss_before: np.ndarray | None = None,
) -> Outcomes:
    """Return outcomes with these losses (ratios, if none are given before) and errors."""
    n, half = len(loss), np.full(len(loss), 0.5)
    return Outcomes(
        row=np.arange(n),
        y=np.zeros(n, dtype=np.int64),
        loss_before=np.ones(n) if loss_before is None else loss_before,
        loss_after=loss,
        decision_before=before.astype(np.int64),
        decision_after=after.astype(np.int64),
        probability_before=half,
        probability_after=half,
        fair_distance=np.zeros(n),
        status=np.zeros(n, dtype=np.int64),
        weight=weight,
        cluster=cluster,
    )


def clustered(rng: np.random.Generator, clusters: int, each: int) -> Outcomes:
    """Draw people in clusters whose ratios have an intraclass correlation of one half."""
    cluster = np.repeat(np.arange(clusters), each)
    # Gamma excesses add up: half of the variance belongs to the cluster.
    shared, own = rng.gamma(0.5, size=clusters), rng.gamma(0.5, size=clusters * each)
    ratio = 1 + (DELTA - 1) * (shared[cluster] + own)
    latent = rng.normal(size=clusters)[cluster] + rng.normal(size=clusters * each)
    rank = ndtr(latent / np.sqrt(2))
    return outcomes_of(ratio, rank < BASE, rank < BASE * DELTA, cluster=cluster)


def weighted(rng: np.random.Generator, n: int) -> Outcomes:
    """Draw people with a chance that rises with their harm; weights undo it."""
    rank = rng.random(8 * n)
    chance = 0.05 + 0.45 * (1 - rank)
    kept = np.flatnonzero(rng.random(8 * n) < chance)[:n]
    rank, weight = rank[kept], 1 / chance[kept]
    ratio = 1 - (DELTA - 1) * np.log(rank)
    return outcomes_of(ratio, rank < BASE, rank < BASE * DELTA, weight=weight)


DESIGNS: dict[str, Callable[[np.random.Generator], Outcomes]] = {
    "200 clusters of 5, ICC .5": lambda rng: clustered(rng, 200, 5),
    "20 clusters of 50, ICC .5": lambda rng: clustered(rng, 20, 50),
    "informative weights": lambda rng: weighted(rng, 1000),
}
TESTS: dict[str, RatioTest] = {
    "Hall": LossRatioTest(DELTA, ALPHA),
    "paper's z": LossRatioTest(DELTA, ALPHA, interval="paper"),
    "error rates": ErrorRateRatioTest(DELTA, ALPHA),
}


@line
def designs(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Measure what weights and clusters do to an interval, and what allowing for them does."""
    for population, draw in DESIGNS.items():
        samples = [draw(rng) for _ in range(effort.repetitions)]
        for name, test in TESTS.items():
            promised = name != "paper's z"
            count = effort.inversions if name == "error rates" else effort.repetitions
            yield _row(f"{name}, with the design", population, test, samples[:count], promised)
        plain = [dataclasses.replace(o, weight=None, cluster=None) for o in samples]
        yield _row("Hall, design ignored", population, TESTS["Hall"], plain, False)


def _row(
    method: str, population: str, test: RatioTest, samples: list[Outcomes], promised: bool
) -> Row:
    verdicts = [test(outcomes) for outcomes in samples]
    return Row(
        method,
        population,
        len(samples[0]),
        len(samples),
        size=float(np.mean([v.rejected for v in verdicts])),
        false_certification=float(np.mean([v.outcome == "within_tolerance" for v in verdicts])),
        upper_miss=float(np.mean([v.upper_bound < DELTA for v in verdicts])),
        coverage=float(np.mean([v.interval[0] <= DELTA <= v.interval[1] for v in verdicts])),
        bars=COVERED if promised else (),
    )
