"""Random groups of people for delete-group refits: equal, stratified, and clusters whole."""

import heapq
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped


def delete_groups(
    strata: Sequence[Int[np.ndarray, " n"]],
    cluster: Shaped[np.ndarray, " n"] | None,
    groups: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Deal people into random groups of equal size; every stratum is spread evenly over them.

    Parameters
    ----------
    strata
        Codes of the protected traits; people who share all of them form a stratum.
    cluster
        People of one cluster stay together. Sizes are then as equal as the clusters allow, and
        a cluster belongs to the stratum of most of its people.
    groups
        How many; never more than there are people (or clusters).
    """
    joint = np.unique(np.column_stack(strata), axis=0, return_inverse=True)[1].reshape(-1)
    unit = cluster_codes(cluster, len(joint))
    size = np.bincount(unit)
    groups = min(groups, len(size))
    stratum = joint
    if cluster is not None:
        counts = np.zeros((len(size), joint.max() + 1), dtype=np.int64)
        np.add.at(counts, (unit, joint), 1)
        stratum = counts.argmax(axis=1)
    # Stratum by stratum, so that each is dealt to all groups in turn; in each, large clusters
    # first, so that the small ones even out the sizes; else at random.
    order = np.lexsort((rng.permutation(len(size)), -size, stratum))
    dealt = np.empty(len(size), dtype=np.int16)
    if cluster is None:
        dealt[order] = np.arange(len(size)) % groups
    else:
        filled = [(0, g) for g in range(groups)]
        for u in order:
            held, g = filled[0]
            dealt[u] = g
            heapq.heapreplace(filled, (held + int(size[u]), g))
    return rng.permutation(groups).astype(np.int16)[dealt[unit]]


def cluster_codes(cluster: Shaped[np.ndarray, " n"] | None, n: int) -> Int[np.ndarray, " n"]:
    """Return the clusters numbered from zero; without clusters everyone is one."""
    if cluster is None:
        return np.arange(n)
    place: dict[object, int] = {}
    return np.array([place.setdefault(value, len(place)) for value in cluster.tolist()])
