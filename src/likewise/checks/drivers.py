"""Drivers: which columns a difference comes from, by Shapley values, and which are proxies."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit
from typing_extensions import override

from likewise.data.columns import column_groups
from likewise.data.notes import predictive_area
from likewise.method import Check, Finding
from likewise.methods.matched_pairs import FOLDS, BoundMatchedPairs, PairContext, Pairing
from likewise.methods.matching import seed_sequence, uniforms
from likewise.models.base import Model
from likewise.probe import Block, Measured, Subsample
from likewise.record import DriverRecord, MatchedPairsRecord, RateComparison
from likewise.verdict import Verdict

ROWS = 200_000
"""Rows that the model is asked about for one comparison, at most about so many."""

FEWEST, MOST = 100, 1000
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
    its absolute value, and the difference if all but c do. Each row takes one random order and its
    reverse: what is random averages out over rows, and the Shapley values still add up.
    """
    nothing = ask(np.zeros((rows, groups), dtype=bool))

    def gain(mask: Bool[np.ndarray, "*r g"]) -> Float[np.ndarray, "r v"]:
        return ask(np.broadcast_to(mask, (rows, groups))) - nothing

    single = np.eye(groups, dtype=bool)
    whole = gain(np.ones(groups, dtype=bool))
    alone = np.stack([gain(one) for one in single], axis=1)
    without = np.stack([gain(~one) for one in single], axis=1)
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
    return np.concatenate([whole[:, None], shapley, alone, np.abs(alone), without], axis=1)


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


class ColumnShare(NamedTuple):
    """What one group of columns contributes to a difference.

    ``share`` and ``interval`` are of the whole difference: the shares of all columns that work in
    its direction add up to one, and a column that works in the other direction, beyond noise, has
    a negative share. ``alone`` and ``without`` are parts of the whole, too. ``moves`` is the mean
    absolute change if this one alone is exchanged: of 0/1 decisions, the share that changes.
    """

    share: float
    interval: tuple[float, float]
    alone: float
    without: float
    moves: float


