"""What the counterpart test finds and concludes, with everything a report needs."""

import dataclasses
from collections.abc import Mapping

from likewise.inference.counterpart_evidence import CounterpartEvidence
from likewise.inference.verdict import Outcome


@dataclasses.dataclass(frozen=True)
class WorstServed:
    """Somebody who was served worse, and the real pair that showed it.

    Parameters
    ----------
    row, own, other
        Row number of the person, and the names of the two groups.
    pair
        Number of the visiting pair; its members are found in the pool by it.
    after, before
        Loss with the columns of the member of the other group, and of the own group.
    mean_after, mean_before
        The person's honest means over visits.
    loss
        With their own columns.
    """

    row: int
    own: str
    other: str
    pair: int
    after: float
    before: float
    mean_after: float
    mean_before: float
    loss: float


@dataclasses.dataclass(frozen=True)
class TraitEvidence:
    """Everything the visits of one trait say.

    Parameters
    ----------
    trait, groups
        The trait; the evidence about each of its groups.
    overall
        About everyone; shown, and does not decide.
    without_group
        People audited whose group is missing, or not in the pool.
    worst
        The people served worst.
    m
        Pairs that visited each person, for each other group.
    unbalanced
        For groups whose pairs differ in what may matter, how.
    """

    trait: str
    groups: tuple[CounterpartEvidence, ...]
    overall: CounterpartEvidence
    without_group: int
    worst: tuple[WorstServed, ...]
    m: int
    unbalanced: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class GroupVerdict:
    """What is concluded about one group of one trait, and why not more.

    ``doubtful``: nothing can be decided about it, at any tolerance, for the first of the reasons.
    """

    trait: str
    evidence: CounterpartEvidence
    outcome: Outcome
    p_value: float
    adjusted_p_value: float
    lower_bound: float
    upper_bound: float
    interval: tuple[float, float]
    worst_upper_bound: float
    capped_upper_bound: float
    reasons: tuple[str, ...]
    doubtful: bool = False


@dataclasses.dataclass(frozen=True)
class CounterpartVerdict:
    """The decision over all traits and groups.

    Parameters
    ----------
    outcome
        Unfair if any group is; within tolerance only if every group is.
    by_trait
        The same for each trait.
    groups
        Every group of every trait.
    """

    outcome: Outcome
    by_trait: Mapping[str, Outcome]
    groups: tuple[GroupVerdict, ...]
    delta: float
    alpha: float
    cap: float
