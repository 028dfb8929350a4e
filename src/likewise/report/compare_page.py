"""A comparison of models as one web page."""

from likewise.record import TestRecord
from likewise.report import curves
from likewise.report.compare import Comparison
from likewise.report.html import interval_rows
from likewise.report.page import render, short


def comparison_page(comparison: Comparison) -> str:
    """Return the comparison as the text of one HTML file."""
    records = comparison.records
    delta = next(iter(records.values())).settings.delta
    points = []
    for name, record in records.items():
        accuracy = [m.value for m in record.measures if m.name == "balanced_accuracy"]
        test = record.tests[record.decided_by.test]
        if accuracy:
            points.append((short(name, 40), accuracy[0], *_interval(test)))
    tests = {
        kind: interval_rows(
            [
                ((name, record.tests[kind]), *_interval(record.tests[kind]))
                for name, record in records.items()
                if kind in record.tests
            ],
            delta,
        )
        for kind in comparison.tests
    }
    return render(
        "compare.html.j2",
        comparison=comparison,
        delta=delta,
        tests=tests,
        trade=curves.trade_chart(points, delta) if len(points) > 1 else None,
        measures=comparison.measures(),
    )


def _interval(test: TestRecord) -> tuple[float, float, float]:
    return test.interval[0], test.estimate, test.interval[1]
