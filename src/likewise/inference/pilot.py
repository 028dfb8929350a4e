"""Power by resampling a pilot: what a test would find in samples like this one, but larger."""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaincinv

from likewise.errors import InvalidSettings
from likewise.inference.estimate import quantile
from likewise.inference.estimators import ratio_of_sums
from likewise.inference.sampling import Design
from likewise.inference.score_test import score
from likewise.statistics.moments import ErrorTable
from likewise.statistics.ratio import UnitSums

MOST_UNITS = 100_000
"""A larger pilot is thinned at random: it would say the same, and take its time."""

QUANTILES = 4000
"""Of the distribution that people are drawn from where their skewness is given."""

CELLS = 4_000_000
"""Numbers held at a time, so that memory does not grow with the repetitions."""


@dataclasses.dataclass(frozen=True)
class Pilot:
    r"""A small audit, scaled to the effect that a larger one should find.

    Each unit's sum after the map moves away from that before it, in proportion, until the ratio
    of the totals is the effect: :math:`a' = b + \kappa (a - b)`. Everything else (skewness, who
    is hit, weights, clusters) stays as the pilot shows it.

    Parameters
    ----------
    after, before
        Totals of each independent unit: loss ratios and ones, losses, or errors.
    people
        People to a unit, on average.
    clustered
        Whether units are clusters: if few, Student's t.
    test
        ``mean`` studentises the ratio itself, as the loss-ratio test does; ``total`` studentises
        :math:`a - \delta b`, as the others do with weights and clusters.
    """

    after: Float[np.ndarray, " g"]
    before: Float[np.ndarray, " g"]
    people: float
    clustered: bool
    test: Literal["mean", "total"]

    @classmethod
    def of(
        cls,
        after: Float[np.ndarray, " n"],
        before: Float[np.ndarray, " n"],
        design: Design,
        effect: float,
        test: Literal["mean", "total"],
        rng: np.random.Generator,
    ) -> "Pilot":
        """Scale a pilot to an effect."""
        a, b = design.totals(after), design.totals(before)
        if len(a) > MOST_UNITS:
            kept = rng.choice(len(a), MOST_UNITS, replace=False)
            a, b = a[kept], b[kept]
        a = b + (effect - 1) / (a.sum() / b.sum() - 1) * (a - b)
        return cls(a, b, design.n / design.units, design.unit is not None, test)

    @property
    def sd(self) -> float:
        """Standard deviation of one person's share in the estimate, the design included."""
        sums = UnitSums.of(self.after, self.before)
        people = sums.units * self.people
        return ratio_of_sums(sums, round(people)).std_error * math.sqrt(people)

    def power(
        self, n: int, delta: float, alpha: float, seed: int, repetitions: int = 2000
    ) -> float:
        """Return how often the test rejects in samples of n people drawn from the pilot.

        The same seed for every n: neighbouring sample sizes then share their luck.
        """
        rng = np.random.default_rng(seed)
        units, drawn = len(self.after), max(2, round(n / self.people))
        excess = self.after - delta * self.before
        terms = _products(excess, self.before)
        limit = quantile(1 - alpha, drawn - 1.0 if self.clustered else math.inf)
        found = 0
        block = max(1, CELLS // min(units, drawn) // terms.shape[1])
        for start in range(0, repetitions, block):
            size = min(block, repetitions - start)
            if drawn < units:
                sums = terms[rng.integers(units, size=(size, drawn))].sum(axis=1)
            else:
                sums = rng.multinomial(drawn, np.full(units, 1 / units), size=size) @ terms
            found += int((_statistic(sums, drawn, self.test) > limit).sum())
        return found / repetitions


def _products(d: Float[np.ndarray, " g"], b: Float[np.ndarray, " g"]) -> Float[np.ndarray, "g 9"]:
    return np.stack([d, b, d * d, d * b, b * b, d**3, d * d * b, d * b * b, b**3], axis=1)


def _statistic(sums: Float[np.ndarray, "r 9"], units: int, test: str) -> Float[np.ndarray, " r"]:
    r"""Return Hall's g(t) of every sample, from sums of :math:`d = a - \delta b` and b."""
    d, b, dd, db, bb, ddd, ddb, dbb, bbb = sums.T
    if test == "mean":
        # About the sample's own ratio: d - e b has mean zero.
        e = d / b
        squares = dd - 2 * e * db + e**2 * bb
        cubes = ddd - 3 * e * ddb + 3 * e**2 * dbb - e**3 * bbb
    else:
        mean = d / units
        squares = dd - mean * d
        cubes = ddd - 3 * mean * dd + 2 * mean**2 * d
    known = squares > 1e-12 * dd
    spread = np.sqrt(np.where(known, squares, 1.0) / (units - 1))
    t = d / math.sqrt(units) / spread
    skewness = cubes / units / spread**3 / math.sqrt(units)
    # Hall's transformation, as in `hall`, for arrays.
    g = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    return np.where(known, g, -np.inf)


def errors_with_effect(
    after: Bool[np.ndarray, " n"],
    before: Bool[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"] | None,
    effect: float,
    rng: np.random.Generator,
) -> Bool[np.ndarray, " n"]:
    """Return errors after the map whose rate is about ``effect`` times that before it.

    Newly wrong people, picked at random, are set right, or right ones wrong. Scaling would not do:
    half an error has another variance than an error half as often.
    """
    w = np.ones(len(after)) if weight is None else weight
    missing = effect * float(w @ before) - float(w @ after)
    candidates = rng.permutation(np.flatnonzero(~after if missing > 0 else after & ~before))
    turned = candidates[: int(np.searchsorted(np.cumsum(w[candidates]), abs(missing)))]
    changed = after.copy()
    changed[turned] = missing > 0
    return changed


def score_power(
    table: ErrorTable, effect: float, delta: float, alpha: float, seed: int, repetitions: int
) -> Callable[[int], float]:
    r"""Return the power of the score test, by drawing tables like the pilot's.

    Newly wrong decisions are made as frequent as the effect asks for; the others stay.
    """
    base = table.before / table.n
    newly_wrong = effect * base - table.both / table.n
    newly_right = table.newly_right / table.n
    cells = np.array([table.both / table.n, newly_wrong, newly_right])
    cells = np.append(cells, max(0.0, 1 - cells.sum()))

    def power(n: int) -> float:
        tables = np.random.default_rng(seed).multinomial(n, cells / cells.sum(), size=repetitions)
        return float((score(delta, *tables.T) > quantile(1 - alpha)).mean())

    return power


def skewed_people(mean: float, sd: float, skewness: float) -> Pilot:
    """Return people whose ratios have these three moments: quantiles of a gamma distribution."""
    if not 0 < skewness <= 20:
        raise InvalidSettings(f"skewness must lie above 0 and not above 20 (got {skewness:g}).")
    shape = 4 / skewness**2
    drawn = gammaincinv(shape, (np.arange(QUANTILES) + 0.5) / QUANTILES)
    ratio = mean + sd * (drawn - drawn.mean()) / drawn.std()
    return Pilot(ratio, np.ones(QUANTILES), people=1.0, clustered=False, test="mean")


def check_rise(effect: float, base_error: float) -> None:
    """Refuse an error rate that would grow beyond 1."""
    if effect * base_error > 1:
        raise InvalidSettings(
            f"An error rate of {base_error:.3g} cannot grow {effect:.3g} times as large: that "
            f"would be {effect * base_error:.3g}, and no rate exceeds 1."
        )
