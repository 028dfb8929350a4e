"""Sums that merge: power sums of ratios, counts of errors, and quantiles."""

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int, Shaped

A = TypeVar("A", bound="Additive")


@dataclasses.dataclass(frozen=True)
class Additive:
    """A frozen dataclass that adds up field by field; mappings by key, and tuples by place."""

    kept_as_is: ClassVar[tuple[str, ...]] = ()
    """Fields that are the same for every block."""

    def __add__(self: A, other: A) -> A:
        return self._merged(other, operator.add)

    def __iadd__(self: A, other: A) -> A:
        """Add in place what can be: sums that are large."""
        return self._merged(other, operator.iadd)

    def _merged(self: A, other: A, add: Callable[[Any, Any], Any]) -> A:
        names = [f.name for f in dataclasses.fields(self) if f.name not in self.kept_as_is]
        added = {name: _added(getattr(self, name), getattr(other, name), add) for name in names}
        return dataclasses.replace(self, **added)


def _added(one: Any, other: Any, add: Callable[[Any, Any], Any]) -> Any:
    if isinstance(one, Mapping):
        return {key: _added(value, other[key], add) for key, value in one.items()}
    if isinstance(one, tuple):
        return tuple(_added(a, b, add) for a, b in zip(one, other, strict=True))
    return one + other if isinstance(one, np.ndarray) else add(one, other)


POWERS = tuple((i, j) for i in range(4) for j in range(4 - i))
"""Powers of a - b and of b whose products are summed."""

ROUNDING = 1e-12  # what is left of a difference of sums, relative to them, may be rounding


def power_products(
    after: Shaped[np.ndarray, " n"], before: Shaped[np.ndarray, " n"]
) -> list[Float[np.ndarray, " n"]]:
    """Return what `RatioSums` adds up, for every unit."""
    base = before.astype(np.float64)
    ones, change = np.ones(len(base)), after - base
    by_change, by_base = ((ones, x, x * x, x * x * x) for x in (change, base))
    return [by_change[i] * by_base[j] for i, j in POWERS]


@dataclasses.dataclass(frozen=True)
class RatioSums(Additive):
    r"""A ratio of totals, :math:`\sum a_g / \sum b_g`, in power sums up to the third order.

    Every ratio here is one: of mean losses, of error rates, and the (weighted) mean of loss ratios,
    with weights for b. Units g are independent: people, or whole clusters. The influence of a unit,
    :math:`D_g = a_g - \delta b_g = (a_g - b_g) - (\delta - 1) b_g`, has its first three moments in
    the sums of :math:`(a - b)^i b^j` (in the order of `POWERS`), whatever :math:`\delta`.
    """

    sums: Float[np.ndarray, "10"]

    @classmethod
    def from_units(
        cls, after: Shaped[np.ndarray, " g"], before: Shaped[np.ndarray, " g"]
    ) -> "RatioSums":
        """Sum up the (weighted) errors or losses of each unit, after and before."""
        return cls(np.array([product.sum() for product in power_products(after, before)]))

    def power(self, i: int, j: int) -> float:
        """Return the sum of :math:`(a - b)^i b^j`."""
        return float(self.sums[POWERS.index((i, j))])

    @property
    def units(self) -> int:
        """Number of units G."""
        return int(self.power(0, 0))

    @property
    def before(self) -> float:
        """The total before the perturbation."""
        return self.power(0, 1)

    @property
    def ratio(self) -> float:
        """The ratio of the totals; infinite, or undefined, if the total before is zero."""
        if self.before == 0:
            return math.inf if self.power(1, 0) else math.nan
        return 1 + self.power(1, 0) / self.before

    def moments(self, delta: float) -> tuple[float, float, float]:
        """Return the sum of the D, and the sums of their squares and cubes about their mean."""
        s, c = self.power, delta - 1
        # Products, not powers: of ratios beyond 1e154 they are infinite, and no error.
        c2, c3 = c * c, c * c * c
        first = s(1, 0) - c * s(0, 1)
        second = s(2, 0) - 2 * c * s(1, 1) + c2 * s(0, 2)
        third = s(3, 0) - 3 * c * s(2, 1) + 3 * c2 * s(1, 2) - c3 * s(0, 3)
        mean = first / self.units
        squares = second - mean * first
        cubes = third - 3 * mean * second + 2 * mean * mean * first
        size = s(2, 0) + c2 * s(0, 2)
        return first, squares if squares > ROUNDING * size else 0.0, cubes

    def leverage(self) -> float:
        r"""Return the share of :math:`\sum b` that a unit holds, averaged over the squares of D."""
        c, s, squares = self.ratio - 1, self.power, self.moments(self.ratio)[1]
        third = s(2, 1) - 2 * c * s(1, 2) + c * c * s(0, 3)
        return third / (self.before * squares) if squares > 0 else 0.0


