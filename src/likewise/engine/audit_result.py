"""What an audit found, to print, save and ask."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from likewise.audit_data import AuditData
from likewise.engine.move_stats import MoveStats, worst_cases
from likewise.files import write_whole
from likewise.metrics.fair_metric import FairMetric
from likewise.outcomes import Outcomes
from likewise.record import Record, TestRecord, WorstCase
from likewise.report.next_steps import next_steps
from likewise.report.plots import Plots
from likewise.report.words import summary


@dataclasses.dataclass(frozen=True, eq=False)
class AuditResult:
    """What an audit found. Print it; save it; ask it who is treated worst.

    Parameters
    ----------
    record
        The result as data: all that the JSON file holds and reports are made from.
    metric
        The fair metric that was used, given or learned; none if only counterparts were asked.
    visits
        One row a person and trait, if counterparts were asked: the losses that decide.
    """

    record: Record
    metric: FairMetric | None
    stats: MoveStats | None = dataclasses.field(repr=False)
    people: AuditData = dataclasses.field(repr=False)
    rows: Callable[[], Outcomes] = dataclasses.field(repr=False)
    visits: pa.Table | None = dataclasses.field(default=None, repr=False)

    @functools.cached_property
    def outcomes(self) -> Outcomes:
        """One row a person; every test can be repeated from them without the model."""
        return self.rows()

    @property
    def outcome(self) -> str:
        """``evidence_of_unfairness``, ``within_tolerance`` or ``inconclusive``."""
        return self.record.outcome

    def verdict(self, test: str) -> TestRecord:
        """Return one test by name, with the paper's letters: ``result.verdict("loss_ratio").S_n``.

        ``V_n`` and ``T_n`` are there too, with bounds, p-value and outcome.
        """
        return self.record.verdict(test)

    def summary(self) -> str:
        """Return the audit on one page of text, the verdict last."""
        return summary(self.record)

    @property
    def next_steps(self) -> tuple[str, ...]:
        """What would settle it, what to try, or what is not covered: one sentence each."""
        return next_steps(self.record)

    def worst(self, n: int = 10) -> tuple[WorstCase, ...]:
        """Return the people treated worst, before and after, in original columns where possible.

        At most 100 are kept.
        """
        return () if self.stats is None else worst_cases(self.stats.worst, self.people, n)

    def to_json(self) -> str:
        """Return the result file as text."""
        return self.record.to_json()

    def to_html(self) -> str:
        """Return the report as one self-contained web page."""
        from likewise.report.html import to_html

        return to_html(self.record)

    @property
    def plot(self) -> Plots:
        """Pictures as matplotlib axes: ``result.plot.groups()``."""
        return Plots(self.record)

    def save(self, path: str | Path) -> None:
        """Write the result file."""
        write_whole(path, self.to_json().encode())

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from likewise.report.html import result_snippet

        return result_snippet(self.record)
