"""Audit values by group, accuracy, odds and flips, from sums: what rows would give, exactly."""

import dataclasses
import math

import numpy as np
from jaxtyping import Bool

from likewise.inference.by_group import FEW_ERRORS, FEW_PEOPLE
from likewise.inference.cells import MISSING
from likewise.inference.estimate import Bounds, Estimate
from likewise.inference.estimators import error_and_skewness
from likewise.inference.hall import Hall
from likewise.inference.many import band, holm
from likewise.inference.moments import RatioMoments
from likewise.inference.ratio_of_sums import UnitSums
from likewise.inference.shares import Quantity, Share, combination, ratio
from likewise.record import GroupRecord, Measure
from likewise.scale.group_tally import DecisionTable, GroupTally
from likewise.settings import Settings

DRAWS = 50_000
RANDOM_STREAM = 1
"""The same stream of random numbers as for rows; only their use is a hair different."""


def group_records(tally: GroupTally, settings: Settings) -> tuple[GroupRecord, ...]:
    """Return what `likewise.inference.by_group` would, for everyone together.

    Estimates, standard errors and p-values agree to 1e-12. The ends of the joint intervals come
    from simulated quantiles and agree to their simulation error, about 0.5 % of the width.
    """
    cells = tally.cells(crossed=True)
    if not tally.names:
        return ()
    hall = settings.decide.interval != "paper"
    fares = [tally.fares(members) for _, _, members in cells]
    estimates = [_estimate(fare, lost) for fare, lost in fares]
    ends = _intervals(tally, [m for _, _, m in cells], estimates, settings, hall)
    names = [f"{trait}: {group}" for trait, group, _ in cells]
    tests = holm(
        {
            name: _bounds(e, hall).p_value(settings.delta) if e.std_error > 0 else 1.0
            for name, e in zip(names, estimates, strict=True)
        },
        settings.alpha,
    )
    errors = _errors(tally) if not tally.regression else {}
    records = []
    for name, (trait, group, _), estimate, (lower, upper) in zip(
        names, cells, estimates, ends, strict=True
    ):
        before, after, wrong = errors.get(name, (math.nan, math.nan, math.inf))
        small = estimate.n < FEW_PEOPLE or wrong < FEW_ERRORS or math.isnan(estimate.value)
        records.append(
            GroupRecord(
                trait=trait,
                group=group,
                n=estimate.n,
                estimate=estimate.value,
                std_error=estimate.std_error,
                lower=lower,
                upper=upper,
                error_rate_before=before,
                error_rate_after=after,
                p_value=tests.p_values[name],
                p_adjusted=tests.adjusted[name],
                rejected=tests.rejected[name],
                small=small,
            )
        )
    return tuple(records)


def _estimate(fare: RatioMoments | UnitSums, lost: int) -> Estimate:
    n = fare.n if isinstance(fare, RatioMoments) else fare.units
    if lost:
        return Estimate(math.nan, math.nan, n)
    if n < 2:
        value = fare.plain.mean if isinstance(fare, RatioMoments) else fare.ratio
        return Estimate(value, math.nan, n)
    estimate = fare.estimate() if isinstance(fare, RatioMoments) else _of_losses(fare)
    degrees = n - 1.0 if n < FEW_PEOPLE else math.inf
    return dataclasses.replace(estimate, degrees=degrees)


def _of_losses(fare: UnitSums) -> Estimate:
    before = float(fare.sums[0, 1])
    if not before > 0:
        return Estimate(math.nan, math.nan, fare.units)
    _, squares, cubes = fare.moments(fare.ratio)
    scale = fare.units / before
    std_error, skewness = error_and_skewness(fare.units, squares * scale**2, cubes * scale**3)
    return Estimate(fare.ratio, std_error, fare.units, skewness)


def _bounds(estimate: Estimate, hall: bool) -> Bounds:
    return Hall(estimate) if hall else estimate


def _intervals(
    tally: GroupTally,
    members: list[Bool[np.ndarray, " m"]],
    estimates: list[Estimate],
    settings: Settings,
    hall: bool,
) -> list[tuple[float, float]]:
    each = settings.alpha / len(estimates)
    ends = [
        _bounds(e, hall).interval(each) if e.std_error > 0 else (0.0, math.inf) for e in estimates
    ]
    large = [k for k, e in enumerate(estimates) if e.std_error > 0 and math.isinf(e.degrees)]
    if not large:
        return ends
    products = tally.crossed_terms([members[k] for k in large], [estimates[k].value for k in large])
    values, vectors = np.linalg.eigh(products)
    together = band(
        list(range(len(large))),
        [estimates[k] for k in large],
        # Any columns with these products have these correlations, which is all that counts.
        np.sqrt(np.maximum(values, 0))[:, None] * vectors.T,
        rng=np.random.default_rng([settings.seed, RANDOM_STREAM]),
        alpha=each * len(large),
        side="both",
        interval="hall" if hall else "paper",
        draws=DRAWS,
    )
    for k, lower, upper in zip(large, together.lower, together.upper, strict=True):
        ends[k] = lower, upper
    return ends


