"""Counterparts in a study: who is served worse with what comparable others bring along."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from likewise import Counterparts, Settings, Threads, audit
from likewise.data import Split


@dataclasses.dataclass(frozen=True)
class Alike:
    """The counterpart test of one model: pool the training people, audited the test people.

    Parameters
    ----------
    ratios
        Over everyone, by trait.
    group, largest, lower_bound
        The group with the largest ratio, that ratio, and its bound from below (95 %); no bound
        where nothing varies.
    outcome
        What follows for the tolerance 1.25, over all traits and groups.
    """

    ratios: Mapping[str, float]
    group: str
    largest: float
    lower_bound: float | None
    outcome: str


def ask_alike(model: Any, people: Split, may_matter: Sequence[str]) -> Alike:
    """Audit a model by counterparts alike in the columns that may matter."""
    result = audit(
        model,
        people.test,
        pool=people.train,
        map=Counterparts(may_matter=tuple(may_matter)),
        settings=Settings(checks="core"),
        run=Threads(1),
    )
    found = result.record.counterparts
    assert found is not None
    groups = [g for trait in found.traits for g in trait.groups if not math.isnan(g.estimate)]
    worst = max(groups, key=lambda group: group.estimate)
    return Alike(
        ratios={trait.trait: trait.overall.estimate for trait in found.traits},
        group=worst.group,
        largest=worst.estimate,
        lower_bound=None if math.isnan(worst.lower_bound) else worst.lower_bound,
        outcome=result.outcome,
    )
