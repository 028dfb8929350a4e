"""What the outcomes say beside the verdict: groups, performance, decisions that change.

The audit value of every group has an interval that holds for all groups at once.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np
from typing_extensions import override

from likewise.engine.decide import Judgement
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.engine.variants import DECIDES
from likewise.inference.estimate import Bounds, Estimate, check_alpha, check_delta
from likewise.inference.group_metrics import flip_rates, group_metrics, refusal_rates
from likewise.inference.group_sums import FEW_PEOPLE, GroupSums
from likewise.inference.hall import hall, restored
from likewise.inference.simultaneous import band, holm
from likewise.record import GroupRecord, Measure
from likewise.settings import Settings
from likewise.statistics.group_stats import groups_of
from likewise.statistics.tally import Tally

FEW_ERRORS = 5
MANY = 49.0
"""Degrees of freedom from which on groups share a band."""


@dataclasses.dataclass(frozen=True)
class GroupValue:
    r"""What the audit found in one group.

    Parameters
    ----------
    trait, group, n
        Protected trait (``sex``, or ``sex × race``), its level, and how many people that is.
    estimate, std_error
        Mean loss ratio (ratio of mean losses for a regression) within the group; the error is not
        a number where people are too few.
    lower, upper
        Simultaneous interval; 0 and infinity where nothing is known.
    error_rate_before, error_rate_after, error_ratio
        Shares of wrong decisions, and the ratio of the two.
    error_lower, error_upper
        Interval of that ratio, at :math:`\alpha` over the number of groups.
    p_value, p_adjusted, rejected
        Of "at most ``delta``", alone and by Holm over all groups; and whether that rejects.
    flags
        Why the line should be read with care; none for most groups.
    """

    trait: str
    group: str
    n: int
    estimate: float
    std_error: float
    lower: float
    upper: float
    error_rate_before: float
    error_rate_after: float
    error_ratio: float
    error_lower: float
    error_upper: float
    p_value: float
    p_adjusted: float
    rejected: bool
    flags: tuple[str, ...]

    @property
    def small(self) -> bool:
        """Whether there are too few people or errors to say much."""
        return bool(self.flags)


def by_group(
    tally: Tally,
    *,
    rng: np.random.Generator,
    delta: float = 1.25,
    alpha: float = 0.05,
    interval: Literal["hall", "paper"] = "hall",
    intersections: Sequence[Sequence[str]] | None = None,
    draws: int = 50_000,
) -> tuple[GroupValue, ...]:
    r"""Return the audit value of every level of every protected trait, and of intersections.

    *Intervals* hold for all m groups together with confidence :math:`1 - \alpha`. Groups of 30 or
    more share a sup-t band, which knows that groups of different traits overlap and is narrower
    than Bonferroni's. Its normal limit is not to be had with fewer people; those groups take
    Student's t through Hall's transformation, each at :math:`\alpha/m`, and the band what is left,
    :math:`\alpha m_\text{large}/m`: by Bonferroni's inequality the whole holds. (With 8 to 25
    skewed ratios this covers 3 to 12 points more than a plain t interval.) Upper ends allow for one
    more person, harmed 1.5 times as much as anybody seen: a tail shows in few samples.

    *Decisions* are one-sided p-values with Holm's correction, over all groups. The people whose
    trait is missing are a group like any other.

    Parameters
    ----------
    interval
        ``hall`` corrects for skewness, ``paper`` does not.
    intersections
        Which traits to cross: all pairs unless told otherwise.
    rng, draws
        Randomness of the band.
    """
    check_alpha(alpha)
    check_delta(delta)
    groups = [
        GroupSums.of(tally, group)
        for group in groups_of(tally.groups.cells, tally.frame, intersections)
    ]
    if not groups:
        return ()
    estimates = [own.estimate() for own in groups]
    ends = _intervals(tally, groups, estimates, alpha, interval, rng, draws)
    tests = holm(
        {
            own.group.label: _bounds(estimate, interval).p_value(delta)
            for own, estimate in zip(groups, estimates, strict=True)
        },
        alpha,
    )
    return tuple(
        GroupValue(
            trait=own.group.trait,
            group=own.group.name,
            n=own.n,
            estimate=estimate.value,
            std_error=estimate.std_error,
            lower=lower,
            upper=upper,
            p_value=tests.p_values[own.group.label],
            p_adjusted=tests.adjusted[own.group.label],
            rejected=tests.rejected[own.group.label],
            flags=_flags(own, estimate),
            **_error_rates(own, alpha / len(groups)),
        )
        for own, estimate, (lower, upper) in zip(groups, estimates, ends, strict=True)
    )


def _bounds(estimate: Estimate, interval: str) -> Bounds:
    if interval == "hall" or not estimate.std_error > 0:
        return hall(estimate)
    return estimate


def _intervals(
    tally: Tally,
    groups: Sequence[GroupSums],
    estimates: Sequence[Estimate],
    alpha: float,
    interval: Literal["hall", "paper"],
    rng: np.random.Generator,
    draws: int,
) -> list[tuple[float, float]]:
    each = alpha / len(groups)
    more = [own.with_one_more() if interval == "hall" else None for own in groups]
    ends = []
    for estimate, wider in zip(estimates, more, strict=True):
        lower, upper = _bounds(estimate, interval).interval(each)
        if wider is not None and estimate.std_error > 0:
            wider = dataclasses.replace(wider, degrees=estimate.degrees)
            upper = max(upper, _bounds(wider, interval).interval(each)[1])
        ends.append((lower, upper))
    large = [k for k, e in enumerate(estimates) if e.std_error > 0 and e.degrees >= MANY]
    if not large:
        return ends
    values = np.array([estimates[k].value for k in large])
    if tally.clustered:
        terms = np.stack([groups[k].terms(estimates[k].value) for k in large])
        products = terms @ terms.T
    else:
        members = np.stack([groups[k].group.members for k in large]).astype(np.float64)
        products = tally.groups.crossed_terms(members, values)
    together = band(
        [groups[k].group.label for k in large],
        [estimates[k] for k in large],
        products,
        rng=rng,
        alpha=each * len(large),
        side="both",
        interval=interval,
        draws=draws,
    )
    for k, lower, upper in zip(large, together.lower, together.upper, strict=True):
        wider = more[k]
        if wider is not None:
            t = restored(-together.critical, wider.skewness)
            upper = max(upper, wider.value - wider.std_error * t)
        ends[k] = lower, upper
    return ends


def _error_rates(own: GroupSums, alpha: float) -> dict[str, float]:
    names = ("rate_before", "rate_after", "ratio", "lower", "upper")
    if own.tally.frame.regression:
        return {f"error_{name}": math.nan for name in names}
    _, weights, evidence = own.errors()
    total = float(weights.sum())
    before, after = (float(weights[0] + weights[k]) / total for k in (2, 1))
    lower, upper = 0.0, math.inf
    if evidence is not None and evidence.bounds is not None:
        lower, upper = evidence.bounds.interval(alpha)
    ratio = after / before if before else (math.inf if after else math.nan)
    values = (before, after, ratio, lower, upper)
    return {f"error_{name}": value for name, value in zip(names, values, strict=True)}


def _flags(own: GroupSums, estimate: Estimate) -> tuple[str, ...]:
    flags = []
    if own.n < FEW_PEOPLE:
        flags.append(f"fewer than {FEW_PEOPLE} people")
    if not own.tally.frame.regression and own.errors()[0].before < FEW_ERRORS:
        flags.append(f"fewer than {FEW_ERRORS} errors")
    if math.isnan(estimate.value):
        flags.append("somebody has no finite ratio")
    return tuple(flags)


@final
@dataclasses.dataclass(frozen=True)
class Groups(Check):
    """The audit value of every group, group metrics, and how often decisions change."""

    name: ClassVar[str] = "groups"

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        tally = stats[DECIDES].tally
        return Finding(
            {
                "groups": group_records(tally, plan.settings),
                "measures": measures(tally, plan.settings, plan.classes),
            }
        )


def group_records(tally: Tally, settings: Settings) -> tuple[GroupRecord, ...]:
    """Return the audit value of every group, with simultaneous intervals."""
    if not tally.frame.traits:
        return ()
    found = by_group(
        tally,
        rng=np.random.default_rng([settings.seed, 1]),
        delta=settings.delta,
        alpha=settings.alpha,
        interval="paper" if settings.decide.interval == "paper" else "hall",
    )
    names = GroupRecord.model_fields.keys() - {"small", "lower"}
    return tuple(
        GroupRecord(
            small=value.small,
            lower=max(value.lower, 0.0),
            **{name: getattr(value, name) for name in names},
        )
        for value in found
    )


def measures(tally: Tally, settings: Settings, classes: Sequence[Any] = ()) -> tuple[Measure, ...]:
    """Return performance, group metrics and flip rates, with intervals.

    Selection and impact are of the favourable decision, if it is known; then how often it is
    refused is said, too, before and after the move. Nothing is tested by that: there is no
    yardstick, for people are moved to where they are served worst.
    """
    if tally.frame.regression:
        return ()
    favourable, alpha = settings.decide.favourable, settings.alpha
    place = 1 if favourable is None else [str(name) for name in classes].index(favourable)
    flips = flip_rates(tally, alpha)
    named = [*group_metrics(tally, alpha=alpha, positive=place).items()]
    if favourable is not None:
        before, after = refusal_rates(tally, place, alpha)
        named += [("refused_before", "", before), ("refused_after", "", after)]
    named += [
        (f"decisions_{name}", "", getattr(flips, name))
        for name in ("changed", "newly_wrong", "newly_right")
    ]
    return tuple(
        Measure(name=name, group=group, value=q.value, lower=q.lower, upper=q.upper, n=q.n)
        for name, group, q in named
    )
