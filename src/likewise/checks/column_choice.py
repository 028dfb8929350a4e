"""Sensitivity to the choice of columns: each legitimate factor left out, each other one added."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from typing_extensions import override

from likewise.data.columns import column_groups
from likewise.data.notes import predictive_area
from likewise.method import Check, Finding
from likewise.methods.matched_pairs import BoundMatchedPairs, PairsProbe, find_pairs
from likewise.methods.pair_stats import PairSums, RedrawSums
from likewise.models.base import Model
from likewise.probe import Block, Measured
from likewise.record import MatchedPairsRecord, RateComparison, SensitivityRecord
from likewise.stats.decision import Compared, Undecided, assess, decide
from likewise.stats.sums import Additive
from likewise.verdict import Verdict

LEFT_OUT, ADDED = "column left out", "column added"
MOST_COLUMNS = 12
"""Columns of either kind that are tried."""

NEIGHBOURS, REDRAWS = 5, 10
"""Pairs that a person is compared through, and redrawn attributes: as few as decisions allow."""

PEOPLE, POOL = (400, 1_000), (1_000, 4_000)
"""About how many people of each group, audited and of the reference sample, are compared: from
the most down to the fewest, the more comparisons there are."""

FULL = 6
"""Comparisons that are made with the most people."""

PREDICTED = 5_000
"""Rows of the reference sample by which columns are ranked."""


@dataclasses.dataclass(frozen=True, eq=False)
class VariantStats(Additive):
    """Sums of comparisons and their redraws, made otherwise than those that decide, by name."""

    kept_as_is: ClassVar[tuple[str, ...]] = ("undecided",)

    n: int
    comparisons: Mapping[str, PairSums]
    redraws: Mapping[str, tuple[RedrawSums, ...]]
    undecided: Mapping[str, Undecided | None]

    def compared(self, key: str, method: BoundMatchedPairs, row: RateComparison) -> Compared:
        """Return the comparison of a row as it is here, of the outcome that was tested there."""
        _, direction, measure = method.located(row)
        measures = method.context.measures
        found = self.comparisons[key].compared(
            direction,
            measure,
            self.redraws[key],
            unit_interval=measures.names[measure] != "prediction",
            undecided=self.undecided[key],
        )
        if row.outcome == measures.outcomes[measure] or found.estimate is None:
            return found
        if method.rule(measure).kind == "difference":
            return found
        return dataclasses.replace(found, estimate=found.estimate.complement())


@dataclasses.dataclass(frozen=True, eq=False)
class ChoiceProbe(PairsProbe):
    """The comparison of some people with another choice of columns that may matter.

    ``directions`` say which group's people are asked about, by pair of groups.
    """

    directions: Mapping[str, int]

    @property
    def name(self) -> str:
        """Its name among the sums."""
        return self.context.variant

    def measure(self, model: Model, block: Block) -> Measured:
        """Compare the people of a block who are drawn, with the attribute as it is and redrawn."""
        asked = self.context.asked(model, block)
        comparisons: dict[str, Any] = {}
        redraws: dict[str, Any] = {}
        for pairing in self.pairings:
            key, people = pairing.key, asked.located(block, pairing)
            probes = (pairing.comparison, *pairing.redraws)
            plans = [probe.plan(people, self.directions[key]) for probe in probes]
            # All at once: a call takes longer than the few rows of one redraw.
            names = ("person", "pair", "own", "other")
            rows = {name: np.concatenate([getattr(p, name) for p in plans]) for name in names}
            together = dataclasses.replace(plans[0], **rows)
            answers = together.answers(asked.ask, len(self.context.measures.names))
            ends = np.cumsum([len(plan) for plan in plans])[:-1]
            own, other = (np.split(values, ends) for values in answers)
            weighted = people.weight is not None
            first, *others = (
                probe.summed(plan, a, b, weighted=weighted)
                for probe, plan, a, b in zip(probes, plans, own, other, strict=True)
            )
            comparisons[key], redraws[key] = first, tuple(others)
        undecided = {pairing.key: pairing.design.undecided for pairing in self.pairings}
        return Measured(VariantStats(len(asked), comparisons, redraws, undecided))


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
    def follow_up(
        self, stats: Mapping[str, Any], method: BoundMatchedPairs
    ) -> Iterator[ChoiceProbe]:
        choices = other_choices(method)[0]
        if not choices or any(_name(*choice) in stats for choice, _ in choices):
            return
        record = method.judge(stats).record["matched_pairs"]
        found = [method.located(row) for row in leading_rows(record)]
        wanted = {pairing.key: direction for pairing, direction, _ in found}
        part = FULL / max(FULL, len(choices) * len(wanted))
        bounds = [
            method.sampled(
                _name(*choice),
                keep=keep,
                redraws=REDRAWS,
                neighbours=NEIGHBOURS,
                people=max(PEOPLE[0], round(part * PEOPLE[1])),
                pool=max(POOL[0], round(part * POOL[1])),
            )
            for choice, keep in choices
        ]
        for bound in find_pairs(bounds, wanted):
            yield ChoiceProbe(bound.context, bound.pairings, wanted)

    @override
    def read(
        self, stats: Mapping[str, Any], method: BoundMatchedPairs, verdict: Verdict
    ) -> Finding:
        record: MatchedPairsRecord = verdict.record["matched_pairs"]
        choices, left_out = other_choices(method)
        found = []
        for row in leading_rows(record):
            found.append(_as_chosen(row))
            key = method.located(row)[0].key
            for choice, _ in choices:
                compared = stats[_name(*choice)].compared(key, method, row)
                found.append(_changed(method, row, *choice, compared))
        skipped = f"other choices of {', '.join(left_out)}" if left_out else ""
        return Finding({"sensitivity": tuple(found)}, skipped=(skipped,) if skipped else ())


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


def _record(
    row: RateComparison,
    what: str,
    change: str,
    n: int,
    estimate: float,
    ends: tuple[float, float],
    outcome: str,
) -> SensitivityRecord:
    return SensitivityRecord(
        what=what,
        change=change,
        attribute=row.attribute,
        group=row.group,
        other=row.other,
        n=n,
        estimate=estimate,
        lower_bound=ends[0],
        upper_bound=ends[1],
        outcome=outcome,
    )


def _as_chosen(row: RateComparison) -> SensitivityRecord:
    value, ends = row.ratio, row.interval
    if math.isnan(ends[0]):
        value, ends = row.difference, row.difference_interval
    return _record(row, "as chosen", "all of them", row.n, value, ends, row.verdict)


def _changed(
    method: BoundMatchedPairs, row: RateComparison, what: str, change: str, compared: Compared
) -> SensitivityRecord:
    """Return the same comparison under another choice of columns."""
    rule = method.rule(method.located(row)[2])
    estimate, ends, value = compared.estimate, (math.nan, math.nan), math.nan
    if estimate is not None and rule.kind == "difference":
        value, ends = estimate.difference, estimate.difference_interval(rule.alpha)
    elif estimate is not None:
        value, ends = estimate.ratio, estimate.interval(rule.alpha)
    outcome = decide({0: assess(compared, rule)}).outcome
    return _record(row, what, change, compared.kept, value, ends, outcome)
