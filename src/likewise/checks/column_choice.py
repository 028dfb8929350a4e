"""Sensitivity to the choice of columns: each legitimate factor left out, each other one added."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, final

from typing_extensions import override

from likewise.data.columns import column_groups
from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import AskedBlock, BoundMatchedPairs, PairsProbe, find_pairs
from likewise.methods.pair_stats import PairDesign, PairSums
from likewise.record import MatchedPairsRecord, RateComparison, SensitivityRecord
from likewise.stats.decision import Assessment, assess, decide
from likewise.verdict import Verdict

CHOSEN, LEFT_OUT, ADDED = "as chosen", "column left out", "column added"
MOST_COLUMNS = 12
"""Columns of either kind that are tried."""

NEIGHBOURS, REDRAWS, FOLDS = 5, 10, 2
"""Pairs that a person is compared through, redrawn attributes, folds of the propensity they are
drawn from: as few as decisions allow."""

PEOPLE, POOL = 450, 2_000
"""About how many people of each group, audited and of the reference sample, are compared."""

FIELDS = ("what", "change", "n", "estimate", "lower_bound", "upper_bound", "outcome")


def choice_sums(asked: AskedBlock, design: PairDesign, directions: Mapping[str, int]) -> PairSums:
    """Compare some people with another choice of columns; ``directions`` are by pair of groups."""
    return design.measure(asked.ask, asked.located(design), directions[design.name])


def judged_again(
    method: BoundMatchedPairs, row: RateComparison, sums: PairSums, tests: int = 1
) -> tuple[Assessment, float, tuple[float, float]]:
    """Judge the outcome of a row by other sums, one of so many ``tests`` (Bonferroni).

    Returns the assessment, the ratio (or difference), and its interval.
    """
    _, direction, measure = method.located(row)
    measures, rule = method.context.measures, method.rule(measure)
    unit = measures.names[measure] != "prediction"
    compared = sums.compared(direction, measure, unit_interval=unit)
    if compared.estimate is not None and row.outcome != measures.outcomes[measure]:
        compared = dataclasses.replace(compared, estimate=compared.estimate.complement())
    # Which outcome is the rarer one is known by now.
    kind = "ratio" if rule.kind == "rate" else rule.kind
    found = assess(compared, dataclasses.replace(rule, kind=kind, alpha=rule.alpha / tests))
    if found.shown is None:
        return found, math.nan, (math.nan, math.nan)
    estimate = found.shown.estimate
    value = estimate.difference if kind == "difference" else max(estimate.ratio, 0.0)
    return found, value, found.shown.interval


@final
@dataclasses.dataclass(frozen=True)
class ColumnChoice(Check):
    """The leading comparison of each attribute with one column more or fewer that may matter.

    Everything is matched, redrawn and corrected as for the verdict, on samples of the people and
    of the reference sample; so is the choice made. It describes: people decide what may matter.
    """

    name: ClassVar[str] = "column_choice"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def follow_up(
        self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict
    ) -> Iterator[PairsProbe]:
        choices = other_choices(method)[0]
        if not choices or any(": ".join(choice) in stats for choice in choices):
            return
        wanted = {}
        for row in leading_rows(verdict):
            design, direction, _ = method.located(row)
            wanted[design.name] = direction
        options = {"redraw_count": REDRAWS, "most_neighbours": NEIGHBOURS, "folds": FOLDS}
        bounds = [
            method.sampled(": ".join(choice), keep=keep, people=PEOPLE, pool=POOL, **options)
            for choice, keep in choices.items()
        ]
        for bound in find_pairs(bounds, wanted):
            measured = functools.partial(choice_sums, directions=wanted)
            yield bound.probe(bound.context.variant, measured)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        choices, left_out = other_choices(method)
        found = []
        for row in leading_rows(verdict):
            design, _, _ = method.located(row)
            groups = {"attribute": row.attribute, "group": row.group, "other": row.other}
            for choice in choices:
                sums = stats[": ".join(choice)].pairings[design.name]
                again, value, ends = judged_again(method, row, sums)
                line = (*choice, again.compared.kept, value, *ends, decide({0: again}).outcome)
                found.append(SensitivityRecord(**groups, **dict(zip(FIELDS, line, strict=True))))
        skipped = (f"other choices of {', '.join(left_out)}",) if left_out else ()
        return Finding({"sensitivity": tuple(found)}, skipped=skipped)


def leading_rows(verdict: Verdict) -> list[RateComparison]:
    """Return each attribute's leading comparison, if there was anything to compare."""
    record: MatchedPairsRecord = verdict.record["matched_pairs"]
    return [row for row in record.leading_by_attribute if math.isfinite(row.difference)]


def other_choices(
    method: BoundMatchedPairs,
) -> tuple[dict[tuple[str, str], tuple[str, ...]], list[str]]:
    """Return the choice made and, if there are any, other choices of columns that may matter.

    Beside them are the columns that are not tried. All levels of one category come and go together.
    """
    keep, table = method.context.keep, method.pool.table
    protected = {part for name in method.context.groups for part in name.split("×")}
    free = [name for name in method.remaining if name not in protected and not method.scored]
    own, other = (list(column_groups(table, names).items()) for names in (keep, free))
    choices = {}
    for name, columns in own[:MOST_COLUMNS]:
        if rest := tuple(column for column in keep if column not in columns):
            choices[LEFT_OUT, name] = rest
    for name, columns in other[:MOST_COLUMNS]:
        choices[ADDED, name] = (*keep, *columns)
    choices = {(CHOSEN, "all of them"): tuple(keep), **choices} if choices else {}
    return choices, [name for some in (own, other) for name, _ in some[MOST_COLUMNS:]]
