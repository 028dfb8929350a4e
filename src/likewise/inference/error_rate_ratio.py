"""The test of the ratio of error rates."""

import dataclasses
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.errors import InvalidSample
from likewise.inference.estimate import Bounds, Estimate, Unknown
from likewise.inference.estimators import error_rate_ratio, ratio_of_totals
from likewise.inference.midp import Exact, MidP
from likewise.inference.ratio_test import RatioTest, check_interval, check_task
from likewise.inference.sampling import Sampling, ratio_of_people
from likewise.inference.score_test import Score, design_bounds
from likewise.inference.verdict import Evidence
from likewise.outcomes import Outcomes
from likewise.statistics.error_table import ErrorTable
from likewise.statistics.tally import Tally
from likewise.statistics.unit_sums import UnitSums


@final
@dataclasses.dataclass(frozen=True)
class ErrorRateRatioTest(RatioTest):
    r"""Test of the ratio of error rates, equations (20)--(22).

    Parameters
    ----------
    interval
        ``auto`` is the mid-P test where wrong cannot turn right by construction of the map, and
        the score test otherwise: never chosen by looking at the table. ``midp``, ``exact`` and
        ``score`` ask for one of them, ``paper`` for the delta method as printed. With weights or
        clusters none of the first four holds, and :math:`a - \delta b` is tested in their place,
        unit by unit.
    """

    name: ClassVar[str] = "error_rate_ratio"
    claim: ClassVar[str] = "the error rate of similar people over that of the people themselves"

    intervals: ClassVar[tuple[str, ...]] = ("auto", "midp", "exact", "score", "paper")

    interval: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, self.intervals)

    @property
    @override
    def beside(self) -> "tuple[ErrorRateRatioTest, ...]":
        other = "auto" if self.interval == "paper" else "paper"
        return (dataclasses.replace(self, interval=other),)

    @override
    def evidence(self, tally: Tally, rows: Outcomes | None = None) -> Evidence:
        check_task(self, tally.frame)
        stats, sampling = tally.ratio, Sampling.of(tally)
        if sampling.simple:
            return self.weigh(stats.errors, monotone=tally.frame.monotone)
        sums = stats.pairs
        if sampling.clusters is not None:
            after, before = tally.by_cluster("wrong_after"), tally.by_cluster("wrong_before")
            sums = UnitSums.of(after, before)
            estimate = ratio_of_totals(after, before, stats.n, sampling.effective_n)
        else:
            estimate = ratio_of_people(sums, sampling)
        return self.on_design(stats.errors, sums, stats.error_weights, estimate, sampling)

    def on_design(
        self,
        table: ErrorTable,
        sums: UnitSums,
        weights: Float[np.ndarray, "4"],
        estimate: Estimate,
        sampling: Sampling,
    ) -> Evidence:
        """Return the evidence of people with weights or in clusters.

        Parameters
        ----------
        sums
            Power sums of weighted errors after and before the map, over independent units.
        weights
            Weights of the people wrong both times, newly wrong, newly right and never.
        estimate
            The ratio, with the jackknife's standard error.
        """
        paper = self.interval == "paper"
        bounds: Bounds | None = estimate if table.before else None
        notes = _no_base_errors(table) + sampling.notes
        if not paper:
            bounds = design_bounds(sums, weights, estimate, sampling.degrees)
        if self.interval in ("midp", "exact", "score"):
            notes += (
                f"The {self.interval} test does not hold with weights or clusters; one that does "
                "took its place.",
            )
        return Evidence(
            test=self.name,
            method=sampling.named("paper" if paper else "Hall and score"),
            estimate=estimate,
            bounds=bounds,
            spread=not paper or estimate.std_error > 0,
            notes=notes,
            details={**table.details, **sampling.details},
        )

    def weigh(self, table: ErrorTable, *, monotone: bool) -> Evidence:
        """Return the evidence of a table of errors; ``monotone``: wrong could not turn right."""
        interval, notes = self._chosen(table, monotone)
        estimate = error_rate_ratio(table)
        bounds: dict[str, Bounds | None] = {
            "midp": MidP(table),
            "exact": Exact(table),
            "score": Score(table) if table.before or table.after else Unknown(),
            "paper": estimate if table.before else None,
        }
        return Evidence(
            test=self.name,
            method={"midp": "mid-P"}.get(interval, interval),
            estimate=estimate,
            bounds=bounds[interval],
            # The paper's interval shrinks to a point where nobody's decision changes.
            spread=interval != "paper" or estimate.std_error > 0,
            notes=notes + _no_base_errors(table),
            details=table.details,
        )

    def _chosen(self, table: ErrorTable, monotone: bool) -> tuple[str, tuple[str, ...]]:
        interval = self.interval
        if interval in ("midp", "exact") and not monotone:
            raise InvalidSample(
                f"The {interval} test needs a map that cannot turn wrong decisions right, and "
                "this one can. Use interval 'score'."
            )
        if interval == "auto":
            interval = "midp" if monotone else "score"
        if interval in ("midp", "exact") and table.newly_right:
            return "score", (
                f"{table.newly_right} wrong decisions turned right, which the map was said never "
                "to do; the score test took the place of the exact one.",
            )
        return interval, ()


def _no_base_errors(table: ErrorTable) -> tuple[str, ...]:
    if table.before:
        return ()
    return ("Nobody is decided wrongly before the map, so the ratio has no upper bound.",)