def _errors(tally: GroupTally) -> dict[str, tuple[float, float, float]]:
    """Return error rates before and after, and the number of errors before, by group."""
    table = tally.table()
    wrong_before, wrong_after = table.before != table.y, table.after != table.y
    found = {}
    for trait, group, members in table.crossed:
        weight = table.sums[members, 1].sum()
        before, after = (
            table.sums[members & wrong].sum(axis=0) for wrong in (wrong_before, wrong_after)
        )
        found[f"{trait}: {group}"] = (
            float(before[1] / weight),
            float(after[1] / weight),
            float(before[0]),
        )
    return found


def measure_records(tally: GroupTally, alpha: float) -> tuple[Measure, ...]:
    """Return accuracy, odds, selection rates and flips of everyone, with their intervals.

    What `likewise.inference.group` and `likewise.inference.flips` give for rows, class 1 counting
    as selected.
    """
    if tally.regression:
        return ()
    table = tally.table()
    everybody = np.ones(len(table.y), dtype=bool)
    recalls = [_share(table, table.before == c, table.y == c) for c in np.unique(table.y)]
    recalls = _disjoint(recalls)
    named = [
        ("accuracy", "", _share(table, table.before == table.y, everybody).wilson(alpha)),
        (
            "balanced_accuracy",
            "",
            combination([1 / len(recalls)] * len(recalls), recalls, alpha),
        ),
    ]
    for trait in dict.fromkeys(trait for trait, _, _ in table.groups):
        named += _rates(table, trait, alpha)
    wrong_before, wrong_after = table.before != table.y, table.after != table.y
    for name, hit in (
        ("changed", table.before != table.after),
        ("newly_wrong", ~wrong_before & wrong_after),
        ("newly_right", wrong_before & ~wrong_after),
    ):
        named.append(
            (f"decisions_{name}", "", _share(table, hit, everybody).clopper_pearson(alpha))
        )
    return tuple(
        Measure(name=name, group=group, value=q.value, lower=q.lower, upper=q.upper, n=q.n)
        for name, group, q in named
    )


def _rates(table: DecisionTable, trait: str, alpha: float) -> list[tuple[str, str, Quantity]]:
    members = {group: own for name, group, own in table.groups if name == trait}
    known = [group for group in members if group != MISSING] or list(members)
    size = {group: int(table.sums[own, 0].sum()) for group, own in members.items()}
    base = max(known, key=lambda group: size[group])
    selected, deserving = table.before == 1, table.y == 1
    chosen, hits, alarms = (
        {group: _share(table, selected, own & who) for group, own in members.items()}
        for who in (np.ones_like(deserving), deserving, ~deserving)
    )
    most = max(known, key=lambda group: chosen[group].value)
    found: list[tuple[str, str, Quantity]] = []
    for own, n in size.items():
        odds = _disjoint([hits[own], hits[base], alarms[own], alarms[base]])
        top, bottom = _disjoint([chosen[own], chosen[most]])
        impact = ratio(top, bottom, alpha)
        quantities = {
            "selection_rate": chosen[own].wilson(alpha),
            "impact_ratio": Quantity(1.0, 1.0, 1.0, n)
            if own == most
            else dataclasses.replace(impact, n=n),
            "true_positive_rate": hits[own].wilson(alpha),
            "false_positive_rate": alarms[own].wilson(alpha),
            "average_odds_difference": Quantity(0.0, 0.0, 0.0, n)
            if own == base
            else dataclasses.replace(combination([0.5, -0.5, 0.5, -0.5], odds, alpha), n=n),
        }
        found += [(name, f"{trait}: {own}", value) for name, value in quantities.items()]
    return found


def _share(
    table: DecisionTable, hit: Bool[np.ndarray, " m"], among: Bool[np.ndarray, " m"]
) -> Share:
    n, weight, squared, _ = table.sums[among].sum(axis=0)
    nothing = np.zeros(1)
    if n == 0:
        return Share(math.nan, 0, 0.0, math.inf, nothing)
    _, hits, hits2, _ = table.sums[hit & among].sum(axis=0)
    value = float(hits / weight)
    effective = float(n)
    if table.weighted:
        everybody = float(table.everybody[0])
        squares = hits2 * (1 - value) ** 2 + (squared - hits2) * value**2
        variance = float(squares) * everybody / (everybody - 1) / float(weight) ** 2
        if 0 < value < 1 and variance > 0:
            effective = min(float(n), value * (1 - value) / variance)
        else:
            effective = float(weight**2 / squared)
    return Share(value, int(n), effective, math.inf, nothing)


def _disjoint(shares: list[Share]) -> list[Share]:
    """Say that shares are of different people, so that they are not correlated."""
    units = np.eye(len(shares))
    return [dataclasses.replace(s, terms=units[k]) for k, s in enumerate(shares)]
