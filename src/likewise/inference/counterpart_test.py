"""Decides whether people are served worse with what counterparts of another group bring along."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Int

from likewise.errors import InvalidSettings
from likewise.inference.counterpart_evidence import CounterpartEvidence, counterpart_evidence
from likewise.inference.counterpart_verdict import (
    CounterpartVerdict,
    GroupVerdict,
    TraitEvidence,
    WorstServed,
)
from likewise.inference.estimate import check_alpha, check_delta
from likewise.inference.simultaneous import holm
from likewise.inference.verdict import Outcome
from likewise.statistics.donors import Donors

LEAST_PAIRS = 30
"""Effective pairs below which nothing is decided: the standard error is not reliable."""

LEAST_PEOPLE = 100
"""People below which nothing is certified."""

POOL_FACTOR = 10
"""A group is decided if the pool has this many times m of its people."""


@final
@dataclasses.dataclass(frozen=True)
class CounterpartTest:
    r"""Tests :math:`E S \le \delta` for every group of every trait.

    Evidence of unfairness: the larger of two p-values, that of S against ``delta`` and that of
    the swap test, is at most ``alpha`` after Holm's correction over traits and groups, the
    estimates of all people and of the near ones lie on the same side of ``delta``, and the members
    of pairs do not differ on average in what may matter. Within
    tolerance: for every group the upper bounds of the pessimistic ratio and of the capped one are
    at most ``delta``, there are enough people, and no column that may matter carries the finding.

    Parameters
    ----------
    delta, alpha
        The tolerance, and how often a group at it may be accused.
    cap
        Largest ratio that one person can add when certifying.
    most
        How many of the worst served are kept.
    """

    delta: float = 1.25
    alpha: float = 0.05
    cap: float = 10.0
    most: int = 10

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_alpha(self.alpha, most=0.5)
        if not self.cap > self.delta:
            raise InvalidSettings(f"cap must exceed delta (got {self.cap:g}, {self.delta:g}).")

    def evidence(
        self,
        donors: Donors,
        trait: str,
        groups: Sequence[str],
        pool_sizes: Sequence[int],
        pair_cluster: Int[np.ndarray, "q 2"] | None = None,
    ) -> TraitEvidence:
        """Read the evidence about one trait from sums over people.

        Parameters
        ----------
        donors
            Sums over all people.
        trait, groups, pool_sizes
            The trait, its groups, and how many of the pool are in each.
        pair_cluster
            The clusters of the two members of each pair, if the pool has clusters.
        """
        return TraitEvidence(
            trait=trait,
            groups=tuple(
                counterpart_evidence(donors.of_group(g), name, size, self.cap, pair_cluster)
                for g, (name, size) in enumerate(zip(groups, pool_sizes, strict=True))
            ),
            overall=counterpart_evidence(donors, None, sum(pool_sizes), self.cap, pair_cluster),
            without_group=int((~donors.grouped).sum()),
            worst=_worst(donors, groups, self.most),
            m=donors.design.m,
        )

    def decide(
        self,
        evidence: Sequence[TraitEvidence],
        without_column: Mapping[str, Mapping[str, float]] | None = None,
    ) -> CounterpartVerdict:
        """Conclude about all traits together.

        Parameters
        ----------
        evidence
            One entry a trait.
        without_column
            For each trait and each column that may matter, the smallest p-value over groups when
            that column is free instead (`smallest_p_value`); ``None`` if this was not tried, and
            then nothing is certified.
        """
        tests = {
            f"{one.trait}\0{group.group}": group.p_value(self.delta)
            if group.effective_pairs >= LEAST_PAIRS
            else 1.0
            for one in evidence
            for group in one.groups
            if group.n and _enough_pool(group, one.m)
        }
        adjusted = holm(tests, self.alpha).adjusted if tests else {}
        verdicts = [
            self._group(
                one, group, adjusted.get(f"{one.trait}\0{group.group}", 1.0), without_column
            )
            for one in evidence
            for group in one.groups
        ]
        by_trait = {
            one.trait: _together([v.outcome for v in verdicts if v.trait == one.trait])
            for one in evidence
        }
        return CounterpartVerdict(
            outcome=_together(list(by_trait.values())),
            by_trait=by_trait,
            groups=tuple(verdicts),
            delta=self.delta,
            alpha=self.alpha,
            cap=self.cap,
        )

    def smallest_p_value(self, evidence: TraitEvidence) -> float:
        """Return the smallest p-value over the groups of a trait, for leaving out a column."""
        decided = (
            group.p_value(self.delta)
            for group in evidence.groups
            if group.effective_pairs >= LEAST_PAIRS and _enough_pool(group, evidence.m)
        )
        return min(decided, default=1.0)

    def _group(
        self,
        one: TraitEvidence,
        group: CounterpartEvidence,
        adjusted: float,
        without_column: Mapping[str, Mapping[str, float]] | None,
    ) -> GroupVerdict:
        doubts = list(_doubts(group, one.m))
        sides = {group.estimate > self.delta, group.near_estimate > self.delta}
        if group.far_share > 0 and not math.isnan(group.near_estimate) and len(sides) == 2:
            doubts.append(
                f"people whose counterparts are near give {group.near_estimate:.3g}, all people "
                f"{group.estimate:.3g}: on two sides of {self.delta:g}"
            )
        if not group.unchanged and (how := one.unbalanced.get(group.group or "")):
            doubts.append(how)
        upper = group.bounds.upper_bound(self.alpha)
        worst_upper = group.worst_bounds.upper_bound(self.alpha)
        capped_upper = group.capped_bounds.upper_bound(self.alpha)
        if group.unchanged and group.n:  # all there is to fear is harm too rare to be seen
            rare = 1 + math.log(1 / self.alpha) * (self.cap - 1) / group.clusters
            upper = worst_upper = capped_upper = rare
        outcome: Outcome = "inconclusive"
        reasons = doubts
        if not doubts and adjusted <= self.alpha:
            outcome = "evidence_of_unfairness"
        elif not doubts:
            reasons = list(
                self._obstacles(one.trait, group, worst_upper, capped_upper, without_column)
            )
            outcome = "inconclusive" if reasons else "within_tolerance"
        return GroupVerdict(
            trait=one.trait,
            evidence=group,
            outcome=outcome,
            p_value=group.p_value(self.delta),
            adjusted_p_value=adjusted,
            lower_bound=group.bounds.lower_bound(self.alpha),
            upper_bound=upper,
            interval=group.bounds.interval(self.alpha),
            worst_upper_bound=worst_upper,
            capped_upper_bound=capped_upper,
            reasons=tuple(reasons),
            doubtful=bool(doubts),
        )

    def _obstacles(
        self,
        trait: str,
        group: CounterpartEvidence,
        worst_upper: float,
        capped_upper: float,
        without_column: Mapping[str, Mapping[str, float]] | None,
    ) -> list[str]:
        """Say what stands in the way of certifying a group."""
        needed = max(
            LEAST_PEOPLE,
            math.ceil(math.log(1 / self.alpha) * (self.cap - 1) / (self.delta - 1))
            if self.delta > 1
            else math.inf,
        )
        found = []
        if max(worst_upper, capped_upper) > self.delta:
            most = max(worst_upper, capped_upper)
            digits = next((d for d in range(3, 9) if float(f"{most:.{d}g}") > self.delta), 9)
            found.append(f"the ratio may be as large as {most:.{digits}g}, above {self.delta:g}")
        if group.clusters < needed:
            found.append(f"{group.clusters} independent people are fewer than the {needed} needed")
        if group.no_counterpart:
            found.append(f"{group.no_counterpart} people have no counterpart")
        if without_column is None:
            found.append("the finding was not tried without each column that may matter")
        else:
            found += [
                f"without {column!r} among the columns that may matter, the model is accused "
                f"(p = {p:.2g})"
                for column, p in without_column.get(trait, {}).items()
                if p <= self.alpha
            ]
        return found


def _enough_pool(group: CounterpartEvidence, m: int) -> bool:
    return group.pool_size >= POOL_FACTOR * m


def _doubts(group: CounterpartEvidence, m: int) -> list[str]:
    """Say why nothing can be decided about a group, if so."""
    if not group.n:
        return ["nobody of this group was audited"]
    if group.no_counterpart == group.n:
        return [
            f"with {group.pool_size} people of this group the pool has too few pairs for {m} "
            "visits, so nobody has a counterpart: take a larger pool, or name fewer columns"
        ]
    if not _enough_pool(group, m):
        return [
            f"the pool has {group.pool_size} people of this group, and {POOL_FACTOR * m} are "
            "needed: take a larger pool"
        ]
    if group.unchanged and group.no_counterpart == 0:
        return []
    if math.isnan(group.estimate):
        return ["there is no loss to compare with"]
    if group.effective_pairs < LEAST_PAIRS:
        return [
            f"the visits rest on {group.effective_pairs:.1f} pairs' worth of evidence, and "
            f"{LEAST_PAIRS} are needed: take a larger pool"
        ]
    return []


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    if "evidence_of_unfairness" in outcomes:
        return "evidence_of_unfairness"
    certified = bool(outcomes) and all(outcome == "within_tolerance" for outcome in outcomes)
    return "within_tolerance" if certified else "inconclusive"


def _worst(donors: Donors, groups: Sequence[str], most: int) -> tuple[WorstServed, ...]:
    """Return the visited people with the largest honest difference, ties by row number."""
    person = donors.person
    gap = person["after"] - person["before"]
    visited = [i for i in range(len(gap)) if person["visited"][i]]
    chosen = sorted(visited, key=lambda i: (-gap[i], person["row"][i]))[:most]
    return tuple(
        WorstServed(
            row=int(person["row"][i]),
            own=groups[person["own"][i]],
            other=groups[person["other"][i]],
            pair=int(person["pair"][i]),
            after=float(person["pair_after"][i]),
            before=float(person["pair_before"][i]),
            mean_after=float(person["after"][i]),
            mean_before=float(person["before"][i]),
            loss=float(person["loss"][i]),
        )
        for i in chosen
    )
