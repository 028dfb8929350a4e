"""Overlap: who has no comparable people and is left out."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import AskedBlock, BoundMatchedPairs, PairsProbe
from likewise.methods.matching import Covariates
from likewise.methods.pair_stats import PairDesign
from likewise.methods.reference_sample import CovariateCoding
from likewise.record import MatchedPairsRecord
from likewise.report.formats import number
from likewise.verdict import Verdict

NOTED = 0.05
"""Share of a group that is left out from which on it is described."""


def overlap_sums(asked: AskedBlock, design: PairDesign) -> Float[np.ndarray, "2 3 k 3"]:
    """Describe everyone with and without overlap by the columns that may matter.

    Of every number and every value of a category: how often it is known, its sum and its sum of
    squares, by group (first axis) and by who is compared (second axis: with overlap, without, and
    with a propensity that is clipped).
    """
    people = asked.located(design)
    x = indicators(asked.context.coding, asked.covariates.take(people.rows))
    known = ~np.isnan(x)
    terms = np.stack([known, np.where(known, x, 0.0), np.where(known, x, 0.0) ** 2], axis=2)
    place = np.where(np.isin(people.rows, asked.plan(design).people), 0, 1)
    place[people.clipped] = 2
    sums = np.zeros((2, 3, *terms.shape[1:]))
    np.add.at(sums, (people.second.astype(np.int64), place), terms)
    return sums


def indicators(coding: CovariateCoding, people: Covariates) -> Float[np.ndarray, "n k"]:
    """Return numbers as they are, and a column of zeros and ones for each value of a category."""
    columns = [people.numeric]
    for codes, levels in zip(people.category.T, coding.levels.values(), strict=True):
        columns.append(np.eye(len(levels) + 2)[codes])
    return np.column_stack(columns)


def indicator_names(coding: CovariateCoding) -> list[tuple[str, str]]:
    """Return the column, and the value if it is a category, of each of the `indicators`."""
    names = [(name, "") for name in coding.numeric]
    for name, levels in coding.levels.items():
        values = [*map(str, levels), "a value that nobody comparable has", "missing"]
        names += [(name, value) for value in values]
    return names


def largest_difference(
    coding: CovariateCoding, kept: Float[np.ndarray, "k 3"], left: Float[np.ndarray, "k 3"]
) -> str:
    """Say in which column people who are left out differ most, in standard deviations."""
    both = np.stack([left, kept])
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = both[:, :, 1] / both[:, :, 0]
        spread = np.sqrt((both[:, :, 2] / both[:, :, 0] - mean**2).clip(0).mean(axis=0))
        gap = np.nan_to_num(np.abs(mean[0] - mean[1]) / spread, nan=0.0)
    if not gap.any():
        return ""
    at = int(gap.argmax())
    name, value = indicator_names(coding)[at]
    if not value:
        return f"{name} ({number(mean[0, at])} on average against {number(mean[1, at])})"
    return f"{name} ({value} {100 * mean[0, at]:.0f} % against {100 * mean[1, at]:.0f} %)"


@final
@dataclasses.dataclass(frozen=True)
class Overlap(Check):
    """Describes who is left out of the leading comparisons, and who is of no known group."""

    name: ClassVar[str] = "overlap"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def probes(self, method: BoundMatchedPairs) -> Iterator[PairsProbe]:
        yield method.probe("overlap", overlap_sums)

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        record: MatchedPairsRecord = verdict.record["matched_pairs"]
        notes = [
            f"{missing:,} of {method.n:,} people have no value of {name!r}, and are not compared."
            for name, missing in method.survey.gaps.items()
            if missing
        ]
        for row in record.leading_by_attribute:
            left_out = row.without_overlap + row.clipped
            if left_out < max(1, NOTED * row.people):
                continue
            design, direction, _ = method.located(row)
            compared, without, clipped = stats["overlap"].sums[design.name][direction]
            kept, left = compared + clipped, without
            if row.clipped:
                kept, left = compared, without + clipped
            most = largest_difference(method.context.coding, kept, left)
            differ = f" They differ most in {most}." if most else ""
            group, other = (f"{row.attribute} = {name}" for name in (row.group, row.other))
            about = f"{left_out:,} of {row.people:,} people with {group} have no comparable {other}"
            if row.clipped:
                about += f" (of people like {row.clipped:,} of them 99 % are of one group)"
            notes.append(f"{about}: left out.{differ}")
        return Finding(notes=tuple(notes))
