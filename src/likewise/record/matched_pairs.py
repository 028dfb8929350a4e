"""What a result says about matched pairs: rates, differences, ratios, balance and control."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from likewise.record.json_text import (
    Anything,
    Count,
    Hash,
    Level,
    Number,
    Part,
    Share,
    Size,
    Text,
    Tolerance,
    VerdictName,
)

Interval = tuple[Number, Number]

Reason = Literal[
    "group",  # it has fewer rows or clusters in the pool than folds are made of
    "pattern",  # the attribute goes with L in ways that redrawn attributes do not show
    "pairs",  # too few within the caliper
    "too_few",  # people; or the interval includes a limit, and a larger sample would settle it
    "overlap",  # too few people have close pairs
    "kappa",  # members of a pair differ in what goes with the attribute
    "redraws",  # too few with enough people and pairs
    "degrees",  # of freedom: few people, clusters or comparisons carry the variance
    "limit",  # a difference in units of the target, and no limit given
    "events",  # of an outcome too rare to say that it is inside the band, or to have a ratio
    "matching",  # the interval would include a limit with any number of people: the allowance
    "holm",  # outside the band by itself, but not after correction
]
"""Why a comparison decides nothing."""


class GroupPair(Part):
    """Two groups of an attribute: people of ``group`` beside comparable people of ``other``."""

    attribute: Text
    group: Text
    other: Text


class FoldInfluence(Part):
    """Influence of 20 folds of people, and of pairs, on the two rates of a comparison.

    Two audits of the same people with the same reference sample and seed have the same folds, so
    that the difference of any function of their rates has a standard error that knows what the two
    have in common. ``redrawn`` are the differences with redrawn attributes about their mean.
    """

    own_people: tuple[Number, ...]
    swapped_people: tuple[Number, ...]
    own_pairs: tuple[Number, ...]
    swapped_pairs: tuple[Number, ...]
    redrawn: tuple[Number, ...] = ()


class RateComparison(GroupPair):
    """One comparison of two groups: people of ``group`` with the columns of comparable ``other``.

    Rates are those of ``outcome``, the decision that is tested: with two classes the rarer one.
    For scores and predictions they are means. ``own`` is with the remaining columns of comparable
    people of their own group, ``swapped`` with those of comparable people of the other group,
    corrected by the redrawn attributes (``column`` names both in the rows, uncorrected);
    ``difference`` is swapped − own, ``ratio`` swapped / own.
    Intervals are two-sided at level 1 − alpha and are what the verdict is read from; ``p_by_limit``
    holds p-values at other limits, in increasing order, not adjusted. ``reference_error`` is the
    part of the standard error that is due to the reference sample, which more people do not lower.
    ``people_needed`` of the group (compared or not) and ``pool_needed`` of the reference sample
    would settle an inconclusive comparison; ``pool_rows`` of the latter are of the group (clusters,
    if there are any).
    ``control_p`` is the randomisation p-value of the difference among the redrawn ones.
    ``changed_up`` and ``changed_down`` are the shares of comparisons in which the decision changes
    to the outcome, or from it, between the columns of the two members of a pair. Chance does so
    too: what goes beyond it is the difference.
    """

    measure: Text
    outcome: Text = ""
    column: Text = ""
    verdict: VerdictName
    reason: Reason | Literal[""] = ""
    mirror: bool = False
    own: Number
    swapped: Number
    difference: Number
    difference_interval: Interval = (math.nan, math.nan)
    ratio: Number
    interval: Interval
    p_value: Share = math.nan
    p_adjusted: Share = math.nan
    std_error: Size = math.nan
    degrees: Size = math.nan
    allowance: Size = math.nan
    reference_error: Size = math.nan
    uncorrected: Number = math.nan
    bias: Number = math.nan
    kappa: Number = math.nan
    control: tuple[Number, ...] = ()
    control_p: Share = math.nan
    n: Count
    people: Count
    without_overlap: Count = 0
    clipped: Count = 0
    pairs: Count = 0
    effective_pairs: Size = math.nan
    events: Size = math.nan
    actual: Number = math.nan
    raw_group: Number = math.nan
    raw_other: Number = math.nan
    favourable_own: Number = math.nan
    favourable_swapped: Number = math.nan
    changed_up: Share = math.nan
    changed_down: Share = math.nan
    people_needed: Count | None = None
    pool_needed: Count | None = None
    pool_rows: Count = 0
    p_by_limit: tuple[tuple[Number, Share], ...] = ()
    folds: FoldInfluence | None = None

    @property
    def deviation(self) -> float:
        """How far the ratio is from 1: |log ratio|; nan where nothing could be compared."""
        if self.difference == 0 or math.isnan(self.difference):
            return self.difference
        return abs(math.log(self.ratio)) if 0 < self.ratio < math.inf else math.inf

    @property
    def raw_gap(self) -> float:
        """The difference between the raw rates of the two groups."""
        return self.raw_other - self.raw_group

    @property
    def explained(self) -> float:
        """The part of the raw gap that goes with the columns that may matter."""
        return self.raw_gap - self.difference


class ShownMeasure(GroupPair):
    """A measure that is shown beside the verdict and never decides: error rate, loss, score."""

    measure: Text
    own: Number
    swapped: Number
    difference: Number
    difference_interval: Interval = (math.nan, math.nan)
    ratio: Number = math.nan


class ColumnBalance(GroupPair):
    """The standardised mean difference of one column between two groups, before and after."""

    column: Text
    before: Number
    after: Number


class ChangeHistogram(GroupPair):
    """How each person's rate would change: counts of swapped − own over equal bins from −1 to 1."""

    edges: tuple[Number, ...]
    counts: tuple[Size, ...]


