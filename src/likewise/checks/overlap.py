"""Overlap: who has no comparable people and is left out."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import AskedBlock, BoundMatchedPairs, PairsProbe, PersonRows
from likewise.methods.pair_stats import PairDesign
from likewise.methods.reference_sample import CovariateCoding, standardised_difference
from likewise.record import MatchedPairsRecord
from likewise.report.formats import Names, number
from likewise.verdict import Verdict

NOTED = 0.05
"""Share of a group that is left out from which on it is described."""

PEOPLE = 10_000
"""About how many people of each group describe it."""


def overlap_rows(asked: AskedBlock, design: PairDesign) -> PersonRows:
    """Return some people's group, whether they are compared and clipped, and their covariates."""
    people = asked.located(design)
    people = people.take(design.drawn(people, people.second, PEOPLE, "overlap"))
    compared = np.isin(people.rows, asked.plan(design).people)
    covariates = asked.covariates.take(people.rows)
    about = (people.second, compared, people.clipped, covariates.numeric, covariates.category)
    return PersonRows(np.column_stack(about))


def largest_difference(
    coding: CovariateCoding, rows: Float[np.ndarray, "n k"], left: Bool[np.ndarray, " n"]
) -> str:
    """Say in which column people who are left out differ most, in standard deviations of all."""
    x = coding.indicators(coding.covariates_of(rows))
    groups = np.flatnonzero(left), np.flatnonzero(~left)
    if not all(map(len, groups)):
        return ""
    both = (np.arange(len(x)),) * 2
    gaps = [abs(standardised_difference(column[:, None], groups, both)) for column in x.T]
    at = int(np.argmax(gaps))
    if not gaps[at]:
        return ""
    name, value = coding.indicator_names[at]
    ours, others = (float(np.nanmean(x[group, at])) for group in groups)
    if value:
        return f"{name} ({value} {100 * ours:.0f} % against {100 * others:.0f} %)"
    return f"{name} ({number(ours)} on average against {number(others)})"


@final
@dataclasses.dataclass(frozen=True)
class Overlap(Check):
    """Describes who is left out of the leading comparisons."""

    name: ClassVar[str] = "overlap"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def probes(self, method: BoundMatchedPairs) -> Iterator[PairsProbe]:
        yield method.probe("overlap", overlap_rows)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        record: MatchedPairsRecord = verdict.record["matched_pairs"]
        notes = []
        for row in record.leading_by_attribute:
            left_out = row.without_overlap + row.clipped
            if left_out < max(1, NOTED * row.people):
                continue
            design, direction, _ = method.located(row)
            rows = stats["overlap"].pairings[design.name].rows
            second, compared, clipped = rows[:, :3].T == 1
            left = ~compared | (clipped & bool(row.clipped))
            mine = second == direction
            most = largest_difference(method.context.coding, rows[mine, 3:], left[mine])
            differ = f" They differ most in {most}." if most else ""
            group, other = Names(method.settings.labels).both(row)
            about = f"{left_out:,} of {row.people:,} {group} have no comparable {other}"
            if row.clipped:
                about += f" (of people like {row.clipped:,} of them 99 % are of one group)"
            notes.append(f"{about}: left out.{differ}")
        return Finding(notes=tuple(notes))
