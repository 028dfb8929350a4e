"""How the people were sampled: their weights, and the clusters they came in."""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.errors import InvalidSample
from likewise.inference.outcomes import Outcomes
from likewise.people import missing

FEW_CLUSTERS = 50
"""Below this many clusters, Student's t takes the place of the normal."""


@dataclasses.dataclass(frozen=True)
class Design:
    """The independent units of a sample: people, or clusters of people, with weights.

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
        if n < 2:
            raise InvalidSample(f"There are {n} people; a test needs at least 2.")
        bad = 0 if weight is None else int((~((weight > 0) & np.isfinite(weight))).sum())
        if bad:
            raise InvalidSample(f"{bad} of {n} weights are not positive numbers.")
        if weight is not None and np.ptp(weight) == 0:
            weight = None
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

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a standard error."""
        return math.inf if self.unit is None else cluster_degrees(self.units)

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
    def kish(self) -> float:
        r"""Kish's design effect of unequal weights, :math:`n \sum w^2 / (\sum w)^2`."""
        if self.weight is None:
            return 1.0
        return float(self.n * np.square(self.weight).sum() / self.weight.sum() ** 2)

    @property
    def effective_n(self) -> float:
        r"""Number of units of equal weight that are worth as much, :math:`(\sum W)^2/\sum W^2`."""
        weights = self.total_weights
        return float(weights.sum() ** 2 / np.square(weights).sum())

    def named(self, method: str) -> str:
        """Return the name of a method on this design."""
        return named_on_design(method, self.weight is not None, self._clusters)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about weights and clusters, in sentences."""
        return design_notes(None if self.weight is None else self.kish, self._clusters)

    @property
    def _clusters(self) -> int | None:
        return None if self.unit is None else self.units


def named_on_design(method: str, weighted: bool, clusters: int | None) -> str:
    """Return the name of a method on people with weights, in clusters, or neither."""
    return (
        method + (", weighted" if weighted else "") + (f", {clusters} clusters" if clusters else "")
    )


def design_notes(kish: float | None, clusters: int | None) -> tuple[str, ...]:
    """Say what a reader should know about weights (by their design effect) and clusters."""
    notes: tuple[str, ...] = ()
    if kish is not None:
        notes += (f"People count by their weights (Kish's design effect {kish:.2f}).",)
    if clusters is not None:
        few = math.isfinite(cluster_degrees(clusters))
        law = f"; there are few, so Student's t with {clusters - 1} degrees" if few else ""
        notes += (f"Standard errors allow for {clusters} clusters of people alike{law}.",)
    return notes


def cluster_degrees(clusters: int) -> float:
    """Return the degrees of freedom of a standard error from clusters: G - 1 if they are few."""
    return clusters - 1.0 if clusters < FEW_CLUSTERS else math.inf


def _numbered(cluster: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    gaps = int(missing(cluster).sum())
    if gaps:
        raise InvalidSample(
            f"{gaps} of {len(cluster)} people have no cluster. Give each one, if need be their own."
        )
    if cluster.dtype.kind == "O":
        numbers = {value: k for k, value in enumerate(dict.fromkeys(cluster.tolist()))}
        return np.array([numbers[value] for value in cluster.tolist()], dtype=np.int64)
    return np.unique(cluster, return_inverse=True)[1].reshape(-1)
