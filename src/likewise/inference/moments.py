"""Sums of ratios that merge: the same estimate from blocks of rows as from all of them."""

import dataclasses
import functools
import operator
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSample
from likewise.inference.estimate import Estimate
from likewise.inference.estimators import error_and_skewness


@dataclasses.dataclass(frozen=True)
class Moments:
    r"""Total weight, mean, and sums of weighted squares and cubes about the mean.

    Merged by the updates of Chan, Golub and LeVeque (1979) and Pébay (2008), which never subtract
    large numbers that nearly agree.
    """

    weight: float
    mean: float
    squares: float
    cubes: float

    @classmethod
    def of(
        cls, values: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None
    ) -> "Moments":
        """Return the moments of a block of values."""
        total = float(len(values)) if weight is None else float(weight.sum())
        weighted = values if weight is None else values * weight
        mean = float(weighted.sum()) / total
        distance = values - mean
        squares = distance**2 if weight is None else weight * distance**2
        return cls(total, mean, float(squares.sum()), float((squares * distance).sum()))

    def __add__(self, other: "Moments") -> "Moments":
        a, b = self.weight, other.weight
        total, gap = a + b, other.mean - self.mean
        return Moments(
            total,
            self.mean + gap * b / total,
            self.squares + other.squares + gap**2 * a * b / total,
            self.cubes
            + other.cubes
            + gap**3 * a * b * (a - b) / total**2
            + 3 * gap * (a * other.squares - b * self.squares) / total,
        )

    def about(self, centre: float) -> tuple[float, float]:
        """Return the sums of weighted squares and cubes about another centre."""
        gap = self.mean - centre
        squares = self.squares + self.weight * gap**2
        return squares, self.cubes + 3 * gap * self.squares + self.weight * gap**3


@dataclasses.dataclass(frozen=True)
class RatioMoments:
    r"""All that the paper's interval and Hall's need to know of (weighted) loss ratios.

    Terms of the weighted mean are :math:`w_i (R_i - S)`, so their squares need moments with the
    weights :math:`w^2`, and their cubes with :math:`w^3`.
    """

    n: int
    plain: Moments
    squared: Moments
    cubed: Moments

    @classmethod
    def of(
        cls, ratio: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None
    ) -> "RatioMoments":
        """Return the moments of a block of finite loss ratios (capped or not)."""
        if weight is None:
            return cls(len(ratio), *[Moments.of(ratio)] * 3)
        return cls(len(ratio), *(Moments.of(ratio, weight**power) for power in (1, 2, 3)))

    @classmethod
    def merge(cls, parts: Iterable["RatioMoments"]) -> "RatioMoments":
        """Return the moments of several blocks together, in whatever order."""
        return functools.reduce(operator.add, parts)

    def __add__(self, other: "RatioMoments") -> "RatioMoments":
        return RatioMoments(
            self.n + other.n,
            self.plain + other.plain,
            self.squared + other.squared,
            self.cubed + other.cubed,
        )

    def estimate(self) -> Estimate:
        """Return what `mean_of_ratios` would give for all rows together."""
        if self.n < 2:
            raise InvalidSample(f"There are {self.n} people; a test needs at least 2.")
        value, scale = self.plain.mean, self.n / self.plain.weight
        squares = self.squared.about(value)[0] * scale**2
        cubes = self.cubed.about(value)[1] * scale**3
        std_error, skewness = error_and_skewness(self.n, squares, cubes)
        effective_n = self.plain.weight**2 / self.squared.weight
        return Estimate(value, std_error, self.n, skewness, effective_n=effective_n)
