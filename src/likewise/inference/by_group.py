"""The audit value of every group of people, with intervals that hold for all groups at once."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from likewise.inference.cells import Cell, cells
from likewise.inference.design import Design
from likewise.inference.estimate import Bounds, Estimate
from likewise.inference.hall import hall
from likewise.inference.level import check_alpha, check_delta
from likewise.inference.many import after_and_before, audit_value, band, holm
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_tests import ErrorRateRatioTest

FEW_PEOPLE = 30
FEW_ERRORS = 5


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
    outcomes: Outcomes,
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
    skewed ratios this covers 3 to 12 points more than a plain t interval.)

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
    groups = cells(outcomes, intersections)
    if not groups:
        return ()
    bare = dataclasses.replace(outcomes, groups={}, horizons={})
    members = [bare.take(cell.rows) for cell in groups]
    estimates = [_estimate(own) for own in members]
    ends = _intervals(outcomes, groups, estimates, alpha, interval, rng, draws)
    tests = holm(
        {
            cell.name: _bounds(estimate, interval).p_value(delta)
            for cell, estimate in zip(groups, estimates, strict=True)
        },
        alpha,
    )
    return tuple(
        GroupValue(
            trait=cell.trait,
            group=cell.group,
            n=len(own),
            estimate=estimate.value,
            std_error=estimate.std_error,
            lower=lower,
            upper=upper,
            p_value=tests.p_values[cell.name],
            p_adjusted=tests.adjusted[cell.name],
            rejected=tests.rejected[cell.name],
            flags=_flags(own, estimate),
            **_error_rates(own, alpha / len(groups)),
        )
        for cell, own, estimate, (lower, upper) in zip(
            groups, members, estimates, ends, strict=True
        )
    )


def _estimate(own: Outcomes) -> Estimate:
    units = _units(own)
    if units < 2:
        after, before = after_and_before(own)
        weight = np.ones(len(own)) if own.weight is None else own.weight
        base = float(weight @ before)
        return Estimate(float(weight @ after) / base if base else math.nan, math.nan, len(own))
    estimate, _ = audit_value(own, Design.of(own))
    degrees = min(estimate.degrees, units - 1.0 if units < FEW_PEOPLE else math.inf)
    return dataclasses.replace(estimate, degrees=degrees)


def _units(own: Outcomes) -> int:
    return len(own) if own.cluster is None else len(set(own.cluster.tolist()))


def _bounds(estimate: Estimate, interval: str) -> Bounds:
    if interval == "hall" or not estimate.std_error > 0:
        return hall(estimate)
    return estimate


def _intervals(
    outcomes: Outcomes,
    groups: Sequence[Cell],
    estimates: Sequence[Estimate],
    alpha: float,
    interval: Literal["hall", "paper"],
    rng: np.random.Generator,
    draws: int,
) -> list[tuple[float, float]]:
    each = alpha / len(groups)
    ends = [_bounds(estimate, interval).interval(each) for estimate in estimates]
    large = [k for k, e in enumerate(estimates) if e.std_error > 0 and math.isinf(e.degrees)]
    if not large:
        return ends
    design = Design.of(outcomes)
    after, before = after_and_before(outcomes)
    terms = [
        design.totals(np.where(groups[k].rows, after - estimates[k].value * before, 0.0))
        for k in large
    ]
    together = band(
        [groups[k].name for k in large],
        [estimates[k] for k in large],
        np.stack(terms, axis=1),
        rng=rng,
        alpha=each * len(large),
        side="both",
        interval=interval,
        draws=draws,
    )
    for k, lower, upper in zip(large, together.lower, together.upper, strict=True):
        ends[k] = lower, upper
    return ends


def _error_rates(own: Outcomes, alpha: float) -> dict[str, float]:
    names = ("rate_before", "rate_after", "ratio", "lower", "upper")
    if own.about.get("task") == "regression":
        return {f"error_{name}": math.nan for name in names}
    before, after = (
        float(np.average(wrong, weights=own.weight))
        for wrong in (own.error_before, own.error_after)
    )
    lower, upper = 0.0, math.inf
    bounds = ErrorRateRatioTest().evidence(own).bounds if _units(own) > 1 else None
    if bounds is not None:
        lower, upper = bounds.interval(alpha)
    ratio = after / before if before else (math.inf if after else math.nan)
    values = (before, after, ratio, lower, upper)
    return {f"error_{name}": value for name, value in zip(names, values, strict=True)}


def _flags(own: Outcomes, estimate: Estimate) -> tuple[str, ...]:
    flags = []
    if len(own) < FEW_PEOPLE:
        flags.append(f"fewer than {FEW_PEOPLE} people")
    if own.about.get("task") != "regression" and int(own.error_before.sum()) < FEW_ERRORS:
        flags.append(f"fewer than {FEW_ERRORS} errors")
    if math.isnan(estimate.value):
        flags.append("somebody has no finite ratio")
    return tuple(flags)
