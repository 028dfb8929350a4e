"""Placebo metrics: what would be learned if the traits meant nothing.

A learned direction is free however weakly it predicts the trait, so a trait that means nothing
gets a free direction too. Metrics learned from shuffled traits show how much a model is sensitive
to such directions.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from likewise.metrics.penalty import CrossValidation, choose_penalties
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.sample import Direction, Sample, contrasts
from likewise.metrics.stacked import Stack
from likewise.metrics.traits import Trait

COUNT = 39
"""Placebos for one test at the level .05: the least p-value is 1/40."""

AT_ONCE = 2_000_000
"""Numbers in the targets of regressions that are fitted together; memory, not results."""

ROUNDS = 4
"""Of a shuffle that is computed by parts."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle:
    """A random permutation of 0 to n - 1, any part of which is computed without the rest.

    Rounds of a multiplication by an odd number and a shift, modulo a power of two, are one to one;
    whoever leaves 0 to n - 1 goes on until he is back.
    """

    n: int
    seed: tuple[int, ...]

    def __call__(self, places: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """Return whose place each place gets."""
        found = self._once(places.astype(np.uint64))
        while (beyond := np.flatnonzero(found >= self.n)).size:
            found[beyond] = self._once(found[beyond])
        return found.astype(np.int64)

    def _once(self, value: np.ndarray) -> np.ndarray:
        bits = max(int(self.n - 1).bit_length(), 2)
        mask, shift = np.uint64((1 << bits) - 1), np.uint64(bits // 2)
        for factor, term in self._keys:
            value = (value * factor + term) & mask
            value = value ^ (value >> shift)
        return value

    @functools.cached_property
    def _keys(self) -> Any:
        drawn = np.random.default_rng(self.seed).integers(2**63, size=(ROUNDS, 2), dtype=np.uint64)
        return drawn | np.array([1, 0], dtype=np.uint64)


def placebo_metrics(
    sample: Sample,
    count: int,
    seed: int,
    penalty: float | None = None,
    C: float | None = None,
) -> tuple[ProjectionMetric, ...]:
    """Learn the metric and its reach ``count`` times from shuffled traits, by the same rule.

    All traits of a person stay together. Penalties are chosen anew unless one is given.
    """
    metrics: list[ProjectionMetric] = []
    for stacks in _stacks(sample, count, seed):
        fitted = _fit(sample, stacks, _penalties(sample, stacks, seed, penalty, C))
        for place in range(stacks[0].weight.shape[1]):
            found: list[Direction] = []
            for trait, coefficients in zip(sample.traits, fitted, strict=True):
                found.extend(contrasts(trait, coefficients[place], trait.weights(sample.weight)))
            metrics.append(bare(sample.metric(found)))
    return tuple(metrics)


def placebo_penalties(
    sample: Sample, count: int, seed: int, penalty: float | None = None
) -> Float[np.ndarray, " b"]:
    """Return the penalties a person that placebos of this sample are learned with."""
    found = [
        _penalties(sample, stacks, seed, penalty)[0] for stacks in _stacks(sample, count, seed)
    ]
    return np.concatenate([np.zeros(0), *found])


def shuffled(sample: Sample, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Return whose traits each person gets.

    Without clusters anybody's; traits that are the same throughout each cluster are exchanged
    between whole clusters, others within clusters.
    """
    n, unit = len(sample.data), sample.unit
    if sample.data.cluster is None:
        return rng.permutation(n)
    first = np.unique(unit, return_index=True)[1]
    if all(_constant(trait, first[unit]) for trait in sample.traits):
        return first[rng.permutation(len(first))[unit]]
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(unit, kind="stable")] = np.lexsort((rng.random(n), unit))
    return order


def _constant(trait: Trait, first: Int[np.ndarray, " n"]) -> bool:
    same = (trait.target == trait.target[first]).all() and (trait.known == trait.known[first]).all()
    return bool(same)


def _stack(sample: Sample, trait: Trait, orders: list[Int[np.ndarray, " n"]]) -> Stack:
    """Return the regressions of one trait, shuffled in several ways."""
    target = np.stack([trait.target[order] for order in orders], axis=1)
    known = np.stack([trait.known[order] for order in orders], axis=1)
    return Stack(sample.columns, target, sample.weight[:, None] * known, trait.kind)


def _stacks(sample: Sample, count: int, seed: int) -> Iterator[list[Stack]]:
    """Yield the regressions of all traits, shuffled in as many ways as are fitted together."""
    orders = [shuffled(sample, np.random.default_rng([seed, 2, b])) for b in range(count)]
    size = max(1, AT_ONCE // sum(trait.target.size for trait in sample.traits))
    for begin in range(0, count, size):
        yield [_stack(sample, trait, orders[begin : begin + size]) for trait in sample.traits]


def _penalties(
    sample: Sample,
    stacks: list[Stack],
    seed: int,
    penalty: float | None = None,
    C: float | None = None,
) -> list[Float[np.ndarray, " m"]]:
    """Return the penalties of each trait's regressions; chosen anew unless they are given."""
    if C is not None:
        return [1 / (C * stack.weight.sum(axis=0)) for stack in stacks]
    if penalty is not None:
        return [np.full(stack.weight.shape[1], penalty) for stack in stacks]
    fold, unit = sample.folds(seed), sample.unit
    chosen = choose_penalties([CrossValidation(stack, fold, unit) for stack in stacks])
    return [chosen] * len(stacks)


def _fit(
    sample: Sample, stacks: list[Stack], penalties: list[Float[np.ndarray, " m"]]
) -> list[Float[np.ndarray, "m k d"]]:
    """Return the coefficients of each trait's regressions on the original columns."""
    found = []
    for stack, own in zip(stacks, penalties, strict=True):
        theta = np.empty_like(stack.null)
        for value in np.unique(own):
            which = np.flatnonzero(own == value)
            theta[which] = stack.part(which).fit(float(value))
        found.append(theta[:, :, :-1] / sample.columns.scale)
    return found


def bare(metric: ProjectionMetric) -> ProjectionMetric:
    """Return no more of a metric than a placebo needs."""
    return ProjectionMetric(metric.free, metric.features, reach=metric.reach)
