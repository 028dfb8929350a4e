"""``likewise test``: what outcomes say of themselves is not lost when tests are repeated."""

import dataclasses
import functools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import helpers
from likewise.errors import InvalidFile, InvalidSample
from likewise.inference.monitor import Monitor
from likewise.inference.sample_size import plan
from likewise.outcomes import Outcomes, Status

run = functools.partial(helpers.run, "test")


@pytest.fixture
def outcomes(rng):
    n = 200
    ones, zeros = np.ones(n), np.zeros(n, dtype=np.int64)
    ratio = 1 + rng.exponential(1.0, n)
    about = {"settings_hash": "abcdef0123456789"}
    return Outcomes(
        np.arange(n), zeros, ones, ratio, zeros, zeros, ones, ones, ones, zeros, about=about
    )


@pytest.fixture
def diverged(outcomes):
    status = outcomes.status.copy()
    status[:3] = Status.DIVERGED
    return dataclasses.replace(outcomes, status=status)


def test_both_settings_are_named(outcomes, tmp_path):
    outcomes.save(tmp_path / "o.parquet")
    result = run(tmp_path / "o.parquet", "--delta", 1.1)
    assert result.exit_code == 1
    assert "the audit's own abcdef012345" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_people_who_were_not_moved_as_intended_make_it_untrustworthy(diverged, tmp_path):
    diverged.save(tmp_path / "o.parquet")
    result = run(tmp_path / "o.parquet")
    assert result.exit_code == 3
    assert "Not trustworthy: 3 of 200 people: left all bounds" in result.stdout


def test_a_monitor_and_a_plan_refuse_them(diverged):
    with pytest.raises(InvalidSample, match="3 of 200 people"):
        Monitor().update(diverged)
    with pytest.raises(InvalidSample, match="3 of 200 people"):
        plan(1.4, pilot=diverged)


def test_outcomes_that_cannot_be_written_are_one_sentence(outcomes, tmp_path):
    with pytest.raises(InvalidFile, match="cannot be written"):
        outcomes.save(tmp_path / "nowhere" / "o.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["test", "monitor", "plan"])
def test_visits_of_counterparts_are_called_what_they_are(tmp_path, command):
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"row": [0], "trait": ["sex"], "before": [1.0], "after": [1.0]}), path)
    given = ["--effect", 1.4, "--pilot", path] if command == "plan" else [path]
    result = helpers.run(command, *given)
    assert result.exit_code == 2
    assert "holds visits of counterparts" in result.stderr
    assert "audit again, with --delta" in result.stderr
