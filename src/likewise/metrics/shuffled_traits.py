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
    metrics: list[ProjectionMetric] = []
    size = max(1, AT_ONCE // sum(trait.target.size for trait in sample.traits))
    for begin in range(0, count, size):
        some = orders[begin : begin + size]
        stacks = [_stack(sample, trait, some) for trait in sample.traits]
        fitted = _fit(sample, stacks, seed, penalty, C)
        for place in range(len(some)):
            found: list[Direction] = []
            for trait, coefficients in zip(sample.traits, fitted, strict=True):
                found.extend(contrasts(trait, coefficients[place], sample.weight))
            metrics.append(_bare(sample.metric(found)))
    return tuple(metrics)


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
    sample: Sample, stacks: list[Stack], seed: int, penalty: float | None, C: float | None
) -> list[Float[np.ndarray, "m k d"]]:
    """Return the coefficients of each trait's regressions on the original columns."""
    chosen: Float[np.ndarray, " m"] | None = None
    if penalty is not None:
        chosen = np.full(stacks[0].weight.shape[1], penalty)
    elif C is None:
        fold, unit = sample.folds(seed), sample.unit
        chosen = choose_penalties([CrossValidation(stack, fold, unit) for stack in stacks])
    found = []
    for stack in stacks:
        penalties = 1 / (C * stack.weight.sum(axis=0)) if chosen is None else chosen
        theta = np.empty_like(stack.null)
        for value in np.unique(penalties):
            which = np.flatnonzero(penalties == value)
            theta[which] = stack.part(which).fit(float(value))
        found.append(theta[:, :, :-1] / sample.columns.scale)
    return found


def _bare(metric: ProjectionMetric) -> ProjectionMetric:
    return ProjectionMetric(metric.free, metric.features, reach=metric.reach)
