"""Matched pairs: what is compared for a block of people, and its sums, which add up.

A `PairDesign` holds two groups of a pool, made ready for pairing. Its probes, the comparison
itself and each redrawn attribute, find the pairs nearest to the people of a block, ask the model
about each person with the remaining columns of both members, and return sums. Sums of ``own`` and
``other`` are kept apart: the ratio under test, the correction and the bias enter at the end.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.methods.matching import (
    MOST_NEIGHBOURS,
    Covariates,
    Key,
    RankScale,
    greedy_pairs,
    has_overlap,
    midpoint_tree,
    nearest_others,
    nearest_pairs,
    neighbour_count,
    seed_sequence,
    uniforms,
)
from likewise.methods.redraws import FOLDS, REDRAWS, Propensity, fit_propensity
from likewise.stats.decision import LEAST_PAIRS, Compared, Undecided
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
class PeopleBlock:
    """Some people, as matched pairs see them: what may matter, and codes of their groups.

    ``positions`` are among all people; with two halves, rows of the table. ``cluster`` numbers the
    clusters of people.
    """

    positions: Int[np.ndarray, " n"]
    covariates: Covariates
    group: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None = None
    cluster: Int[np.ndarray, " n"] | None = None


@dataclasses.dataclass(frozen=True)
class LocatedPeople:
    """The people of a block who are of either group: where they are, and their propensity.

    ``rows`` are theirs in the block, and everything else is in this order; the propensity is
    clipped, and ``clipped`` says whose was; in halves, ``index`` is their place in the design.
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

    def sizes(self) -> tuple[Int[np.ndarray, " 2"], Int[np.ndarray, " 2"]]:
        """Return how many of them are of either group, and how many have a clipped propensity."""
        everyone, clipped = self.second, self.second[self.clipped]
        return np.bincount(everyone, minlength=2), np.bincount(clipped, minlength=2)


def random_halves(
    seed: int, n: int, clusters: Int[np.ndarray, " n"] | None = None
) -> Bool[np.ndarray, " n"]:
    """Divide rows, or whole clusters, into two random halves; `True` is the second."""
    units = np.arange(n)
    if clusters is not None:
        units = np.unique(clusters, return_inverse=True)[1]
    count = int(units.max(initial=-1)) + 1
    order = np.random.default_rng(seed_sequence((seed, "halves"))).permutation(count)
    return order[units] >= (count + 1) // 2