def column_shares(sums: Float[np.ndarray, "2 f k"], alpha: float) -> list[ColumnShare]:
    """Return the share of every group of columns, with intervals from folds (delta method)."""
    weight, whole, *rest = sums[0].sum(axis=0).tolist()
    shapley, alone, moves, without = np.reshape(rest, (4, -1))
    sign = math.copysign(1.0, whole)
    terms, part = sign * sums[:, :, 2 : 2 + len(shapley)], sign * shapley
    quantile = float(stdtrit(FOLDS - 1, 1 - alpha / 2))

    def half_width(influence: Float[np.ndarray, "2 f g"]) -> Float[np.ndarray, " g"]:
        return quantile * np.sqrt(FOLDS / (FOLDS - 1) * (influence**2).sum(axis=(0, 1)))

    driving = part + half_width(terms - sums[:, :, :1] / weight * part) >= 0
    base = terms[:, :, driving].sum(axis=2, keepdims=True)
    total = float(base[0].sum())
    share = half = np.full(len(part), math.nan)
    if total > 0 and whole:
        share = part / total
        half = half_width((terms - base * share) / total)
    of = whole or math.nan
    return [
        ColumnShare(
            float(share[c]),
            (float(share[c] - half[c]), float(share[c] + half[c])),
            float(alone[c]) / of,
            float(without[c]) / of,
            float(moves[c]) / weight,
        )
        for c in range(len(part))
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class DriverStats:
    """Sums by fold (`fold_sums`) of each pair of groups, direction and measure."""

    n: int
    sums: Mapping[str, Float[np.ndarray, "2 f k"]]

    def __add__(self, other: "DriverStats") -> "DriverStats":
        both = dict(self.sums)
        for key, value in other.sums.items():
            both[key] = both[key] + value if key in both else value
        return DriverStats(self.n + other.n, both)


def _key(pairing: Pairing, direction: int, measure: int) -> str:
    return f"{pairing.key}\t{direction}\t{measure}"


@dataclasses.dataclass(frozen=True, eq=False)
class DriversProbe:
    """Some people of every group, compared column by column through their nearest pairs.

    Parameters
    ----------
    groups
        The remaining columns; all levels of one category are one group.
    """

    context: PairContext
    pairings: tuple[Pairing, ...]
    groups: Mapping[str, tuple[str, ...]]
    name: str = "drivers"
    subsample: Subsample | None = None
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def measure(self, model: Model, block: Block) -> Measured | None:
        """Exchange the remaining columns one after another."""
        asked = self.context.asked(model, block)
        measures = self.context.measures.deciding
        found: dict[str, Float[np.ndarray, "2 f k"]] = {}
        n = 0
        for pairing in self.pairings:
            people = asked.located(block, pairing)
            key = (*pairing.design.key, "drivers")
            share = self._people / np.maximum(pairing.design.people, 1)
            drawn = uniforms(key, people.positions) < share[people.second.astype(np.int64)]
            plan = pairing.comparison.plan(people.take(drawn))
            n += len(plan.people)
            for direction in (0, 1):
                who = np.flatnonzero(plan.part // 2 == direction)
                if not len(who):
                    continue
                rows = (plan.start[who][:, None] + np.arange(PAIRS)).reshape(-1)
                i, own, other = plan.person[rows], plan.own[rows], plan.other[rows]

                def ask(
                    mask: Bool[np.ndarray, "r g"],
                    i: Int[np.ndarray, " r"] = i,
                    own: Int[np.ndarray, " r"] = own,
                    other: Int[np.ndarray, " r"] = other,
                ) -> Float[np.ndarray, "r v"]:
                    by_column = {
                        name: np.where(mask[:, g], other, own)
                        for g, names in enumerate(self.groups.values())
                        for name in names
                    }
                    return asked.ask(i, own, by_column)[:, :measures]

                rng = np.random.default_rng(seed_sequence((*key, direction, block.number)))
                parts = shapley_parts(ask, len(rows), len(self.groups), rng)
                weight = np.repeat(plan.weight[who] / PAIRS, PAIRS)
                for measure in range(measures):
                    found[_key(pairing, direction, measure)] = fold_sums(
                        parts[:, :, measure], weight, asked.fold[i], plan.pair[rows] % FOLDS
                    )
        return Measured(DriverStats(n, found))

    @property
    def _people(self) -> int:
        """How many people of a group are compared: the fewer, the more often each is asked."""
        return int(np.clip(ROWS / (PAIRS * 4 * len(self.groups)), FEWEST, MOST))


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
    def probes(self, method: BoundMatchedPairs) -> Iterator[DriversProbe]:
        if method.remaining and not method.scored:
            groups = column_groups(method.pool.table, method.remaining)
            yield DriversProbe(method.context, method.pairings, groups)

    @override
    def read(
        self, stats: Mapping[str, Any], method: BoundMatchedPairs, verdict: Verdict
    ) -> Finding:
        if method.scored:
            return Finding(skipped=("drivers (they need the model)",))
        if not method.remaining:
            return Finding()
        return Finding({"drivers": tuple(pair_drivers(method, stats["drivers"], verdict))})


def pair_drivers(
    method: BoundMatchedPairs, stats: DriverStats, verdict: Verdict
) -> Iterator[DriverRecord]:
    """Yield the drivers of each attribute's leading comparison, the largest share first.

    Without a difference beyond noise there is nothing to share out, and shares are unknown.
    """
    record: MatchedPairsRecord = verdict.record["matched_pairs"]
    for row in record.leading_by_attribute:
        if not math.isfinite(row.difference):
            continue
        pairing, direction, measure = method.located(row)
        sums = stats.sums.get(_key(pairing, direction, measure))
        if sums is None:
            continue
        shown = row.difference_interval[0] > 0 or row.difference_interval[1] < 0
        codes = method.context.pool_groups[row.attribute]
        place = [method.context.groups[row.attribute].index(name) for name in pairing.groups]
        members = np.flatnonzero(np.isin(codes, place))[:PREDICTED]
        some = method.pool.table.take(pa.array(members))
        found = [
            DriverRecord(
                attribute=row.attribute,
                column=name,
                predicts=predictive_area(some, columns, codes[members] == place[1]),
                moves=one.moves,
                **_shown(one, row) if shown else {"share": math.nan},
            )
            for (name, columns), one in zip(
                column_groups(method.pool.table, method.remaining).items(),
                column_shares(sums, method.settings.alpha),
                strict=True,
            )
        ]
        yield from sorted(found, key=lambda d: (-d.share if shown else 0.0, -d.moves))


def _shown(one: ColumnShare, row: RateComparison) -> dict[str, Any]:
    """Return the shares, and what the comparison would be with a part of the difference."""
    # A ratio; or a difference, in units of the prediction.
    difference = math.isnan(row.interval[0])
    base, unit = (
        (0.0, row.difference) if difference else (1.0, row.difference / (row.own or np.nan))
    )
    parts = {"alone": base + one.alone * unit, "without": base + one.without * unit}
    return {"share": one.share, "interval": one.interval, **parts}
