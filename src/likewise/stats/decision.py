"""Decisions on adjusted ratios: evidence beyond a tolerance, equivalence within it, or neither.

A row is one comparison: an attribute, an ordered pair of groups, a class. It is within tolerance
if its 95 % interval lies inside [1/δ, δ] (an equivalence test), and evidence if the interval lies
outside *and* its p-value, corrected for the number of rows by Holm, is at most α. What is printed
and what decides are the same interval and the same p-value.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping
from typing import Generic, Literal, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit

from likewise.record import Reason
from likewise.stats.estimate import growth_needed
from likewise.stats.multiplicity import holm_adjusted
from likewise.stats.two_way import SIDES, Side, TwoWay

Outcome = Literal["evidence", "within_tolerance", "inconclusive"]

Undecided = tuple[Reason, dict[str, float]]
"""Why nothing is decided, and the numbers of it."""

Growth = tuple[float, float]
"""How many times as many people, and as large a reference sample (1 if there is none)."""

LEAST_PAIRS = 20
LEAST_PEOPLE = 20
LEAST_KEPT = 0.25
LARGEST_KAPPA = 0.5
LEAST_REDRAWS = 10
LEAST_DEGREES = 5
LEAST_EVENTS = 10
POWER = 0.8
"""How often the sample that would settle a row is to settle it."""
AMBIGUOUS = 2.0
"""Standard errors within which own + other = 1 leaves open which outcome is the rarer one."""


@dataclasses.dataclass(frozen=True)
class DecisionRule:
    """What a row is judged by.

    Parameters
    ----------
    delta
        The tolerance: ratios between 1/δ and δ are tolerated.
    alpha
        Intervals have level 1 − α; any false evidence among the rows has probability α.
    kind
        ``"rate"``: the ratio of the rarer outcome's rates; ``"ratio"``: of the values as they are;
        ``"difference"``: D against ``limit``.
    limit
        Largest tolerated difference, in units of the measure.
    binary
        Whether the measure is a 0/1 decision, whose events can be counted.
    """

    delta: float = 1.25
    alpha: float = 0.05
    kind: Literal["rate", "ratio", "difference"] = "rate"
    limit: float | None = None
    binary: bool = True

    @property
    def band(self) -> tuple[float, float]:
        """What is tolerated: ratios, or differences."""
        if self.kind != "difference":
            return 1 / self.delta, self.delta
        limit = math.inf if self.limit is None else self.limit
        return -limit, limit


@dataclasses.dataclass(frozen=True)
class Compared:
    """What a row is assessed from: the statistic, if there is anything to compute it from.

    Beside it the numbers of people of the group, of those kept (with close pairs) and of pairs; K,
    Kish's number of pairs by how often they are used; and whether the design already forbids a
    decision.
    """

    estimate: TwoWay | None
    people: int
    kept: int
    pairs: int
    effective_comparisons: float
    undecided: Undecided | None = None


@dataclasses.dataclass(frozen=True)
class OutcomeTest:
    """One outcome of a row: its statistic, interval and p-value."""

    estimate: TwoWay
    complement: bool
    interval: tuple[float, float]
    p_value: float


@dataclasses.dataclass(frozen=True)
class Assessment:
    """A row before the correction for the number of rows.

    Parameters
    ----------
    compared
        What it was assessed from.
    tested
        The outcome with the smaller p-value first; two of them where it is open which is rarer.
    p_value
        Two-sided; 1 if the row is undecided.
    inside, outside
        Whether the interval or intervals lie within the band, or beyond it.
    events
        Expected number of events, min(n, K)(own + other).
    """

    compared: Compared
    rule: DecisionRule
    tested: tuple[OutcomeTest, ...]
    p_value: float
    inside: bool
    outside: bool
    events: float | None
    undecided: Undecided | None

    @property
    def shown(self) -> OutcomeTest | None:
        """The outcome to print: the one that decides."""
        return self.tested[0] if self.tested else None


@dataclasses.dataclass(frozen=True)
class RowDecision:
    """A row decided: outcome, adjusted p-value, and the reason if it is inconclusive."""

    assessment: Assessment
    outcome: Outcome
    adjusted_p: float
    reason: Reason | None
    numbers: dict[str, float]


K = TypeVar("K", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Decision(Generic[K]):
    """All rows, and the verdict that follows from them."""

    outcome: Outcome
    rows: dict[K, RowDecision]


def assess(compared: Compared, rule: DecisionRule) -> Assessment:
    """Test one row, if its numbers allow it."""
    estimate = compared.estimate
    undecided = compared.undecided or _undecided(compared, rule)
    if estimate is None:
        return Assessment(compared, rule, (), 1.0, False, False, None, undecided)
    candidates = rarer_outcome(estimate) if rule.kind == "rate" else ((estimate, False),)
    tested = sorted((_tested(*one, rule) for one in candidates), key=lambda test: test.p_value)
    low, high = rule.band
    events = None
    if rule.binary:
        shown = tested[0].estimate
        rate = min(max(shown.other_corrected, 0.0), 1.0)
        events = min(estimate.n, compared.effective_comparisons) * (shown.own + rate)
        if undecided is not None and undecided[0] == "degrees" and events < LEAST_EVENTS:
            undecided = "events", {"events": events, "needed": LEAST_EVENTS}
    return Assessment(
        compared=compared,
        rule=rule,
        tested=tuple(tested),
        p_value=1.0 if undecided else min(1.0, len(tested) * tested[0].p_value),
        inside=all(low <= test.interval[0] and test.interval[1] <= high for test in tested),
        outside=tested[0].interval[0] > high or tested[0].interval[1] < low,
        events=events,
        undecided=undecided,
    )


def _tested(estimate: TwoWay, complement: bool, rule: DecisionRule) -> OutcomeTest:
    if rule.kind == "difference":
        interval = estimate.difference_interval(rule.alpha)
        p = 1.0 if rule.limit is None else estimate.difference_p_value(rule.limit)
    else:
        interval, p = estimate.interval(rule.alpha), estimate.p_value(rule.delta)
    return OutcomeTest(estimate, complement, interval, p)


def rarer_outcome(estimate: TwoWay) -> tuple[tuple[TwoWay, bool], ...]:
    """Return the rarer outcome of two, whose ratio is the one further from 1; both if it is open.

    The second entry says whether it is the complement of the measure given. Which outcome is
    called favourable therefore changes nothing.
    """
    both = estimate.own + estimate.other_corrected
    error = float(estimate.spread(np.array([-1.0])).std_error[0])
    as_given, other = (estimate, False), (estimate.complement(), True)
    if abs(both - 1) < AMBIGUOUS * error:
        return as_given, other
    return (as_given,) if both <= 1 else (other,)


def _undecided(compared: Compared, rule: DecisionRule) -> Undecided | None:
    """Return the first of the conditions for a decision that does not hold."""
    if compared.pairs < LEAST_PAIRS:
        return "pairs", {"pairs": compared.pairs, "needed": LEAST_PAIRS}
    share = compared.kept / compared.people if compared.people else 0.0
    if compared.people and share < LEAST_KEPT:
        return "overlap", {"share": share, "needed": LEAST_KEPT}
    estimate = compared.estimate
    if estimate is None or estimate.n < LEAST_PEOPLE:
        found = 0.0 if estimate is None else estimate.n
        return "too_few", {"people": found, "needed": LEAST_PEOPLE}
    if estimate.kappa > LARGEST_KAPPA:
        return "kappa", {"kappa": estimate.kappa, "largest": LARGEST_KAPPA}
    if len(estimate.redrawn) < LEAST_REDRAWS:
        return "redraws", {"redraws": len(estimate.redrawn), "needed": LEAST_REDRAWS}
    at = np.ones(1) if rule.kind == "difference" else np.array([1 / rule.delta, 1.0, rule.delta])
    degrees = min(float(estimate.spread(at, side).degrees.min()) for side in SIDES)
    if degrees < LEAST_DEGREES:
        return "degrees", {"degrees": degrees, "needed": LEAST_DEGREES}
    if rule.kind == "difference" and rule.limit is None:
        return "limit", {}
    return None


def decide(rows: Mapping[K, Assessment]) -> Decision[K]:
    """Decide all rows together.

    Evidence in one row outranks rows that are inconclusive; within tolerance needs every row.
    """
    adjusted = holm_adjusted({key: row.p_value for key, row in rows.items()})
    decided = {key: _decided(row, adjusted[key], len(rows)) for key, row in rows.items()}
    outcomes = {row.outcome for row in decided.values()}
    verdict: Outcome = "inconclusive"
    if "evidence" in outcomes:
        verdict = "evidence"
    elif outcomes == {"within_tolerance"}:
        verdict = "within_tolerance"
    return Decision(verdict, decided)


def _decided(row: Assessment, adjusted: float, rows: int) -> RowDecision:
    if row.undecided is not None:
        reason, numbers = row.undecided
        if reason == "too_few" and row.tested:  # enough to compare, and to settle it
            people, pool = growth_to_settle(row, rows)
            enough = LEAST_PEOPLE / row.tested[0].estimate.n
            numbers = {**numbers, **_needed(row, max(people, enough), pool)}
        return RowDecision(row, "inconclusive", adjusted, reason, numbers)
    if row.outside:
        if adjusted <= row.rule.alpha:
            return RowDecision(row, "evidence", adjusted, None, {})
        numbers = {"p": row.p_value, "rows": float(rows)}
        numbers |= _needed(row, *growth_to_settle(row, rows))
        return RowDecision(row, "inconclusive", adjusted, "holm", numbers)
    if row.inside:
        if row.events is None or row.events >= LEAST_EVENTS:
            return RowDecision(row, "within_tolerance", adjusted, None, {})
        numbers = {"events": row.events, "needed": LEAST_EVENTS}
        numbers |= _needed(row, *_growth_to_events(row, row.events))
        return RowDecision(row, "inconclusive", adjusted, "events", numbers)
    people, pool = growth_to_settle(row, rows)
    rare = row.events is not None and row.events < LEAST_EVENTS
    reason = "too_few" if people < math.inf else "events" if rare else "matching"
    return RowDecision(row, "inconclusive", adjusted, reason, _needed(row, people, pool))


def _needed(row: Assessment, people: float, pool: float) -> dict[str, float]:
    """Return the people of the group in the data, compared or not, and the pool's growth."""
    return {"people_needed": people * row.compared.people, "pool_times": pool}


