"""Sums that merge: moments, counts of errors, largest values and quantiles of parts add up."""

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.outcomes import Outcomes, Status
from likewise.stats.frame import Frame

A = TypeVar("A", bound="Additive")


@dataclasses.dataclass(frozen=True)
class Additive:
    """A frozen dataclass that adds up field by field; mappings by key, and tuples by place."""

    kept_as_is: ClassVar[tuple[str, ...]] = ()
    """Fields that are the same for every block."""

    def __add__(self: A, other: A) -> A:
        return self._added(other, operator.add)

    def __iadd__(self: A, other: A) -> A:
        """Add in place what can be: sums that are large."""
        return self._added(other, operator.iadd)

    def _added(self: A, other: A, add: Callable[[Any, Any], Any]) -> A:
        pairs = {
            f.name: (getattr(self, f.name), getattr(other, f.name))
            for f in dataclasses.fields(self)
        }
        return type(self)(
            **{k: a if k in self.kept_as_is else _added(a, b, add) for k, (a, b) in pairs.items()}
        )


def _added(one: Any, other: Any, add: Callable[[Any, Any], Any]) -> Any:
    if isinstance(one, Mapping):
        return {key: _added(value, other[key], add) for key, value in one.items()}
    if isinstance(one, tuple):
        return tuple(_added(a, b, add) for a, b in zip(one, other, strict=True))
    return one + other if isinstance(one, np.ndarray) else add(one, other)


Numbers = Any
"""A float, or an array of floats: one per cell."""


@dataclasses.dataclass(frozen=True)
class Moments:
    r"""Total weight, mean, and sums of weighted squares and cubes about the mean.

    Merged by the updates of Chan, Golub and LeVeque (1979) and Pébay (2008), which never subtract
    large numbers that nearly agree. Each field is a number, or an array with one number per cell.
    """

    weight: Numbers = 0.0
    mean: Numbers = 0.0
    squares: Numbers = 0.0
    cubes: Numbers = 0.0

    @classmethod
    def of(
        cls, values: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None
    ) -> "Moments":
        """Return the moments of a block of values."""
        if not len(values):
            return cls()
        total = float(len(values)) if weight is None else float(weight.sum())
        weighted = values if weight is None else values * weight
        mean = float(weighted.sum()) / total
        distance = values - mean
        squares = distance**2 if weight is None else weight * distance**2
        return cls(total, mean, float(squares.sum()), float((squares * distance).sum()))

    @classmethod
    def by_cell(
        cls,
        values: Float[np.ndarray, " n"],
        cell: Int[np.ndarray, " n"],
        cells: int,
        weight: Float[np.ndarray, " n"],
    ) -> "Moments":
        """Return the moments of every cell of a block; an empty cell's are zeros."""
        total = np.bincount(cell, weights=weight, minlength=cells)
        sums = np.bincount(cell, weights=weight * values, minlength=cells)
        mean = sums / np.where(total > 0, total, 1.0)
        distance = values - mean[cell]
        powers = [weight * distance**2, weight * distance**2 * distance]
        return cls(total, mean, *(np.bincount(cell, weights=p, minlength=cells) for p in powers))

    def __add__(self, other: "Moments") -> "Moments":
        a, b = self.weight, other.weight
        total, gap = a + b, other.mean - self.mean
        if isinstance(total, float):
            if not (a and b):
                return other if b else self
            safe: Numbers = total
            mean: Numbers = self.mean + gap * b / total
        else:
            # An empty cell has no mean to start from.
            safe = np.where(total > 0, total, 1.0)
            mean = np.where(a > 0, self.mean + gap * b / safe, other.mean)
        return Moments(
            total,
            mean,
            self.squares + other.squares + gap**2 * a * b / safe,
            self.cubes
            + other.cubes
            + gap**3 * a * b * (a - b) / safe**2
            + 3 * gap * (a * other.squares - b * self.squares) / safe,
        )

    def about(self, centre: float) -> tuple[Numbers, Numbers]:
        """Return the sums of weighted squares and cubes about another centre."""
        gap = self.mean - centre
        squares = self.squares + self.weight * gap**2
        return squares, self.cubes + 3 * gap * self.squares + self.weight * gap**3

    def of_cells(self, members: Any) -> "Moments":
        """Return the moments of some cells together."""
        parts = Moments(*(field[members] for field in dataclasses.astuple(self)))
        weight = float(parts.weight.sum())
        mean = float(parts.weight @ parts.mean) / weight if weight else 0.0
        squares, cubes = parts.about(mean)
        return Moments(weight, mean, float(squares.sum()), float(cubes.sum()))

    def spread_to(self, places: Int[np.ndarray, " m"], cells: int) -> "Moments":
        """Return the same cells at other places among more of them."""
        return Moments(*(spread(field, places, cells) for field in dataclasses.astuple(self)))


def spread(values: Any, places: Any, size: int) -> Any:
    """Return an array of ``size`` rows with the values at their places, and zeros elsewhere."""
    wide = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    wide[places] = values
    return wide


