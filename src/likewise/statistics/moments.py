"""Sums that merge: moments about the mean, and counts of wrong decisions before and after."""

import dataclasses
import math
from typing import Any, Protocol, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.outcomes import Outcomes
from likewise.statistics.frame import Frame

S = TypeVar("S")
A = TypeVar("A", bound="Additive")


class Stat(Protocol):
    """A summary of some people; the summary of all is the sum, in whatever order and grouping."""

    @classmethod
    def of(cls: type[S], block: Outcomes, frame: Frame) -> S:
        """Summarise a block of people."""
        ...

    def __add__(self: S, other: S) -> S:
        """Return the summary of the people of both."""
        ...


@dataclasses.dataclass(frozen=True)
class Additive:
    """A frozen dataclass that adds up field by field."""

    def __add__(self: A, other: A) -> A:
        names = [field.name for field in dataclasses.fields(self)]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})


Numbers = Any
"""A float, or an array of floats: one a cell."""


@dataclasses.dataclass(frozen=True)
class Moments:
    r"""Total weight, mean, and sums of weighted squares and cubes about the mean.

    Merged by the updates of Chan, Golub and LeVeque (1979) and Pébay (2008), which never subtract
    large numbers that nearly agree. Each field is a number, or an array with one number a cell of
    people.
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
        weight: Float[np.ndarray, " n"] | None = None,
    ) -> "Moments":
        """Return the moments of every cell of a block; nobody's cell is all zeros."""
        each = np.ones(len(values)) if weight is None else weight
        total = np.bincount(cell, weights=each, minlength=cells)
        mean = np.bincount(cell, weights=each * values, minlength=cells) / np.where(
            total > 0, total, 1.0
        )
        distance = values - mean[cell]
        squares = each * distance**2
        return cls(
            total,
            mean,
            np.bincount(cell, weights=squares, minlength=cells),
            np.bincount(cell, weights=squares * distance, minlength=cells),
        )

    def __add__(self, other: "Moments") -> "Moments":
        a, b = self.weight, other.weight
        total, gap = a + b, other.mean - self.mean
        if isinstance(total, float):
            if not (a and b):
                return other if b else self
            safe: Numbers = total
            mean: Numbers = self.mean + gap * b / total
        else:
            # What was nobody's has no mean to start from.
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
        fields = []
        for field in dataclasses.astuple(self):
            fields.append(np.zeros(cells))
            fields[-1][places] = field
        return Moments(*fields)


@dataclasses.dataclass(frozen=True)
class RatioMoments:
    r"""All that the paper's interval and Hall's need to know of (weighted) loss ratios.

    Terms of the weighted mean are :math:`w_i (R_i - S)`, so their squares need moments with the
    weights :math:`w^2`, and their cubes with :math:`w^3`.
    """

    n: int = 0
    plain: Moments = Moments()
    squared: Moments = Moments()
    cubed: Moments = Moments()

    def __add__(self, other: "RatioMoments") -> "RatioMoments":
        n, plain = self.n + other.n, self.plain + other.plain
        # Without weights the three are one.
        if self.plain is self.cubed and other.plain is other.cubed:
            return RatioMoments(n, plain, plain, plain)
        return RatioMoments(n, plain, self.squared + other.squared, self.cubed + other.cubed)

    @classmethod
    def of(
        cls, ratio: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None
    ) -> "RatioMoments":
        """Return the moments of a block of finite loss ratios (capped or not)."""
        if weight is None:
            return cls(len(ratio), *[Moments.of(ratio)] * 3)
        return cls(len(ratio), *(Moments.of(ratio, weight**power) for power in (1, 2, 3)))


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
    """Counts of people by whether they are decided wrongly before and after the map.

    Tables of parts of a sample add up to the table of the whole.

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
        """People wrong before the map."""
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
