"""``likewise monitor``: pieces, a state between runs, and the exit code."""

import functools
import json

import numpy as np
import pytest

import helpers
from likewise.inference.monitor import Monitor
from likewise.outcomes import Outcomes

run = functools.partial(helpers.run, "monitor")


@pytest.fixture
def saved(tmp_path, rng):
    """Save outcomes with a mean ratio under a name, and return their file and ratios."""

    def save(name, mean, n=300, **about):
        ones, zeros = np.ones(n), np.zeros(n, dtype=np.int64)
        ratio = 1 + rng.exponential(mean - 1, n)
        Outcomes(
            np.arange(n), zeros, ones, ratio, zeros, zeros, ones, ones, ones, zeros, about=about
        ).save(tmp_path / name)
        return tmp_path / name, ratio

    return save


def test_evidence_is_exit_code_one_and_the_last_words(saved):
    path, ratio = saved("monday.parquet", 1.6)
    result = run(path)
    expected = Monitor()
    expected.update(ratio)
    assert result.exit_code == 1
    assert "monday.parquet" in result.stdout
    words = " ".join(result.stdout.split())
    assert f"Evidence of unfairness since row {expected.look().rejected_at}:" in words
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_no_evidence_is_exit_code_zero_and_never_a_certificate(saved):
    result = run(saved("monday.parquet", 1.05)[0])
    assert result.exit_code == 0
    assert "Inconclusive so far" in result.stdout
    assert "never certifies" in " ".join(result.stdout.split())


def test_pieces_over_several_runs_are_one_monitor(saved, tmp_path):
    pieces = [saved(f"day {k}.parquet", 1.3) for k in range(3)]
    state, now = tmp_path / "state.json", tmp_path / "now.json"
    run(pieces[0][0], "--state", state)
    result = run(*(path for path, _ in pieces), "--state", state, "--json", now)
    assert "day 0.parquet was fed before and is skipped" in result.stderr
    expected = Monitor()
    expected.update(np.concatenate([ratio for _, ratio in pieces]))
    look = expected.look()
    assert Monitor.load(state).look() == look
    told = json.loads(now.read_text())
    assert (told["n"], told["e_value"], told["outcome"]) == (900, look.e_value, look.outcome)
    assert "(so far, state.json)" in result.stdout


def test_a_piece_that_fails_leaves_the_pieces_before_it_saved(saved, tmp_path):
    good, _ = saved("good.parquet", 1.3, map="flow")
    other, _ = saved("other.parquet", 1.3, map="reach")
    state = tmp_path / "state.json"
    result = run(good, other, "--state", state)
    assert result.exit_code == 2
    assert "another audit" in result.stderr
    assert Monitor.load(state).look().n == 300


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--delta", "0.5"], "delta must be a number of at least 1"),
        (["--alpha", "0.9"], "alpha must lie between 0 and 0.4"),
        (["--lo", "2"], "lo, the smallest ratio"),
        (["--json", "no/such/folder.json"], "cannot be written"),
    ],
)
def test_bad_settings_are_one_sentence(saved, flags, says):
    result = run(saved("monday.parquet", 1.3)[0], *flags)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_changed_tolerance_is_refused(saved, tmp_path):
    path, state = saved("monday.parquet", 1.3)[0], tmp_path / "state.json"
    run(path, "--state", state)
    result = run(path, "--state", state, "--delta", "1.3")
    assert result.exit_code == 2
    assert "cannot change to 1.3" in result.stderr


def test_a_missing_file_is_one_sentence(tmp_path):
    result = run(tmp_path / "none.parquet")
    assert result.exit_code == 2
    assert "There is no file" in result.stderr
    assert result.stdout == ""


def test_the_settings_of_the_audit_are_named(saved, tmp_path):
    path, _ = saved("monday.parquet", 1.6, settings_hash="abcdef0123456789")
    result = run(path, "--json", tmp_path / "look.json")
    assert "settings abcdef012345" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert json.loads((tmp_path / "look.json").read_text())["settings_hash"] == "abcdef0123456789"


@pytest.mark.parametrize(
    ("placebos", "says"),
    [
        ([{}], "no placebo was tried"),
        ([{"loss_ratio": 0.4}], "as sensitive to a trait that means nothing (traits shuffled: p"),
        ([{"loss_ratio": 0.01}, {"loss_ratio": 0.4}], "p = 0.4)"),
        ([{"loss_ratio": 0.01}, {}], ""),
    ],
)
def test_a_learned_metric_accuses_only_if_the_placebos_of_its_audits_allow_it(
    saved, tmp_path, placebos, says
):
    pieces = [saved(f"{k}.parquet", 1.6, placebo=p)[0] for k, p in enumerate(placebos)]
    state, now = tmp_path / "state.json", tmp_path / "now.json"
    for piece in pieces:  # what placebos said is kept between runs
        result = run(piece, "--state", state, "--json", now)
    told = json.loads(now.read_text())
    words = " ".join(result.stdout.split())
    assert result.exit_code == (0 if says else 1)
    assert told["outcome"] == ("inconclusive" if says else "evidence_of_unfairness")
    assert told["rejected"] == (not says)
    assert says in words
    assert says in told["held_back"]
    assert ("Inconclusive: the e-value reached 20 at row" in words) == bool(says)


def test_an_infinite_e_value_is_said_in_the_file_as_in_results(saved, tmp_path):
    path, _ = saved("monday.parquet", 40.0, n=400)
    run(path, "--json", tmp_path / "now.json")
    assert json.loads((tmp_path / "now.json").read_text())["e_value"] == "Infinity"
