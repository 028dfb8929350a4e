"""Which columns carry a difference in losses: Shapley shares that add up, with intervals."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.inference.estimate import quantile
from likewise.inference.two_way import TwoWay

MOST_EXACT = 8
"""Groups of columns up to which all their combinations are asked."""

Ask = Callable[[Int[np.ndarray, " k"], Bool[np.ndarray, "k g"]], Float[np.ndarray, " k"]]
"""The losses of some rows when the groups of columns that are marked come from another person."""


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    r"""What each group of columns adds to the loss of each row.

    Parameters
    ----------
    shapley
        :math:`\phi_c`: the mean of what c adds to :math:`\ell`, over all orders in which the groups
        can come from the other person. They sum to the whole difference, row by row.
    alone, without
        The difference if c alone comes from the other person, and if all but c do.
    whole
        The difference if all do.
    """

    shapley: Float[np.ndarray, "r g"]
    alone: Float[np.ndarray, "r g"]
    without: Float[np.ndarray, "r g"]
    whole: Float[np.ndarray, " r"]


def parts_of(ask: Ask, rows: int, groups: int, rng: np.random.Generator) -> Parts:
    """Share out the difference of each row among groups of columns.

    Up to eight groups all combinations are asked; beyond, each row takes one random order and its
    reverse, so that what is random averages out over rows and the shares still add up.
    """
    everyone = np.arange(rows)

    def losses(*chosen: int) -> Float[np.ndarray, " r"]:
        mask = np.zeros((rows, groups), dtype=bool)
        mask[:, list(chosen)] = True
        return ask(everyone, mask)

    nothing = losses()
    if groups > MOST_EXACT:
        alone = np.column_stack([losses(c) for c in range(groups)])
        without = np.column_stack(
            [losses(*(k for k in range(groups) if k != c)) for c in range(groups)]
        )
        return Parts(
            _sampled(ask, nothing, groups, rng),
            alone - nothing[:, None],
            without - nothing[:, None],
            losses(*range(groups)) - nothing,
        )
    value = {
        chosen: losses(*chosen) - nothing if chosen else np.zeros(rows)
        for size in range(groups + 1)
        for chosen in itertools.combinations(range(groups), size)
    }
    whole = tuple(range(groups))
    shapley = np.zeros((rows, groups))
    for chosen, gain in value.items():
        left = set(whole) - set(chosen)
        # Of all orders, so many have exactly these groups before one of those left.
        orders = math.factorial(len(chosen)) * math.factorial(max(len(left) - 1, 0))
        for c in left:
            joined = value[tuple(sorted((*chosen, c)))]
            shapley[:, c] += orders / math.factorial(groups) * (joined - gain)
    return Parts(
        shapley,
        np.column_stack([value[(c,)] for c in whole]),
        np.column_stack([value[tuple(k for k in whole if k != c)] for c in whole]),
        value[whole],
    )


def _sampled(
    ask: Ask, nothing: Float[np.ndarray, " r"], groups: int, rng: np.random.Generator
) -> Float[np.ndarray, "r g"]:
    rows = np.arange(len(nothing))
    order = rng.permuted(np.tile(np.arange(groups), (len(rows), 1)), axis=1)
    shapley = np.zeros((len(rows), groups))
    for turn in (order, order[:, ::-1]):
        mask, last = np.zeros((len(rows), groups), dtype=bool), nothing
        for step in range(groups):
            mask[rows, turn[:, step]] = True
            now = ask(rows, mask)
            shapley[rows, turn[:, step]] += (now - last) / 2
            last = now
    return shapley


@dataclasses.dataclass(frozen=True)
class ColumnShare:
    """How much of a difference one group of columns carries.

    Parameters
    ----------
    column
        The column, or the name of the group.
    share, interval
        Of the whole difference; all shares sum to one.
    alone, without
        The audit value if it alone comes from the other person, and if all other columns do.
    """

    column: str
    share: float
    interval: tuple[float, float]
    alone: float
    without: float


def column_shares(
    names: Sequence[str],
    parts: Parts,
    *,
    level: float,
    weight: Float[np.ndarray, " r"],
    unit: Int[np.ndarray, " r"],
    pair: Int[np.ndarray, " r"] | None = None,
    inflation: float = 1.0,
    alpha: float = 0.05,
) -> tuple[ColumnShare, ...]:
    """Return the share of each group of columns, the largest first.

    Parameters
    ----------
    level
        The weighted sum of losses that differences are compared with.
    weight
        Of each row.
    unit, pair
        The person (or cluster) and the pair of people that each row is about: both are random.
    inflation
        For the means that are taken off within each person; see `TwoWay`.
    """
    place = np.unique(unit, return_inverse=True)[1].reshape(-1)

    def totals(values: Float[np.ndarray, " r"]) -> Float[np.ndarray, " u"]:
        return np.bincount(place, weight * values)

    def by_pair(values: Float[np.ndarray, " r"]) -> Float[np.ndarray, " q"]:
        if pair is None:
            return np.zeros(1)
        mean = totals(values) / np.bincount(place, weight)
        visitor = np.unique(pair, return_inverse=True)[1].reshape(-1)
        return np.bincount(visitor, weight * (values - mean[place]))

    whole = totals(parts.whole)
    found = []
    for c, name in enumerate(names):
        share, low, high = math.nan, math.nan, math.nan
        if whole.sum() > 0:
            ways = TwoWay(
                totals(parts.shapley[:, c]),
                whole,
                by_pair(parts.shapley[:, c]),
                by_pair(parts.whole),
                inflation,
                clustered=True,
            )
            wide = quantile(1 - alpha / 2, ways.degrees) * math.hypot(*ways.std_errors)
            share = ways.centre
            low, high = share - wide, share + wide
        alone, without = (1 + float(weight @ x[:, c]) / level for x in (parts.alone, parts.without))
        found.append(ColumnShare(name, share, (low, high), alone, without))
    return tuple(sorted(found, key=lambda one: 0.0 if math.isnan(one.share) else -one.share))
