"""Where it is worst: subgroups found on one half of the people, judged on the other."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from likewise.engine.subgroup_tree import SubgroupTree
from likewise.inference.estimate import Bounds
from likewise.inference.paired import Swayed, difference, ratio_of
from likewise.inference.simultaneous import holm
from likewise.record import SubgroupRecord

FEWEST = 400
"""People below whom no subgroups are looked for: two halves, and leaves of fifty."""


@dataclasses.dataclass(frozen=True)
class JudgedLeaf:
    """One subgroup on the people it was not found on.

    Parameters
    ----------
    words
        Who they are.
    n, estimate, bounds
        How many of the judging half, their audit value, and its bounds.
    p_value
        Of "at most the tolerance"; one where too little is known.
    """

    words: str
    n: int
    estimate: float
    bounds: Bounds
    p_value: float


def halves(
    cluster: Int[np.ndarray, " n"] | None, n: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]:
    """Divide people at random; whole clusters are on one side."""
    place = (
        np.arange(n) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)
    )
    first = rng.random(int(place.max()) + 1) < 0.5
    return np.flatnonzero(first[place]), np.flatnonzero(~first[place])


def joint(leaves: Sequence[JudgedLeaf], trait: str, alpha: float) -> tuple[SubgroupRecord, ...]:
    """Return subgroups with bounds that hold together, the worst first."""
    if not leaves:
        return ()
    adjusted = holm({str(k): leaf.p_value for k, leaf in enumerate(leaves)}, alpha).adjusted
    each = alpha / len(leaves)
    found = [
        SubgroupRecord(
            trait=trait,
            words=leaf.words,
            n=leaf.n,
            estimate=leaf.estimate,
            lower_bound=leaf.bounds.lower_bound(each),
            upper_bound=leaf.bounds.upper_bound(each),
            p_adjusted=adjusted[str(k)],
            found=adjusted[str(k)] <= alpha,
        )
        for k, leaf in enumerate(leaves)
    ]
    return tuple(sorted(found, key=lambda one: (-one.lower_bound, one.words)))


def judged_leaves(
    tree: SubgroupTree,
    table: pa.Table,
    judge: Callable[[str, Int[np.ndarray, " m"]], JudgedLeaf | None],
) -> Iterator[JudgedLeaf]:
    """Judge every leaf that has people."""
    leaf = tree.leaves(table)
    for number in np.unique(leaf).tolist():
        found = judge(tree.words(number), np.flatnonzero(leaf == number))
        if found is not None:
            yield found


def moved_worst(
    table: pa.Table,
    after: Float[np.ndarray, " n"],
    before: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    cluster: Int[np.ndarray, " n"] | None,
    *,
    delta: float,
    alpha: float,
    seed: int,
) -> tuple[SubgroupRecord, ...]:
    r"""Look for subgroups whose audit value :math:`\sum w a / \sum w b` is largest.

    For a mean of ratios, a is the ratio and b is one.
    """
    if len(table) < FEWEST:
        return ()
    one, other = halves(cluster, len(table), np.random.default_rng([seed, 17]))
    level = float(np.average(before[one], weights=weight[one]))
    if level <= 0:
        return ()
    target = (after[one] - before[one]) / level
    tree = SubgroupTree.grow(table.take(pa.array(one)), target, weight[one], seed)

    def judge(words: str, who: Int[np.ndarray, " m"]) -> JudgedLeaf | None:
        rows = other[who]
        found = ratio_of(after[rows], before[rows], weight[rows])
        if len(rows) < 2 or not found.value > 0:
            return None
        known = None if cluster is None else cluster[rows]
        estimate, bounds = difference(found, Swayed(0.0, np.zeros(len(rows))), known)
        return JudgedLeaf(words, len(rows), estimate.value, bounds, bounds.p_value(delta))

    return joint(list(judged_leaves(tree, table.take(pa.array(other)), judge)), "", alpha)
