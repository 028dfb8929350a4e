"""Newton's method for regressions of people who are never in memory together."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from likewise.errors import InvalidMetric
from likewise.metrics import newton
from likewise.metrics.block_sums import DesignRows, GroupMoments, Shape, Slopes, Tails, TraitTargets
from likewise.metrics.newton import Kind, Standardised
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.reach import Ellipsoid
from likewise.metrics.sample import Direction, Sample, contrasts
from likewise.metrics.shuffled_traits import Shuffle

READINGS = 30
"""Readings of all people in which a trait's regressions must have converged."""

NEAR = 0.95
"""Part of the sample's radius from which on people are looked at one by one for that of all."""

Over = Callable[[Callable[[DesignRows], Any]], Any]
"""Adds up what a function says of blocks of people, over all blocks."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class EveryoneRead:
    """All people, of whom a sample is at hand and the rest are read again and again.

    Their regressions are numbered: 0 is everyone's; then one without each group; then one for
    each way to shuffle the traits.

    Parameters
    ----------
    sample
        Some of them, with the traits and what each feature is for.
    traits
        The traits of everyone.
    groups, refits
        Groups of everyone, and how many of them are left out in turn.
    shuffles
        Ways to shuffle the traits.
    over
        Reads everyone.
    """

    sample: Sample
    traits: tuple[TraitTargets, ...]
    groups: Int[np.ndarray, " n"]
    refits: int
    shuffles: tuple[Shuffle, ...]
    over: Over

    @property
    def size(self) -> int:
        """Number of regressions of a trait."""
        return 1 + self.refits + len(self.shuffles)

    @functools.cached_property
    def columns(self) -> Standardised:
        """Every feature about zero, with a spread of about one."""
        return Standardised.of(self.sample.data.x)

    @functools.cached_property
    def moments(self) -> GroupMoments:
        """Second moments of the features, and of each trait the weight of every class."""
        return self.over(functools.partial(GroupMoments.of, traits=self.traits, groups=self.groups))

    def kept(self, sums: Float[np.ndarray, "g ..."], number: int) -> Any:
        """Return the sum over the groups that a regression knows."""
        total = sums.sum(axis=0)
        return total - sums[number - 1] if 1 <= number <= self.refits else total

    def metrics(
        self,
        penalties: Sequence[Float[np.ndarray, " m"]],
        start: Sequence[Float[np.ndarray, "_ d"]],
    ) -> tuple[list[ProjectionMetric], list[float]]:
        """Learn the metric, its refits and its placebos; and the gradients left, by trait.

        Parameters
        ----------
        penalties
            Of each trait's regressions, a person.
        start
            Each trait's coefficients in the sample.
        """
        found: list[list[Direction]] = [[] for _ in range(self.size)]
        gradients = []
        for t, trait in enumerate(self.sample.traits):
            theta, gradient = Regressions.of(self, t, penalties[t]).solve(start[t])
            gradients.append(gradient)
            for j, coefficients in enumerate(theta):
                weight = self.kept(self.moments.classes[t], j)
                found[j].extend(contrasts(trait, coefficients, weight))
        return self._within_reach(
            [self.sample.metric(directions) for directions in found]
        ), gradients

    def _within_reach(self, metrics: list[ProjectionMetric]) -> list[ProjectionMetric]:
        """Return the metrics with everyone's reach instead of the sample's."""
        rims = [self._rim(metric, j) for j, metric in enumerate(metrics)]
        found: dict[int, float] = {}
        near = {j: NEAR * m.reach.radius if m.reach else 0.0 for j, m in enumerate(metrics)}
        while left := [j for j in range(len(metrics)) if j not in found]:
            shapes = tuple(
                Shape(
                    metrics[j].free * self.columns.scale,
                    dataclasses.replace(rims[j], radius=near[j]),
                    j - 1 if 1 <= j <= self.refits else None,
                )
                for j in left
            )
            tails: Tails = self.over(functools.partial(Tails.of, shapes=shapes, groups=self.groups))
            for place, j in enumerate(left):
                total = float(self.kept(self.moments.products, j)[-1, -1])
                radius = tails.radius(place, total, rims[j].coverage)
                if radius is not None:
                    found[j] = radius * near[j]
                near[j] /= 2
        shift = [metric.free @ self.columns.mean for metric in metrics]
        return [
            dataclasses.replace(
                metric,
                reach=dataclasses.replace(rims[j], mean=rims[j].mean + shift[j], radius=found[j]),
            )
            for j, metric in enumerate(metrics)
        ]

    def _rim(self, metric: ProjectionMetric, number: int) -> Ellipsoid:
        """Return mean and covariance of everyone along the free directions of the design."""
        product = self.kept(self.moments.products, number)
        total = product[-1, -1]
        mean = product[-1, :-1] / total
        free = metric.free * self.columns.scale
        spread = product[:-1, :-1] / total - np.outer(mean, mean)
        return Ellipsoid(free @ mean, free @ spread @ free.T, 1.0)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Regressions:
    """The regressions of one trait.

    Parameters
    ----------
    designs
        How the coefficients of each act on all features.
    price
        The penalty of each coefficient.
    scale
        Of the features that the trait is regressed on.
    null
        The mean of the trait, or the share of each class.
    """

    everyone: EveryoneRead
    trait: TraitTargets
    designs: tuple[Float[np.ndarray, "p e"], ...]
    price: Float[np.ndarray, "m e"]
    scale: Float[np.ndarray, " c"]
    null: Float[np.ndarray, " k"]

    @classmethod
    def of(
        cls, everyone: EveryoneRead, number: int, penalty: Float[np.ndarray, " m"]
    ) -> "Regressions":
        """Make the regressions of a trait ready."""
        moments, sample = everyone.moments, everyone.sample
        scale = everyone.columns.scale[sample.others]
        # A penalty on the coefficients of the features as they are, not as they are scaled.
        price = np.multiply.outer(penalty, np.append(1 / scale**2, 0.0))
        designs = tuple(
            _design(everyone.kept(moments.products, j), sample.others, sample.held)
            for j in range(everyone.size)
        )
        null = moments.classes[number].sum(axis=0) / moments.known[number].sum()
        return cls(everyone, everyone.traits[number], designs, price, scale, null)

    def solve(
        self, start: Float[np.ndarray, "k c"]
    ) -> tuple[list[Float[np.ndarray, "k c"]], float]:
        """Return the coefficients of every regression, and the gradient left in the first.

        Newton's method for everyone and without each group; shuffled traits predict next to
        nothing, so the curvature where nothing predicts serves all of them.
        """
        everyone, kind = self.everyone, self.trait.kind
        own = 1 + everyone.refits
        theta = np.zeros((everyone.size, self.trait.size, self.price.shape[1]))
        theta[:own, :, :-1] = start * self.scale
        theta[:, :, -1] = _intercepts(self.null, kind)
        flat = _flat(self.null, self._products(), kind)
        before, least = theta.copy(), np.full(len(theta), np.inf)
        for _ in range(READINGS):
            slopes = self._slopes(theta)
            gradient = self._gradient(theta, slopes)
            largest = np.abs(gradient).max(axis=(1, 2))
            left = np.flatnonzero(largest > newton.TOLERANCE).tolist()
            if not left:
                return [one[:, :-1] / self.scale for one in theta], float(largest[0])
            for j in left:
                if largest[j] > 2 * least[j]:  # too far: half the way back
                    theta[j] = (theta[j] + before[j]) / 2
                    continue
                bend = everyone.kept(slopes.curvature, j) / slopes.weight[j] if j < own else flat
                step = newton.solve(self._bent(bend, j), gradient[j].ravel())
                before[j], least[j] = theta[j], largest[j]
                theta[j] = theta[j] - step.reshape(theta[j].shape)
        raise InvalidMetric(
            f"The regressions of everyone did not converge in {READINGS} readings (gradient "
            f"{largest.max():.1e}). Give a stronger penalty, or drop columns that repeat others."
        )

    def _products(self) -> Float[np.ndarray, "p p"]:
        product = self.everyone.moments.products.sum(axis=0)
        return product / product[-1, -1]

    def _slopes(self, theta: Float[np.ndarray, "m k e"]) -> Slopes:
        everyone = self.everyone
        acting = [one @ design.T for one, design in zip(theta, self.designs, strict=True)]
        found: Slopes = everyone.over(
            functools.partial(
                Slopes.of,
                trait=self.trait,
                theta=np.stack(acting),
                groups=everyone.groups,
                refits=everyone.refits,
                shuffles=everyone.shuffles,
            )
        )
        return found

    def _gradient(
        self, theta: Float[np.ndarray, "m k e"], slopes: Slopes
    ) -> Float[np.ndarray, "m k e"]:
        parts = zip(slopes.gradient, self.designs, slopes.weight, strict=True)
        losses = np.stack([slope @ design / weight for slope, design, weight in parts])
        return losses + self.price[:, None] * theta

    def _bent(self, matrix: Float[np.ndarray, "q q"], number: int) -> Float[np.ndarray, "r r"]:
        """Return a curvature in the coefficients of one regression, with its penalty."""
        design = np.kron(np.eye(self.trait.size), self.designs[number])
        return newton.penalised(design.T @ matrix @ design, self.price[number], self.trait.kind)


def _design(
    product: Float[np.ndarray, "p p"], others: list[int], held: list[int]
) -> Float[np.ndarray, "p e"]:
    """Let coefficients act on the other features, less what those that may matter say of them."""
    design = np.zeros((len(product), len(others) + 1))
    design[[*others, -1], range(len(others) + 1)] = 1.0
    if held:
        known = [*held, len(product) - 1]
        said, *_ = np.linalg.lstsq(
            product[np.ix_(known, known)], product[np.ix_(known, others)], rcond=None
        )
        design[np.ix_(known, range(len(others)))] -= said
    return design


def _intercepts(null: Float[np.ndarray, " k"], kind: Kind) -> Float[np.ndarray, " k"]:
    """Return the intercepts where nothing predicts."""
    if kind == "binary":
        return np.log(null / (1 - null))
    return np.log(null) - np.log(null).mean() if kind == "classes" else null


def _flat(
    null: Float[np.ndarray, " k"], product: Float[np.ndarray, "p p"], kind: Kind
) -> Float[np.ndarray, "q q"]:
    """Return the curvature where nothing predicts."""
    if kind == "number":
        return product
    apart = np.diag(null) if kind == "classes" else np.diag(null * (1 - null))
    return np.kron(apart - np.outer(null, null) * (kind == "classes"), product)
