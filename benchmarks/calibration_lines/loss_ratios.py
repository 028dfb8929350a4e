"""Mean loss ratios: Hall's interval and the paper's on skewed populations."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import brentq

from calibration_lines import ALPHA, BEYOND, CAP, DELTA, Bar, Effort, Row, line
from calibration_lines.adult_networks import network_ratios
from likewise.stats.estimate import Estimate, hall
from likewise.stats.ratio_test import Evidence

SIZES = (100, 400, 1000)


@dataclasses.dataclass(frozen=True)
class Population:
    """Excess ratios R - 1 that can be drawn and, where they are a finite list, averaged exactly.

    The excess is multiplied by a number to put the mean (or the capped mean) at the tolerance.
    """

    name: str
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    mean: float
    large: np.ndarray
    """A sample large enough to solve for the capped mean."""

    def factor(self, mean: float) -> float:
        """Return the factor that gives this mean ratio."""
        return (mean - 1) / self.mean

    def capped_factor(self, mean: float) -> float:
        """Return the factor that gives this mean of capped ratios; nan if none does."""

        def excess(log_factor: float) -> float:
            ratio = 1 + np.exp(log_factor) * self.large
            return float(np.minimum(ratio, CAP).mean()) - mean

        near = np.log(self.factor(mean))
        return float(np.exp(brentq(excess, near - 2, near + 2))) if excess(near + 2) > 0 else np.nan


def populations(rng: np.random.Generator) -> Iterator[Population]:
    """Yield the populations of the table."""
    for name, kind in (("Adult network", "baseline"), ("Adult, overfitted", "overfitted")):
        excess = network_ratios(kind) - 1
        yield Population(name, _from_list(excess), float(excess.mean()), excess)
    yield Population(
        "lognormal, σ = 1.5",
        lambda rng, shape: rng.lognormal(-(1.5**2) / 2, 1.5, size=shape),
        1.0,
        rng.lognormal(-(1.5**2) / 2, 1.5, size=500_000),
    )
    # A share of people is harmed by the same amount; the others hardly.
    for name, share, harm in (
        ("1 % harmed", 0.01, 25.0),
        ("2.7 % harmed, to the cap", 0.0267, 9.0),
    ):
        yield _harmed(name, share, harm)


def _harmed(name: str, share: float, harm: float) -> Population:
    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return np.where(rng.random(shape) < share, harm, 0.01 * rng.exponential(size=shape))

    mean = share * harm + (1 - share) * 0.01
    large = np.full(100_000, 0.01)
    large[: round(share * len(large))] = harm
    return Population(name, draw, mean, large)


def _from_list(values: np.ndarray) -> Callable[[np.random.Generator, tuple[int, int]], np.ndarray]:
    return lambda rng, shape: values[rng.integers(len(values), size=shape)]


def estimates(samples: np.ndarray) -> list[Estimate]:
    """Return the estimates of many samples at once, one row each."""
    n = samples.shape[1]
    value, spread = samples.mean(axis=1), samples.std(axis=1, ddof=1)
    cubes = ((samples - value[:, None]) ** 3).mean(axis=1)
    skewness = np.divide(cubes, spread**3 * np.sqrt(n), out=np.zeros_like(cubes), where=spread > 0)
    columns = (c.tolist() for c in (value, spread / np.sqrt(n), skewness))
    return [Estimate(s, e, n, g) for s, e, g in zip(*columns, strict=True)]


@line
def loss_ratios(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Measure Hall's interval and the paper's."""
    for population in populations(rng):
        adult = population.name.startswith("Adult")
        for n in SIZES:
            excess = population.draw(rng, (effort.repetitions, n))
            for interval, name in (("hall", "Hall (default)"), ("paper", "paper's z")):
                bars: tuple[Bar, ...] = ()
                if interval == "hall":
                    bars += (Bar("size", high=0.065),)
                    # What is certified at all must be certified rightly; of the mean of harm that
                    # one in a hundred suffers the capped mean says nothing.
                    if population.name != "1 % harmed":
                        bars += (Bar("false_certification", high=0.06),)
                    if adult and n >= 400:
                        bars += (Bar("coverage", low=0.93),)
                yield dataclasses.replace(
                    _measure(population, excess, interval), method=name, bars=bars
                )


def _measure(population: Population, excess: np.ndarray, interval: str) -> Row:
    bounds = hall if interval == "hall" else lambda estimate: estimate

    def verdicts(factor: float) -> list:
        ratio = 1 + factor * excess
        pairs = zip(estimates(ratio), estimates(np.minimum(ratio, CAP)), strict=True)
        return [
            Evidence(
                test="loss_ratio",
                method=interval,
                estimate=mean,
                bounds=bounds(mean),
                capped_estimate=capped,
                capped=bounds(capped),
                cap=CAP,
                spread=capped.std_error > 0,
            ).result(DELTA, ALPHA)
            for mean, capped in pairs
        ]

    at_tolerance = verdicts(population.factor(DELTA))
    beyond = verdicts(population.factor(BEYOND))
    factor = population.capped_factor(DELTA)
    certified = np.nan
    if np.isfinite(factor):
        certified = np.mean([v.outcome == "within_tolerance" for v in verdicts(factor)])
    return Row(
        interval,
        population.name,
        excess.shape[1],
        len(excess),
        size=float(np.mean([v.rejected for v in at_tolerance])),
        false_certification=float(certified),
        upper_miss=float(np.mean([v.upper_bound < DELTA for v in at_tolerance])),
        coverage=float(np.mean([v.interval[0] <= DELTA <= v.interval[1] for v in at_tolerance])),
        power=float(np.mean([v.rejected for v in beyond])),
    )
