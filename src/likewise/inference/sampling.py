"""How the people were sampled: their weights, and the clusters they came in."""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.errors import InvalidSample
from likewise.inference.estimate import Estimate
from likewise.inference.estimators import (
    mean_of_moments,
    on_design,
    ratio_of_sums,
    ratio_of_totals,
)
from likewise.outcomes import Outcomes
from likewise.statistics.frame import check_clusters, checked_weights
from likewise.statistics.moments import RatioMoments
from likewise.statistics.ratio import UnitSums
from likewise.statistics.tally import Tally

FEW = 50
"""With fewer degrees of freedom than this it is said that Student's t is used."""

VERY_FEW = 12
"""With fewer degrees of freedom than this intervals may hold a little less often than they say:
.928 instead of .95 was seen with 10 clusters (docs/calibration.md)."""

DOMINATING = 0.1
"""A cluster with a larger share of the weight is named."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    r"""How some people were sampled, as far as the tests need to know.

    Parameters
    ----------
    n
        Number of people.
    kish
        Kish's design effect of unequal weights, :math:`n \sum w^2 / (\sum w)^2`; ``None`` if all
        count alike.
    clusters
        Number of clusters; ``None`` if people are independent.
    effective_n
        Number of units of equal weight that are worth as much, :math:`(\sum W)^2/\sum W^2`.
    leverage
        Share of the weight that a person holds, on average over squared weights:
        :math:`\sum w^3 / (\sum w \sum w^2)`.
    largest, largest_share
        The cluster with the most weight, and its share of all.
    """

    n: int
    kish: float | None
    clusters: int | None
    effective_n: float
    leverage: float = 0.0
    largest: str = ""
    largest_share: float = 0.0

    @classmethod
    def of(cls, tally: Tally) -> "Sampling":
        """Return how the people of a tally were sampled."""
        _, total, squared, cubed = (float(power) for power in tally.groups.decisions.sum(axis=0))
        effective, n = total**2 / squared, tally.ratio.n
        kish = n / effective if tally.frame.weighted else None
        if not tally.clustered:
            return cls(n, kish, None, effective, cubed / (total * squared))
        weights, names = tally.by_cluster("weight"), tally.clusters.table.names
        most = int(weights.argmax())
        return cls(
            n,
            kish,
            len(weights),
            effective_units(weights),
            largest=str(names[most]),
            largest_share=float(weights[most] / weights.sum()),
        )

    @property
    def simple(self) -> bool:
        """Whether people are independent and count alike, as in the paper."""
        return self.kish is None and self.clusters is None

    @property
    def degrees(self) -> float:
        r"""Degrees of freedom of a standard error, :math:`G_\text{eff} - 1` on a design."""
        return math.inf if self.simple else max(1.0, self.effective_n - 1)

    @property
    def details(self) -> dict[str, float]:
        """The design effect of the weights, for the record; nothing if there is no design."""
        return {} if self.simple else {"kish": 1.0 if self.kish is None else self.kish}

    def named(self, method: str) -> str:
        """Return the name of a method on this design."""
        return (
            method
            + ("" if self.kish is None else ", weighted")
            + ("" if self.clusters is None else f", {self.clusters} clusters")
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about weights and clusters, in sentences."""
        notes: tuple[str, ...] = ()
        if self.kish is not None:
            notes += (f"People count by their weights (Kish's design effect {self.kish:.2f}).",)
        if self.clusters is not None:
            few = self.degrees < FEW
            law = f"; Student's t with {self.degrees:.3g} degrees of freedom" if few else ""
            notes += (f"Standard errors allow for {self.clusters} clusters of people alike{law}.",)
            if self.degrees < VERY_FEW:
                notes += (
                    "So few clusters say little of their own spread: intervals may hold a little "
                    "less often than they promise.",
                )
            if self.largest_share > DOMINATING and self.largest_share > 2 / self.clusters:
                notes += (
                    f"Cluster {self.largest!r} holds {self.largest_share:.0%} of the weight: the "
                    f"{self.clusters} clusters are worth {self.effective_n:.3g} of equal weight.",
                )
        return notes


