"""Group metrics: accuracy, odds and selection rates, by protected trait (Appendix F.5).

They ask another question than the audit (is one *group* treated like another?), and are shown
beside it.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool

from likewise.errors import InvalidSample, InvalidSettings, nearest
from likewise.inference.cells import MISSING, Cell, cells
from likewise.inference.design import Design
from likewise.inference.level import check_alpha
from likewise.inference.outcomes import Outcomes
from likewise.inference.shares import Quantity, Share, combination, ratio

FEW = 30
"""Fewer people than this in a group are flagged."""


@dataclasses.dataclass(frozen=True)
class GroupRates:
    r"""How the model decides about one group, before anybody is moved.

    Parameters
    ----------
    selection_rate
        Share decided for class 1 (the favourable one, say).
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
    outcomes: Outcomes,
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
    if outcomes.about.get("task") == "regression":
        raise InvalidSample("A regression decides nothing, so it has no error or selection rates.")
    check_alpha(alpha)
    design = Design.of(outcomes)
    y, decided = outcomes.y, outcomes.decision_before
    everybody = np.ones(len(outcomes), dtype=bool)
    recalls = [Share.of(decided == c, y == c, design) for c in np.unique(y)]
    by_trait: dict[str, list[Cell]] = {}
    for cell in cells(outcomes, intersections=()):
        by_trait.setdefault(cell.trait, []).append(cell)
    if unknown := [name for name in privileged if name not in by_trait]:
        raise InvalidSettings(
            f"There is no protected trait {unknown[0]!r} (there are: "
            f"{', '.join(by_trait) or 'none'}).{nearest(unknown[0], by_trait)}"
        )
    groups: list[GroupRates] = []
    for trait, members in by_trait.items():
        better = _privileged(members, privileged.get(trait))
        selected = decided == positive
        groups += _rates(members, better, selected, y == positive, design, alpha)
    return GroupMetrics(
        Share.of(decided == y, everybody, design).wilson(alpha),
        combination([1 / len(recalls)] * len(recalls), recalls, alpha),
        tuple(groups),
    )


def _privileged(members: list[Cell], wanted: str | None) -> Cell:
    known = [cell for cell in members if cell.group != MISSING] or members
    if wanted is None:
        return max(known, key=lambda cell: int(cell.rows.sum()))
    names = [cell.group for cell in known]
    if wanted not in names:
        raise InvalidSettings(
            f"{members[0].trait!r} has no level {wanted!r} (it has: {', '.join(names)})."
        )
    return known[names.index(wanted)]


def _rates(
    members: list[Cell],
    better: Cell,
    selected: Bool[np.ndarray, " n"],
    deserving: Bool[np.ndarray, " n"],
    design: Design,
    alpha: float,
) -> Iterator[GroupRates]:
    chosen, hits, alarms = (
        {cell.group: Share.of(selected, cell.rows & who, design) for cell in members}
        for who in (np.ones_like(deserving), deserving, ~deserving)
    )
    known = [cell.group for cell in members if cell.group != MISSING] or [MISSING]
    most = max(known, key=lambda group: chosen[group].value)
    for cell in members:
        own, base = cell.group, better.group
        odds = [hits[own], hits[base], alarms[own], alarms[base]]
        n = int(cell.rows.sum())
        same = Quantity(0.0, 0.0, 0.0, n)
        yield GroupRates(
            trait=cell.trait,
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
