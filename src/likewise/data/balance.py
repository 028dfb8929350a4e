"""Whether the members of pairs are alike on average, not only within the caliper."""

import itertools

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.data.pairs import Pairs

UNBALANCED = 0.1
"""Mean difference within pairs above which nothing is decided, in standard deviations of ranks: the
limit that is common for matched samples (Austin 2009)."""

BEYOND_CHANCE = 3.0
"""Its standard errors above which it is not put down to chance."""


def unbalanced(pairs: Pairs, pool: pa.Table) -> dict[str, str]:
    """Say for each group in which number its members of pairs differ from the others, if so.

    A caliper bounds the distance within a pair, and not its direction. Where a number is skewed and
    goes with the trait, a small part of its standard deviation is a large part of most people's
    value, and the members of one group are above the others every time. Ranks show it.
    """
    places = pairs.ruler.place(pool)
    found: dict[str, tuple[float, str]] = {}
    for j, name in enumerate(pairs.ruler.numbers):
        rank = _ranks(places.values[:, j])
        for one, other in itertools.combinations(range(len(pairs.groups)), 2):
            first, second = rank[pairs.rows[pairs.across(one, other)]].T
            gap = (first - second)[~np.isnan(first - second)]
            if len(gap) < 2:
                continue
            mean, error = float(gap.mean()), float(gap.std(ddof=1)) / len(gap) ** 0.5
            if abs(mean) <= max(UNBALANCED, BEYOND_CHANCE * error):
                continue
            above, below = (one, other) if mean > 0 else (other, one)
            sentence = (
                f"members of its pairs differ in {name!r} by {abs(mean):.2f} standard "
                f"deviations of ranks on average ({pairs.groups[above]} above "
                f"{pairs.groups[below]}), not only in what is free: give its logarithm in its "
                "place, or a smaller caliper (map.caliper)"
            )
            for group in (pairs.groups[one], pairs.groups[other]):
                found[group] = max(found.get(group, (0.0, "")), (abs(mean), sentence))
    return {group: sentence for group, (_, sentence) in found.items()}


def _ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return ranks in their standard deviations, ties at their middle; ``nan`` where missing."""
    known = ~np.isnan(values)
    _, place, count = np.unique(values[known], return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - count / 2
    ranks = np.full(len(values), np.nan)
    spread = middle[place].std() if len(place) else 0.0
    ranks[known] = middle[place] / (spread or 1.0)
    return ranks
