"""Jobs: the same results in one process or several, and none made twice."""

import math
import operator
import os
from functools import partial

import pytest

from likewise.errors import InvalidFile, Untrustworthy
from likewise_studies.jobs import FinishedJobs, run_jobs

# Functions that a fresh process can import.
JOBS = {f"factorial {n}": partial(math.factorial, n) for n in range(6)}
FAILS = partial(operator.truediv, 1, 0)
EXPECTED = {f"factorial {n}": math.factorial(n) for n in range(6)}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_jobs_give_their_results_in_order_and_finished_ones_are_not_run_again(tmp_path, workers):
    seen, journal, before = [], FinishedJobs(tmp_path / "j", "k"), dict(os.environ)
    found = run_jobs(
        JOBS, journal, workers=workers, words="counting", progress=lambda *told: seen.append(told)
    )
    assert list(found.items()) == list(EXPECTED.items())
    assert (seen[0], seen[-1]) == (("counting", 0, 6), ("counting", 6, 6))
    assert dict(os.environ) == before
    # These would fail if they were run.
    again = dict.fromkeys(JOBS, FAILS)
    assert run_jobs(again, journal, workers=1, words="") == EXPECTED


@pytest.mark.parametrize(
    ("workers", "breaks"),
    [(1, FAILS), pytest.param(2, partial(os._exit, 9), marks=pytest.mark.slow)],
    ids=["fails", "its process dies"],
)
def test_a_job_that_cannot_be_done_is_one_sentence_and_costs_no_finished_job(
    tmp_path, workers, breaks
):
    journal = FinishedJobs(tmp_path / "j", "k")
    jobs = {"before": partial(math.factorial, 3), "breaks": breaks, "after": JOBS["factorial 5"]}
    with pytest.raises(Untrustworthy, match=r"'breaks' failed 3 times .*what is done so far is ke"):
        run_jobs(jobs, journal, workers=workers, words="")
    assert journal.read()["before"] == 6


def test_what_was_added_is_read_again_and_pieces_of_other_choices_are_left_alone(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert FinishedJobs(path, "old").read() == {}
    FinishedJobs(path, "old").add("a", {"value": 1.5})
    FinishedJobs(path, "new").add("a", [1, 2])
    assert FinishedJobs(path, "old").read() == {"a": {"value": 1.5}}
    assert FinishedJobs(path, "new").read() == {"a": [1, 2]}


@pytest.mark.parametrize("length", range(0, 60, 7))
def test_a_line_cut_anywhere_costs_that_piece_alone(tmp_path, length):
    journal = FinishedJobs(tmp_path / "journal.jsonl", "key")
    journal.add("a", 1)
    whole = journal.path.read_bytes()
    journal.add("b", 2)
    journal.path.write_bytes(journal.path.read_bytes()[: len(whole) + length])
    journal.add("c", 3)
    found = journal.read()
    assert (found["a"], found["c"]) == (1, 3)
    assert found.get("b") in (None, 2)
    with pytest.raises(InvalidFile, match="cannot be read"):
        FinishedJobs(tmp_path, "key").read()
