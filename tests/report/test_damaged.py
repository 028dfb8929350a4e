"""Result files that were edited by hand, or by something worse."""

import json

import pytest

from likewise.errors import InvalidFile
from likewise.record import Record
from likewise.report.html import to_html


def test_a_result_decided_by_a_test_it_does_not_hold_is_refused(record):
    edited = json.loads(record.to_json())
    edited["decided_by"]["test"] = "coin"
    with pytest.raises(InvalidFile, match=r"damaged at 'decided_by': the test 'coin' is not among"):
        Record.from_json(json.dumps(edited), "r.json")


def nested(record, depth):
    """Return a result file with lists in lists where anything may stand."""
    edited = json.loads(record.to_json())
    edited["metric"]["origin"] = {"seed": "HERE"}
    edited["worst"][0]["before"] = {"age": "HERE"}
    return json.dumps(edited).replace('"HERE"', "[" * depth + "]" * depth)


def test_what_was_read_can_be_written_again_however_deep(record):
    again = Record.from_json(nested(record, 100), "r.json")
    assert to_html(again)
    assert "[" * 100 in "".join(again.to_json().split())
    with pytest.raises(InvalidFile, match=r"'r.json' is not a result file: recursion limit"):
        Record.from_json(nested(record, 400), "r.json")


def test_a_result_of_version_0_1_still_renders(record):
    old = json.loads(record.to_json())
    old |= {"schema_version": 1, "settings": {"decide": {"map": "flow"}, "flow": {"lam": 20.0}}}
    # A bound with the factor exp(LT), which was written as it was.
    old["diagnostics"]["theorem_a1_bound"] = 1.4e238
    again = Record.from_json(json.dumps(old))
    assert again.diagnostics["theorem_a1_bound"] == float("inf")
    assert again.settings.map.params == {"lam": 20.0}
    assert to_html(again)
