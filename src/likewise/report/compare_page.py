"""A comparison of models as one web page."""

import math

from likewise.record import TestRecord
from likewise.report import curves, paired_words
from likewise.report.html import interval_rows
from likewise.report.page import render, short
from likewise.report.side_by_side import Comparison


def comparison_page(comparison: Comparison) -> str:
    """Return the comparison as the text of one HTML file."""
    records = comparison.records
    delta = next(iter(records.values())).settings.delta
    points = paired_points(comparison) or single_points(comparison)
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
        paired=[
            (pair, paired_words.sentences(pair, comparison.alpha)) for pair in comparison.paired
        ],
    )


def single_points(comparison: Comparison) -> list[curves.Traded]:
    """Return accuracy and audit value of every model that has both, each with its own interval."""
    points = []
    for name, record in comparison.records.items():
        accuracy = [m.value for m in record.measures if m.name == "balanced_accuracy"]
        if accuracy:
            test = _interval(record.tests[record.decided_by.test])
            points.append(curves.Traded(short(name, 40), (math.nan, accuracy[0], math.nan), test))
    return points


def paired_points(comparison: Comparison) -> list[curves.Traded]:
    """Return accuracy and audit value of every model; error bars are those of the differences."""
    points: list[curves.Traded] = []
    for pair in comparison.paired:
        value = max(
            (m for m in pair.measures if m.name == "audit value" and m.claimed),
            key=lambda m: m.first,
        )
        good = [m for m in pair.measures if m.name.endswith("accuracy")]
        if not good:
            return []
        if not points:
            right, harm = good[-1].first, value.first
            alone = (math.nan, right, math.nan), (math.nan, harm, math.nan)
            points.append(curves.Traded(short(pair.first, 40), *alone))
        low, high = value.interval
        worse, better = good[-1].interval
        points.append(
            curves.Traded(
                short(pair.second, 40),
                (good[-1].first + worse, good[-1].second, good[-1].first + better),
                (value.first - high, value.second, value.first - low),
            )
        )
    return points


def _interval(test: TestRecord) -> tuple[float, float, float]:
    return test.interval[0], test.estimate, test.interval[1]
