"""Bounds for a ratio of sums that is random in two ways: who was audited, and who visited."""

import dataclasses
import functools
import math
from typing import final

import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from likewise.inference.estimate import Bounds, Unknown
from likewise.inference.hall import transformed
from likewise.inference.inversion import Inversion


@final
@dataclasses.dataclass(frozen=True)
class TwoWay(Inversion):
    r"""Bounds for :math:`S = \sum a / \sum b`, clustered by people and by visiting pairs.

    With :math:`D_c(\theta) = \sum_{i \in c} w_i (a_i - \theta b_i)` over people (or clusters of
    people) and :math:`U_q(\theta) = N_q - \theta M_q` over pairs, the variance of :math:`\sum D_c`
    is :math:`\frac{C}{C-1} \sum (D_c - \bar D)^2 + \kappa \sum_q U_q^2`: both ways are added and
    their intersection is not subtracted (Cameron, Gelbach and Miller 2011 subtract it), which errs
    on the wide side. :math:`t(\theta)` is corrected for the skewness of :math:`D_c` by Hall's
    transformation and compared with Student's t on :math:`J - 1` degrees,
    :math:`J = (\sum_q U_q^2)^2 / \sum_q U_q^4` at :math:`\theta = S`; bounds are where the test
    turns. Nothing is divided by a random number.

    Where members of the pool belong to clusters, products :math:`U_q U_{q'}` of pairs that share
    one are added too: :math:`\sum_c U_c^2 - \sum_q U_q^2` over clusters c, each pair being in two
    of them, but never less than :math:`\sum_q U_q^2`; J is then that of the clusters.

    Parameters
    ----------
    after, before
        :math:`\sum_{i \in c} w_i a_i` and :math:`\sum_{i \in c} w_i b_i`.
    pair_after, pair_before
        :math:`N_q` and :math:`M_q`.
    inflation
        :math:`\kappa`, for the means that were taken off within each person.
    clustered
        Whether the first two are totals of clusters.
    pair_cluster
        The clusters of the two members of each pair, if the pool has clusters.
    least
        Least variance of the ratio due to pairs: that under random exchanges of members, which
        needs no approximation where a few pairs outweigh all others.
    """

    after: Float[np.ndarray, " c"]
    before: Float[np.ndarray, " c"]
    pair_after: Float[np.ndarray, " q"]
    pair_before: Float[np.ndarray, " q"]
    inflation: float
    clustered: bool = False
    pair_cluster: Int[np.ndarray, "q 2"] | None = None
    least: float = 0.0

    @functools.cached_property
    @override
    def centre(self) -> float:
        """The ratio itself."""
        return float(self.after.sum() / self.before.sum())

    def variances(self, theta: float) -> tuple[float, float, float]:
        """Return both variances of the sum of the D, and the sum of their cubes about the mean."""
        people, cubes, pairs, clusters = (_polynomial(c, theta - self.centre) for c in self._powers)
        if self.pair_cluster is not None:
            pairs = max(pairs, clusters - pairs)
        count = len(self.after)
        people = count / (count - 1) * people if count > 1 else math.inf
        return people, max(self.inflation * pairs, self._least), cubes

    @functools.cached_property
    def _least(self) -> float:
        return self.least * float(self.before.sum()) ** 2

    @functools.cached_property
    def _powers(self) -> tuple[list[float], ...]:
        r"""Sums of squares and cubes as polynomials in :math:`\theta - S`, lowest power first.

        At S itself nothing cancels, and bounds are sought at many :math:`\theta`.
        """
        d = self.after - self.centre * self.before
        d, b = d - d.mean(), self.before - self.before.mean()
        u, v = self.pair_after - self.centre * self.pair_before, self.pair_before
        return (
            _squares(d, b),
            [float(d @ d**2), -3 * float(d**2 @ b), 3 * float(d @ b**2), -float(b @ b**2)],
            _squares(u, v),
            _squares(self._by_cluster(u), self._by_cluster(v)),
        )

    def _by_cluster(self, u: Float[np.ndarray, " q"]) -> Float[np.ndarray, " k"]:
        """Add up pairs over clusters; a pair within one cluster counts there once."""
        if self.pair_cluster is None:
            return u
        one, two = self.pair_cluster.T
        size = int(self.pair_cluster.max(initial=0)) + 1
        return np.bincount(one, u, size) + np.bincount(two, np.where(one == two, 0.0, u), size)

    @property
    def std_errors(self) -> tuple[float, float]:
        """Standard errors of the ratio due to people, and due to pairs."""
        people, pairs, _ = self.variances(self.centre)
        total = float(self.before.sum())
        return math.sqrt(people) / total, math.sqrt(pairs) / total

    @property
    def effective_pairs(self) -> float:
        """How many pairs of equal influence the pool is worth: J."""
        return effective(self._by_cluster(self.pair_after - self.centre * self.pair_before) ** 2)

    @property
    @override
    def degrees(self) -> float:
        known = self.effective_pairs if self.pair_after.any() else math.inf
        if self.clustered:
            d = self.after - self.centre * self.before
            known = min(known, effective((d - d.mean()) ** 2))
        return max(known - 1, 1.0)

    @override
    def pivot(self, theta: float) -> float:
        people, pairs, cubes = self.variances(theta)
        variance = people + pairs
        if not 0 < variance < math.inf:
            return -1e6
        total = float(self.after.sum() - theta * self.before.sum())
        # The skewness of the sum; pairs make its law more symmetric, not less.
        return transformed(total / math.sqrt(variance), cubes / variance**1.5)


def _squares(d: Float[np.ndarray, " c"], b: Float[np.ndarray, " c"]) -> list[float]:
    r"""Return the coefficients of :math:`\sum (d - t b)^2`, lowest power first."""
    return [float(d @ d), -2 * float(d @ b), float(b @ b)]


def _polynomial(coefficients: list[float], t: float) -> float:
    return sum(c * t**power for power, c in enumerate(coefficients))


def two_way(bounds: TwoWay) -> Bounds:
    """Return these bounds; without any spread, or with a single unit, nothing is known."""
    people, pairs, _ = bounds.variances(bounds.centre)
    return bounds if 0 < people + pairs < math.inf else Unknown()


def effective(squares: Float[np.ndarray, " q"]) -> float:
    """Return how many units of equal size would have squares as uneven as these."""
    top = float(squares.max(initial=0.0))
    if top == 0:
        return 0.0
    scaled = squares / top
    return float(scaled.sum() ** 2 / (scaled**2).sum())
