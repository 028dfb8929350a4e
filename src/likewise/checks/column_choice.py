"""Sensitivity to the choice of columns: each legitimate factor left out, each other one added."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.data.columns import column_groups
from likewise.data.notes import predictive_area
from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import AskedBlock, BoundMatchedPairs, PairsProbe, find_pairs
from likewise.methods.pair_stats import Answers, LocatedPeople, PairDesign, PairSums
from likewise.record import MatchedPairsRecord, RateComparison, SensitivityRecord
from likewise.stats.decision import Compared, assess, decide
from likewise.verdict import Verdict

LEFT_OUT, ADDED = "column left out", "column added"
MOST_COLUMNS = 12
"""Columns of either kind that are tried."""

NEIGHBOURS, REDRAWS, FOLDS = 5, 10, 2
"""Pairs that a person is compared through, redrawn attributes, folds of the propensity they are
drawn from: as few as decisions allow."""

PEOPLE, POOL = (300, 1_000), (900, 4_000)
"""About how many people of each group, audited and of the reference sample, are compared: from
the most down to the fewest, the more comparisons there are."""

FULL = 6
"""Comparisons that are made with the most people."""

PREDICTED = 5_000
"""Rows of the reference sample by which columns are ranked."""


def choice_sums(asked: AskedBlock, design: PairDesign, directions: Mapping[str, int]) -> PairSums:
    """Compare some people with another choice of columns; ``directions`` are by pair of groups."""
    return variant_sums(asked, design, asked.located(design), directions[design.name])


def variant_sums(
    asked: AskedBlock, design: PairDesign, people: LocatedPeople, direction: int
) -> PairSums:
    """Compare people of one group otherwise than for the verdict, redrawn attributes included."""
    plans = [one.plan(people, direction) for one in (design.comparison, *design.redraws)]
    # All at once: a call takes longer than the few rows of one redraw.
    person, *members = (
        np.concatenate([getattr(plan, name) for plan in plans])
        for name in ("person", "own", "other")
    )
    values = np.zeros((0, design.measures))
    if len(person):
        values = asked.ask(np.tile(person, 2), np.concatenate(members))
    ends = np.cumsum([len(plan.person) for plan in plans])[:-1]
    own, other = (np.split(half, ends) for half in np.split(values, 2))
    first, *redrawn = (
        Answers(**vars(plan), own_values=own[k], other_values=other[k])
        for k, plan in enumerate(plans)
    )
    return design.summed(first, redrawn)


def compared_again(method: BoundMatchedPairs, row: RateComparison, sums: PairSums) -> Compared:
    """Return the comparison of a row by other sums, of the outcome that was tested there."""
    _, direction, measure = method.located(row)
    measures = method.context.measures
    unit = measures.names[measure] != "prediction"
    found = sums.compared(direction, measure, unit_interval=unit)
    as_given = row.outcome == measures.outcomes[measure]
    if as_given or found.estimate is None or method.rule(measure).kind == "difference":
        return found
    return dataclasses.replace(found, estimate=found.estimate.complement())


@final
@dataclasses.dataclass(frozen=True)
class ColumnChoice(Check):
    """The leading comparison of each attribute with one column more or fewer that may matter.

    Everything is matched, redrawn and corrected as for the verdict, on samples of the people and
    of the reference sample. It describes: which columns may matter is for people to decide.
    """

    name: ClassVar[str] = "column_choice"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def follow_up(self, stats: Sums, method: BoundMatchedPairs) -> Iterator[PairsProbe]:
        choices = other_choices(method)[0]
        if not choices or any(_name(*choice) in stats for choice, _ in choices):
            return
        record = method.judge(stats).record["matched_pairs"]
        found = [method.located(row) for row in leading_rows(record)]
        wanted = {design.name: direction for design, direction, _ in found}
        part = FULL / max(FULL, len(choices) * len(wanted))
        bounds = [
            method.sampled(
                _name(*choice),
                keep=keep,
                redraw_count=REDRAWS,
                most_neighbours=NEIGHBOURS,
                folds=FOLDS,
                people=max(PEOPLE[0], round(part * PEOPLE[1])),
                pool=max(POOL[0], round(part * POOL[1])),
            )
            for choice, keep in choices
        ]
        for bound in find_pairs(bounds, wanted):
            measured = functools.partial(choice_sums, directions=wanted)
            yield bound.probe(bound.context.variant, measured)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        choices, left_out = other_choices(method)
        found = []
        for row in leading_rows(verdict.record["matched_pairs"]):
            design, _, measure = method.located(row)
            rule = method.rule(measure)
            difference = rule.kind == "difference"
            value, ends = row.ratio, row.interval
            if difference:
                value, ends = row.difference, row.difference_interval
            lines = [("as chosen", "all of them", row.n, value, ends, str(row.verdict))]
            for choice, _ in choices:
                sums = stats[_name(*choice)].sums[design.name]
                compared = compared_again(method, row, sums)
                estimate, value, ends = compared.estimate, math.nan, (math.nan, math.nan)
                if estimate is not None and difference:
                    value, ends = estimate.difference, estimate.difference_interval(rule.alpha)
                elif estimate is not None:
                    value, ends = estimate.ratio, estimate.interval(rule.alpha)
                outcome = decide({0: assess(compared, rule)}).outcome
                lines.append((*choice, compared.kept, value, ends, outcome))
            for what, change, n, value, (low, high), decided in lines:
                groups = {"attribute": row.attribute, "group": row.group, "other": row.other}
                bounds = {"estimate": value, "lower_bound": low, "upper_bound": high}
                found.append(
                    SensitivityRecord(
                        what=what, change=change, n=n, outcome=decided, **groups, **bounds
                    )
                )
        skipped = (f"other choices of {', '.join(left_out)}",) if left_out else ()
        return Finding({"sensitivity": tuple(found)}, skipped=skipped)


def _name(what: str, column: str) -> str:
    return f"{what}: {column}"


def leading_rows(record: MatchedPairsRecord) -> list[RateComparison]:
    """Return each attribute's leading comparison, if there was anything to compare."""
    return [row for row in record.leading_by_attribute if math.isfinite(row.difference)]


def other_choices(
    method: BoundMatchedPairs,
) -> tuple[list[tuple[tuple[str, str], tuple[str, ...]]], list[str]]:
    """Return other choices of columns that may matter, and the columns that are not tried.

    All levels of one category come and go together. Of many remaining columns, those are tried
    that predict an attribute best.
    """
    keep, table = method.context.keep, method.pool.table
    protected = {part for name in method.context.groups for part in name.split("×")}
    own = list(column_groups(table, keep).items())
    free = [name for name in method.remaining if name not in protected and not method.scored]
    other = sorted(column_groups(table, free).items(), key=lambda one: -_predicts(method, one[1]))
    choices = []
    for name, columns in own[:MOST_COLUMNS]:
        if rest := tuple(column for column in keep if column not in columns):
            choices.append(((LEFT_OUT, name), rest))
    for name, columns in other[:MOST_COLUMNS]:
        choices.append(((ADDED, name), (*keep, *columns)))
    return choices, [name for some in (own, other) for name, _ in some[MOST_COLUMNS:]]


def _predicts(method: BoundMatchedPairs, columns: Sequence[str]) -> float:
    """Return how well columns predict any group of an attribute."""
    areas = [0.5]
    some = method.pool.table.slice(0, PREDICTED)
    for name, codes in method.context.pool_groups.items():
        for group in range(len(method.context.groups[name])):
            areas.append(predictive_area(some, columns, codes[:PREDICTED] == group))
    return max(area for area in areas if area == area)