@dataclasses.dataclass(frozen=True)
class RatioMoments:
    r"""Moments of (weighted) loss ratios: what the paper's interval and Hall's are made of.

    Terms of the weighted mean are :math:`w_i (R_i - S)`, so their squares need moments with the
    weights :math:`w^2`, and their cubes with :math:`w^3`.
    """

    n: int = 0
    plain: Moments = Moments()
    squared: Moments = Moments()
    cubed: Moments = Moments()

    @classmethod
    def of(
        cls, ratio: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None
    ) -> "RatioMoments":
        """Return the moments of a block of finite loss ratios (capped or not)."""
        if weight is None:
            return cls(len(ratio), *[Moments.of(ratio)] * 3)
        return cls(len(ratio), *(Moments.of(ratio, weight**power) for power in (1, 2, 3)))

    def __add__(self, other: "RatioMoments") -> "RatioMoments":
        n, plain = self.n + other.n, self.plain + other.plain
        # Without weights the three are one.
        if self.plain is self.cubed and other.plain is other.cubed:
            return RatioMoments(n, plain, plain, plain)
        return RatioMoments(n, plain, self.squared + other.squared, self.cubed + other.cubed)


@dataclasses.dataclass(frozen=True)
class CoMoments:
    r"""Weighted means of several columns, and the sums of their products about the means."""

    weight: float
    mean: Float[np.ndarray, " k"]
    products: Float[np.ndarray, "k k"]

    @classmethod
    def of(cls, columns: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]) -> "CoMoments":
        """Return the moments of a block of rows."""
        total = float(weight.sum())
        mean = weight @ columns / (total or 1.0)
        distance = columns - mean
        return cls(total, mean, (distance * weight[:, None]).T @ distance)

    def __add__(self, other: "CoMoments") -> "CoMoments":
        a, b = self.weight, other.weight
        if not (a and b):
            return other if b else self
        gap = other.mean - self.mean
        between = np.outer(gap, gap) * (a * b / (a + b))
        mean = self.mean + gap * (b / (a + b))
        return CoMoments(a + b, mean, self.products + other.products + between)

    def of_combinations(self, coefficients: Float[np.ndarray, "k m"]) -> Float[np.ndarray, "m m"]:
        """Return the sums of products, about zero, of linear combinations of the columns."""
        mean = coefficients.T @ self.mean
        return coefficients.T @ self.products @ coefficients + self.weight * np.outer(mean, mean)


@dataclasses.dataclass(frozen=True)
class ErrorTable(Additive):
    """Counts of people by whether they are decided wrongly before and after the perturbation.

    Parameters
    ----------
    both, newly_wrong, newly_right, neither
        Wrong both times (n11), only after (n10), only before (n01), and never (n00).
    """

    both: int = 0
    newly_wrong: int = 0
    newly_right: int = 0
    neither: int = 0

    @classmethod
    def of(cls, before: Bool[np.ndarray, " n"], after: Bool[np.ndarray, " n"]) -> "ErrorTable":
        """Count the errors of each person, before and after."""
        both = int((before & after).sum())
        wrong_before, wrong_after = int(before.sum()), int(after.sum())
        neither = len(before) - wrong_before - wrong_after + both
        return cls(both, wrong_after - both, wrong_before - both, neither)

    @property
    def n(self) -> int:
        """Number of people."""
        return self.both + self.newly_wrong + self.newly_right + self.neither

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

    @property
    def details(self) -> dict[str, float]:
        """The four counts by name."""
        return {name: float(count) for name, count in dataclasses.asdict(self).items()}


ROUNDING = 1e-14
"""What is left of a difference of sums, relative to them, may be rounding."""


@dataclasses.dataclass(frozen=True)
class UnitSums(Additive):
    r"""Power sums :math:`\sum_g (a_g - b_g)^i b_g^j`, up to the third order, over units.

    Any :math:`D_g = a_g - \delta b_g = (a_g - b_g) - (\delta - 1) b_g` has its first three moments
    in them, whatever :math:`\delta`.

    Parameters
    ----------
    sums
        Entry (i, j) belongs to :math:`(a - b)^i b^j`; (0, 0) is the number of units.
    """

    sums: Float[np.ndarray, "4 4"]

    @classmethod
    def of(cls, after: Shaped[np.ndarray, " g"], before: Shaped[np.ndarray, " g"]) -> "UnitSums":
        """Sum up the (weighted) errors or losses of each unit, after and before."""
        powers = np.arange(4)[:, None]
        base = before.astype(np.float64)
        return cls((after - base) ** powers @ (base**powers).T)

    @property
    def units(self) -> int:
        """Number of units G."""
        return int(self.sums[0, 0])

    @property
    def before(self) -> float:
        """The total before the perturbation."""
        return float(self.sums[0, 1])

    @property
    def ratio(self) -> float:
        """The ratio of the totals; infinite, or undefined, if the total before is zero."""
        if self.before == 0:
            return math.inf if self.sums[1, 0] else math.nan
        return 1 + float(self.sums[1, 0]) / self.before

    def moments(self, delta: float) -> tuple[float, float, float]:
        """Return the sum of the D, and the sums of their squares and cubes about their mean."""
        s, c = self.sums, delta - 1
        first = float(s[1, 0] - c * s[0, 1])
        second = float(s[2, 0] - 2 * c * s[1, 1] + c**2 * s[0, 2])
        third = float(s[3, 0] - 3 * c * s[2, 1] + 3 * c**2 * s[1, 2] - c**3 * s[0, 3])
        mean = first / self.units
        squares = second - mean * first
        cubes = third - 3 * mean * second + 2 * mean**2 * first
        size = float(s[2, 0] + c**2 * s[0, 2])
        return first, squares if squares > ROUNDING * size else 0.0, cubes


