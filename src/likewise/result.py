"""What an audit found, to print, save, plot and ask."""

import dataclasses
import functools
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.parquet as pq

from likewise.errors import InvalidSample
from likewise.files import replacing
from likewise.method import MAX_ROWS
from likewise.outcomes import Outcomes
from likewise.record import Record, TestRecord

FrameKind = Literal["pandas", "polars", "pyarrow"]


@dataclasses.dataclass(frozen=True, eq=False)
class AuditResult:
    """What an audit found. Print it; save it; ask it who is affected.

    Parameters
    ----------
    record
        The result as data: all that the JSON file holds and reports are made from.
    rows
        One row a person, if they are not too many.
    metric
        The fair metric that was used, for methods that perturb people.
    native
        The kind of data frame the people came in: tables are returned as the same kind.
    """

    record: Record
    rows: pa.Table | None = dataclasses.field(default=None, repr=False)
    metric: Any = dataclasses.field(default=None, repr=False)
    native: FrameKind = dataclasses.field(default="pyarrow", repr=False)

    @property
    def verdict(self) -> str:
        """``evidence``, ``within_tolerance``, ``inconclusive`` or ``invalid``."""
        return self.record.verdict

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return self.record.sentence

    def test(self, name: str) -> TestRecord:
        """Return one perturbation test, with the paper's letters: ``test("loss_ratio").S_n``."""
        return self.record.test(name)

    @functools.cached_property
    def outcomes(self) -> Outcomes:
        """Losses and decisions before and after the perturbation, one row a person."""
        if self.record.matched_pairs is not None:
            raise InvalidSample("No person was perturbed in this audit: see result.people.")
        return Outcomes.from_arrow(self._held())

    @property
    def people(self) -> Any:
        """One row a compared person and comparison (perturbations: a person), as a data frame."""
        return self._frame(self._held())

    @property
    def groups(self) -> Any:
        """One row a comparison of two groups, or a group, as a data frame."""
        part = self.record.matched_pairs
        rows = self.record.groups if part is None else part.comparisons
        flat: list[dict[str, Any]] = []
        for row in rows:
            flat.append({})
            for name, value in row.model_dump(exclude={"folds"}).items():
                if name.endswith("interval") and isinstance(value, tuple):  # two columns
                    flat[-1] |= {f"{name}_low": value[0], f"{name}_high": value[1]}
                elif not isinstance(value, tuple | dict):
                    flat[-1][name] = value
        return self._frame(pa.Table.from_pylist(flat))

    @property
    def balance(self) -> Any:
        """Standardised mean differences before and after matching, as a data frame."""
        part = self.record.matched_pairs
        rows = () if part is None else part.balance
        return self._frame(pa.Table.from_pylist([row.model_dump() for row in rows]))

    def _held(self) -> pa.Table:
        if self.rows is None:
            raise InvalidSample(
                f"The rows of more than {MAX_ROWS:,} people are not held in memory: have them "
                "written (outcomes=…)."
            )
        return self.rows

    def _frame(self, table: pa.Table) -> Any:
        return nw.from_arrow(table, backend=self.native).to_native()

    def summary(self, *, verbose: bool = False, width: int = 80) -> str:
        """Return the audit as text, the verdict first."""
        from likewise.report.terminal import summary

        return summary(self.record, verbose=verbose, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return self.record.model_dump(mode="json")

    def to_json(self) -> str:
        """Return the result file as text."""
        return self.record.to_json()

    def to_html(self) -> str:
        """Return the report as one self-contained web page."""
        from likewise.report.html import to_html

        return to_html(self.record)

    @property
    def plot(self) -> Any:
        """Figures by matplotlib: ``result.plot()``, ``result.plot.balance()``."""
        from likewise.report.plots import Plots

        return Plots(self.record)

    def save(self, path: str | Path) -> None:
        """Write the result: by the end of its name JSON, HTML, Markdown, CSV, JUnit or Parquet."""
        from likewise.report.export import kind_of, write_outputs

        place = Path(path)
        if (kind := kind_of(place)) == "rows":
            with replacing(place) as file:
                pq.write_table(self._held(), file)
        else:
            write_outputs(self.record, {kind: place})

    def log_mlflow(self, run_id: str | None = None) -> str:
        """Log metrics, parameters, report and result file in a run of MLflow; return its id.

        Parameters
        ----------
        run_id
            The run to log in; by default the active one, or a new one.
        """
        from likewise.report.mlflow import log_run

        return log_run(self.record, run_id)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<AuditResult {self.verdict}: {self.sentence}>"

    def _repr_html_(self) -> str:
        from likewise.report.html import to_card

        return to_card(self.record)


def native_kind(people: Any) -> FrameKind:
    """Return the kind of data frame that people came in."""
    if nw.dependencies.is_pandas_dataframe(people):
        return "pandas"
    return "polars" if nw.dependencies.is_polars_dataframe(people) else "pyarrow"
