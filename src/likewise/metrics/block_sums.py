"""What regressions need of any number of people: sums over blocks, which add up.

Every regression of a metric shares each reading: the one of everyone, those without one group of
people, and those of shuffled traits.
"""

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from likewise.audit_data import AuditData, missing
from likewise.metrics import newton
from likewise.metrics.newton import Kind
from likewise.metrics.origin import LearnedFrom
from likewise.metrics.reach import Ellipsoid
from likewise.metrics.shuffled_traits import Shuffle
from likewise.metrics.traits import STRATA


@final
@dataclasses.dataclass(frozen=True, eq=False)
class DesignRows:
    """Some people, as the regressions see them.

    Parameters
    ----------
    people
        As they were read.
    design
        Features, each about zero with a spread of about one, and a column of ones.
    positions
        Places of these people among all.
    """

    people: AuditData
    design: Float[np.ndarray, "n p"]
    positions: Int[np.ndarray, " n"]

    @property
    def weight(self) -> Float[np.ndarray, " n"]:
        """What each counts."""
        return np.ones(len(self.design)) if self.people.weight is None else self.people.weight


@final
@dataclasses.dataclass(frozen=True, eq=False)
class TraitColumns:
    """What is kept of everyone: the traits as numbers, and by what people are recognised.

    Parameters
    ----------
    values
        By trait, class numbers, -1 where the trait is missing; or numbers, then NaN.
    counts
        How many people each block holds.
    """

    values: tuple[Any, ...]
    keys: UInt32[np.ndarray, " n"]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, rows: DesignRows, levels: Mapping[str, Mapping[Any, int] | None]) -> "TraitColumns":
        """Read some people; ``levels`` number the classes of a trait, and nothing of a number."""
        values = []
        for name, numbers in levels.items():
            column = rows.people.trait(name)
            gone = missing(column)
            if numbers is None:
                found = np.full(len(column), np.nan)
                found[~gone] = column[~gone].astype(np.float64)
            else:
                found = np.full(len(column), -1, dtype=np.int16)
                found[~gone] = [numbers[value] for value in column[~gone].tolist()]
            values.append(found)
        return cls(tuple(values), LearnedFrom.of(rows.people).keys, (len(rows.people),))

    def __add__(self, other: "TraitColumns") -> "TraitColumns":
        return TraitColumns(
            tuple(map(_joined, self.values, other.values)),
            _joined(self.keys, other.keys),
            self.counts + other.counts,
        )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class TraitTargets:
    """One trait of everyone, as numbers.

    Parameters
    ----------
    values
        Class numbers, -1 where the trait is missing; or the values of a number, then NaN.
    size
        Number of outputs of a regression: one, or one a class.
    """

    kind: Kind
    values: Any
    size: int

    def known(self, places: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Tell whose trait is known."""
        values = self.values[places]
        return ~np.isnan(values) if self.kind == "number" else values >= 0

    def target(self, places: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
        """Return what is predicted; zeros where it is missing."""
        values = self.values[places]
        if self.kind == "number":
            return np.nan_to_num(values, nan=0.0)[:, None]
        if self.kind == "binary":
            return (values == 1).astype(np.float64)[:, None]
        return (values[:, None] == np.arange(self.size)).astype(np.float64)

    @property
    def strata(self) -> Int[np.ndarray, " n"]:
        """The class of each person, -1 where missing; a numeric trait is cut into slices."""
        if self.kind != "number":
            return self.values.astype(np.int64)
        known = ~np.isnan(self.values)
        cuts = np.quantile(self.values[known], np.arange(1, STRATA) / STRATA)
        return np.where(known, np.searchsorted(cuts, self.values), -1)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class GroupMoments:
    """Second moments of the features by group, and of each trait the weight of every class."""

    products: Float[np.ndarray, "g p p"]
    classes: tuple[Float[np.ndarray, "g _"], ...]
    known: tuple[Float[np.ndarray, " g"], ...]

    @classmethod
    def of(
        cls, rows: DesignRows, traits: tuple[TraitTargets, ...], groups: Int[np.ndarray, " n"]
    ) -> "GroupMoments":
        """Add up some people."""
        own = groups[rows.positions]
        count, p = int(groups.max()) + 1, rows.design.shape[1]
        products = np.zeros((count, p, p))
        for g in np.unique(own).tolist():
            inside = own == g
            products[g] = (rows.design[inside] * rows.weight[inside, None]).T @ rows.design[inside]
        classes, known = [], []
        for trait in traits:
            weight = rows.weight * trait.known(rows.positions)
            target = trait.target(rows.positions) * weight[:, None]
            known.append(np.bincount(own, weight, count))
            classes.append(np.stack([np.bincount(own, one, count) for one in target.T], axis=1))
        return cls(products, tuple(classes), tuple(known))

    def __add__(self, other: "GroupMoments") -> "GroupMoments":
        return GroupMoments(
            self.products + other.products,
            tuple(map(operator.add, self.classes, other.classes)),
            tuple(map(operator.add, self.known, other.known)),
        )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Slopes:
    """Gradients of a trait's regressions, and the curvature of the first, by group.

    The first regression is that of everyone; then one without each group; then shuffled ones.
    """

    gradient: Float[np.ndarray, "m k p"]
    weight: Float[np.ndarray, " m"]
    curvature: Float[np.ndarray, "g q q"]

    @classmethod
    def of(
        cls,
        rows: DesignRows,
        trait: TraitTargets,
        theta: Float[np.ndarray, "m k p"],
        groups: Int[np.ndarray, " n"],
        refits: int,
        shuffles: tuple[Shuffle, ...],
    ) -> "Slopes":
        """Add up some people."""
        n, (m, k, p) = len(rows.design), theta.shape
        own, count = groups[rows.positions], int(groups.max()) + 1
        target = np.empty((n, m, k))
        weight = np.empty((n, m))
        target[:, : 1 + refits] = trait.target(rows.positions)[:, None]
        weight[:, : 1 + refits] = (rows.weight * trait.known(rows.positions))[:, None]
        if refits:
            weight[:, 1 : 1 + refits] *= own[:, None] != np.arange(refits)
        for j, shuffle in enumerate(shuffles, start=1 + refits):
            others = shuffle(rows.positions)
            target[:, j] = trait.target(others)
            weight[:, j] = rows.weight * trait.known(others)
        mean = newton.means((rows.design @ theta.reshape(-1, p).T).reshape(n, m, k), trait.kind)
        curvature = np.zeros((count, k * p, k * p))
        for g in np.unique(own).tolist():
            inside = own == g
            curvature[g] = newton.information(
                rows.design[inside], weight[inside, 0], mean[inside, 0], trait.kind
            )
        residual = (mean - target) * weight[:, :, None]
        gradient = residual.reshape(n, -1).T @ rows.design
        return cls(gradient.reshape(m, k, p), weight.sum(axis=0), curvature)

    def __add__(self, other: "Slopes") -> "Slopes":
        return Slopes(
            self.gradient + other.gradient,
            self.weight + other.weight,
            self.curvature + other.curvature,
        )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """An ellipsoid along free directions of the design, and the group that is not looked at."""

    free: Float[np.ndarray, "k d"]
    rim: Ellipsoid
    left_out: int | None


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Tails:
    """People far from the centre of each of several ellipsoids, by whom its radius is found."""

    distances: tuple[Float[np.ndarray, " _"], ...]
    weights: tuple[Float[np.ndarray, " _"], ...]

    @classmethod
    def of(
        cls, rows: DesignRows, shapes: tuple[Shape, ...], groups: Int[np.ndarray, " n"]
    ) -> "Tails":
        """Keep those at the rim of each shape or beyond."""
        own, weight = groups[rows.positions], rows.weight
        distances, weights = [], []
        for shape in shapes:
            distance = shape.rim.distance(rows.design[:, :-1] @ shape.free.T)
            far = distance >= 1
            if shape.left_out is not None:
                far &= own != shape.left_out
            distances.append(distance[far])
            weights.append(weight[far])
        return cls(tuple(distances), tuple(weights))

    def __add__(self, other: "Tails") -> "Tails":
        return Tails(
            tuple(map(_joined, self.distances, other.distances)),
            tuple(map(_joined, self.weights, other.weights)),
        )

    def radius(self, number: int, total: float, coverage: float) -> float | None:
        """Return the distance that holds a share of everyone, if it is among those kept."""
        order = np.argsort(self.distances[number], kind="stable")
        weight = self.weights[number][order]
        inside = total - weight.sum()
        held = np.flatnonzero(inside + np.cumsum(weight) >= (coverage - 1e-12) * total)
        if inside > coverage * total or not held.size:
            return None
        return float(self.distances[number][order][held[0]])


def _joined(some: Any, others: Any) -> Any:
    return np.concatenate([some, others])
