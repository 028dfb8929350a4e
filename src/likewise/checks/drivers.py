"""Drivers: which columns a difference comes from, by Shapley values, and which are proxies."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit
from typing_extensions import override

from likewise.checks.column_choice import leading_rows
from likewise.data.columns import column_groups
from likewise.data.notes import predictive_area
from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import FOLDS, AskedBlock, BoundMatchedPairs, PairsProbe
from likewise.methods.matching import seed_sequence
from likewise.methods.pair_stats import PairDesign
from likewise.record import DriverRecord, RateComparison
from likewise.verdict import Verdict

ROWS = 200_000
"""Rows that the model is asked about for one comparison, at most about so many."""

MIN_PEOPLE, MAX_PEOPLE = 100, 1000
"""People of a group who are compared column by column."""

PAIRS = 4
"""Pairs that each of them is compared through: the nearest ones."""

PREDICTED = 20_000
"""Rows of the reference sample that tell how well a column predicts."""

Ask = Callable[[Bool[np.ndarray, "r g"]], Float[np.ndarray, "r v"]]
"""The measures of all rows when the groups of columns that are marked come from someone else."""


def shapley_parts(
    ask: Ask, rows: int, groups: int, rng: np.random.Generator
) -> Float[np.ndarray, "r k v"]:
    r"""Share out the difference of each row among groups of columns.

    Returns the whole difference; then, by group, its Shapley value :math:`\phi_c` (what c adds,
    over orders in which the groups can come from someone else), the difference if c alone does,
    and its absolute value. Each row takes one random order and its reverse: what is random
    averages out over rows, and the Shapley values still add up.
    """
    nothing = ask(np.zeros((rows, groups), dtype=bool))

    def gain(mask: Bool[np.ndarray, "*r g"]) -> Float[np.ndarray, "r v"]:
        return ask(np.broadcast_to(mask, (rows, groups))) - nothing

    whole = gain(np.ones(groups, dtype=bool))
    alone = np.stack([gain(one) for one in np.eye(groups, dtype=bool)], axis=1)
    shapley = np.zeros_like(alone)
    everyone = np.arange(rows)
    order = rng.permuted(np.tile(np.arange(groups), (rows, 1)), axis=1)
    for turn in (order, order[:, ::-1]):
        mask, last = np.zeros((rows, groups), dtype=bool), np.zeros_like(whole)
        for step in range(groups):
            mask[everyone, turn[:, step]] = True
            now = whole if step == groups - 1 else gain(mask)
            shapley[everyone, turn[:, step]] += (now - last) / 2
            last = now
    return np.concatenate([whole[:, None], shapley, alone, np.abs(alone)], axis=1)


def fold_sums(
    parts: Float[np.ndarray, "r k"],
    weight: Float[np.ndarray, " r"],
    people: Int[np.ndarray, " r"],
    pairs: Int[np.ndarray, " r"],
) -> Float[np.ndarray, "2 f c"]:
    """Sum weights and parts by fold of people, and their deviations by fold of pairs.

    There are `PAIRS` rows for each person, in order; deviations are from the person's mean.
    """
    terms = weight[:, None] * np.column_stack([np.ones(len(parts)), parts])
    found = np.zeros((2, FOLDS, terms.shape[1]))
    np.add.at(found[0], people, terms)
    each = terms.reshape(-1, PAIRS, terms.shape[1])
    spread = (each - each.mean(axis=1, keepdims=True)) * PAIRS / (PAIRS - 1)
    np.add.at(found[1], pairs, spread.reshape(terms.shape))
    return found


def column_shares(
    sums: Float[np.ndarray, "2 f k"], alpha: float
) -> dict[str, Float[np.ndarray, " g"]]:
    """Return what every group of columns contributes, with intervals from folds (delta method).

    ``share``, ``low`` and ``high`` are of the whole difference: the shares of all columns that work
    in its direction add up to one, and a column that works in the other direction, beyond noise,
    has a negative share. ``alone`` is a part of the whole, too. ``moves`` is the mean absolute
    change if this one alone is exchanged: of decisions, the share that changes.
    """
    weight, whole, *rest = sums[0].sum(axis=0).tolist()
    shapley, alone, moves = np.reshape(rest, (3, -1))
    sign, quantile = math.copysign(1.0, whole), float(stdtrit(FOLDS - 1, 1 - alpha / 2))
    terms, part = sign * sums[:, :, 2 : 2 + len(shapley)], sign * shapley

    def half_width(influence: Float[np.ndarray, "2 f g"]) -> Float[np.ndarray, " g"]:
        return quantile * np.sqrt(FOLDS / (FOLDS - 1) * (influence**2).sum(axis=(0, 1)))

    driving = part + half_width(terms - sums[:, :, :1] / weight * part) >= 0
    base = terms[:, :, driving].sum(axis=2, keepdims=True)
    total = float(base[0].sum())
    total = total if total > 0 and whole else math.nan
    share, half = part / total, half_width((terms - base * (part / total)) / total)
    found = {"share": share, "low": share - half, "high": share + half}
    return {**found, "alone": alone / (whole or math.nan), "moves": moves / weight}


def drivers_sums(
    asked: AskedBlock, design: PairDesign, groups: Sequence[tuple[str, ...]]
) -> Float[np.ndarray, "2 v 2 f k"]:
    """Compare some people of either group column by column through their nearest pairs.

    ``groups`` are the remaining columns; all levels of one category are one group. Sums are by
    direction and measure (`fold_sums`).
    """
    deciding, key = design.deciding, (*design.key, "drivers", asked.number)
    found = np.zeros((2, deciding, 2, FOLDS, 2 + 3 * len(groups)))
    # The more columns there are, the more often each person is asked about.
    size = int(np.clip(ROWS / (PAIRS * 3 * len(groups)), MIN_PEOPLE, MAX_PEOPLE))
    people = asked.located(design)
    some = people.take(design.drawn(people, people.second, size, "drivers"))
    plan = design.comparison.plan(some)
    rows = (plan.start[:, None] + np.arange(PAIRS)).reshape(-1)
    if not len(rows):
        return found
    i, own, other = plan.person[rows], plan.own[rows], plan.other[rows]

    def ask(mask: Bool[np.ndarray, "r g"]) -> Float[np.ndarray, "r v"]:
        columns = {
            name: np.where(mask[:, g], other, own)
            for g, names in enumerate(groups)
            for name in names
        }
        return asked.ask(i, own, columns)[:, :deciding]

    rng = np.random.default_rng(seed_sequence(key))
    parts = shapley_parts(ask, len(rows), len(groups), rng)
    weight, second = (np.repeat(of, PAIRS) for of in (plan.weight / PAIRS, plan.part // 2))
    people, pairs = asked.fold[i], plan.pair[rows] % FOLDS
    for direction, measure in itertools.product((0, 1), range(deciding)):
        mine = second == direction
        found[direction, measure] = fold_sums(
            parts[mine, :, measure], weight[mine], people[mine], pairs[mine]
        )
    return found


@final
@dataclasses.dataclass(frozen=True)
class Drivers(Check):
    """Shares out the difference among the remaining columns (Shapley values).

    They come from the other member of a pair one after another. Beside the shares it says how well
    each column predicts the attribute and how often it alone changes a decision.
    """

    name: ClassVar[str] = "drivers"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def probes(self, method: BoundMatchedPairs) -> Iterator[PairsProbe]:
        if method.remaining and not method.scored:
            groups = tuple(column_groups(method.pool.table, method.remaining).values())
            yield method.probe("drivers", functools.partial(drivers_sums, groups=groups))

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        if method.scored:
            return Finding(skipped=("drivers (they need the model)",))
        found: list[DriverRecord] = []
        for row in leading_rows(verdict) if method.remaining else ():
            found += row_drivers(method, stats["drivers"].pairings, row)
        return Finding({"drivers": tuple(found)})


def row_drivers(method: BoundMatchedPairs, stats: Sums, row: RateComparison) -> list[DriverRecord]:
    """Return the drivers of a comparison, the largest share first.

    Without a difference beyond noise there is nothing to share out, and shares are unknown.
    """
    design, direction, measure = method.located(row)
    sums = stats[design.name][direction, measure]
    if not sums.any():
        return []
    shown = row.difference_interval[0] > 0 or row.difference_interval[1] < 0
    # A ratio; or a difference, in units of the prediction.
    base, unit = 1.0, row.difference / (row.own or math.nan)
    if math.isnan(row.interval[0]):
        base, unit = 0.0, row.difference
    some = method.pool.table.take(pa.array(design.rows[:PREDICTED]))
    shares = column_shares(sums, method.settings.alpha)
    unknown = 0.0 if shown else math.nan
    found = []
    for k, (name, columns) in enumerate(column_groups(method.pool.table, method.remaining).items()):
        share, low, high, alone, moves = (float(values[k]) for values in shares.values())
        found.append(
            DriverRecord(
                attribute=row.attribute,
                column=name,
                share=share + unknown,
                interval=(low + unknown, high + unknown),
                alone=base + alone * unit + unknown,
                predicts=predictive_area(some, columns, design.second[:PREDICTED]),
                moves=moves,
            )
        )
    return sorted(found, key=lambda d: (-d.share if shown else 0.0, -d.moves))
