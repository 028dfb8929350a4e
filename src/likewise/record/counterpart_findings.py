"""What a result says about counterparts: who was compared with whom, and what was found."""

import math

from pydantic import Field

from likewise.record.findings import ColumnShareRecord
from likewise.record.json_text import Anything, Count, Hash, Number, Share, Size, Text
from likewise.record.record_parts import GroupRecord, Outcome, Part

ENOUGH = 100
"""People of a group whose ratio can be compared with others'."""


class CounterpartGroup(Part):
    """People of one group, served with what counterparts of other groups bring along.

    ``estimate`` is their loss with the columns of other groups over that with the columns of their
    own group; ``people_error`` and ``pairs_error`` are standard errors due to who was audited and
    to who visited. A ``doubtful`` group cannot be decided at any tolerance.
    """

    trait: Text
    group: Text = ""
    n: Count
    pool: Count = 0
    estimate: Number
    std_error: Size = math.nan
    people_error: Size = math.nan
    pairs_error: Size = math.nan
    interval: tuple[Number, Number] = (math.nan, math.nan)
    lower_bound: Number = math.nan
    upper_bound: Number = math.nan
    certifying_bound: Number = math.nan
    p_value: Share = math.nan
    adjusted_p_value: Share = math.nan
    swap_p_value: Share = math.nan
    swapped_mean: Number = math.nan
    swapped_sd: Size = math.nan
    mean_before: Number = math.nan
    mean_after: Number = math.nan
    effective_pairs: Size = 0.0
    near_estimate: Number = math.nan
    far_share: Share = math.nan
    no_counterpart: Count = 0
    detectable: Number = math.nan
    outcome: Outcome | None = None
    reasons: tuple[Text, ...] = ()
    doubtful: bool = False

    def as_group(self) -> GroupRecord:
        """Return it as groups stand in tables of any audit."""
        lower, upper = self.interval
        return GroupRecord(
            trait=self.trait,
            group=self.group,
            n=self.n,
            estimate=self.estimate,
            std_error=self.std_error,
            lower=max(lower, 0.0),
            upper=upper,
            p_value=self.p_value,
            p_adjusted=self.adjusted_p_value,
            rejected=self.outcome == "evidence_of_unfairness",
            small=self.n < ENOUGH,
        )


class CounterpartCase(Part):
    """Somebody served worse, beside the real pair that visited them, in original columns."""

    trait: Text
    row: Count
    own: Text
    other: Text
    label: Text = ""
    loss: Number
    before: Number
    after: Number
    mean_before: Number
    mean_after: Number
    decision: Text = ""
    decision_before: Text = ""
    decision_after: Text = ""
    probability_before: Share = math.nan
    probability_after: Share = math.nan
    person: dict[Text, Anything] = Field(default_factory=dict)
    own_member: dict[Text, Anything] = Field(default_factory=dict)
    other_member: dict[Text, Anything] = Field(default_factory=dict)


class ColumnLeftOut(Part):
    """The finding about a trait when one column is on the other side: free, or one that matters."""

    trait: Text
    column: Text
    estimate: Number
    largest: Number = math.nan
    group: Text = ""
    p_value: Share
    outcome: Outcome | None = None


class CounterpartTrait(Part):
    """One trait: its pairs, everyone together, and each group."""

    trait: Text
    outcome: Outcome
    pairs: Count
    pair_distance: Size = math.nan
    without_group: Count = 0
    overall: CounterpartGroup
    groups: tuple[CounterpartGroup, ...]
    left_out: tuple[ColumnLeftOut, ...] = ()
    moved_in: tuple[ColumnLeftOut, ...] = ()
    carried: tuple[ColumnShareRecord, ...] = ()

    def carriers(self) -> tuple[ColumnShareRecord, ...]:
        """Return the columns' shares in what is above one, if more than chance is."""
        return self.carried if self.overall.lower_bound > 1 else ()


class CounterpartsRecord(Part):
    """The question that was asked with real people, and its answer."""

    may_matter: tuple[Text, ...]
    free: tuple[Text, ...]
    loss: Text
    favourable: Text = ""
    threshold: Number = math.nan
    m: Count
    caliper: Size
    swaps: Count
    seed: Count
    pool: Text
    pool_size: Count
    pool_given: bool
    pool_sha256: Hash = ""
    in_pool: Count = 0
    columns_left_out: bool = False
    traits: tuple[CounterpartTrait, ...]
    worst: tuple[CounterpartCase, ...] = ()

    def worst_served(self) -> CounterpartGroup:
        """Return the group with the largest ratio, among those whose ratio is more than chance.

        That takes a hundred people; where no group has so many, everyone of a trait counts.
        """
        groups = [group for trait in self.traits for group in trait.groups]
        told = [group for group in groups if group.n >= ENOUGH and math.isfinite(group.estimate)]
        return max(told or [trait.overall for trait in self.traits], key=lambda g: g.estimate)