@dataclasses.dataclass(frozen=True)
class Design:
    """The independent units of people in memory, for methods that need every row.

    Parameters
    ----------
    n
        Number of people.
    weight
        Sampling weight of each person; ``None`` if all count alike.
    unit
        Number of the cluster each person is in, 0, 1, …; ``None`` if people are independent.
    """

    n: int
    weight: Float[np.ndarray, " n"] | None = None
    unit: Int[np.ndarray, " n"] | None = None

    @classmethod
    def make(
        cls,
        n: int,
        weight: Float[np.ndarray, " n"] | None = None,
        cluster: Shaped[np.ndarray, " n"] | None = None,
    ) -> "Design":
        """Return the design of ``n`` people; equal weights and clusters of one count as none."""
        weight = checked_weights(n, weight)
        unit = None if cluster is None else _numbered(cluster)
        if unit is not None and unit.max() == 0:
            raise InvalidSample("All people are in one cluster; a standard error needs two.")
        if unit is not None and unit.max() == n - 1:
            unit = None
        return cls(n, weight, unit)

    @classmethod
    def of(cls, outcomes: Outcomes) -> "Design":
        """Return the design of an audit's outcomes."""
        return cls.make(len(outcomes), outcomes.weight, outcomes.cluster)

    @property
    def simple(self) -> bool:
        """Whether people are independent and count alike, as in the paper."""
        return self.weight is None and self.unit is None

    @functools.cached_property
    def units(self) -> int:
        """Number of independent units G."""
        return self.n if self.unit is None else int(self.unit.max()) + 1

    def totals(self, values: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " g"]:
        r"""Return :math:`\sum_{i \in g} w_i v_i` for every unit g."""
        weighted = values * self.weight if self.weight is not None else values.astype(np.float64)
        if self.unit is None:
            return weighted
        return np.bincount(self.unit, weights=weighted, minlength=self.units)

    @functools.cached_property
    def total_weights(self) -> Float[np.ndarray, " g"]:
        """The weight of every unit."""
        return self.totals(np.ones(self.n))

    @property
    def sampling(self) -> Sampling:
        """What the tests need to know of it."""
        kish = None
        if self.weight is not None:
            kish = float(self.n * np.square(self.weight).sum() / self.weight.sum() ** 2)
        clusters, weights = None if self.unit is None else self.units, self.total_weights
        leverage = float((weights**3).sum() / (weights.sum() * np.square(weights).sum()))
        return Sampling(self.n, kish, clusters, effective_units(weights), leverage)


def mean_of_ratios(ratio: Float[np.ndarray, " n"], design: Design | None = None) -> Estimate:
    r"""Estimate the audit value from everyone's loss ratio: :math:`\sum w R / \sum w`."""
    design = design or Design.make(len(ratio))
    if design.unit is None:
        moments = RatioMoments.of(ratio, design.weight)
        return mean_of_moments(moments, weighted=design.weight is not None)
    effective = design.sampling.effective_n
    return ratio_of_totals(design.totals(ratio), design.total_weights, design.n, effective)


def ratio_of_means(
    before: Shaped[np.ndarray, " n"],
    after: Shaped[np.ndarray, " n"],
    design: Design | None = None,
) -> Estimate:
    """Estimate the ratio of error rates (or mean losses) from everyone's, after and before."""
    design = design or Design.make(len(before))
    a, b, sampling = design.totals(after), design.totals(before), design.sampling
    if design.unit is not None:
        return ratio_of_totals(a, b, design.n, sampling.effective_n)
    return ratio_of_people(UnitSums.of(a, b), sampling)


def ratio_of_people(sums: UnitSums, sampling: Sampling) -> Estimate:
    """Return a ratio of totals over independent people: (22), or the jackknife's if weighted."""
    if sampling.simple:
        return ratio_of_sums(sums, sampling.n, printed=True)
    estimate = ratio_of_sums(sums, sampling.n, effective_n=sampling.effective_n)
    return on_design(estimate, sampling.n, sampling.leverage)


def effective_units(weights: Float[np.ndarray, " g"]) -> float:
    r"""Return how many units of equal weight are worth as much, :math:`(\sum W)^2/\sum W^2`."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _numbered(cluster: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    check_clusters(cluster)
    if cluster.dtype.kind == "O":
        numbers = {value: k for k, value in enumerate(dict.fromkeys(cluster.tolist()))}
        return np.array([numbers[value] for value in cluster.tolist()], dtype=np.int64)
    return np.unique(cluster, return_inverse=True)[1].reshape(-1)
