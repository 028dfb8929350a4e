r"""The adjusted rate ratio of two groups, random in two ways: people, and the pairs they meet.

Person i of one group is compared through pairs q of comparable people, one of either group:
``own`` is the measure with the remaining columns of the pair's member of the person's own group,
``other`` with those of the member of the other group. With :math:`c = 1/(1 - \kappa)` and a
ratio d under test,

.. math:: w_{iq} = c\,(other_{iq} - own_{iq}) - (d - 1)\,own_{iq},

whose mean is zero at the true ratio once the bias b found with redrawn attributes is taken off.
Everything here is linear in ``own`` and ``other``, so sums of their powers suffice for any d.
"""

import dataclasses
import functools
import math
from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import stdtr, stdtrit

from likewise.stats.sums import Additive

Side = Literal["up", "down"]
SIDES: Final[tuple[Side, Side]] = ("up", "down")

FARTHEST = 1e9
"""Ratio beyond which an upper end is infinite."""


@dataclasses.dataclass(frozen=True)
class EvenPowers(Additive):
    r"""Sums of squares and fourth powers of any linear combination of a few variables.

    :math:`\sum_u (x \cdot v_u)^2 = x' M_2 x` and :math:`\sum_u (x \cdot v_u)^4 = s' M_4 s`, where
    s are the products of two entries of x: two small matrices hold both for every x, and those of
    two sets of units u add up.
    """

    count: int
    second: Float[np.ndarray, "r r"]
    fourth: Float[np.ndarray, "s s"]

    @classmethod
    def from_rows(cls, rows: Float[np.ndarray, "u r"]) -> "EvenPowers":
        """Sum over units; those that are zero throughout do not count."""
        rows = rows[rows.any(axis=1)]
        return cls(len(rows), *even_moments(rows))

    def powers(
        self, x: Float[np.ndarray, "r d"]
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Return the sums of squares and of fourth powers, for every column of x."""
        i, j = np.triu_indices(len(x))
        s = x[i] * x[j] * np.where(i == j, 1.0, 2.0)[:, None]
        squares, fourths = (
            np.maximum(np.einsum("id,ij,jd->d", of, matrix, of), 0.0)
            for of, matrix in ((x, self.second), (s, self.fourth))
        )
        return squares, fourths


def even_moments(
    rows: Float[np.ndarray, "u r"],
) -> tuple[Float[np.ndarray, "r r"], Float[np.ndarray, "s s"]]:
    """Return the matrices of `EvenPowers`: products of two, and of four entries, summed."""
    i, j = np.triu_indices(rows.shape[1])
    products = rows[:, i] * rows[:, j]
    return rows.T @ rows, products.T @ products


@dataclasses.dataclass(frozen=True)
class Spread:
    """Standard error of the statistic at one d, its parts, and its degrees of freedom."""

    people: Float[np.ndarray, " d"]
    pairs: Float[np.ndarray, " d"]
    redraw: float
    effective_pairs: Float[np.ndarray, " d"]
    degrees: Float[np.ndarray, " d"]

    @property
    def std_error(self) -> Float[np.ndarray, " d"]:
        """The root of the three variances together."""
        return np.sqrt(self.people + self.pairs + self.redraw)

    def quantile(self, q: float) -> Float[np.ndarray, " d"]:
        """Return the q-quantile of Student's t at every d."""
        return stdtrit(np.clip(self.degrees, 1e-3, 1e12), q)


@dataclasses.dataclass(frozen=True)
class TwoWay:
    r"""Adjusted rates of people with the remaining columns of their own and of another group.

    :math:`T_c(d) = \sum_i W_i T_i - b c`, :math:`T_i` the mean of :math:`w_{iq}` over the
    person's pairs; :math:`se^2 = V_{people} + V_{pairs} + V_b` with Satterthwaite's degrees of
    freedom, and an allowance of :math:`\tfrac12 |b| c` for what the correction by b leaves.

    ``own`` and ``other`` are the two mean rates before correction, ``kappa`` the share of the true
    effect that redrawn attributes hold as well, ``redrawn`` the differences :math:`D_b` with them,
    n the number of people (Kish's where they are weighted), ``total`` :math:`\sum w`.

    Parameters
    ----------
    people
        Powers of :math:`(w, w\,other, w\,own)`, summed over each person or cluster.
    pairs
        Powers of :math:`(A_q, B_q)` with :math:`U_q = (c A_q - (c + d - 1) B_q)/\sum w`; `None`
        in two halves, where the units of ``people`` hold the U of their pairs.
    exact_degrees
        Whether people are neither weighted nor clustered: :math:`V_{people}` has n − 1 degrees.
    unit_interval
        Whether values lie between 0 and 1, so that one pseudo-person can stand for what rates of
        exactly 0 or 1 leave open.
    origin
        1 for the complement of what powers were summed of, else 0.
    """

    own: float
    other: float
    kappa: float
    redrawn: Float[np.ndarray, " b"]
    n: float
    total: float
    people: EvenPowers
    pairs: EvenPowers | None
    exact_degrees: bool = True
    origin: float = 0.0
    unit_interval: bool = True

    def complement(self) -> "TwoWay":
        """Return the same comparisons for the other outcome: rates 1 − own and 1 − other."""
        # Deviations change their sign, so that sums of their even powers stay.
        return dataclasses.replace(
            self,
            own=1 - self.own,
            other=1 - self.other,
            redrawn=-self.redrawn,
            origin=1 - self.origin,
        )

    @property
    def factor(self) -> float:
        r"""c, that is :math:`1/(1 - \kappa)`."""
        return 1 / (1 - self.kappa)

    @property
    def bias(self) -> float:
        """b: the mean difference with redrawn attributes."""
        return float(self.redrawn.mean()) if len(self.redrawn) else 0.0

    @property
    def allowance(self) -> float:
        """What is added to every half-width: half of the correction."""
        return abs(self.bias) * self.factor / 2

    @property
    def difference(self) -> float:
        r""":math:`D_c = (D - b)/(1 - \kappa)`."""
        return (self.other - self.own - self.bias) * self.factor

    @property
    def other_corrected(self) -> float:
        """The rate with the other group's columns: own + D_c."""
        return self.own + self.difference

    @property
    def ratio(self) -> float:
        """The adjusted rate ratio; not a number where ``own`` is 0."""
        return self.other_corrected / self.own if self.own else math.nan

    @functools.cached_property
    def pseudo(self) -> bool:
        """Whether a pseudo-person is added: no spread, or a rate of exactly 0 or 1."""
        if not self.unit_interval:
            return False
        at_end = any(rate in (0.0, 1.0) for rate in (self.own, self.other))
        return at_end or float(self._spread(np.ones(1)).std_error[0]) == 0

    def _extended(self, side: Side) -> "TwoWay":
        """Return the comparisons with the pseudo-person, if one is added, of a mean weight."""
        if not self.pseudo:
            return self
        weight = self.total / max(self.people.count, 1)
        other, own = (0.0, 1.0) if side == "up" else (1.0, 0.0)
        summed = weight * np.array([[1.0, abs(self.origin - other), abs(self.origin - own)]])
        total = self.total + weight
        return dataclasses.replace(
            self,
            own=(self.total * self.own + weight * own) / total,
            other=(self.total * self.other + weight * other) / total,
            total=total,
            people=self.people + EvenPowers.from_rows(summed),
        )

    def statistic(self, d: Float[np.ndarray, " d"], side: Side) -> Float[np.ndarray, " d"]:
        """Return T_c(d), tested against zero upwards or downwards."""
        found, x = self._extended(side), self._weights(d)
        return x[0] * found.other + x[1] * found.own - self.bias * self.factor

    def spread(self, d: Float[np.ndarray, " d"], side: Side = "up") -> Spread:
        """Return the variances of T_c(d) and its degrees of freedom."""
        return self._extended(side)._spread(d)

    def _weights(self, d: Float[np.ndarray, " d"]) -> Float[np.ndarray, "2 d"]:
        """Return what other and own are multiplied by in w."""
        return np.stack([np.full_like(d, self.factor), -(self.factor + d - 1)])

    def _spread(self, d: Float[np.ndarray, " d"]) -> Spread:
        # Powers of people are of (w, w other, w own): the mean of T is taken off by the first, and
        # of the complement, 1 - other and 1 - own, the others change their sign.
        x, units, scale = self._weights(d), self.people.count, self.total**2
        centre = -((np.array([self.other, self.own]) - self.origin) @ x)
        square, fourth = self.people.powers(np.vstack([centre, (1 - 2 * self.origin) * x]))
        people = units / (units - 1) * square / scale if units > 1 else np.full_like(d, math.inf)
        pairs = pairs_fourth = np.zeros_like(d)
        if self.pairs is not None:
            pairs, pairs_fourth = self.pairs.powers(x)
            pairs, pairs_fourth = pairs / scale, pairs_fourth / scale**2
        redraw, redraws = 0.0, len(self.redrawn)
        if redraws > 1:
            redraw = float(self.redrawn.var(ddof=1)) / redraws * self.factor**2
        with np.errstate(divide="ignore", invalid="ignore"):
            people_degrees = np.full_like(d, units - 1)
            if not self.exact_degrees:
                uneven = np.where(square > 0, 2 * square**2 / fourth, math.inf)
                # In halves, units are people and pairs at once, and their number is no limit.
                limit = math.inf if self.pairs is None else units - 1
                people_degrees = np.minimum(uneven, limit)
            # V_pairs^2 / (2 J) is half the sum of fourth powers.
            terms = people**2 / people_degrees + pairs_fourth / 2
            if redraws > 1:
                terms = terms + redraw**2 / (redraws - 1)
            variance = people + pairs + redraw
            degrees = np.where(terms > 0, variance**2 / terms, math.inf)
            effective = np.where(pairs_fourth > 0, pairs**2 / pairs_fourth, math.inf)
        return Spread(people, pairs, redraw, effective, np.where(np.isnan(degrees), 0.0, degrees))

    def excess(self, d: Float[np.ndarray, " d"], side: Side) -> Float[np.ndarray, " d"]:
        """Return how far T_c(d) lies above zero, or below it, beyond the allowance."""
        return (1.0 if side == "up" else -1.0) * self.statistic(d, side) - self.allowance

    def p_one_sided(self, d: float, side: Side, limit: float = 0.0) -> float:
        """Return the p-value of "T_c(d) is at most the limit", upwards or downwards."""
        at = np.array([d], dtype=np.float64)
        spread = self.spread(at, side)
        se, degrees = float(spread.std_error[0]), float(spread.degrees[0])
        if not 0 < se < math.inf or degrees <= 0:
            return 1.0
        return float(stdtr(min(degrees, 1e12), (limit - float(self.excess(at, side)[0])) / se))

    def p_value(self, delta: float, limit: float = 0.0) -> float:
        """Two-sided p-value of "the ratio lies between 1/δ and δ"; of a difference, with δ = 1."""
        up, down = (
            self.p_one_sided(d, side, limit)
            for d, side in zip((delta, 1 / delta), SIDES, strict=True)
        )
        return min(1.0, 2 * min(up, down))

    def margin(self, d: Float[np.ndarray, " d"], side: Side, alpha: float) -> np.ndarray:
        """Return by how much T_c(d) exceeds its half-width: d is rejected where positive."""
        spread = self.spread(d, side)
        return self.excess(d, side) - spread.quantile(1 - alpha / 2) * spread.std_error

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """Two-sided interval for the ratio: from the estimate outwards to the first d rejected.

        The lower end is 0 and the upper end infinite where nothing is rejected on that side.
        """
        if self.own == 0:
            if self.difference <= 0:
                return 0.0, math.inf
            start = FARTHEST
        else:
            start = max(self.ratio, 0.0)
        lower = 0.0
        if start > 0:
            near = start * (1 - np.geomspace(1e-6, 1, 100))
            far = np.geomspace(start, start * 1e-12, 400) if start == FARTHEST else near
            down = np.concatenate([[start], np.union1d(near, far)[::-1]])
            lower = self._first_rejected(down, "up", alpha, 0.0)
        upper = math.inf
        if start < FARTHEST:
            up = start + np.geomspace(1e-6 * max(start, 1e-3), FARTHEST, 300)
            upper = self._first_rejected(np.concatenate([[start], up]), "down", alpha, math.inf)
        return lower, upper

    def _first_rejected(
        self, grid: Float[np.ndarray, " d"], side: Side, alpha: float, never: float
    ) -> float:
        rejected = np.flatnonzero(self.margin(grid, side, alpha) > 0)
        if not len(rejected):
            return never
        first = int(rejected[0])
        if first == 0:
            return float(grid[0])

        def margin(d: float) -> float:
            return float(self.margin(np.array([d]), side, alpha)[0])

        ends = grid[first - 1], grid[first]
        return float(brentq(margin, *ends, xtol=1e-15, rtol=1e-14, maxiter=500))

    def difference_interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """Two-sided interval for the difference D_c, with the allowance."""
        low, high = (float(self.margin(np.ones(1), side, alpha)[0]) for side in SIDES)
        return low, -high

    @property
    def control(self) -> Float[np.ndarray, " b"]:
        """Negative control: the ratios with redrawn attributes, centred; none where own is 0."""
        if self.own == 0:
            return np.zeros(0)
        return 1 + (self.redrawn - self.bias) * self.factor / self.own
