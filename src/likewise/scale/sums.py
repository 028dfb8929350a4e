"""What the tests need to know of outcomes, added up block by block: exact, in constant memory."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.cluster_totals import ClusterTotals
from likewise.inference.design import cluster_degrees, design_notes, named_on_design
from likewise.inference.design_score import DesignScore
from likewise.inference.error_rate_ratio import ErrorRateRatioTest
from likewise.inference.error_rates import ErrorTable
from likewise.inference.estimate import Bounds, Estimate, Unknown
from likewise.inference.inversion import Wider
from likewise.inference.loss_ratio import METHODS, LossRatioTest
from likewise.inference.mean_loss_ratio import MeanLossRatioTest
from likewise.inference.moments import RatioMoments
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_of_sums import Inverted, UnitSums
from likewise.inference.ratio_test import RatioTest
from likewise.inference.tail import largest_needed, tail_from
from likewise.inference.verdict import Evidence
from likewise.scale.sketch import Largest

PARTS = 32
"""Blocks whose cluster totals wait to be joined: joining sorts all clusters met so far."""


class Sums:
    """Sums over people, or over clusters of people, from which every test can be made.

    Memory does not grow with the number of people, but for two things: the hundredth of them with
    the largest ratios (8 bytes each), and with clusters 48 bytes and a name for each cluster.

    Parameters
    ----------
    n
        Number of people that will come, over all blocks.
    regression
        Whether losses are added up, or ratios and errors.
    weighted
        Whether weights differ; equal ones count as none.
    cap
        What the settings hold a ratio down to.
    limit
        For a regression, what losses after are held down to.
    """

    def __init__(
        self, n: int, *, regression: bool, weighted: bool, cap: float, limit: float = math.inf
    ) -> None:
        self.n, self.regression, self.weighted = n, regression, weighted
        self.cap, self.limit = cap, limit
        self.undefined = 0
        self.total_weight, self.squared_weight = 0.0, 0.0
        self.table = ErrorTable(0, 0, 0, 0)
        self.cell_weights = np.zeros(4)
        self.pairs, self.held_pairs = UnitSums(np.zeros((4, 4))), UnitSums(np.zeros((4, 4)))
        self.largest = Largest(min(n, largest_needed(n)))
        self._moments: dict[str, RatioMoments] = {}
        self._parts: list[ClusterTotals] = []

    def like(self) -> "Sums":
        """Return empty sums for the same number of people and the same settings."""
        return Sums(
            self.n,
            regression=self.regression,
            weighted=self.weighted,
            cap=self.cap,
            limit=self.limit,
        )

    def add(self, block: Outcomes) -> None:
        """Add the people of a block."""
        weight = block.weight if self.weighted else None
        each = np.ones(len(block)) if weight is None else weight
        self.total_weight += float(each.sum())
        self.squared_weight += float(np.square(each).sum())
        columns = self._losses(block, each) if self.regression else self._ratios(block, each)
        if block.cluster is not None:
            self._parts.append(ClusterTotals.of(block.cluster, columns, weight))
            if len(self._parts) > PARTS:
                self._parts = [ClusterTotals.merge(self._parts)]

    def _ratios(self, block: Outcomes, each: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 4"]:
        before, after, ratio = block.error_before, block.error_after, block.ratio
        self.table += ErrorTable.of(before, after)
        cells = (before & after, after & ~before, before & ~after, ~before & ~after)
        self.cell_weights += [float(each[cell].sum()) for cell in cells]
        self.pairs += UnitSums.of(after * each, before * each)
        finite = np.isfinite(ratio)
        self.undefined += int((~finite).sum())
        held = np.minimum(ratio, self.cap)
        if finite.all():
            self.largest.add(ratio)
            weight = each if self.weighted else None
            self._count("plain", RatioMoments.of(ratio))
            self._count("ratio", RatioMoments.of(ratio, weight))
            self._count("held", RatioMoments.of(held, weight))
        return np.stack([ratio, held, after, before], axis=1)

    def _losses(self, block: Outcomes, each: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3"]:
        before, after = block.loss_before, block.loss_after
        self.undefined += int((~np.isfinite(before) | ~np.isfinite(after)).sum())
        held = np.minimum(after, np.maximum(before, self.limit))
        self.pairs += UnitSums.of(after * each, before * each)
        self.held_pairs += UnitSums.of(held * each, before * each)
        return np.stack([after, held, before], axis=1)

    def _count(self, name: str, moments: RatioMoments) -> None:
        known = self._moments.get(name)
        self._moments[name] = moments if known is None else known + moments

    def clusters(self) -> ClusterTotals | None:
        """Return totals by cluster; none if there are none, or everybody is their own."""
        units = self.cluster_count
        if not units:
            return None
        if units == 1:
            raise InvalidSample("All people are in one cluster; a standard error needs two.")
        return None if units == self.n else self._parts[0]

    @property
    def cluster_count(self) -> int:
        """How many clusters there are, clusters of one included; 0 without clusters."""
        if not self._parts:
            return 0
        self._parts = [ClusterTotals.merge(self._parts)]
        return len(self._parts[0].weight)

    @property
    def kish(self) -> float:
        """Kish's design effect of unequal weights."""
        return self.n * self.squared_weight / self.total_weight**2 if self.weighted else 1.0

    def evidence(self, test: RatioTest, *, monotone: bool) -> Evidence:
        """Return what the test's own `evidence` would, for all people together."""
        if isinstance(test, LossRatioTest):
            return self.loss_ratio(test)
        if isinstance(test, ErrorRateRatioTest):
            return self.error_rate_ratio(test, monotone=monotone)
        if isinstance(test, MeanLossRatioTest):
            return self.mean_loss_ratio(test)
        raise InvalidSettings(f"The test {test.name!r} cannot be made from sums.")

    def loss_ratio(self, test: LossRatioTest) -> Evidence:
        """Return what `LossRatioTest.evidence` would, for all people together."""
        clusters = self.clusters()
        units = None if clusters is None else len(clusters.weight)
        method = named_on_design(METHODS[test.interval], self.weighted, units)
        if self.undefined:
            return test.without_ratios(self.undefined, self.n, method)
        estimate, capped = (
            self._moments[name].estimate() if clusters is None else clusters.mean(column)
            for column, name in enumerate(("ratio", "held"))
        )
        plain = self._moments["plain"].plain
        tail = tail_from(self.largest.values, self.n, plain.mean, plain.squares)
        details = {"hill_index": tail.hill_index, "top_share": tail.top_share}
        if self.weighted or units is not None:
            variance = plain.squares / (self.n - 1)
            effect = estimate.std_error**2 * self.n / variance if variance > 0 else math.nan
            details |= {"kish": self.kish, "design_effect": effect}
        evidence = test.weigh(estimate, capped)
        notes = evidence.notes + tail.notes + self._notes(units)
        return dataclasses.replace(evidence, method=method, notes=notes, details=details)

    def error_rate_ratio(self, test: ErrorRateRatioTest, *, monotone: bool) -> Evidence:
        """Return what `ErrorRateRatioTest.evidence` would, for all people together."""
        clusters = self.clusters()
        if not self.weighted and clusters is None:
            return test.weigh(self.table, monotone=monotone)
        sums, units, degrees, effective_n = self.pairs, None, math.inf, self._effective_n()
        if clusters is not None:
            units = len(clusters.weight)
            sums, degrees = UnitSums.of(*clusters.totals[:, 2:].T), cluster_degrees(units)
            effective_n = _effective(clusters.weight)
        paper = test.interval == "paper"
        return error_evidence(
            test,
            self.table,
            sums,
            self.cell_weights,
            method=named_on_design("paper" if paper else "Hall and score", self.weighted, units),
            degrees=degrees,
            effective_n=effective_n,
            notes=self._notes(units),
            kish=self.kish,
        )

    def mean_loss_ratio(self, test: MeanLossRatioTest) -> Evidence:
        """Return what `MeanLossRatioTest.evidence` would, for all people together."""
        clusters = self.clusters()
        units = None if clusters is None else len(clusters.weight)
        method = named_on_design(
            "paper" if test.interval == "paper" else "Hall", self.weighted, units
        )
        if self.undefined:
            note = (
                f"{self.undefined} of {self.n} people have no finite loss, so the ratio of means "
                "is not defined; nobody is left out."
            )
            return Evidence.undefined(test.name, test.interval, self.n, note, test.cap)
        if self.limit == 0:
            note = "Nobody has any loss before the map, so there is no ratio."
            return Evidence.undefined(test.name, method, self.n, note, test.cap)
        pairs, degrees, effective_n = (self.pairs, self.held_pairs), math.inf, self._effective_n()
        if clusters is not None and units is not None:
            after, held, before = clusters.totals.T
            pairs = UnitSums.of(after, before), UnitSums.of(held, before)
            degrees, effective_n = cluster_degrees(units), _effective(clusters.weight)
        simple = not self.weighted and clusters is None
        estimate, capped = (
            dataclasses.replace(_delta(p, self.n, degrees, simple), effective_n=effective_n)
            for p in pairs
        )
        bounds: list[Bounds] = [estimate, capped]
        if test.interval == "hall":
            deltas = (estimate, capped)
            bounds = [Wider(Inverted(p, degrees), e) for p, e in zip(pairs, deltas, strict=True)]
        return Evidence(
            test=test.name,
            method=method,
            estimate=estimate,
            bounds=bounds[0],
            capped_estimate=capped,
            capped=bounds[1],
            cap=float(test.cap),
            spread=capped.std_error > 0,
            notes=self._notes(units),
            details={} if simple else {"kish": self.kish},
        )

    def _effective_n(self) -> float:
        return self.total_weight**2 / self.squared_weight

    def _notes(self, clusters: int | None) -> tuple[str, ...]:
        return design_notes(self.kish if self.weighted else None, clusters)


