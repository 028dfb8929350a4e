"""Matched pairs: what is compared for a block of people, and its sums, which add up.

A `PairDesign` holds two groups of a pool, made ready for pairing. Its `Pairs`, with the real and
with each redrawn attribute, say through which pairs the people of a block are compared; the model
is asked about each person with the remaining columns of both members. Sums of ``own`` and
``other`` are kept apart: the ratio under test, the correction and the bias enter at the end.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.methods.matching import (
    LEAST_NEIGHBOURS,
    MOST_NEIGHBOURS,
    Covariates,
    Key,
    RankScale,
    cell_tree,
    greedy_pairs,
    has_overlap,
    nearest_others,
    nearest_pairs,
    seed_sequence,
    uniforms,
)
from likewise.methods.redraws import FOLDS, REDRAWS, Propensity, fit_propensity
from likewise.record import Reason
from likewise.stats.decision import LEAST_PAIRS, Compared
from likewise.stats.sums import Additive
from likewise.stats.two_way import EvenPowers, TwoWay, even_moments

Ask = Callable[[Int[np.ndarray, " q"], Int[np.ndarray, " q"]], Float[np.ndarray, "q k"]]
"""Measures for people (rows of the block) with the remaining columns of rows of the pool."""

CLIP = 0.01
"""Propensities are never closer than this to 0 or 1, unless a group is rarer than twice this."""

MOST_CLIPPED = 0.05
MOST_REDRAWN_PEOPLE = 2_000
"""About how many people of a group are compared in one redraw."""

LEAST_REDRAWN_PEOPLE = 5
MOST_UNEXPLAINED, UNEXPLAINED_DEVIATIONS = 0.1, 4.0
"""Largest excess correlation of neighbours that the propensity may leave, and its significance."""

MOST_NEIGHBOURS_CHECKED = 20_000
PARTS: Final = 4
"""Sums are kept for both directions, with and without people whose propensity is clipped."""


@dataclasses.dataclass(frozen=True)
class LocatedPeople:
    """The people of a block who are of either group: where they are, and their propensity.

    ``rows`` are theirs in the block, and everything else is in this order; ``positions`` are among
    all people. The propensity is clipped, and ``clipped`` says whose was; in halves, ``index`` is
    their place in the design.
    """

    rows: Int[np.ndarray, " p"]
    positions: Int[np.ndarray, " p"]
    second: Bool[np.ndarray, " p"]
    propensity: Float[np.ndarray, " p"]
    clipped: Bool[np.ndarray, " p"]
    points: Float[np.ndarray, "p d"]
    cells: Int[np.ndarray, " p"]
    weight: Float[np.ndarray, " p"] | None
    cluster: Int[np.ndarray, " p"] | None
    index: Int[np.ndarray, " p"] | None

    def take(self, chosen: Bool[np.ndarray, " p"]) -> "LocatedPeople":
        """Return some of them."""
        some: dict[str, Any] = {
            name: None if values is None else values[chosen] for name, values in vars(self).items()
        }
        return LocatedPeople(**some)


def random_halves(
    seed: int, n: int, clusters: Int[np.ndarray, " n"] | None = None
) -> Bool[np.ndarray, " n"]:
    """Divide rows, or whole clusters, into two random halves; `True` is the second."""
    units = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(units.max(initial=-1)) + 1
    order = np.random.default_rng(seed_sequence((seed, "halves"))).permutation(count)
    return order[units] >= (count + 1) // 2


def pair_design(
    pool: Covariates,
    group: Int[np.ndarray, " n"],
    groups: tuple[int, int],
    key: Key,
    *,
    people: tuple[int, int] | None = None,
    clusters: Int[np.ndarray, " n"] | None = None,
    halves: Bool[np.ndarray, " n"] | None = None,
    folds: int = FOLDS,
    **options: Any,
) -> "PairDesign":
    """Make two groups of a pool ready for pairing.

    ``pool``, ``group`` and ``clusters`` are of all rows of the pool, or of the table if it is
    divided into ``halves``; then its rows are the people, too.
    """
    rows = np.flatnonzero(np.isin(group, groups))
    second = group[rows] == groups[1]
    part = pool.take(rows)
    scale = RankScale.from_pool(part)
    numbers, redrawn = None, False
    if clusters is not None:
        numbers = np.unique(clusters[rows], return_inverse=True)[1]
        known = np.unique(np.column_stack([clusters, group])[group >= 0], axis=0)
        redrawn = len(known) == len(np.unique(known[:, 0]))
    units = rows if numbers is None else numbers
    sizes = len(np.unique(units[~second])), len(np.unique(units[second]))
    enough = min(sizes) >= FOLDS
    fitted = Propensity(np.full(len(rows), 0.5), (), 0.5)
    if enough:
        others = halves is None
        fitted = fit_propensity(part, second, key, numbers, for_people=others, folds=folds)
    design = PairDesign(
        key=key,
        groups=groups,
        people=people or (int((~second).sum()), int(second.sum())),
        rows=rows,
        second=second,
        units=sizes,
        scale=scale,
        points=scale.points(part, (*key, "jitter pool"), rows),
        cells=scale.cells(part),
        fitted=fitted,
        clusters=numbers,
        clusters_redrawn=redrawn,
        halves=None if halves is None else halves[rows],
        **options,
    )
    if not enough:
        return dataclasses.replace(design, undecided="group")
    excess, deviations = design.unexplained()
    unlike = excess > MOST_UNEXPLAINED and deviations > UNEXPLAINED_DEVIATIONS
    return dataclasses.replace(design, undecided="pattern" if unlike else None)


@dataclasses.dataclass(frozen=True)
class PairDesign:
    """Two groups of a pool, ready for pairing.

    All random numbers follow from ``key``: seed, attribute and names of the two groups. ``rows``
    are those of the pool that are of either group, and everything else is in this order; ``people``
    the numbers of people of either group, from which follow the samples of redraws; ``units`` the
    pool's rows, or clusters, of either. ``undecided`` says why nothing can be decided with these
    groups, before anyone is compared. ``clusters`` number the pool's clusters without gaps,
    ``clusters_redrawn`` says whether these have one attribute and get one draw;
    ``people_clusters`` are the propensities of people's clusters. Without a pool,
    ``halves`` says who is in the second half: each is the other's pool. Of the ``measures`` that
    the model is asked for, the first ones decide.
    """

    key: Key
    groups: tuple[int, int]
    people: tuple[int, int]
    rows: Int[np.ndarray, " r"]
    second: Bool[np.ndarray, " r"]
    units: tuple[int, int]
    scale: RankScale
    points: Float[np.ndarray, "r d"]
    cells: Int[np.ndarray, " r"]
    fitted: Propensity
    undecided: Reason | None = None
    clusters: Int[np.ndarray, " r"] | None = None
    clusters_redrawn: bool = False
    people_clusters: "SparseSums | None" = None
    halves: Bool[np.ndarray, " r"] | None = None
    most_neighbours: int = MOST_NEIGHBOURS
    measures: int = 1
    deciding: int = 1
    redraw_count: int = REDRAWS

    @property
    def name(self) -> str:
        """Its name among the sums: the attribute and the two groups."""
        return "\t".join(map(str, self.key[1:]))

    @property
    def attribute(self) -> str:
        """The protected attribute."""
        return str(self.key[1])

    def names(self, direction: int) -> dict[str, str]:
        """Return the attribute, the group and the other group of one direction, by these names."""
        group, other = map(str, self.key[2:][:: -1 if direction else 1])
        return {"attribute": self.attribute, "group": group, "other": other}

    @functools.cached_property
    def comparison(self) -> "Pairs":
        """The pairs that decide."""
        return Pairs(self)

    @functools.cached_property
    def redraws(self) -> tuple["Pairs", ...]:
        """The pairs with redrawn attributes."""
        return tuple(Pairs(self, number) for number in range(self.redraw_count))

    @functools.cached_property
    def limits(self) -> tuple[float, float]:
        """Where propensities are clipped: at .01, or at half the share of a rarer group."""
        # Else nearly everyone who is comparable with a group of 0.8 % would count as certain.
        first, second = float((~self.second).mean()) / 2, float(self.second.mean()) / 2
        return min(CLIP, second), 1 - min(CLIP, first)

    @functools.cached_property
    def propensity(self) -> Float[np.ndarray, " r"]:
        """Of the second group, clipped."""
        return np.clip(self.fitted.pool, *self.limits)

    def locate(
        self,
        positions: Int[np.ndarray, " n"],
        covariates: Covariates,
        group: Int[np.ndarray, " n"],
        weight: Float[np.ndarray, " n"] | None = None,
        cluster: Int[np.ndarray, " n"] | None = None,
    ) -> LocatedPeople:
        """Return coordinates and propensities of a block's people; all pairs share them.

        ``positions`` are among all people; with two halves, rows of the table.
        """
        rows = np.flatnonzero(np.isin(group, self.groups))
        positions, index = positions[rows], None
        if self.halves is None:
            some = covariates.take(rows)
            e = self.fitted.of_people(some)
            points = self.scale.points(some, (*self.key, "jitter people"), positions)
            cells = self.scale.cells(some)
            clusters = None if cluster is None else cluster[rows]
        else:
            index = np.searchsorted(self.rows, positions)
            e, points, cells = self.fitted.pool[index], self.points[index], self.cells[index]
            clusters = None if self.clusters is None else self.clusters[index]
        propensity = np.clip(e, *self.limits)
        return LocatedPeople(
            rows=rows,
            positions=positions,
            second=group[rows] == self.groups[1],
            propensity=propensity,
            clipped=propensity != e,
            points=points,
            cells=cells,
            weight=None if weight is None else weight[rows],
            cluster=clusters,
            index=index,
        )

    def drawn(
        self,
        people: LocatedPeople,
        second: Bool[np.ndarray, " p"],
        size: int,
        *purpose: int | str,
    ) -> Bool[np.ndarray, " p"]:
        """Return about so many people of either group, drawn for a purpose; all if they are few."""
        share = size / np.maximum(self.people, 1)
        return uniforms((*self.key, *purpose), people.positions) < share[second.astype(np.int64)]

    def redrawn_pool(self, redraw: int) -> Bool[np.ndarray, " r"]:
        """Return who of the pool is of the second group after one redraw."""
        e, units = self.propensity, self.rows
        if self.clusters is not None and self.clusters_redrawn:
            units = self.clusters
            e = (np.bincount(units, e) / np.bincount(units))[units]
        return uniforms((*self.key, "redraw pool", redraw), units) < e

    def redrawn_people(self, redraw: int, people: LocatedPeople) -> Bool[np.ndarray, " p"]:
        """Return who of the people is of the second group after one redraw."""
        e, units = people.propensity, people.positions
        if people.cluster is not None and self.people_clusters is not None:
            rows, sums, second = self.people_clusters.values.T
            if ((second == 0) | (second == rows)).all():
                at = np.searchsorted(self.people_clusters.index, people.cluster)
                e, units = (sums / rows)[at], people.cluster
        return uniforms((*self.key, "redraw people", redraw), units) < e

    def unexplained(self) -> tuple[float, float]:
        """Return how much more alike neighbours in the pool are than with redrawn attributes.

        If the propensity is right, the real attribute is one of the redrawn ones. An attribute
        that follows L in a pattern too fine for the propensity (a chessboard), or rows that are
        repeated, make neighbours agree more often; then redraws do not show what matching leaves.

        Returns the excess correlation of nearest neighbours, and in standard deviations of the
        redraws.
        """
        asking = np.arange(0, len(self.rows), 1 + len(self.rows) // MOST_NEIGHBOURS_CHECKED)
        nearest = nearest_others(self.points, self.cells, asking, self.clusters)
        asking, nearest = asking[nearest >= 0], nearest[nearest >= 0]
        share = float(self.second.mean()) if len(asking) else 0.0
        if not 0 < share < 1:
            return 0.0, 0.0

        def alike(second: Bool[np.ndarray, " r"]) -> float:
            return float((second[asking] == second[nearest]).mean()) / (2 * share * (1 - share))

        redrawn = np.array([alike(self.redrawn_pool(number)) for number in range(REDRAWS)])
        excess = alike(self.second) - float(redrawn.mean())
        return excess, excess / max(float(redrawn.std(ddof=1)), 1e-12)

    def measure(self, ask: Ask, people: LocatedPeople, direction: int | None = None) -> "PairSums":
        """Compare people of both groups or of one, with the real and all redrawn attributes."""
        pairs = (self.comparison, *self.redraws)
        first, *redrawn = answered(
            [one.plan(people, direction) for one in pairs], ask, self.measures
        )
        return self.summed(people, first, redrawn)

    def summed(
        self, people: LocatedPeople, found: "Comparisons", redrawn: "Iterable[Comparisons]"
    ) -> "PairSums":
        """Sum what the model answered about the comparisons of a block, and about redrawn ones."""
        values, deciding, pairs = found.sums, self.deciding, self.comparison
        second = np.zeros((PARTS, deciding, 3, 3))
        fourth = np.zeros((PARTS, deciding, 6, 6))
        for part, k in itertools.product(range(PARTS), range(deciding)):
            second[part, k], fourth[part, k] = even_moments(values[found.part == part][:, k])
        by_person = SparseSums.empty(3 * deciding)
        if found.unit is not None:
            terms = values[:, :deciding].reshape(len(values), 3 * deciding)
            by_person = SparseSums.from_terms(found.unit * PARTS + found.part, terms)
        e = self.propensity[pairs.members[:, found.pair]]
        contrast = found.mean((e[1] - e[0])[:, None]) * found.weight[:, None]
        share = found.share[:, None]
        # Means were taken off within each person: m - 1 for m, so that variances are not too small.
        free = found.each(found.weight / (found.count - 1))[:, None, None]
        deviations = (free * found.deviations[:, :deciding]).reshape(len(share), 2 * deciding)
        differences = share * (found.values[1] - found.values[0])[:, :deciding]
        terms = np.hstack([deviations, differences, share])
        by_pair = SparseSums.from_terms(found.pair * PARTS + found.each(found.part), terms)
        by_member, effective = self._by_member(found)
        redraws = [
            (np.bincount(one.part, minlength=PARTS), one.by_part(one.sums))
            for of, one in zip(self.redraws, redrawn, strict=True)
            if of.pairs >= LEAST_PAIRS
        ]
        return PairSums(
            group_size=np.bincount(people.second, minlength=2),
            group_clipped=np.bincount(people.second[people.clipped], minlength=2),
            kept=np.bincount(found.part, minlength=PARTS),
            pairs=pairs.pairs,
            weighted=people.weight is not None,
            halves=self.halves is not None,
            undecided=self.undecided,
            first=found.by_part(values),
            second=second,
            fourth=fourth,
            contrast=found.by_part(contrast)[:, 0],
            spread=found.by_part(effective * found.weight),
            by_pair=by_pair,
            by_member=by_member,
            by_person=by_person,
            redrawn_kept=np.array([kept for kept, _ in redraws], np.int64).reshape(-1, PARTS),
            redrawn=np.array([first for _, first in redraws]).reshape(-1, PARTS, self.measures, 3),
        )

    def _by_member(self, found: "Comparisons") -> tuple["SparseSums", Float[np.ndarray, " p"]]:
        """Sum by cluster of members, and count each person's: 1/Σ share² over their clusters."""
        people, deciding, clusters = len(found.people), self.deciding, self.clusters
        if clusters is None or not people:
            return SparseSums.empty(2 * deciding), np.zeros(people)
        part = found.each(found.part)
        of_own, of_other = clusters[self.comparison.own_and_other(found.pair, part >= 2)]
        numbers = np.concatenate([of_other, of_own])
        # What belongs to the other group's member, then what belongs to the own group's.
        shared = found.share[:, None, None] * found.deviations[:, :deciding]
        terms = (np.eye(2)[:, None, None] * shared).reshape(2 * len(part), 2 * deciding)
        sums = SparseSums.from_terms(numbers * PARTS + np.tile(part, 2), terms)
        person, size = found.each(np.arange(people)), int(numbers.max()) + 1
        met, counts = np.unique(np.tile(person, 2) * size + numbers, return_counts=True)
        squares = np.bincount(met // size, counts.astype(np.float64) ** 2, people)
        return sums, (2 * found.count) ** 2 / squares


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The pairs of two groups, with the real attribute or a redrawn one, and who uses them."""

    design: PairDesign
    redraw: int | None = None

    @functools.cached_property
    def _second(self) -> Bool[np.ndarray, " r"]:
        """Who of the pool is of the second group."""
        design = self.design
        return design.second if self.redraw is None else design.redrawn_pool(self.redraw)

    @functools.cached_property
    def pairing(self) -> tuple[Int[np.ndarray, "2 q"], ...]:
        """The pairs of the pool, or of either half; they travel if they are known."""
        design, halves = self.design, self.design.halves
        everyone = np.arange(len(self._second), dtype=np.int32)
        parts = [everyone] if halves is None else [everyone[~halves], everyone[halves]]
        return tuple(
            part[greedy_pairs(design.points[part], design.cells[part], self._second[part])]
            for part in parts
        )

    def __getstate__(self) -> dict[str, Any]:
        known = ("design", "redraw", "pairing")
        return {name: self.__dict__[name] for name in known if name in self.__dict__}

    @property
    def pairs(self) -> int:
        """Number of pairs; of the smaller half, if there are halves."""
        return min(self.pairing[0].shape[1], self.pairing[-1].shape[1])

    @property
    def count(self) -> int:
        """Through how many pairs a person is compared at most: a tenth of all, at least 4."""
        return min(max(self.pairs // 10, LEAST_NEIGHBOURS), self.design.most_neighbours)

    @functools.cached_property
    def _trees(self) -> list[Any]:
        points, cells = self.design.points, self.design.cells
        return [cell_tree(points[pairs].mean(axis=0), cells[pairs[0]]) for pairs in self.pairing]

    @functools.cached_property
    def members(self) -> Int[np.ndarray, "2 q"]:
        """Members of all pairs in the design, those of the second half after those of the first."""
        return np.concatenate(self.pairing, axis=1)

    @functools.cached_property
    def _units(self) -> Int[np.ndarray, " r"]:
        """With halves: the unit of each row, its cluster, or its pair, or itself if unmatched."""
        if self.design.clusters is not None:
            return self.design.clusters
        count = self.members.shape[1]
        units = count + np.arange(len(self.design.rows))
        units[self.members] = np.arange(count)
        return units

    def own_and_other(
        self, pair: Int[np.ndarray, " q"], second: Bool[np.ndarray, " q"]
    ) -> Int[np.ndarray, "2 q"]:
        """Return the members of the person's own, and of the other group, in the design."""
        members = self.members[:, pair]
        return np.where(second, members[::-1], members)

    def plan(self, people: LocatedPeople, direction: int | None = None) -> "Comparisons":
        """Find who is compared, of both groups or of one, and through which pairs."""
        design, redraw = self.design, self.redraw
        second, chosen = people.second, np.ones(len(people.second), dtype=bool)
        if redraw is not None:
            if people.index is None:
                second = design.redrawn_people(redraw, people)
            else:
                second = self._second[people.index]
            chosen = design.drawn(people, second, MOST_REDRAWN_PEOPLE, "sample", redraw)
        if direction is not None:
            chosen &= second == direction
        selected = np.flatnonzero(chosen)
        # The pairs of one half are for the people of the other.
        of_first = np.ones(len(selected), dtype=bool)
        if design.halves is not None and people.index is not None:
            of_first = design.halves[people.index[selected]]
        pair = np.zeros((len(selected), self.count), dtype=np.int64)
        distance = np.full(pair.shape, np.inf)
        offset = 0
        for half, (tree, pairs) in enumerate(zip(self._trees, self.pairing, strict=True)):
            asking = np.flatnonzero(of_first == (half == 0))
            at = selected[asking]
            found = nearest_pairs(tree, people.points[at], people.cells[at], self.count)
            distance[asking], pair[asking] = found[0], found[1] + offset
            offset += pairs.shape[1]
        kept = has_overlap(distance)
        selected, near = selected[kept], np.isfinite(distance[kept])
        counts, pair, second = near.sum(axis=1), pair[kept][near], second[selected]
        unit = None if people.cluster is None else people.cluster[selected]
        if people.index is not None:
            unit = self._units[people.index[selected]]
        own, other = design.rows[self.own_and_other(pair, np.repeat(second, counts))]
        return Comparisons(
            people=people.rows[selected],
            part=2 * second.astype(np.int64) + people.clipped[selected],
            weight=np.ones(len(selected)) if people.weight is None else people.weight[selected],
            unit=unit,
            count=counts,
            person=np.repeat(people.rows[selected], counts),
            pair=pair,
            own=own,
            other=other,
            values=np.zeros((2, 0, 1)),
        )


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """Whom the model is to be asked about: people with members of their nearest pairs.

    ``people`` are the rows of those with overlap in the block; in their order follow the part
    (``2 * second + clipped``), the weight (1 unless people are weighted), the unit (cluster of
    people, or unit of the halves) and the number of comparisons. For each comparison, ``person``
    is the row in the block, ``pair`` the number of the pair, ``own`` and ``other`` its members, of
    the person's own and of the other group (rows of the pool); ``values`` are what the model
    answered, with the columns of own and of other members.
    """

    people: Int[np.ndarray, " p"]
    part: Int[np.ndarray, " p"]
    weight: Float[np.ndarray, " p"]
    unit: Int[np.ndarray, " p"] | None
    count: Int[np.ndarray, " p"]
    person: Int[np.ndarray, " q"]
    pair: Int[np.ndarray, " q"]
    own: Int[np.ndarray, " q"]
    other: Int[np.ndarray, " q"]
    values: Float[np.ndarray, "2 a k"]

    @property
    def start(self) -> Int[np.ndarray, " p"]:
        """The first of each person's comparisons."""
        return np.cumsum(self.count) - self.count

    def mean(self, values: Float[np.ndarray, "q k"]) -> Float[np.ndarray, "p k"]:
        """Return each person's mean over comparisons."""
        return np.add.reduceat(values, self.start, axis=0) / self.count[:, None]

    def each(self, values: np.ndarray) -> np.ndarray:
        """Return people's values, repeated for each of their comparisons."""
        return np.repeat(values, self.count, axis=0)

    @property
    def share(self) -> Float[np.ndarray, " q"]:
        """Each comparison's part of the person's weight."""
        return self.each(self.weight / self.count)

    def by_part(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of people's values by part."""
        return np.stack([values[self.part == number].sum(axis=0) for number in range(PARTS)])

    @functools.cached_property
    def deviations(self) -> Float[np.ndarray, "q k 2"]:
        """Values of other and own minus each person's mean."""
        return np.stack([v - self.each(self.mean(v)) for v in self.values[::-1]], axis=2)

    @functools.cached_property
    def sums(self) -> Float[np.ndarray, "p k 3"]:
        """w, w other and w own of every person and measure."""
        own, other = map(self.mean, self.values)
        w = np.broadcast_to(self.weight[:, None], own.shape)
        return np.stack([w, w * other, w * own], 2)


def answered(plans: Sequence[Comparisons], ask: Ask, measures: int) -> list[Comparisons]:
    """Ask about the own and the other members of all comparisons at once, and fill in the answers.

    A call takes longer than the few rows of one redraw.
    """
    rows = [np.stack([plan.person, plan.own, plan.other]) for plan in plans]
    person, *members = np.concatenate(rows, axis=1)
    values = np.zeros((0, measures))
    if len(person):
        values = ask(np.tile(person, 2), np.concatenate(members))
    ends = np.cumsum([part.shape[1] for part in rows])[:-1]
    parts = np.split(np.stack(np.split(values, 2)), ends, axis=1)
    return [dataclasses.replace(plan, values=part) for plan, part in zip(plans, parts, strict=True)]


@dataclasses.dataclass(frozen=True)
class SparseSums:
    """Sums by number, for the numbers that occur: index, and one row of values each."""

    index: Int[np.ndarray, " r"]
    values: Float[np.ndarray, "r c"]

    @classmethod
    def from_terms(
        cls, numbers: Int[np.ndarray, " q"], terms: Float[np.ndarray, "q c"]
    ) -> "SparseSums":
        """Add up terms that have the same number."""
        index, at = np.unique(numbers, return_inverse=True)
        values = np.zeros((len(index), terms.shape[1]))
        for column, term in enumerate(terms.T):
            values[:, column] = np.bincount(at, term, len(index))
        return cls(index, values)

    @classmethod
    def empty(cls, columns: int) -> "SparseSums":
        """Return sums over nothing."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, columns)))

    def __add__(self, other: "SparseSums") -> "SparseSums":
        return SparseSums(self.index, self.values.copy()).__iadd__(other)

    def __iadd__(self, other: "SparseSums") -> "SparseSums":
        seen = np.zeros(1 + max(i.max(initial=-1) for i in (self.index, other.index)), dtype=bool)
        seen[self.index] = seen[other.index] = True
        place, values = np.cumsum(seen) - 1, self.values
        # After some blocks nearly all numbers have occurred, and nothing has to be moved.
        if seen.sum() > len(values):
            values = np.zeros((seen.sum(), values.shape[1]))
            values[place[self.index]] = self.values
        added = np.zeros_like(values)
        added[place[other.index]] = other.values
        values += added
        return SparseSums(np.flatnonzero(seen), values)

    def parts(self, wanted: Sequence[int]) -> "SparseSums":
        """Return the sums of some parts together, by what they are of."""
        number, part = np.divmod(self.index, PARTS)
        chosen = np.isin(part, wanted)
        return SparseSums.from_terms(number[chosen], self.values[chosen])


@dataclasses.dataclass(frozen=True)
class PairSums(Additive):
    """Sums of the comparison that decides, for both directions and all measures.

    The first axis of arrays is the part, ``2 * direction + clipped``; numbers of sparse sums are
    multiplied by 4 and the part is added. ``kept`` are people with overlap; ``redrawn_kept`` and
    ``redrawn`` are ``kept`` and ``first`` with redrawn attributes, of those with enough pairs.
    Measures that are only shown have no standard error: ``first`` and ``redrawn`` alone hold them.

    Parameters
    ----------
    first, second, fourth
        Powers of (w, w other, w own), summed over people: `EvenPowers`.
    contrast
        Sum of w times the mean difference in propensity within pairs: kappa.
    spread
        Sum of w times the effective number of clusters among a person's members.
    by_pair
        By pair: A and B for every measure, the sum of w (other − own)/m for every measure, and the
        sum of w/m.
    by_member
        By cluster of the pool's members: A and B for every measure.
    by_person
        By cluster of people, or unit of the halves: w, w other and w own for every measure.
    """

    kept_as_is: ClassVar[tuple[str, ...]] = ("pairs", "weighted", "halves", "undecided")

    group_size: Int[np.ndarray, " 2"]
    group_clipped: Int[np.ndarray, " 2"]
    kept: Int[np.ndarray, " 4"]
    pairs: int
    weighted: bool
    halves: bool
    undecided: Reason | None
    first: Float[np.ndarray, "4 k 3"]
    second: Float[np.ndarray, "4 d 3 3"]
    fourth: Float[np.ndarray, "4 d 6 6"]
    contrast: Float[np.ndarray, " 4"]
    spread: Float[np.ndarray, " 4"]
    by_pair: SparseSums
    by_member: SparseSums
    by_person: SparseSums
    redrawn_kept: Int[np.ndarray, "b 4"]
    redrawn: Float[np.ndarray, "b 4 k 3"]

    @property
    def dropped(self) -> bool:
        """Whether people with a clipped propensity are left out, being more than 5 %."""
        return bool(self.group_clipped.sum() > MOST_CLIPPED * self.group_size.sum())

    def parts(self, direction: int) -> list[int]:
        """Return the parts that count for people of the first (0) or second (1) group."""
        return [2 * direction] if self.dropped else [2 * direction, 2 * direction + 1]

    def compared(self, direction: int, measure: int, *, unit_interval: bool = True) -> Compared:
        """Return the statistic of one direction and measure, with what its limits depend on.

        Direction 0 is people of the first group with columns of the second. ``unit_interval`` says
        whether the measure lies between 0 and 1.
        """
        parts = self.parts(direction)
        kept = int(self.kept[parts].sum())
        people = int(self.group_size[direction])
        if not kept:
            return Compared(None, people, 0, self.pairs, 0.0, self.undecided)
        first = self.first[parts, measure].sum(axis=0)
        total = float(first[0])
        use = self.by_pair.parts(parts).values[:, -1] / total
        enough = self.redrawn_kept[:, parts].sum(axis=1) >= LEAST_REDRAWN_PEOPLE
        w, other, own = self.redrawn[enough][:, parts, measure].sum(axis=1).T
        clustered = len(self.by_person.index) > 0
        people_powers, pairs = self._powers(parts, measure)
        estimate = TwoWay(
            own=float(first[2]) / total,
            other=float(first[1]) / total,
            kappa=float(self.contrast[parts].sum()) / total,
            redrawn=(other - own) / w,
            n=total**2 / float(self.second[parts, 0, 0, 0].sum()) if self.weighted else kept,
            total=total,
            people=people_powers,
            pairs=pairs,
            exact_degrees=not (self.weighted or self.halves or clustered),
            unit_interval=unit_interval,
        )
        return Compared(estimate, people, kept, self.pairs, float(1 / (use @ use)), self.undecided)

    def _powers(self, parts: list[int], measure: int) -> tuple[EvenPowers, EvenPowers | None]:
        """Return the powers of people, or of units, and of pairs; none of what is only shown."""
        if measure >= self.second.shape[1]:
            return EvenPowers.from_rows(np.zeros((0, 3))), None
        pairs = self._pairs(parts, measure)
        if not self.halves and not len(self.by_person.index):
            second, fourth = (of[parts, measure].sum(axis=0) for of in (self.second, self.fourth))
            people = EvenPowers(int(self.kept[parts].sum()), second, fourth)
            return people, EvenPowers.from_rows(pairs.values)
        units = self.by_person.parts(parts)
        units = SparseSums(units.index, units.values[:, 3 * measure : 3 * measure + 3])
        if not self.halves:
            return EvenPowers.from_rows(units.values), EvenPowers.from_rows(pairs.values)
        units += SparseSums(pairs.index, np.insert(pairs.values, 0, 0.0, axis=1))
        return EvenPowers.from_rows(units.values), None

    def _pairs(self, parts: list[int], measure: int) -> SparseSums:
        """Return A and B by pair, or by cluster of members."""
        clustered = len(self.by_member.index) > 0
        sums = (self.by_member if clustered else self.by_pair).parts(parts)
        values = sums.values[:, 2 * measure : 2 * measure + 2]
        if clustered:
            mean = float(self.spread[parts].sum() / self.first[parts, measure, 0].sum())
            values = mean / max(mean - 1, 1e-6) * values
        return SparseSums(sums.index, values)

    def pair_differences(self, direction: int, measure: int) -> Float[np.ndarray, " q"]:
        """Return w_q, the share of each pair in the difference D."""
        parts = self.parts(direction)
        total = self.first[parts, measure, 0].sum()
        return self.by_pair.parts(parts).values[:, 2 * self.second.shape[1] + measure] / total


def cluster_propensities(people: LocatedPeople) -> SparseSums:
    """Sum by cluster of people: rows, propensity, and rows of the second group.

    Needed before the redraws where people are clustered: those with one attribute get one draw.
    """
    assert people.cluster is not None
    terms = np.column_stack([np.ones(len(people.rows)), people.propensity, people.second])
    return SparseSums.from_terms(people.cluster, terms)
