"""A sample made ready for many regressions, and the metric that some of them give."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from likewise.audit_data import GAP, AuditData
from likewise.errors import InvalidMetric
from likewise.metrics import newton
from likewise.metrics.newton import Fit, Standardised
from likewise.metrics.penalty import FOLDS
from likewise.metrics.quadratic import ProjectionMetric, span
from likewise.metrics.reach import Ellipsoid
from likewise.metrics.traits import (
    Trait,
    cluster_codes,
    columns_of,
    delete_groups,
    places_of,
    read_trait,
)

SAME_DIRECTION = 1e-6
"""Learned directions nearer to dependent than this are one direction: fits are not exact."""

Direction = tuple[str, Float[np.ndarray, " d"]]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """People whose traits are regressed on their features, with different weights.

    Parameters
    ----------
    inputs
        Features that are a trait itself, by trait.
    held
        Features that may matter: no direction along them is free.
    others
        All other features, on which traits are regressed.
    weight
        Relative to their mean.
    """

    data: AuditData
    traits: tuple[Trait, ...]
    inputs: Mapping[str, list[int]]
    held: list[int]
    others: list[int]
    weight: Float[np.ndarray, " n"]
    columns: Standardised

    @classmethod
    def of(
        cls,
        data: AuditData,
        names: Sequence[str] | None,
        kinds: Mapping[str, str],
        may_matter: Sequence[str] = (),
    ) -> "Sample":
        """Read the traits, and tell apart what each feature is for."""
        if data.x.shape[1] == 0:
            raise InvalidMetric(
                "There are no feature columns to learn a metric from. Encode the table, or learn "
                "in the space where the pipeline is audited."
            )
        names = tuple(data.protected) if names is None else tuple(dict.fromkeys(names))
        if not names:
            raise InvalidMetric(
                "There is no protected trait to learn a metric from. Name one (--protected)."
            )
        traits = tuple(read_trait(name, data.trait(name), kinds.get(name)) for name in names)
        inputs = {
            t.name: columns_of(data.features, t.name, t.classes) or t.features_of(data.x)
            for t in traits
        }
        held = held_features(data.features, may_matter, data.table)
        for trait, places in inputs.items():
            if set(places) & set(held):
                raise InvalidMetric(f"{trait!r} is protected, so it cannot be what may matter.")
        still = [j for j, name in enumerate(data.features) if name.endswith(GAP)]
        taken = {*held, *still, *(j for places in inputs.values() for j in places)}
        others = [j for j in range(data.x.shape[1]) if j not in taken]
        weight = np.ones(len(data)) if data.weight is None else data.weight / data.weight.mean()
        columns = Standardised.of(_residuals(data.x, others, held, weight))
        return cls(data, traits, inputs, held, others, weight, columns)

    @property
    def unit(self) -> Int[np.ndarray, " n"]:
        """The cluster of each person, numbered; without clusters everyone is one."""
        return cluster_codes(self.data.cluster, len(self.data))

    def folds(self, seed: int) -> Int[np.ndarray, " n"]:
        """Return random folds of whole clusters, the same whatever the traits are."""
        alike = np.zeros(len(self.data), dtype=np.int64)
        return delete_groups([alike], self.data.cluster, FOLDS, np.random.default_rng([seed, 1]))

    def weighted(self, weight: Float[np.ndarray, " n"]) -> "Sample":
        """Return the sample with other weights, and what may matter taken out by them."""
        columns = self.columns
        if self.held:
            columns = Standardised.of(_residuals(self.data.x, self.others, self.held, weight))
        return dataclasses.replace(self, weight=weight, columns=columns)

    def fit(self, trait: Trait, C: float, near: Float[np.ndarray, "k p"] | None = None) -> Fit:
        """Regress a trait on the features."""
        if near is not None and len(near) != trait.target.shape[1]:
            near = None  # a class is gone
        weight = self.weight * trait.known
        try:
            return newton.fit(self.columns, trait.target, weight, trait.kind, C, near)
        except InvalidMetric as error:
            raise InvalidMetric(f"Trait {trait.name!r}: {error}") from None

    def metric(self, found: Sequence[Direction]) -> ProjectionMetric:
        """Return the metric blind to directions among the other features, and to the traits."""
        d = self.data.x.shape[1]
        rows, labels = [], []
        for label, coefficients in found:
            row = np.zeros(d)
            row[self.others] = coefficients
            rows.append(row)
            labels.append(label)
        for name, places in self.inputs.items():
            rows.extend(np.eye(1, d, j)[0] for j in places)
            labels.extend(f"{self.data.features[j]} (the trait {name} itself)" for j in places)
        directions = np.array(rows).reshape(len(rows), d)
        free = span(directions, SAME_DIRECTION)
        return ProjectionMetric(
            free,
            self.data.features,
            directions=directions,
            labels=tuple(labels),
            reach=Ellipsoid.of(self.data.x @ free.T, self.weight),
        )


def held_features(
    features: Sequence[str], may_matter: Sequence[str], table: Any = None
) -> list[int]:
    """Return the places of the features that may matter; a column stands for all its features.

    Parameters
    ----------
    table
        Original columns, whose values are in the names of a pipeline's one-hot features.
    """
    return places_of(features, may_matter, "that may matter", table)


def contrasts(
    trait: Trait, coefficients: Float[np.ndarray, "k d"], weight: Float[np.ndarray, " k"]
) -> list[Direction]:
    """Directions of one trait: its coefficients, or each class against that of most weight."""
    if trait.kind == "number":
        return [(trait.name, coefficients[0])]
    if trait.kind == "binary":
        zero, one = trait.classes
        return [(f"{trait.name}: {one} against {zero}", coefficients[0])]
    common = int(weight.argmax())
    return [
        (f"{trait.name}: {name} against {trait.classes[common]}", row - coefficients[common])
        for index, (name, row) in enumerate(zip(trait.classes, coefficients, strict=True))
        if index != common
    ]


def _residuals(
    x: Float[np.ndarray, "n d"],
    others: list[int],
    held: list[int],
    weight: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n e"]:
    """Return the other features, without what those that may matter say of them linearly."""
    if not held:
        return x[:, others]
    known = Standardised.of(x[:, held]).design
    root = np.sqrt(weight)[:, None]
    slopes, *_ = np.linalg.lstsq(known * root, x[:, others] * root, rcond=None)
    return x[:, others] - known @ slopes
