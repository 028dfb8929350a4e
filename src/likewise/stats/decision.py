"""Decisions on adjusted ratios: evidence beyond a tolerance, equivalence within it, or neither.

A row is one comparison: an attribute, an ordered pair of groups, a class. It is within tolerance
if its 95 % interval lies inside [1/δ, δ] (an equivalence test), and evidence if the interval lies
outside *and* its p-value, corrected for the number of rows by Holm, is at most α. What is printed
and what decides are the same interval and the same p-value.
"""

import dataclasses
import math
from collections.abc import Collection, Hashable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri

from likewise.errors import InvalidSample
from likewise.record import Reason
from likewise.stats.estimate import growth_needed
from likewise.stats.two_way import SIDES, Side, TwoWay

Outcome = Literal["evidence", "within_tolerance", "inconclusive"]

Key = TypeVar("Key", bound=Hashable)

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

    Ratios between 1/δ and δ are tolerated. Intervals have level 1 − α; any false evidence among the
    rows has probability α. The ``kind`` is the ratio of the rarer outcome's ``rate``, the ``ratio``
    of the values as they are, or the ``difference`` against ``limit``, in units of the measure.
    ``binary``: whether the measure is a 0/1 decision, whose events can be counted.
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
    Kish's number of pairs by how often they are used; and why the design forbids a decision.
    """

    estimate: TwoWay | None
    people: int
    kept: int
    pairs: int
    effective_comparisons: float
    undecided: Reason | None = None


class OutcomeTest(NamedTuple):
    """One outcome of a row, or the complement of it: its statistic, interval and p-value."""

    estimate: TwoWay
    complement: bool
    interval: tuple[float, float]
    p_value: float


@dataclasses.dataclass(frozen=True)
class Assessment:
    """A row: tested by itself, then decided with all others.

    ``tested`` has the outcome with the smaller p-value first; two of them where it is open which is
    rarer. ``p_value`` is two-sided, 1 if the row is undecided; ``inside`` and ``outside`` say
    whether the intervals lie within the band, or beyond it; ``events`` is the expected number of
    events, min(n, K)(own + other), of 0/1 decisions. Decided are the p-value adjusted for the
    number of rows, the outcome, why it is inconclusive, and what would settle it: people of the
    group, compared or not, and growth of the pool.
    """

    compared: Compared
    rule: DecisionRule
    undecided: Reason | None
    tested: tuple[OutcomeTest, ...] = ()
    p_value: float = 1.0
    inside: bool = False
    outside: bool = False
    events: float = math.nan
    adjusted_p: float = 1.0
    outcome: Outcome = "inconclusive"
    reason: Reason | None = None
    people_needed: float = math.inf
    pool_times: float = 1.0

    @property
    def shown(self) -> OutcomeTest | None:
        """The outcome to print: the one that decides."""
        return self.tested[0] if self.tested else None


class Decision(NamedTuple):
    """All rows, and the verdict that follows from them."""

    outcome: Outcome
    rows: dict[Any, Assessment]


def assess(compared: Compared, rule: DecisionRule) -> Assessment:
    """Test one row, if its numbers allow it."""
    estimate = compared.estimate
    undecided = compared.undecided or _undecided(compared, rule)
    if estimate is None:
        return Assessment(compared, rule, undecided)
    low, high = rule.band
    tested = []
    for one, complement in rarer_outcome(estimate) if rule.kind == "rate" else ((estimate, False),):
        if rule.kind == "difference":
            interval, p = one.difference_interval(rule.alpha), one.p_value(1.0, high)
        else:
            interval, p = one.interval(rule.alpha), one.p_value(rule.delta)
        tested.append(OutcomeTest(one, complement, interval, p))
    tested.sort(key=lambda test: test.p_value)
    events = math.nan
    if rule.binary:
        shown = tested[0].estimate
        rate = min(max(shown.other_corrected, 0.0), 1.0)
        events = min(estimate.n, compared.effective_comparisons) * (shown.own + rate)
        if undecided == "degrees" and events < LEAST_EVENTS:
            undecided = "events"
    return Assessment(
        compared=compared,
        rule=rule,
        undecided=undecided,
        tested=tuple(tested),
        p_value=1.0 if undecided else min(1.0, len(tested) * tested[0].p_value),
        inside=all(low <= test.interval[0] and test.interval[1] <= high for test in tested),
        outside=tested[0].interval[0] > high or tested[0].interval[1] < low,
        events=events,
    )


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


def _undecided(compared: Compared, rule: DecisionRule) -> Reason | None:
    """Return the first of the conditions for a decision that does not hold."""
    estimate = compared.estimate
    if compared.pairs < LEAST_PAIRS:
        return "pairs"
    if compared.kept < LEAST_KEPT * compared.people:
        return "overlap"
    if estimate is None or estimate.n < LEAST_PEOPLE:
        return "people"
    if estimate.kappa > LARGEST_KAPPA:
        return "kappa"
    if len(estimate.redrawn) < LEAST_REDRAWS:
        return "redraws"
    at = np.ones(1) if rule.kind == "difference" else np.array([1 / rule.delta, 1.0, rule.delta])
    if min(float(estimate.spread(at, side).degrees.min()) for side in SIDES) < LEAST_DEGREES:
        return "degrees"
    return "limit" if rule.kind == "difference" and rule.limit is None else None


def holm_adjusted(p_values: Mapping[Key, float]) -> dict[Key, float]:
    r"""Holm's (1979) adjusted p-values, valid whatever the dependence between the tests.

    In increasing order, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`: a
    hypothesis is rejected at level :math:`\alpha` if its adjusted p-value is at most
    :math:`\alpha`, and then any true one is rejected with probability at most :math:`\alpha`. A
    test that could not be made counts, with a p-value of 1.

    Examples
    --------
    >>> holm_adjusted({"sex": 0.01, "race": 0.04, "age": 0.03})
    {'sex': 0.03, 'race': 0.06, 'age': 0.06}
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise InvalidSample(
                f"The p-value of {name!r} is {p:g}. A test that could not be made counts as p = 1."
            )
    ordered = sorted(p_values, key=lambda name: p_values[name])
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def decide(rows: Mapping[Any, Assessment]) -> Decision:
    """Decide all rows together, each with what would settle it."""
    adjusted = holm_adjusted({key: row.p_value for key, row in rows.items()})
    decided = {}
    for key, row in rows.items():
        outcome: Outcome = "inconclusive"
        growth: Growth = math.inf, 1.0
        reason, p = row.undecided, adjusted[key]
        if reason is None:
            outcome, reason = read_interval(row.inside, row.outside, row.events, p, row.rule.alpha)
            if reason == "events":
                growth = _growth_to_events(row)
            elif reason is not None:
                growth = growth_to_settle(row, len(rows))
            if reason == "too_few" and growth[0] == math.inf:
                reason = "events" if row.events < LEAST_EVENTS else "matching"
        elif reason == "people" and row.tested:  # enough to compare, and to settle it
            people, pool = growth_to_settle(row, len(rows))
            growth = max(people, LEAST_PEOPLE / row.tested[0].estimate.n), pool
        decided[key] = dataclasses.replace(
            row,
            adjusted_p=p,
            outcome=outcome,
            reason=reason,
            people_needed=growth[0] * max(row.compared.people, 1),
            pool_times=growth[1],
        )
    return Decision(overall([row.outcome for row in decided.values()]), decided)


def overall(outcomes: Collection[str]) -> Outcome:
    """Return the verdict: evidence in one row outranks others; within tolerance needs every row."""
    if "evidence" in outcomes:
        return "evidence"
    return "within_tolerance" if set(outcomes) == {"within_tolerance"} else "inconclusive"


def read_interval(
    inside: bool, outside: bool, events: float, adjusted: float, alpha: float
) -> tuple[Outcome, Reason | None]:
    """Return what a row's interval, its p-value after Holm and its number of events decide."""
    if outside:
        return ("evidence", None) if adjusted <= alpha else ("inconclusive", "holm")
    if inside:
        few = events < LEAST_EVENTS
        return ("inconclusive", "events") if few else ("within_tolerance", None)
    return "inconclusive", "too_few"


def _growth_to_events(row: Assessment) -> Growth:
    """Return the growth that brings min(n, K)(own + other) to the least number of events."""
    estimate, pairs = row.tested[0].estimate, row.compared.effective_comparisons
    short = LEAST_EVENTS / max(row.events, 1e-12)
    if estimate.pairs is None:
        return short, 1.0
    least = short * min(estimate.n, pairs)
    return max(least / estimate.n, 1.0), max(least / pairs, 1.0)


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
    difference = rule.kind == "difference"
    at = np.array([1.0 if difference else limit])
    gap = float(estimate.excess(at, side)[0])
    if difference:
        gap -= limit if side == "up" else -limit
    spread = estimate.spread(at, side)
    errors = float(spread.quantile(1 - alpha / 2)[0] + ndtri(POWER))
    people, pool = float(spread.people[0]), float(spread.pairs[0]) + spread.redraw
    both = growth_needed(gap, errors, people + pool)
    if estimate.pairs is None:  # people are each other's pool
        return both, 1.0
    # One of the two alone, unless that takes more than twice the growth of both together.
    alone = growth_needed(gap, errors, max(people, pool), min(people, pool))
    if alone > 2 * both or both == math.inf:
        return both, both
    return (alone, 1.0) if people >= pool else (1.0, alone)
