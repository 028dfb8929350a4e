"""A result as it shows itself in a notebook: the verdict, its picture, and the tests."""

from likewise.record import Record
from likewise.report import charts
from likewise.report.page import fill


def result_snippet(record: Record) -> str:
    """Return a piece of HTML that takes the notebook's own colours for text and background."""
    deciding = record.tests[record.decided_by.test]
    return fill(
        "notebook.html.j2",
        record=record,
        deciding=deciding,
        verdict_chart=charts.verdict_chart(deciding),
    )
