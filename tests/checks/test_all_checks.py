"""Every check, for every kind of decision: several classes, numbers, and tables without a model."""

import math
import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import likewise
from checks.planted import population
from likewise.record import Record
from likewise.report.terminal import summary

READ = ["skill", "zone", "car"]


@pytest.fixture(scope="module")
def tables():
    found = [population(n, n) for n in (700, 1600, 1200)]
    for table in found:
        score = table["skill"] + table["zone"]
        table["grade"] = np.digitize(score, [0.0, 1.5]).astype(str)
        table["amount"] = 10 + 3 * score
    return found


def full(model, people, pool, **more):
    result = likewise.audit(
        model, people, pool=pool, protected="group", may_matter=["skill", "size"], **more
    )
    assert Record.from_json(result.to_json()) is not None
    return result.record


def test_several_classes_are_each_compared(tables):
    people, pool, train = tables
    model = LogisticRegression().fit(train[READ], train["grade"])
    record = full(model, people, pool, label="grade")
    outcomes = {row.column for row in record.matched_pairs.comparisons}
    assert outcomes == {"decision=0", "decision=1", "decision=2"}
    assert record.verdict == "evidence"
    highest = [row for row in record.matched_pairs.comparisons if row.outcome == "2"]
    assert {row.verdict for row in highest} == {"evidence"}
    assert re.search("'grade = 2': group =.* → b .* evidence\n", summary(record))
    assert record.drivers[0].column == "zone"
    assert record.drivers[0].share > 0.9
    assert {s.what for s in record.sensitivity} >= {"as chosen", "column left out", "column added"}
    assert len(record.matched_pairs.hidden_factor) == 2


def test_predictions_are_compared_in_their_own_units(tables):
    people, pool, train = tables
    model = LinearRegression().fit(train[READ], train["amount"])
    method = likewise.Settings().changed(method={"name": "matched_pairs", "limit": 1.0})
    record = full(model, people, pool, label="amount", settings=method)
    leading = record.matched_pairs.leading
    assert record.verdict == "evidence"
    assert leading.difference == pytest.approx(math.copysign(3.6, leading.difference), rel=0.15)
    zone = next(d for d in record.drivers if d.column == "zone")
    assert zone.alone == pytest.approx(leading.difference, rel=0.05)
    added = next(s for s in record.sensitivity if s.change == "zone")
    assert abs(added.estimate) < 0.2
    assert added.outcome == "within_tolerance"


def test_a_scored_table_leaves_out_what_needs_the_model(tables):
    people, pool, train = tables
    model = LogisticRegression().fit(train[READ], train["paid"])
    scored = [t.assign(ok=model.predict(t[READ]) == 1) for t in (people, pool)]
    record = full(None, *scored, decision="ok", label="paid")
    assert record.drivers == ()
    assert "drivers (they need the model)" in record.skipped
    assert {s.what for s in record.sensitivity} == {"as chosen", "column left out"}