def _growth_to_events(row: Assessment, events: float) -> Growth:
    """Return the growth that brings min(n, K)(own + other) to the least number of events."""
    estimate, pairs = row.tested[0].estimate, row.compared.effective_comparisons
    short = LEAST_EVENTS / max(events, 1e-12)
    if estimate.pairs is None:
        return short, 1.0
    people, pool = (short * min(estimate.n, pairs) / size for size in (estimate.n, pairs))
    return max(people, 1.0), max(pool, 1.0)


def growth_to_settle(row: Assessment, rows: int = 1) -> Growth:
    """Return about how many times as many people, and pairs in the pool, would settle a row.

    Evidence is to be found after correction for the number of rows. The allowance stays: both are
    infinite if what is left without any random error still includes a limit.
    """
    rule = row.rule
    low, high = rule.band
    found = [(1.0, 1.0)]
    for test in row.tested:
        estimate = test.estimate
        value = estimate.difference if rule.kind == "difference" else estimate.ratio
        if math.isnan(value):
            return math.inf, math.inf
        if low <= value <= high:
            found.append(_growth(estimate, rule, low, "up", rule.alpha))
            found.append(_growth(estimate, rule, high, "down", rule.alpha))
            continue
        alpha = rule.alpha / (rows * len(row.tested))
        limit, side = (high, SIDES[0]) if value > high else (low, SIDES[1])
        found.append(_growth(estimate, rule, limit, side, alpha))
        break  # one outcome is enough for evidence
    people, pool = (max(times) for times in zip(*found, strict=True))
    return people, pool


def _growth(estimate: TwoWay, rule: DecisionRule, limit: float, side: Side, alpha: float) -> Growth:
    """Return the growth at which the statistic is beyond a limit and its allowance."""
    sign = 1.0 if side == "up" else -1.0
    difference = rule.kind == "difference"
    at = np.ones(1) if difference else np.array([limit], dtype=np.float64)
    gap = sign * float(estimate.statistic(at, side)[0]) - estimate.allowance
    gap -= sign * limit if difference else 0.0
    spread = estimate.spread(at, side)
    errors = float(stdtrit(np.clip(spread.degrees, 1e-3, 1e12), 1 - alpha / 2)[0] + ndtri(POWER))
    people, pool = float(spread.people[0]), float(spread.pairs[0]) + spread.redraw
    both = growth_needed(gap, errors, people + pool)
    if estimate.pairs is None:  # people are each other's pool
        return both, 1.0
    # One of the two alone, unless that takes more than twice the growth of both together.
    alone = growth_needed(gap, errors, max(people, pool), min(people, pool))
    if alone > 2 * both or both == math.inf:
        return both, both
    return (alone, 1.0) if people >= pool else (1.0, alone)