class AttributeUse(Part):
    """A protected column that the model reads: what flipping it alone does to decisions."""

    attribute: Text
    changed: Share
    lower: Share
    upper: Share
    n: Count


class ComparedPerson(GroupPair):
    """A person beside their closest comparable pair, in original columns.

    ``probability`` is the model's for ``outcome`` as the person is; ``own`` and ``swapped`` are the
    means over all comparisons of this person. Members of the pair are the real people whose
    remaining columns were used; ``own_member`` is of the person's group.
    """

    outcome: Text
    row: Count
    label: Text = ""
    decision: Text
    decision_own: Text
    decision_swapped: Text
    probability: Number
    probability_own: Number
    probability_swapped: Number
    own: Number
    swapped: Number
    kept: dict[Text, Anything] = Field(default_factory=dict)
    person: dict[Text, Anything] = Field(default_factory=dict)
    own_member: dict[Text, Anything] = Field(default_factory=dict)
    other_member: dict[Text, Anything] = Field(default_factory=dict)
    own_row: Count = 0
    other_row: Count = 0

    def differing(self) -> list[tuple[str, Any, Any, Any]]:
        """Return the columns in which the pair differs: of the person, and of both members."""
        return [
            (name, value, self.own_member.get(name), self.other_member.get(name))
            for name, value in self.person.items()
            if self.own_member.get(name) != self.other_member.get(name)
        ]


class HiddenFactor(GroupPair):
    """How strong a hidden factor would have to be: the odds ratio at which the finding breaks."""

    gamma: Number
    """Largest tested odds at which the difference is still significant; 1 if it is not at all."""


class MatchedPairsRecord(Part):
    """Matched pairs: what was compared, with whom, and every comparison.

    ``limit`` is the largest acceptable difference of mean predictions, in the target's units; it
    replaces ``delta`` where ``measure`` is ``prediction``.
    """

    may_matter: tuple[Text, ...]
    remaining: tuple[Text, ...]
    favourable: Text = ""
    measure: Text
    threshold: Number = math.nan
    delta: Tolerance
    limit: Number = math.nan
    alpha: Level
    caliper: Size
    neighbours: Count
    redraws: Count
    seed: Count
    pool: Text
    pool_size: Count
    pool_given: bool
    pool_sha256: Hash = ""
    in_pool: Count = 0
    repeated_rows: Count = 0
    comparisons: tuple[RateComparison, ...]
    shown: tuple[ShownMeasure, ...] = ()
    balance: tuple[ColumnBalance, ...] = ()
    changes: tuple[ChangeHistogram, ...] = ()
    reads: tuple[AttributeUse, ...] = ()
    people: tuple[ComparedPerson, ...] = ()
    hidden_factor: tuple[HiddenFactor, ...] = ()
    performance_folds: dict[Text, tuple[Number, ...]] = Field(default_factory=dict)

    @property
    def leading(self) -> RateComparison:
        """The comparison that the sentence is about: evidence first, then the largest deviation.

        Among comparisons that are evidence, the one whose group is disadvantaged comes first.
        """
        return _leading(self.comparisons)

    @property
    def leading_by_attribute(self) -> tuple[RateComparison, ...]:
        """The leading comparison of every attribute."""
        attributes = dict.fromkeys(row.attribute for row in self.comparisons)
        return tuple(
            _leading([row for row in self.comparisons if row.attribute == attribute])
            for attribute in attributes
        )


def _leading(rows: Sequence[RateComparison]) -> RateComparison:
    def rank(row: RateComparison) -> tuple[bool, bool, float]:
        far = row.deviation
        return row.verdict == "evidence", not row.mirror, far if far == far else 0.0

    return max(rows, key=rank)
