"""Placebo metrics: what would be learned if the traits meant nothing.

A learned direction is free however weakly it predicts the trait, so a trait that means nothing
gets a free direction too. Metrics learned from shuffled traits show how much a model is sensitive
to such directions.
"""

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
    orders = [shuffled(sample, np.random.default_rng([seed, 2, b])) for b in range(count)]
    found: list[list[Direction]] = [[] for _ in orders]
    for trait in sample.traits:
        size = max(1, AT_ONCE // trait.target.size)
        for begin in range(0, count, size):
            stack = _stack(sample, trait, orders[begin : begin + size])
            fitted = _fit(sample, stack, seed, penalty, C)
            for place, coefficients in enumerate(fitted, start=begin):
                found[place].extend(contrasts(trait, coefficients, sample.weight))
    return tuple(_bare(sample.metric(directions)) for directions in found)


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


def _fit(
    sample: Sample, stack: Stack, seed: int, penalty: float | None, C: float | None
) -> Float[np.ndarray, "m k d"]:
    """Return the coefficients of the regressions on the original columns."""
    if penalty is not None:
        penalties = np.full(stack.weight.shape[1], penalty)
    elif C is not None:
        penalties = 1 / (C * stack.weight.sum(axis=0))
    else:
        penalties = choose_penalties(CrossValidation(stack, sample.folds(seed), sample.unit))
    theta = np.empty_like(stack.null)
    for value in np.unique(penalties):
        which = np.flatnonzero(penalties == value)
        theta[which] = stack.part(which).fit(float(value))
    return theta[:, :, :-1] / sample.columns.scale


def _bare(metric: ProjectionMetric) -> ProjectionMetric:
    return ProjectionMetric(metric.free, metric.features, reach=metric.reach)
