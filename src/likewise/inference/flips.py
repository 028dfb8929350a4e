"""Decision flips: whose decision changes though they are alike."""

import dataclasses

import numpy as np

from likewise.errors import InvalidSample
from likewise.inference.design import Design
from likewise.inference.level import check_alpha
from likewise.inference.outcomes import Outcomes
from likewise.inference.shares import Quantity, Share


@dataclasses.dataclass(frozen=True)
class Flips:
    """How often the worst similar person is decided differently.

    Parameters
    ----------
    changed
        Share of people whose decision changes at all.
    newly_wrong, newly_right
        Shares (of all people) whose right decision turns wrong, and the reverse.
    """

    changed: Quantity
    newly_wrong: Quantity
    newly_right: Quantity


def flip_rates(outcomes: Outcomes, alpha: float = 0.05) -> Flips:
    """Return how often decisions change under the unfair map, with Clopper--Pearson intervals.

    With weights or clusters the intervals are Korn and Graubard's. Among more than two classes a
    wrong decision may change and stay wrong, so the three shares need not add up.
    """
    if outcomes.about.get("task") == "regression":
        raise InvalidSample("A regression decides nothing, so no decision of it can flip.")
    check_alpha(alpha)
    design = Design.of(outcomes)
    everybody = np.ones(len(outcomes), dtype=bool)
    before, after = outcomes.error_before, outcomes.error_after
    changed, newly_wrong, newly_right = (
        Share.of(hit, everybody, design).clopper_pearson(alpha)
        for hit in (
            outcomes.decision_before != outcomes.decision_after,
            ~before & after,
            before & ~after,
        )
    )
    return Flips(changed, newly_wrong, newly_right)