@dataclasses.dataclass(frozen=True)
class TopK:
    """Order statistics: the largest of many numbers.

    Parameters
    ----------
    wanted
        How many are to be kept.
    kept
        The largest so far, and perhaps some more (at most as many again), in no order.
    floor
        What the largest ones are known not to fall below.
    """

    wanted: int
    kept: Float[np.ndarray, " m"]
    floor: float = -np.inf

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"], wanted: int) -> "TopK":
        """Return the largest of some numbers."""
        return cls(wanted, values)._trimmed(wanted)

    def __add__(self, other: "TopK") -> "TopK":
        floor = max(self.floor, other.floor)
        kept = [part.kept[part.kept >= floor] for part in (self, other)]
        # Trimming costs as much as the list is long, so it waits until that has doubled.
        return TopK(self.wanted, np.concatenate(kept), floor)._trimmed(2 * self.wanted)

    def _trimmed(self, most: int) -> "TopK":
        if len(self.kept) <= most:
            return self
        if not self.wanted:
            return TopK(0, self.kept[:0])
        kept = np.partition(self.kept, len(self.kept) - self.wanted)[-self.wanted :]
        return TopK(self.wanted, kept, float(kept.min()))

    @property
    def values(self) -> Float[np.ndarray, " m"]:
        """The largest numbers, largest first."""
        return np.sort(self._trimmed(self.wanted).kept)[::-1]


def hill_count(n: int) -> int:
    """Return how many of the largest ratios give Hill's index: √n, but 10 to a tenth of all."""
    return max(1, min(n // 10, max(10, round(n**0.5))))


def top_count(n: int) -> int:
    """Return how many people the top 1 % are, one at least."""
    return max(1, n // 100)


BIN_RATIO = 1.02
"""Ends of a bin, upper over lower: its geometric middle is within 1 % of all that is in it."""


@dataclasses.dataclass(frozen=True)
class QuantileSketch:
    r"""Quantile sketch: counts of positive numbers in bins of fixed ratio, which add up exactly.

    A quantile is the geometric middle of the bin that holds it, so its relative error is at most
    :math:`\sqrt{1.02} - 1 < 1\,\%`; the smallest and the largest number are exact.

    Parameters
    ----------
    first
        Number of the first bin: bin k holds what lies between :math:`1.02^k` and
        :math:`1.02^{k+1}`.
    counts
        Numbers in it and in the bins after it.
    least, greatest
        The smallest and the largest number.
    """

    first: int
    counts: Int[np.ndarray, " b"]
    least: float = np.inf
    greatest: float = -np.inf

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"]) -> "QuantileSketch":
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


@dataclasses.dataclass(frozen=True)
class StatusCounts(Additive):
    """People by what became of them, in the order of `Status`."""

    people: Int[np.ndarray, " s"]

    @classmethod
    def of(cls, block: Outcomes) -> "StatusCounts":
        """Count a block of people."""
        return cls(np.array([int((block.status == status).sum()) for status in Status]))

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {s.name.lower(): int(n) for s, n in zip(Status, self.people, strict=True)}


@dataclasses.dataclass(frozen=True)
class Mean(Additive):
    """The mean of some columns over rows."""

    n: int
    total: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, rows: Float[np.ndarray, "n d"]) -> "Mean":
        """Add up a block of rows."""
        return cls(len(rows), rows.sum(axis=0))

    @property
    def value(self) -> Float[np.ndarray, " d"]:
        """The mean of every column."""
        return self.total / self.n


def known_outcomes(
    block: Outcomes, frame: Frame
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return ones and loss ratios, or losses before and after; and whose are not finite.

    Theirs are ones in the place of ratios, and zeros in the place of losses.
    """
    if not frame.regression:
        ratio = block.ratio
        known = np.isfinite(ratio)
        return np.ones(len(block)), np.where(known, ratio, 1.0), ~known
    known = np.isfinite(block.loss_before) & np.isfinite(block.loss_after)
    before, after = (np.where(known, loss, 0.0) for loss in (block.loss_before, block.loss_after))
    return before, after, ~known