@dataclasses.dataclass(frozen=True)
class PairDesign:
    """Two groups of a pool, ready for pairing.

    All random numbers follow from ``key``: seed, attribute and names of the two groups. ``rows``
    are those of the pool that are of either group, and everything else is in this order; ``people``
    the numbers of people of either group, from which follow the samples of redraws. ``clusters``
    number the pool's clusters without gaps, ``clusters_redrawn`` says whether these have one
    attribute and get one draw; ``people_clusters`` are the propensities of people's clusters if
    they have. Without a pool, ``halves`` says who is in the second half: each is the other's pool.
    """

    key: Key
    groups: tuple[int, int]
    people: tuple[int, int]
    rows: Int[np.ndarray, " r"]
    second: Bool[np.ndarray, " r"]
    scale: RankScale
    points: Float[np.ndarray, "r d"]
    cells: Int[np.ndarray, " r"]
    fitted: Propensity
    clusters: Int[np.ndarray, " r"] | None = None
    clusters_redrawn: bool = False
    people_clusters: "ClusterPropensity | None" = None
    halves: Bool[np.ndarray, " r"] | None = None
    most_neighbours: int = MOST_NEIGHBOURS

    @classmethod
    def from_pool(
        cls,
        pool: Covariates,
        group: Int[np.ndarray, " n"],
        groups: tuple[int, int],
        key: Key,
        *,
        people: tuple[int, int] | None = None,
        clusters: Int[np.ndarray, " n"] | None = None,
        halves: Bool[np.ndarray, " n"] | None = None,
        most_neighbours: int = MOST_NEIGHBOURS,
        folds: int = FOLDS,
    ) -> "PairDesign":
        """Make two groups of a pool ready; `undecided` says if they cannot be compared.

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
        if min(_units(second, numbers)) < FOLDS:
            fitted = Propensity(np.full(len(rows), 0.5), (), 0.5)
        else:
            alone = halves is not None
            fitted = fit_propensity(part, second, key, numbers, for_people=not alone, folds=folds)
        return cls(
            key=key,
            groups=groups,
            people=people or (int((~second).sum()), int(second.sum())),
            rows=rows,
            second=second,
            scale=scale,
            points=scale.points(part, (*key, "jitter pool"), rows),
            cells=scale.cells(part),
            fitted=fitted,
            clusters=numbers,
            clusters_redrawn=redrawn,
            halves=None if halves is None else halves[rows],
            most_neighbours=most_neighbours,
        )

    @functools.cached_property
    def limits(self) -> tuple[float, float]:
        """Where propensities are clipped: at .01, or at half the share of a rarer group."""
        # Else nearly everyone who is comparable with a group of 0.8 % would count as certain.
        first, second = ((self.second == side).mean() / 2 for side in (False, True))
        return min(CLIP, float(second)), 1 - min(CLIP, float(first))

    @functools.cached_property
    def propensity(self) -> Float[np.ndarray, " r"]:
        """Of the second group, clipped."""
        return np.clip(self.fitted.pool, *self.limits)

    def locate(self, block: PeopleBlock) -> LocatedPeople:
        """Return coordinates and propensities of a block's people; all probes share them."""
        rows = np.flatnonzero(np.isin(block.group, self.groups))
        positions = block.positions[rows]
        index = None
        if self.halves is None:
            some = block.covariates.take(rows)
            e = self.fitted.of_people(some)
            points = self.scale.points(some, (*self.key, "jitter people"), positions)
            cells = self.scale.cells(some)
            cluster = None if block.cluster is None else block.cluster[rows]
        else:
            index = np.searchsorted(self.rows, positions)
            e, points, cells = self.fitted.pool[index], self.points[index], self.cells[index]
            cluster = None if self.clusters is None else self.clusters[index]
        clipped = np.clip(e, *self.limits)
        return LocatedPeople(
            rows=rows,
            positions=positions,
            second=block.group[rows] == self.groups[1],
            propensity=clipped,
            clipped=clipped != e,
            points=points,
            cells=cells,
            weight=None if block.weight is None else block.weight[rows],
            cluster=cluster,
            index=index,
        )

    def comparison(self, measures: int = 1, deciding: int = 1) -> "PairProbe":
        """Return the probe that decides, by the first of the measures that ``ask`` returns."""
        return PairProbe(self, None, measures, deciding)

    def redraws(self, measures: int = 1, count: int = REDRAWS) -> list["PairProbe"]:
        """Return the probes with redrawn attributes."""
        return [PairProbe(self, number, measures) for number in range(count)]

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
            e, units = self.people_clusters.mean(people.cluster), people.cluster
        return uniforms((*self.key, "redraw people", redraw), units) < e

    @functools.cached_property
    def unexplained(self) -> tuple[float, float]:
        """How much more alike neighbours in the pool are than with redrawn attributes.

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

    @property
    def units(self) -> list[int]:
        """Rows of the pool, or clusters, of either group."""
        return _units(self.second, self.clusters)

    @property
    def undecided(self) -> Undecided | None:
        """Why nothing can be decided with these two groups, before anyone is compared."""
        if min(self.units) < FOLDS:
            return "group", {"rows": min(self.units), "needed": FOLDS}
        excess, deviations = self.unexplained
        if excess > MOST_UNEXPLAINED and deviations > UNEXPLAINED_DEVIATIONS:
            return "pattern", {"excess": excess, "largest": MOST_UNEXPLAINED}
        return None


def _units(second: Bool[np.ndarray, " n"], clusters: Int[np.ndarray, " n"] | None) -> list[int]:
    units = np.arange(len(second)) if clusters is None else clusters
    return [len(np.unique(units[second == side])) for side in (False, True)]


@dataclasses.dataclass(frozen=True)
class SparseSums:
    """Sums by number, for the numbers that occur: index, and one row of values each."""

    index: Int[np.ndarray, " r"]
    values: Float[np.ndarray, "r c"]

    @classmethod
    def from_terms(
        cls, numbers: Int[np.ndarray, " q"], *terms: Float[np.ndarray, " q"]
    ) -> "SparseSums":
        """Add up terms that have the same number."""
        index, at = np.unique(numbers, return_inverse=True)
        values = np.zeros((len(index), len(terms)))
        for column, term in enumerate(terms):
            values[:, column] = np.bincount(at, term, len(index))
        return cls(index, values)

    @classmethod
    def empty(cls, columns: int) -> "SparseSums":
        """Return sums over nothing."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, columns)))

    def __add__(self, other: "SparseSums") -> "SparseSums":
        return self._added(other, in_place=False)

    def __iadd__(self, other: "SparseSums") -> "SparseSums":
        return self._added(other, in_place=True)

    def _added(self, other: "SparseSums", *, in_place: bool) -> "SparseSums":
        place = np.full(1 + max(i.max(initial=-1) for i in (self.index, other.index)), -1)
        place[self.index] = np.arange(len(self.index))
        index, values = self.index, self.values
        if (place[other.index] < 0).any():
            place[other.index] = 0
            index = np.flatnonzero(place >= 0)
            place[index] = np.arange(len(index))
            values = np.zeros((len(index), self.values.shape[1]))
            values[place[self.index]] = self.values
        elif not in_place:
            values = values.copy()
        # After some blocks nearly all numbers have occurred, and nothing has to be moved.
        values[place[other.index]] += other.values
        return SparseSums(index, values)

    def parts(self, wanted: Sequence[int]) -> "SparseSums":
        """Return the sums of some parts together, by what they are of."""
        number, part = np.divmod(self.index, PARTS)
        chosen = np.isin(part, wanted)
        return SparseSums.from_terms(number[chosen], *self.values[chosen].T)


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """Whom the model is to be asked about: people with members of their nearest pairs.

    Parameters
    ----------
    people
        Rows of those with overlap in the block; part, weight, unit and count are in their order.
    part
        Direction and whether the propensity is clipped: ``2 * second + clipped``.
    weight, weighted
        1 for everyone, unless people are weighted.
    unit
        Cluster of people, or unit of the halves.
    count
        Of each person's comparisons.
    person, pair
        Row in the block and number of the pair, one a comparison.
    own, other
        Rows of the pool: the pair's member of the person's own, and of the other group.
    group_size, group_clipped
        All people of either group, and those with a clipped propensity.
    """

    people: Int[np.ndarray, " p"]
    part: Int[np.ndarray, " p"]
    weight: Float[np.ndarray, " p"]
    weighted: bool
    unit: Int[np.ndarray, " p"] | None
    count: Int[np.ndarray, " p"]
    person: Int[np.ndarray, " q"]
    pair: Int[np.ndarray, " q"]
    own: Int[np.ndarray, " q"]
    other: Int[np.ndarray, " q"]
    group_size: Int[np.ndarray, " 2"]
    group_clipped: Int[np.ndarray, " 2"]

    def __len__(self) -> int:
        return len(self.person)

    @property
    def start(self) -> Int[np.ndarray, " p"]:
        """The first of each person's comparisons."""
        return np.cumsum(self.count) - self.count

    def answers(self, ask: Ask, measures: int) -> "Answers":
        """Ask about all comparisons at once: with the columns of own, and of other members."""
        own = other = np.zeros((0, measures))
        if len(self):
            rows = np.concatenate([self.own, self.other])
            own, other = np.split(ask(np.tile(self.person, 2), rows), 2)
        return Answers(**vars(self), own_values=own, other_values=other)

    def mean(self, values: Float[np.ndarray, "q k"]) -> Float[np.ndarray, "p k"]:
        """Return each person's mean over comparisons."""
        if not len(self.people):
            return np.zeros((0, values.shape[1]))
        return np.add.reduceat(values, self.start, axis=0) / self.count[:, None]

    def by_part(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of people's values by part."""
        return np.stack([values[self.part == number].sum(axis=0) for number in range(PARTS)])


@dataclasses.dataclass(frozen=True)
class Answers(Comparisons):
    """Comparisons with the measures of what the model answered about both members."""

    own_values: Float[np.ndarray, "q k"]
    other_values: Float[np.ndarray, "q k"]

    def take(self, chosen: Bool[np.ndarray, " p"]) -> "Answers":
        """Return the comparisons of some of the people; group sizes stay those of all."""
        rows = np.repeat(chosen, self.count)
        by_person = dict.fromkeys(("people", "part", "weight", "unit", "count"), chosen)
        by_row = ("person", "pair", "own", "other", "own_values", "other_values")
        some = {
            name: values[which]
            for name, which in (by_person | dict.fromkeys(by_row, rows)).items()
            if (values := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **some)

    @functools.cached_property
    def deviations(self) -> Float[np.ndarray, "q k 2"]:
        """Values of other and own minus each person's mean."""
        both = (self.other_values, self.own_values)
        return np.stack([v - np.repeat(self.mean(v), self.count, axis=0) for v in both], axis=2)

    @functools.cached_property
    def sums(self) -> Float[np.ndarray, "p k 3"]:
        """w, w other and w own of every person and measure."""
        w = np.broadcast_to(self.weight[:, None], (len(self.people), self.own_values.shape[1]))
        means = self.mean(self.other_values), self.mean(self.own_values)
        return np.stack([w, *(w * mean for mean in means)], axis=2)


@dataclasses.dataclass(frozen=True)
class PairSums(Additive):
    """Sums of the comparison that decides, for both directions and all measures.

    The first axis of arrays is the part, ``2 * direction + clipped``; numbers of sparse sums are
    multiplied by 4 and the part is added.

    Parameters
    ----------
    group_size, group_clipped
        People of either group, and those with a clipped propensity.
    kept
        People with overlap.
    pairs
        Number of pairs; of the smaller half, if there are halves.
    weighted, halves
        Whether people are weighted; whether people and pool are halves of one table.
    first, second, fourth
        Powers of (w, w other, w own), summed over people: `EvenPowers`.
    contrast
        Sum of w times the mean difference in propensity within pairs: kappa.
    spread
        Sum of w times the effective number of clusters among a person's members.
    by_pair
        By pair: sum of w/m, A and B for every measure, and for those that decide the sum of
        w (other − own)/m.
    by_member
        By cluster of the pool's members: A and B for every measure.
    by_person
        By cluster of people, or unit of the halves: w, then w other and w own for every measure.
    """

    kept_as_is: ClassVar[tuple[str, ...]] = ("pairs", "weighted", "halves")

    group_size: Int[np.ndarray, " 2"]
    group_clipped: Int[np.ndarray, " 2"]
    kept: Int[np.ndarray, " 4"]
    pairs: int
    weighted: bool
    halves: bool
    first: Float[np.ndarray, "4 k 3"]
    second: Float[np.ndarray, "4 k 3 3"]
    fourth: Float[np.ndarray, "4 k 6 6"]
    contrast: Float[np.ndarray, " 4"]
    spread: Float[np.ndarray, " 4"]
    by_pair: SparseSums
    by_member: SparseSums
    by_person: SparseSums

    @property
    def n(self) -> int:
        """Number of people of the two groups."""
        return int(self.group_size.sum())

    @property
    def dropped(self) -> bool:
        """Whether people with a clipped propensity are left out, being more than 5 %."""
        return bool(self.group_clipped.sum() > MOST_CLIPPED * self.group_size.sum())

    def parts(self, direction: int) -> list[int]:
        """Return the parts that count for people of the first (0) or second (1) group."""
        return [2 * direction] if self.dropped else [2 * direction, 2 * direction + 1]

    def compared(
        self,
        direction: int,
        measure: int,
        redraws: "Sequence[RedrawSums]",
        *,
        unit_interval: bool = True,
        undecided: Undecided | None = None,
    ) -> Compared:
        """Return the statistic of one direction and measure, with what its limits depend on.

        Direction 0 is people of the first group with columns of the second. ``unit_interval`` says
        whether the measure lies between 0 and 1; ``undecided`` if the design forbids a decision.
        """
        parts = self.parts(direction)
        kept = int(self.kept[parts].sum())
        people = int(self.group_size[direction])
        if not kept:
            return Compared(None, people, 0, self.pairs, 0.0, undecided)
        first = self.first[parts, measure].sum(axis=0)
        total = float(first[0])
        use = self.by_pair.parts(parts).values[:, 0] / total
        found = (sums.difference(parts, measure) for sums in redraws)
        estimate = TwoWay(
            own=float(first[2]) / total,
            other=float(first[1]) / total,
            kappa=float(self.contrast[parts].sum()) / total,
            redrawn=np.array([d for d in found if d is not None]),
            n=total**2 / float(self.second[parts, measure, 0, 0].sum()) if self.weighted else kept,
            total=total,
            people=self._people(parts, measure, kept),
            pairs=None if self.halves else EvenPowers.from_rows(self._pairs(parts, measure).values),
            exact_degrees=not (self.weighted or self.halves or len(self.by_person.index)),
            unit_interval=unit_interval,
        )
        return Compared(estimate, people, kept, self.pairs, float(1 / (use @ use)), undecided)

    def _people(self, parts: list[int], measure: int, kept: int) -> EvenPowers:
        if not self.halves and not len(self.by_person.index):
            second = self.second[parts, measure].sum(axis=0)
            return EvenPowers(kept, second, self.fourth[parts, measure].sum(axis=0))
        units = self.by_person.parts(parts)
        units = SparseSums(units.index, units.values[:, [0, 1 + 2 * measure, 2 + 2 * measure]])
        if self.halves:
            pairs = self._pairs(parts, measure)
            units += SparseSums(pairs.index, np.insert(pairs.values, 0, 0.0, axis=1))
        return EvenPowers.from_rows(units.values)

    def _pairs(self, parts: list[int], measure: int) -> SparseSums:
        """Return A and B by pair, or by cluster of members."""
        if not len(self.by_member.index):
            sums = self.by_pair.parts(parts)
            return SparseSums(sums.index, sums.values[:, [1 + 2 * measure, 2 + 2 * measure]])
        sums = self.by_member.parts(parts)
        mean = float(self.spread[parts].sum() / self.first[parts, measure, 0].sum())
        factor = mean / max(mean - 1, 1e-6)
        return SparseSums(sums.index, factor * sums.values[:, [2 * measure, 1 + 2 * measure]])

    def pair_differences(self, direction: int, measure: int) -> Float[np.ndarray, " q"]:
        """Return w_q, the share of each pair in the difference D."""
        parts = self.parts(direction)
        total = self.first[parts, measure, 0].sum()
        measures = self.first.shape[1]
        return self.by_pair.parts(parts).values[:, 1 + 2 * measures + measure] / total


@dataclasses.dataclass(frozen=True)
class RedrawSums(Additive):
    """Sums of one redrawn attribute: people with overlap, and Σw, Σw other, Σw own by part."""

    kept_as_is: ClassVar[tuple[str, ...]] = ("pairs",)

    kept: Int[np.ndarray, " 4"]
    pairs: int
    first: Float[np.ndarray, "4 k 3"]

    @property
    def n(self) -> int:
        """Number of people compared."""
        return int(self.kept.sum())

    def difference(self, parts: list[int], measure: int) -> float | None:
        """Return D_b; nothing if there are too few people or pairs."""
        if self.kept[parts].sum() < LEAST_REDRAWN_PEOPLE or self.pairs < LEAST_PAIRS:
            return None
        w, other, own = self.first[parts, measure].sum(axis=0)
        return float((other - own) / w)


@dataclasses.dataclass(frozen=True)
class ClusterPropensity(Additive):
    """Sums of propensities by cluster of people: rows, propensity, and rows of the second group.

    Needed before the redraws where people are clustered; `constant` says whether clusters have
    one attribute each, and so whether to give them to `PairDesign.people_clusters`.
    """

    sums: SparseSums

    @classmethod
    def from_people(cls, people: LocatedPeople) -> "ClusterPropensity":
        """Sum over the people of a block."""
        assert people.cluster is not None
        one = np.ones(len(people.rows))
        second = people.second.astype(np.float64)
        return cls(SparseSums.from_terms(people.cluster, one, people.propensity, second))

    @property
    def constant(self) -> bool:
        """Whether every cluster is of one group."""
        rows, _, second = self.sums.values.T
        return bool(((second == 0) | (second == rows)).all())

    def mean(self, clusters: Int[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """Return the mean propensity of clusters."""
        at = np.searchsorted(self.sums.index, clusters)
        return self.sums.values[at, 1] / self.sums.values[at, 0]


@dataclasses.dataclass(frozen=True)
class PairProbe:
    """One comparison of people through pairs: with the real attribute, or a redrawn one.

    ``measures`` are what ``ask`` returns; the first ones of them decide.
    """

    design: PairDesign
    redraw: int | None
    measures: int
    deciding: int = 1

    @property
    def count(self) -> int:
        """Through how many pairs a person is compared at most."""
        return min(neighbour_count(self.pairs), self.design.most_neighbours)

    @functools.cached_property
    def _second(self) -> Bool[np.ndarray, " r"]:
        """Who of the pool is of the second group."""
        if self.redraw is None:
            return self.design.second
        return self.design.redrawn_pool(self.redraw)

    @functools.cached_property
    def pairing(self) -> tuple[Int[np.ndarray, "2 q"], ...]:
        """The pairs, found once; they travel with the probe if they are known."""
        return self.find_pairs()

    def __getstate__(self) -> dict[str, Any]:
        known = {field.name for field in dataclasses.fields(self)} | {"pairing"}
        return {name: value for name, value in self.__dict__.items() if name in known}

    def find_pairs(self) -> tuple[Int[np.ndarray, "2 q"], ...]:
        """Find the pairs of the pool, or of either half."""
        design, halves = self.design, self.design.halves
        everyone = np.zeros(len(self._second), dtype=bool) if halves is None else halves
        found = []
        for half in (False, True)[: 1 if halves is None else 2]:
            part = np.flatnonzero(everyone == half).astype(np.int32)
            pairs = greedy_pairs(design.points[part], design.cells[part], self._second[part])
            found.append(part[pairs])
        return tuple(found)

    @property
    def pairs(self) -> int:
        """Number of pairs; of the smaller half, if there are halves."""
        return min(pairs.shape[1] for pairs in self.pairing)

    @functools.cached_property
    def _trees(self) -> list[Any]:
        return [midpoint_tree(self.design.points, self.design.cells, p) for p in self.pairing]

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

    def plan(self, people: LocatedPeople, direction: int | None = None) -> Comparisons:
        """Find who is compared, of both groups or of one, and through which pairs."""
        design, redraw = self.design, self.redraw
        second, selected = people.second, np.arange(len(people.second))
        if redraw is not None:
            if people.index is None:
                second = design.redrawn_people(redraw, people)
            else:
                second = self._second[people.index]
            if not self.everyone:
                draws = uniforms((*design.key, "sample", redraw), people.positions)
                selected = np.flatnonzero(draws < self._shares[second.astype(np.int64)])
        if direction is not None:
            selected = selected[second[selected] == direction]
        pair = np.zeros((len(selected), self.count), dtype=np.int64)
        distance = np.full(pair.shape, np.inf)
        offset = 0
        for half, (tree, pairs) in enumerate(zip(self._trees, self.pairing, strict=True)):
            asking = np.arange(len(selected))
            if design.halves is not None and people.index is not None:
                # The pairs of one half are for the people of the other.
                asking = np.flatnonzero(design.halves[people.index[selected]] == (half == 0))
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
        own, other = design.rows[self._own_and_other(pair, np.repeat(second, counts))]
        sizes = people.sizes()
        return Comparisons(
            people=people.rows[selected],
            part=2 * second.astype(np.int64) + people.clipped[selected],
            weight=np.ones(len(selected)) if people.weight is None else people.weight[selected],
            weighted=people.weight is not None,
            unit=unit,
            count=counts,
            person=np.repeat(people.rows[selected], counts),
            pair=pair,
            own=own,
            other=other,
            group_size=sizes[0],
            group_clipped=sizes[1],
        )

    def _own_and_other(
        self, pair: Int[np.ndarray, " q"], second: Bool[np.ndarray, " q"]
    ) -> Int[np.ndarray, "2 q"]:
        """Return the members of the person's own, and of the other group, in the design."""
        members = self.members[:, pair]
        return np.where(second, members[::-1], members)

    @property
    def _shares(self) -> Float[np.ndarray, " 2"]:
        """Probability that a person is compared in a redraw, by redrawn group."""
        return np.minimum(MOST_REDRAWN_PEOPLE / np.maximum(self.design.people, 1), 1.0)

    @property
    def everyone(self) -> bool:
        """Whether all people are compared, and not a sample of them."""
        return self.redraw is None or bool((self._shares >= 1).all())

    def measure(self, ask: Ask, people: LocatedPeople) -> "PairSums | RedrawSums":
        """Ask the model about all comparisons of a block at once, and sum."""
        return self.summed(self.plan(people).answers(ask, self.measures))

    def summed(self, found: Answers) -> "PairSums | RedrawSums":
        """Sum what the model answered about the comparisons of a block."""
        kept = np.bincount(found.part, minlength=PARTS)
        if self.redraw is not None:
            return RedrawSums(kept, self.pairs, found.by_part(found.sums))
        values, measures = found.sums, self.measures
        second = np.zeros((PARTS, measures, 3, 3))
        fourth = np.zeros((PARTS, measures, 6, 6))
        for part, k in itertools.product(range(PARTS), range(measures)):
            second[part, k], fourth[part, k] = even_moments(values[found.part == part][:, k])
        by_person = SparseSums.empty(1 + 2 * measures)
        if found.unit is not None:
            columns = values[:, :, 1:].reshape(len(values), 2 * measures).T
            number = found.unit * PARTS + found.part
            by_person = SparseSums.from_terms(number, found.weight, *columns)
        e = self.design.propensity[self.members[:, found.pair]]
        contrast = found.mean((e[1] - e[0])[:, None]) * found.weight[:, None]
        by_member, effective = self._by_member(found)
        return PairSums(
            group_size=found.group_size,
            group_clipped=found.group_clipped,
            kept=kept,
            pairs=self.pairs,
            weighted=found.weighted,
            halves=self.design.halves is not None,
            first=found.by_part(values),
            second=second,
            fourth=fourth,
            contrast=found.by_part(contrast)[:, 0],
            spread=found.by_part(effective * found.weight),
            by_pair=self._by_pair(found),
            by_member=by_member,
            by_person=by_person,
        )

    def _by_pair(self, found: Answers) -> SparseSums:
        part = np.repeat(found.part, found.count)
        share = np.repeat(found.weight / found.count, found.count)
        # Means were taken off within each person: m - 1 for m, so that variances are not too small.
        free = np.repeat(found.weight / (found.count - 1), found.count)[:, None, None]
        columns = (free * found.deviations).reshape(len(share), 2 * self.measures).T
        differences = share[:, None] * (found.other_values - found.own_values)
        return SparseSums.from_terms(
            found.pair * PARTS + part, share, *columns, *differences[:, : self.deciding].T
        )

    def _by_member(self, found: Answers) -> tuple[SparseSums, Float[np.ndarray, " p"]]:
        """Sum by cluster of members, and count each person's: 1/Σ share² over their clusters."""
        people, measures, clusters = len(found.people), self.measures, self.design.clusters
        if clusters is None or not people:
            return SparseSums.empty(2 * measures), np.zeros(people)
        part = np.repeat(found.part, found.count)
        of_own, of_other = clusters[self._own_and_other(found.pair, part >= 2)]
        share = np.repeat(found.weight / found.count, found.count)[:, None]
        terms = np.zeros((2, len(part), measures, 2))
        for side in (0, 1):
            terms[side, :, :, side] = share * found.deviations[:, :, side]
        numbers = np.concatenate([of_other, of_own])
        columns = terms.reshape(2 * len(part), 2 * measures).T
        sums = SparseSums.from_terms(numbers * PARTS + np.tile(part, 2), *columns)
        person, size = np.repeat(np.arange(people), found.count), int(numbers.max()) + 1
        met, counts = np.unique(np.tile(person, 2) * size + numbers, return_counts=True)
        squares = np.bincount(met // size, counts.astype(np.float64) ** 2, people)
        return sums, (2 * found.count) ** 2 / squares
