"""A metric learned from everyone, however many: Newton's steps from sums over blocks of people.

A sample teaches where to begin, how strong the penalty is, and how well the traits can be
predicted; the metric, its refits, its placebos and their reaches are those of everyone.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from likewise.audit_data import AuditData
from likewise.fingerprints import Sketch
from likewise.metrics.block_newton import EveryoneRead
from likewise.metrics.block_sums import DesignRows, TraitColumns, TraitTargets
from likewise.metrics.learn import Rule, fit_all, origin_of
from likewise.metrics.origin import LearnedFrom
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.sample import Sample
from likewise.metrics.shuffled_traits import Shuffle, bare, placebo_penalties
from likewise.metrics.traits import Trait, delete_groups

ENOUGH = 100
"""People that every class of a trait must have, so that no group holds all of them."""

LARGEST = 700
"""Coefficients of a trait's regression; the curvature of each group is a matrix of so many."""


@runtime_checkable
class Read(Protocol):
    """Reads everyone: adds up what a function says of blocks of people, over all blocks."""

    def __call__(self, ask: Callable[[DesignRows], Any], starts: Sequence[int] = ()) -> Any:
        """Return the sum; ``starts`` are the positions of the blocks' first people."""
        ...


def learn_from_everyone(
    drawn: AuditData,
    counts: Mapping[str, Mapping[Any, int]],
    sketch: Sketch,
    fingerprint: str,
    read: Read,
    *,
    penalty: float | Literal["auto"],
    C: float | None,
    may_matter: Sequence[str],
    groups: int,
    placebos: int,
    seed: int,
) -> ProjectionMetric | None:
    """Learn a metric as `likewise.sensitive_subspace` does, from people who are read in blocks.

    Nothing is returned where only people in memory can teach it: people in clusters, classes that
    hardly anybody has, or very many coefficients.

    Parameters
    ----------
    drawn
        Some of the people.
    counts
        By trait, how many people have each value.
    sketch, fingerprint
        By which the people are recognised.
    read
        Reads everyone.
    """
    n = sketch.n
    sample = Sample.of(drawn, None, {}, may_matter)
    levels = {trait.name: _levels(trait, drawn) for trait in sample.traits}
    for trait in sample.traits:
        held = counts[trait.name].values()
        rare = trait.kind != "number" and (
            len(held) != len(trait.classes) or min(held) < max(ENOUGH, 2 * groups)
        )
        wide = trait.target.shape[1] * (drawn.x.shape[1] + 1) > LARGEST
        if rare or wide or drawn.cluster is not None:
            return None
    given = None if penalty == "auto" else penalty
    rule = Rule.of(sample, given, C, seed)
    _, fits = fit_all(sample, rule)
    found: TraitColumns = read(functools.partial(TraitColumns.of, levels=levels))
    traits = tuple(
        TraitTargets(trait.kind, values, trait.target.shape[1])
        for trait, values in zip(sample.traits, found.values, strict=True)
    )
    dealt = np.zeros(n, dtype=np.int16)
    if groups:
        strata = [trait.strata for trait in traits]
        dealt = delete_groups(strata, None, groups, np.random.default_rng(seed))
    everyone = EveryoneRead(
        sample,
        traits,
        dealt,
        int(dealt.max()) + 1 if groups else 0,
        tuple(Shuffle(n, (seed, 2, b)) for b in range(placebos)),
        functools.partial(read, starts=np.cumsum([0, *found.counts]).tolist()),
    )
    chosen = placebo_penalties(sample, placebos, seed, given) if C is None else np.zeros(0)
    penalties = []
    for t, trait in enumerate(sample.traits):
        if C is None:
            own = np.full(everyone.size - placebos, rule.chosen[trait.name].penalty)
            penalties.append(np.append(own, chosen))
        else:
            weights = [everyone.kept(everyone.moments.known[t], j) for j in range(everyone.size)]
            mean = everyone.moments.products[:, -1, -1].sum() / n
            penalties.append(mean / (C * np.array(weights)))
    start = [fits[trait.name].coefficients for trait in sample.traits]
    metrics, gradients = everyone.metrics(penalties, start)
    metric, refits = metrics[0], metrics[1 : 1 + everyone.refits]
    origin = origin_of(sample, rule, metric, fits, seed, may_matter)
    return dataclasses.replace(
        metric,
        origin=dataclasses.replace(
            origin,
            data=fingerprint,
            n=n,
            judged=len(drawn),
            traits=tuple(
                dataclasses.replace(
                    trait,
                    n=int(answers.known(np.arange(n)).sum()),
                    missing=int((~answers.known(np.arange(n))).sum()),
                    gradient=gradient,
                )
                for trait, answers, gradient in zip(origin.traits, traits, gradients, strict=True)
            ),
        ),
        refits=tuple(refits),
        groups=dealt if groups else None,
        placebos=tuple(bare(placebo) for placebo in metrics[1 + everyone.refits :]),
        learned_from=LearnedFrom(sketch, found.keys),
    )


def _levels(trait: Trait, people: AuditData) -> dict[Any, int] | None:
    """Return the number of each class, by its value; nothing of a number."""
    if trait.kind == "number":
        return None
    column = people.trait(trait.name)[trait.known]
    codes = trait.strata[trait.known]
    return dict(zip(column.tolist(), codes.tolist(), strict=True))
