"""``likewise plan``: rows for both tests on one page."""

import dataclasses
import functools

import numpy as np
import pytest

import helpers
from likewise.outcomes import Outcomes
from likewise.settings import Settings

run = functools.partial(helpers.run, "plan")


def test_both_tests_are_planned_within_80_columns():
    result = run("--effect", 1.4, "--sd", 0.9, "--base-error", 0.2)
    assert result.exit_code == 0
    assert "loss ratio of 1.40: 223 people" in result.stdout
    assert "error-rate ratio of 1.40: 544 people" in result.stdout
    assert f"Settings {Settings().hash[:12]}" in result.stdout
    assert result.stdout.count("80.") == 2  # the power that is reached, in both curves
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_pilot_takes_the_place_of_guesses(tmp_path, rng):
    n = 400
    ones, zeros = np.ones(n), np.zeros(n, dtype=np.int64)
    before = (rng.random(n) < 0.2).astype(np.int64)
    after = np.maximum(before, rng.random(n) < 0.15).astype(np.int64)
    Outcomes(
        np.arange(n), zeros, ones, 1 + rng.exponential(0.5, n), before, after,
        ones, ones, ones, zeros, about={"monotone": True},
    ).save(tmp_path / "pilot.parquet")  # fmt: skip
    result = run("--pilot", tmp_path / "pilot.parquet", "--effect", 1.4)
    assert result.exit_code == 0
    assert "loss ratio of 1.40:" in result.stdout
    assert "mid-P, enumerated" in " ".join(result.stdout.split())
    assert "pilot of 400 people" in result.stdout
    assert result.stdout == run("--pilot", tmp_path / "pilot.parquet", "--effect", 1.4).stdout
    held = Outcomes.read(tmp_path / "pilot.parquet")
    about = held.about | {"placebo": {"loss_ratio": 0.4, "error_rate_ratio": 0.01}}
    dataclasses.replace(held, about=about).save(tmp_path / "held.parquet")
    warned = " ".join(run("--pilot", tmp_path / "held.parquet", "--effect", 1.4).stdout.split())
    assert "Warning (loss ratio): Under this metric no number of people would do" in warned
    assert "Warning (error-rate" not in warned


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--effect", "1.1", "--sd", "1"], "above delta = 1.25"),
        (["--effect", "1.4"], "--base-error"),
        (["--effect", "9", "--base-error", ".2"], "cannot grow 9 times"),
        (["--effect", "1.4", "--sd", "1", "--alpha", "2"], "alpha"),
        (["--effect", "1.4", "--pilot", "none.parquet"], "There is no file 'none.parquet'"),
    ],
)
def test_bad_input_is_one_sentence(flags, says):
    result = run(*flags)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""
