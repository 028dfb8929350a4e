"""Tells whether the audited people are those that the metric was learned from."""

import numpy as np
from jaxtyping import Int

from likewise.data.sources import Source
from likewise.data.survey import Survey
from likewise.fingerprints import overlap
from likewise.metrics.base import FairMetric
from likewise.metrics.learned_from import hashes_of

MANY = 0.5
"""Share of one in the other, audited or taught from, from which the two are not separate. Coarse
tables have many equal rows: a fifth of the people of Adult's test split are in its training split
as well, and are other people."""


def same_people(metric: FairMetric, known: Survey) -> bool:
    """Tell whether the metric was learned from these people, in any order, or from many of them.

    Old metric files know only a fingerprint of all rows in order.
    """
    if metric.origin is None:
        return False
    if metric.origin.data == known.fingerprint or metric.learned_from is None:
        return metric.origin.data == known.fingerprint
    # Either may be a part of the other: a metric learned from a sample of very many people.
    audited, taught = known.sketch, metric.learned_from.sketch
    return max(overlap(audited, taught), overlap(taught, audited)) > MANY


def groups_of(
    metric: FairMetric, known: Survey, source: Source, block: int
) -> Int[np.ndarray, " n"] | None:
    """Return the group of the metric's sample that everyone belongs to, by position."""
    if metric.groups is None or metric.origin is None or not same_people(metric, known):
        return None
    if metric.origin.data == known.fingerprint or metric.learned_from is None:
        return metric.groups
    blocks = source.blocks(block)
    found = [
        metric.learned_from.groups_of(hashes_of(people), metric.groups)
        for _, people in blocks.read(range(len(blocks)))
    ]
    return np.concatenate(found)
