"""Group metrics: accuracy, odds and selection rates, by protected trait (Appendix F.5).

They ask another question than the audit (is one *group* treated like another?), and are shown
beside it.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.errors import InvalidSample, InvalidSettings, nearest
from likewise.inference.estimate import check_alpha
from likewise.inference.shares import Quantity, Share, combination, ratio
from likewise.statistics.frame import MISSING
from likewise.statistics.group_stats import Group, cell_of, decisions_of, groups_of
from likewise.statistics.tally import Tally

FEW = 30
"""Fewer people than this in a group are flagged."""


@dataclasses.dataclass(frozen=True)
class GroupRates:
    r"""How the model decides about one group, before anybody is moved.

    Parameters
    ----------
    selection_rate
        Share decided for one class: the favourable one, or else class 1.
    impact_ratio
        Selection rate over that of ``most_selected``, the group with the highest one
        (29 CFR 1607.4(D) flags less than four fifths). That group is picked by looking, and the
        interval takes it as given.
    true_positive_rate, false_positive_rate
        :math:`P(\hat Y = 1 | Y = 1)` and :math:`P(\hat Y = 1 | Y = 0)`.
    average_odds_difference
        Mean of the differences of the two rates, this group minus ``privileged``: negative if
        this group is selected less often than its like.
    small
        Whether the group has fewer than 30 people.
    """

    trait: str
    group: str
    n: int
    selection_rate: Quantity
    impact_ratio: Quantity
    true_positive_rate: Quantity
    false_positive_rate: Quantity
    average_odds_difference: Quantity
    most_selected: str
    privileged: str
    small: bool


@dataclasses.dataclass(frozen=True)
class GroupMetrics:
    r"""Performance of the model, and how it decides about each group.

    Parameters
    ----------
    accuracy
        Share of right decisions.
    balanced_accuracy
        :math:`\frac{1}{|C|} \sum_c P(\hat Y = c | Y = c)` over the classes that occur.
    groups
        One entry for each level of each trait, those with a missing trait included.
    """

    accuracy: Quantity
    balanced_accuracy: Quantity
    groups: tuple[GroupRates, ...]

    def items(self) -> Iterator[tuple[str, str, Quantity]]:
        """Yield name, group and value of every measure, for a table."""
        yield "accuracy", "", self.accuracy
        yield "balanced_accuracy", "", self.balanced_accuracy
        for rates in self.groups:
            group = f"{rates.trait}: {rates.group}"
            for field in dataclasses.fields(rates):
                value = getattr(rates, field.name)
                if isinstance(value, Quantity):
                    yield field.name, group, value


def group_metrics(
    tally: Tally,
    *,
    alpha: float = 0.05,
    positive: int = 1,
    privileged: Mapping[str, str] = MappingProxyType({}),
) -> GroupMetrics:
    """Return accuracy, selection rates, odds and impact ratios, with intervals.

    Intervals are Wilson's, and Newcombe's for what is made of several rates; they hold one at a
    time. With weights, rates are Hájek's.

    Parameters
    ----------
    positive
        The class that people are selected for, as its index; others count as its opposite.
    privileged
        For each trait, the level that others are compared with; the largest group unless told.
    """
    check_alpha(alpha)
    table = _Decisions.of(tally)
    recalls = [table.share(table.before == c, table.y == c) for c in np.unique(table.y)]
    by_trait: dict[str, list[Group]] = {}
    for group in groups_of(cell_of(table.kind, tally.frame), tally.frame, intersections=()):
        by_trait.setdefault(group.trait, []).append(group)
    if unknown := [name for name in privileged if name not in by_trait]:
        raise InvalidSettings(
            f"There is no protected trait {unknown[0]!r} (there are: "
            f"{', '.join(by_trait) or 'none'}).{nearest(unknown[0], by_trait)}"
        )
    groups: list[GroupRates] = []
    for trait, members in by_trait.items():
        better = _privileged(members, table, privileged.get(trait))
        groups += _rates(members, better, positive, table, alpha)
    return GroupMetrics(
        table.share(table.before == table.y, table.everybody).wilson(alpha),
        combination([1 / len(recalls)] * len(recalls), recalls, alpha),
        tuple(groups),
    )


@dataclasses.dataclass(frozen=True)
class FlipRates:
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


def flip_rates(tally: Tally, alpha: float = 0.05) -> FlipRates:
    """Return how often decisions change under the unfair map, with Clopper--Pearson intervals.

    With weights or clusters the intervals are Korn and Graubard's. Among more than two classes a
    wrong decision may change and stay wrong, so the three shares need not add up.
    """
    check_alpha(alpha)
    table = _Decisions.of(tally)
    before, after = table.before != table.y, table.after != table.y
    changed, newly_wrong, newly_right = (
        table.share(hit, table.everybody).clopper_pearson(alpha)
        for hit in (table.before != table.after, ~before & after, before & ~after)
    )
    return FlipRates(changed, newly_wrong, newly_right)


def refusal_rates(tally: Tally, favourable: int, alpha: float = 0.05) -> tuple[Quantity, Quantity]:
    """Return how often the favourable decision is refused, before the unfair map and after it."""
    check_alpha(alpha)
    table = _Decisions.of(tally)
    before, after = (
        table.share(decision != favourable, table.everybody).wilson(alpha)
        for decision in (table.before, table.after)
    )
    return before, after


@dataclasses.dataclass(frozen=True)
class _Decisions:
    """How many people have each combination of groups, label and decisions (in each cluster)."""

    tally: Tally
    kind: Int[np.ndarray, " k"]
    count: Float[np.ndarray, " k"]
    y: Int[np.ndarray, " k"]
    before: Int[np.ndarray, " k"]
    after: Int[np.ndarray, " k"]

    @classmethod
    def of(cls, tally: Tally) -> "_Decisions":
        if tally.frame.regression:
            raise InvalidSample("A regression decides nothing: it has no error or selection rates.")
        kind, count = tally.groups.kinds, tally.groups.decisions[:, 0]
        if tally.clustered:
            kind, count = tally.clusters.table.kind, tally.clusters.table.sums[:, 0]
        return cls(tally, kind, count, *decisions_of(kind, tally.frame))

    @property
    def everybody(self) -> Bool[np.ndarray, " k"]:
        return np.ones(len(self.kind), dtype=bool)

    def share(self, hit: Bool[np.ndarray, " k"], among: Bool[np.ndarray, " k"]) -> Share:
        """Return the share of those ``among`` all people for whom ``hit`` holds."""
        if self.tally.clustered:
            totals = self.tally.clusters.totals
            n = int(self.count[among].sum())
            hits, weights = totals("weight", hit & among), totals("weight", among)
            return Share.of_units(hits, weights, n, clustered=True)
        sums = self.tally.groups.decisions
        return Share.of_people(
            sums[hit & among].sum(axis=0),
            sums[among].sum(axis=0),
            weighted=self.tally.frame.weighted,
        )


def _privileged(members: list[Group], table: _Decisions, wanted: str | None) -> Group:
    known = [group for group in members if group.name != MISSING] or members
    if wanted is None:
        return max(known, key=lambda group: int(table.count[group.members].sum()))
    names = [group.name for group in known]
    if wanted not in names:
        raise InvalidSettings(
            f"{members[0].trait!r} has no level {wanted!r} (it has: {', '.join(names)})."
        )
    return known[names.index(wanted)]


def _rates(
    members: list[Group], better: Group, positive: int, table: _Decisions, alpha: float
) -> Iterator[GroupRates]:
    selected, deserving = table.before == positive, table.y == positive
    chosen, hits, alarms = (
        {group.name: table.share(selected, group.members & who) for group in members}
        for who in (table.everybody, deserving, ~deserving)
    )
    known = [group.name for group in members if group.name != MISSING] or [MISSING]
    most = max(known, key=lambda group: chosen[group].value)
    for group in members:
        own, base = group.name, better.name
        odds = [hits[own], hits[base], alarms[own], alarms[base]]
        n = int(table.count[group.members].sum())
        same = Quantity(0.0, 0.0, 0.0, n)
        yield GroupRates(
            trait=group.trait,
            group=own,
            n=n,
            selection_rate=chosen[own].wilson(alpha),
            impact_ratio=(
                Quantity(1.0, 1.0, 1.0, n)
                if own == most
                else dataclasses.replace(ratio(chosen[own], chosen[most], alpha), n=n)
            ),
            true_positive_rate=hits[own].wilson(alpha),
            false_positive_rate=alarms[own].wilson(alpha),
            average_odds_difference=(
                same
                if own == base
                else dataclasses.replace(combination([0.5, -0.5, 0.5, -0.5], odds, alpha), n=n)
            ),
            most_selected=most,
            privileged=base,
            small=n < FEW,
        )