class ErrorTable(NamedTuple):
    """People wrong both times (n11), only after (n10), only before (n01), and never (n00)."""

    both: int = 0
    newly_wrong: int = 0
    newly_right: int = 0
    neither: int = 0

    @property
    def before(self) -> int:
        """People wrong before the perturbation."""
        return self.both + self.newly_right

    @property
    def after(self) -> int:
        """People wrong after it."""
        return self.both + self.newly_wrong

    @property
    def ratio(self) -> float:
        """Ratio of the error rates; infinite with no error before, undefined with none at all."""
        if self.before == 0:
            return math.inf if self.after else math.nan
        return self.after / self.before


BIN_RATIO = 1.02
"""Ends of a bin, upper over lower: its geometric middle is within 1 % of all that is in it."""


@dataclasses.dataclass(frozen=True)
class QuantileSketch:
    r"""Quantile sketch: counts of positive numbers in bins of fixed ratio, which add up exactly.

    A quantile is the geometric middle of the bin that holds it, so its relative error is at most
    :math:`\sqrt{1.02} - 1 < 1\,\%`; the smallest and the largest number are exact. The
    first of ``counts`` is of what lies between :math:`1.02^{first}` and the next power.
    """

    first: int
    counts: Int[np.ndarray, " b"]
    least: float = np.inf
    greatest: float = -np.inf

    @classmethod
    def from_values(cls, values: Float[np.ndarray, " n"]) -> "QuantileSketch":
        """Count some positive, finite numbers."""
        if not len(values):
            return cls(0, np.zeros(0, dtype=np.int64))
        place = np.floor(np.log(values) / np.log(BIN_RATIO)).astype(np.int64)
        first = int(place.min())
        return cls(first, np.bincount(place - first), float(values.min()), float(values.max()))

    def __add__(self, other: "QuantileSketch") -> "QuantileSketch":
        if not (len(self.counts) and len(other.counts)):
            return self if len(self.counts) else other
        first = min(self.first, other.first)
        last = max(part.first + len(part.counts) for part in (self, other))
        counts = np.zeros(last - first, dtype=np.int64)
        for part in (self, other):
            counts[part.first - first : part.first - first + len(part.counts)] += part.counts
        least, greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        return QuantileSketch(first, counts, least, greatest)

    @property
    def n(self) -> int:
        """How many numbers were counted."""
        return int(self.counts.sum())

    def quantile(self, share: float) -> float:
        """Return the number below which this share of all lies, to one per cent."""
        if share <= 0:
            return self.least
        if share >= 1:
            return self.greatest
        rank = share * (self.n - 1)
        place = int(np.searchsorted(np.cumsum(self.counts), rank, side="right"))
        middle = float(BIN_RATIO ** (self.first + place + 0.5))
        return min(max(middle, self.least), self.greatest)

    def histogram(self, bins: int) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " b"]]:
        """Return the ends of wider bins, evenly spaced in logarithms, and the counts in them."""
        low, high = np.log10(self.least), np.log10(self.greatest)
        edges = np.linspace(low, max(high, low + 1e-6), bins + 1)
        middles = (self.first + np.arange(len(self.counts)) + 0.5) * np.log10(BIN_RATIO)
        counts, _ = np.histogram(
            np.clip(middles, edges[0], edges[-1]), edges, weights=self.counts.astype(np.float64)
        )
        return 10**edges, counts
