"""Totals by cluster that merge, for clusters whose people are spread over several blocks."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped

from likewise.inference.design import Design, cluster_degrees
from likewise.inference.estimate import Estimate
from likewise.inference.estimators import mean_of_ratios


@dataclasses.dataclass(frozen=True)
class ClusterTotals:
    r"""Weighted totals of some quantities over the people of each cluster.

    All that cluster-robust inference needs; its size grows with the number of clusters, not of
    people. For error rates, the totals of errors after and before go to `UnitSums.of`.

    Parameters
    ----------
    n
        Number of people.
    clusters
        Names of the clusters, each once.
    weight
        Total weight of each cluster.
    totals
        :math:`\sum_{i \in g} w_i v_i`, one row a cluster, one column a quantity.
    """

    n: int
    clusters: Shaped[np.ndarray, " g"]
    weight: Float[np.ndarray, " g"]
    totals: Float[np.ndarray, "g k"]

    @classmethod
    def of(
        cls,
        cluster: Shaped[np.ndarray, " n"],
        values: Shaped[np.ndarray, "n k"],
        weight: Float[np.ndarray, " n"] | None = None,
    ) -> "ClusterTotals":
        """Add up a block of people by cluster."""
        each = np.ones(len(cluster)) if weight is None else weight
        return _gathered(len(cluster), cluster, each, values * each[:, None])

    @classmethod
    def merge(cls, parts: Sequence["ClusterTotals"]) -> "ClusterTotals":
        """Return the totals of several blocks together, in whatever order."""
        return _gathered(
            sum(part.n for part in parts),
            np.concatenate([part.clusters for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.totals for part in parts]),
        )

    def mean(self, column: int) -> Estimate:
        """Return what `mean_of_ratios` would give for all people together."""
        units = len(self.weight)
        # A cluster stands for its people: their total weight, and their weighted mean.
        estimate = mean_of_ratios(
            self.totals[:, column] / self.weight, Design(units, weight=self.weight)
        )
        return dataclasses.replace(estimate, n=self.n, degrees=cluster_degrees(units))


def _gathered(
    n: int,
    clusters: Shaped[np.ndarray, " m"],
    weight: Float[np.ndarray, " m"],
    totals: Float[np.ndarray, "m k"],
) -> ClusterTotals:
    names, unit = np.unique(clusters, return_inverse=True)
    gathered = np.zeros((len(names), totals.shape[1]))
    np.add.at(gathered, unit, totals)
    return ClusterTotals(n, names, np.bincount(unit, weights=weight), gathered)