def error_evidence(
    test: ErrorRateRatioTest,
    table: ErrorTable,
    sums: UnitSums,
    cell_weights: Float[np.ndarray, "4"],
    *,
    method: str,
    degrees: float,
    effective_n: float,
    notes: tuple[str, ...],
    kish: float,
) -> Evidence:
    """Return the evidence of weighted or clustered errors from sums over independent units."""
    estimate = dataclasses.replace(sums.estimate(table.n, degrees), effective_n=effective_n)
    paper = test.interval == "paper"
    bounds: Bounds | None = estimate if table.before else None
    if not paper:
        bounds = design_bounds_of(sums, cell_weights, table.n, degrees)
    empty = "Nobody is decided wrongly before the map, so the ratio has no upper bound."
    return Evidence(
        test=test.name,
        method=method,
        estimate=estimate,
        bounds=bounds,
        spread=not paper or estimate.std_error > 0,
        notes=(() if table.before else (empty,)) + notes,
        details={**table.details, "kish": kish},
    )


def design_bounds_of(
    sums: UnitSums, cell_weights: Float[np.ndarray, "4"], n: int, degrees: float
) -> Bounds:
    """Return `likewise.inference.design_score.design_bounds` from sums over units."""
    total = float(cell_weights.sum())
    if cell_weights[:3].sum() == 0:
        return Unknown()
    by_score = DesignScore(cell_weights * (n / total), sums, total, degrees)
    if cell_weights[0] + cell_weights[2] == 0:
        return by_score
    bounds = Wider(Inverted(sums, degrees), by_score)
    return Wider(bounds, sums.estimate(n, degrees)) if math.isfinite(degrees) else bounds


def _delta(sums: UnitSums, n: int, degrees: float, simple: bool) -> Estimate:
    estimate = sums.estimate(n, degrees)
    if not simple:
        return estimate
    # (22) divides by n where a variance would divide by n - 1.
    return dataclasses.replace(estimate, std_error=estimate.std_error * math.sqrt(1 - 1 / n))


def _effective(weights: Float[np.ndarray, " g"]) -> float:
    return float(weights.sum() ** 2 / np.square(weights).sum())
