"""Protected traits as targets of a regression: two classes, several, or a number."""

import dataclasses
import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.audit_data import missing
from likewise.errors import InvalidMetric, nearest
from likewise.metrics.newton import Kind

FEW = 10
"""A column of numbers with more distinct values than this is a number, not a set of classes."""

MANY = 50
"""A column of text with more distinct values than this is a name rather than a trait."""

RECOGNISED = 10
"""People who must have a feature's value before it counts as another name for a trait."""

STRATA = 5
"""Slices into which a numeric trait is cut where people have to be grouped by it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trait:
    """One protected trait of a sample.

    Parameters
    ----------
    name
        The trait.
    kind
        ``binary``, ``classes`` or ``number``.
    target
        What is regressed on the features; rows of zeros where the trait is missing.
    known
        Whose trait is known.
    classes
        Class names in the order of the columns of ``target`` (for two classes: the one that
        counts as 0, then the one that counts as 1); empty for a number.
    """

    name: str
    kind: Kind
    target: Float[np.ndarray, "n k"]
    known: Bool[np.ndarray, " n"]
    classes: tuple[str, ...] = ()

    @property
    def strata(self) -> Int[np.ndarray, " n"]:
        """The class of each person, -1 where missing; a numeric trait is cut into slices."""
        if self.kind == "classes":
            codes = self.target.argmax(axis=1)
        elif self.kind == "binary":
            codes = self.target[:, 0].astype(int)
        else:
            values = self.target[:, 0]
            cuts = np.quantile(values[self.known], np.arange(1, STRATA) / STRATA)
            codes = np.searchsorted(cuts, values)
        return np.where(self.known, codes, -1)

    def weights(self, weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
        """Return the weight of each class, or the sum of a number."""
        return (weight * self.known) @ self.target

    def features_of(self, x: Float[np.ndarray, "n d"]) -> list[int]:
        """Return the features that say the trait and nothing else: one-hot columns without names.

        Such a column has one value throughout each class, and two values or more that ten people
        have; that of a number is the number itself, on any scale.
        """
        x, target = x[self.known], self.target[self.known]
        if self.kind == "number":
            fitted = np.column_stack([target, np.ones(len(target))])
            with np.errstate(all="ignore"):
                rest = x - fitted @ np.linalg.lstsq(fitted, x, rcond=None)[0]
                same = np.abs(rest).max(axis=0, initial=0.0) <= 1e-9 * x.std(axis=0)
            return np.flatnonzero(same & (np.ptp(x, axis=0) > 0)).tolist()
        code = self.strata[self.known]
        first = np.unique(code, return_index=True)[1]
        own = x[first]
        count = np.bincount(code)
        alike = (x == own[code]).all(axis=0)
        return [
            j
            for j in np.flatnonzero(alike).tolist()
            if (sizes := np.bincount(np.unique(own[:, j], return_inverse=True)[1], count)).size > 1
            and np.sort(sizes)[-2] >= RECOGNISED
        ]

    def present(self, weight: Float[np.ndarray, " n"]) -> "Trait | None":
        """Leave out the classes that no weight is on; nothing is left of a constant trait."""
        if self.kind == "number":
            values = self.target[(weight > 0) & self.known, 0]
            return self if len(values) and np.ptp(values) > 0 else None
        if self.kind == "binary":
            total = np.array([weight[self.strata == code].sum() for code in (0, 1)])
            return self if (total > 0).all() else None
        held = (weight * self.known) @ self.target > 0
        if held.all():
            return self
        names = tuple(name for name, kept in zip(self.classes, held, strict=True) if kept)
        target = self.target[:, held]
        if len(names) == 2:
            return dataclasses.replace(self, kind="binary", target=target[:, 1:], classes=names)
        return dataclasses.replace(self, target=target, classes=names) if len(names) > 2 else None


def read_trait(name: str, column: Shaped[np.ndarray, " n"], kind: str | None = None) -> Trait:
    """Turn a protected column into something a regression can be fitted to.

    Parameters
    ----------
    kind
        ``classes`` or ``number`` for a column that could be either; by default numbers with more
        than ten distinct values are numbers, and everything else is classes.
    """
    known = ~missing(column)
    values = column[known]
    if kind not in (None, "classes", "number"):
        raise InvalidMetric(f"A trait's kind is 'classes' or 'number', not {kind!r}.")
    numeric = values.dtype.kind in "iuf" or (
        values.dtype.kind == "O"
        and all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values)
    )
    if kind == "number" and not numeric:
        raise InvalidMetric(f"The trait {name!r} cannot be a number: it holds text.")
    distinct = sorted(set(values.tolist()), key=lambda v: v if numeric else str(v))
    if len(distinct) < 2:
        what = f"is {distinct[0]!r} for everyone" if distinct else "is missing for everyone"
        raise InvalidMetric(
            f"The protected trait {name!r} {what}, so no direction can be learned from it. "
            "Leave it out, or use a sample in which it varies."
        )
    if kind == "number" or (kind is None and numeric and len(distinct) > FEW):
        target = np.zeros((len(column), 1))
        target[known, 0] = values.astype(np.float64)
        if not np.isfinite(target).all():
            raise InvalidMetric(f"The protected trait {name!r} has infinite values.")
        return Trait(name, "number", target, known)
    return _classes(name, values, known, distinct)


def _classes(
    name: str,
    values: Shaped[np.ndarray, " m"],
    known: Bool[np.ndarray, " n"],
    distinct: Sequence[object],
) -> Trait:
    if len(distinct) > MANY:
        raise InvalidMetric(
            f"The protected trait {name!r} has {len(distinct)} different values (at most {MANY} "
            "can be compared). Group them, or say that it is a number."
        )
    place = {value: index for index, value in enumerate(distinct)}
    codes = np.array([place[value] for value in values.tolist()])
    target = np.zeros((len(known), len(distinct)))
    target[np.flatnonzero(known), codes] = 1.0
    names = tuple(map(str, distinct))
    if len(distinct) == 2:
        return Trait(name, "binary", target[:, 1:], known, names)
    return Trait(name, "classes", target, known, names)


def columns_of(features: Sequence[str], name: str, levels: Sequence[str] = ()) -> list[int]:
    """Places of the feature called ``name``, or of the one-hot features made from it.

    Known are the names our encoder gives (``sex=Male``) and those of scikit-learn's pipelines
    (``cat__sex_Male``, ``num__age``).

    Parameters
    ----------
    levels
        Values of the column, which tell ``sex_Male`` from ``sex_offences``.
    """
    spelled = {name, *(f"{name}_{level}" for level in levels)}
    whole = [j for j, feature in enumerate(features) if feature == name]
    return whole or [
        j
        for j, feature in enumerate(features)
        if feature.startswith(f"{name}=") or feature.rpartition("__")[2] in spelled
    ]


def places_of(
    features: Sequence[str], names: Sequence[str], wanted: str, table: Any = None
) -> list[int]:
    """Places of all features that columns became; a column without any is refused.

    Parameters
    ----------
    table
        The original columns, if there are: their values tell features of a pipeline apart.
    """
    known = () if table is None else table.column_names
    places: set[int] = set()
    for name in names:
        levels = map(str, table[name].unique().to_pylist()) if name in known else ()
        found = columns_of(features, name, tuple(levels))
        if not found:
            originals = {feature.partition("=")[0] for feature in features}
            hint = nearest(name, {*features, *originals})
            raise InvalidMetric(f"There is no feature {name!r} {wanted}.{hint}")
        places.update(found)
    return sorted(places)


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
