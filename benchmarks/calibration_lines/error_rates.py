"""Ratios of error rates, by enumeration: every table, with its probability."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from calibration_lines import ALPHA, BEYOND, DELTA, Bar, Effort, Row, line
from likewise.stats.error_rate_ratio import mid_p_value, score

SIZES = (100, 400, 1000)
BASE_ERRORS = (0.01, 0.05, 0.19)
NEGLIGIBLE = 1e-7
"""Counts less likely than this are left out; it costs less than the digits shown."""


@dataclasses.dataclass(frozen=True)
class Tables:
    """All tables worth counting, flat, and how likely each is."""

    both: np.ndarray
    newly_wrong: np.ndarray
    newly_right: np.ndarray
    n: int
    chance: np.ndarray

    @property
    def after(self) -> np.ndarray:
        """People wrong after the map."""
        return self.both + self.newly_wrong

    @property
    def neither(self) -> np.ndarray:
        """People never wrong."""
        return self.n - self.after - self.newly_right


def tables(n: int, base: float, theta: float, turned_right: float) -> Tables:
    """Enumerate tables where a share of those wrong before turns right; the ratio is theta."""
    right = base * turned_right
    shares = np.array([base - right, base * theta - (base - right), right])
    ranges = [_plausible(n, share) for share in shares]
    both, new, right_counts = (g.ravel() for g in np.meshgrid(*ranges, indexing="ij"))
    rest = n - both - new - right_counts
    inside = rest >= 0
    both, new, right_counts = both[inside], new[inside], right_counts[inside]
    # One count after another, each among those who are left.
    chance = binom.pmf(both, n, shares[0])
    chance *= binom.pmf(new, n - both, shares[1] / (1 - shares[0]))
    chance *= binom.pmf(right_counts, n - both - new, shares[2] / (1 - shares[0] - shares[1]))
    return Tables(both, new, right_counts, n, chance)


def _plausible(n: int, share: float) -> np.ndarray:
    return np.arange(binom.ppf(NEGLIGIBLE, n, share), binom.isf(NEGLIGIBLE, n, share) + 1)


def tails(method: str, t: Tables, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the p-values of "at most delta" and "at least delta" for every table."""
    if method == "mid-P (default)":
        p = mid_p_value(t.both, t.after, delta)
        return p, np.where(t.after == 0, 1.0, 1 - p)
    if method.startswith("score"):
        z = score(delta, t.both, t.newly_wrong, t.newly_right, t.neither)
        none = t.after + t.newly_right == 0
        return np.where(none, 1.0, ndtr(-z)), np.where(none, 1.0, ndtr(z))
    before = t.both + t.newly_right
    with np.errstate(divide="ignore", invalid="ignore"):
        s = t.after / before
        squares = t.both * (1 - s) ** 2 + t.newly_wrong + t.newly_right * s**2
        z = (s - delta) * before / np.sqrt(squares)
    # Without base errors, or without spread, the paper's interval has nothing to say.
    known = (before > 0) & (squares > 0)
    return np.where(known, ndtr(-z), 1.0), np.where(known, ndtr(z), 1.0)


def measured(method: str, population: str, n: int, base: float, turned_right: float) -> Row:
    """Return the exact error rates of one method."""
    at = tables(n, base, DELTA, turned_right)
    lower, upper = tails(method, at, DELTA)
    beyond = tables(n, base, BEYOND, turned_right)
    covered = (lower > ALPHA / 2) & (upper > ALPHA / 2)
    return Row(
        method,
        population,
        n,
        0,
        size=float(at.chance[lower < ALPHA].sum()),
        false_certification=float(at.chance[upper <= ALPHA].sum()),
        upper_miss=float(at.chance[upper < ALPHA].sum()),
        coverage=float(at.chance[covered].sum()),
        power=float(beyond.chance[tails(method, beyond, DELTA)[0] < ALPHA].sum()),
    )


@line
def error_rates(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Enumerate nested tables, and tables where one in ten of the wrong turns right."""
    for base in BASE_ERRORS:
        for n in SIZES:
            name = f"errors, base {base:g}"
            for method in ("mid-P (default)", "score", "paper's delta"):
                yield dataclasses.replace(
                    measured(method, name, n, base, 0.0), bars=_bars(method, base, n)
                )
            name += ", some turn right"
            for method in ("score (default)", "paper's delta"):
                yield dataclasses.replace(
                    measured(method, name, n, base, 0.1), bars=_bars(method, base, n)
                )


def _bars(method: str, base: float, n: int) -> tuple[Bar, ...]:
    if method.startswith("mid-P"):
        limits = Bar("size", high=0.055), Bar("false_certification", high=0.055)
        return (*limits, Bar("power", low=0.6)) if (base, n) == (0.01, 1000) else limits
    if method.startswith("score"):
        return Bar("size", high=0.065), Bar("false_certification", high=0.06)
    return ()
