"""The test of the ratio of error rates."""

import dataclasses
from typing import ClassVar, final

from typing_extensions import override

from likewise.errors import InvalidSample
from likewise.inference.design import Design
from likewise.inference.design_score import design_bounds
from likewise.inference.error_rates import ErrorTable
from likewise.inference.estimate import Bounds, Unknown
from likewise.inference.estimators import ratio_of_means
from likewise.inference.midp import Exact, MidP
from likewise.inference.outcomes import Outcomes
from likewise.inference.ratio_test import RatioTest, check_interval
from likewise.inference.score import Score
from likewise.inference.verdict import Evidence


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

    interval: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.interval, ("auto", "midp", "exact", "score", "paper"))

    @override
    def evidence(self, outcomes: Outcomes) -> Evidence:
        if outcomes.about.get("task") == "regression":
            raise InvalidSample("A regression has no error rates. Use the ratio of mean losses.")
        design = Design.of(outcomes)
        before, after = outcomes.error_before, outcomes.error_after
        table = ErrorTable.of(before, after)
        if design.simple:
            return self.weigh(table, monotone=outcomes.monotone)
        estimate = ratio_of_means(before, after, design)
        paper = self.interval == "paper"
        bounds: Bounds | None = estimate if table.before else None
        notes = _no_base_errors(table) + design.notes
        if not paper:
            bounds = design_bounds(before, after, design)
        if self.interval in ("midp", "exact", "score"):
            notes += (
                f"The {self.interval} test does not hold with weights or clusters; one that does "
                "took its place.",
            )
        return Evidence(
            test=self.name,
            method=design.named("paper" if paper else "Hall and score"),
            estimate=estimate,
            bounds=bounds,
            spread=not paper or estimate.std_error > 0,
            notes=notes,
            details={**table.details, "kish": design.kish},
        )

    def weigh(self, table: ErrorTable, *, monotone: bool) -> Evidence:
        """Return the evidence of a table of errors; ``monotone``: wrong could not turn right."""
        interval, notes = self._chosen(table, monotone)
        estimate = table.estimate()
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
