"""Jobs: the same results in one process or several, and none made twice."""

import math
import operator
import os

import pytest

from likewise.errors import Untrustworthy
from likewise_studies.jobs import run_jobs
from likewise_studies.journal import Journal

# Functions that a fresh process can import.
JOBS = {f"factorial {n}": (math.factorial, (n,)) for n in range(6)}
EXPECTED = {f"factorial {n}": math.factorial(n) for n in range(6)}


def test_jobs_in_turn_give_their_results_in_order(tmp_path):
    seen = []
    found = run_jobs(
        JOBS,
        Journal(tmp_path / "j", "k"),
        workers=1,
        words="counting",
        progress=lambda *told: seen.append(told),
    )

    assert list(found.items()) == list(EXPECTED.items())
    assert seen[0] == ("counting", 0, 6)
    assert seen[-1] == ("counting", 6, 6)


def test_finished_jobs_are_not_run_again(tmp_path):
    journal = Journal(tmp_path / "j", "k")
    for name, result in list(EXPECTED.items())[:4]:
        journal.add(name, result)
    # These would fail if they were run.
    jobs = {
        name: (operator.truediv, (1, 0)) if name in journal.read() else job
        for name, job in JOBS.items()
    }

    assert run_jobs(jobs, journal, workers=1, words="") == EXPECTED


def test_a_failing_job_keeps_what_was_finished_before(tmp_path):
    journal = Journal(tmp_path / "j", "k")
    with pytest.raises(ZeroDivisionError):
        run_jobs(
            {"a": (math.factorial, (3,)), "b": (operator.truediv, (1, 0))},
            journal,
            workers=1,
            words="",
        )

    assert journal.read() == {"a": 6}


@pytest.mark.slow
def test_processes_give_the_same_and_leave_the_environment_alone(tmp_path):
    before = dict(os.environ)

    found = run_jobs(JOBS, Journal(tmp_path / "j", "k"), workers=2, words="")

    assert found == EXPECTED
    assert dict(os.environ) == before


@pytest.mark.slow
def test_a_worker_that_dies_is_one_sentence_and_costs_no_finished_job(tmp_path):
    journal = Journal(tmp_path / "j", "k")
    jobs = {**JOBS, "dies": (os._exit, (9,)), "after": (math.factorial, (7,))}

    with pytest.raises(Untrustworthy, match="Run the same command again"):
        run_jobs(jobs, journal, workers=2, words="")

    assert set(journal.read()) <= {*EXPECTED, "after"}
