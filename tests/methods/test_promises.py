"""What matched pairs promise, on populations whose truth is known: a quick version."""

import pytest

from matched_pairs import lines, run

LINES = {line.name: line for line in lines()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sine, no effect", "no pool: hump, no effect", "random attribute"]
)
def test_where_nothing_differs_there_is_no_evidence(name):
    row = run(LINES[name], 10, seed=20)
    assert row.evidence == 0
    assert row.evidence_1 <= 0.2
    assert row.coverage >= 0.8
    assert abs(row.corrected) < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("name", ["direct use of the attribute", "total exclusion"])
def test_a_model_that_reads_the_attribute_is_always_found(name):
    row = run(LINES[name], 5, seed=21)
    assert row.evidence == 1
    assert row.wrong_name == 0


@pytest.mark.slow
def test_a_hundred_people_of_a_group_are_enough_for_a_large_difference():
    row = run(LINES["rates .25 and .6, 100 a group"], 10, seed=22)
    assert row.evidence >= 0.6
    assert row.false_within == 0


@pytest.mark.slow
def test_a_pattern_that_cannot_be_matched_is_not_decided():
    row = run(LINES["chessboard, no effect"], 5, seed=23)
    assert row.decided == 0
    assert row.evidence == 0
