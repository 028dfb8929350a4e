"""Small versions of the studies on real data: the orderings of the paper, and the command."""

import dataclasses
import functools
import importlib.metadata
import json
import math
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import helpers
from likewise.errors import InvalidFile, InvalidSettings, MissingExtra
from likewise.training import (
    BaselineClassifier,
    ProjectClassifier,
    ReductionsClassifier,
    SenSRClassifier,
)
from likewise_studies.datasets import Split
from likewise_studies.paper_studies import ADULT, COMPAS
from likewise_studies.published import METHODS, SIMULATION_REJECTED
from likewise_studies.reproduction import reproduce, reproduce_study, reproduce_times
from likewise_studies.study import Study


def small(study: Study, split: Split, train: int, test: int, **sensr: object) -> Study:
    """A study with fewer people, and training of a few seconds."""
    fewer = dataclasses.replace(
        split,
        train=split.train.take(np.arange(train)),
        test=split.test.take(np.arange(test)),
    )
    quick = {"learning_rate": 1e-3, "max_iter": 800}
    return dataclasses.replace(
        study,
        split=lambda seed: fewer,
        methods={
            "Baseline": BaselineClassifier(**quick),
            "Project": ProjectClassifier(**quick),
            "Reductions": ReductionsClassifier(difference_bound=0.03, max_iter=10),
            "SenSR": SenSRClassifier(
                **{"learning_rate": 1e-3, "max_iter": 600, "batch_size": 400, **sensr}
            ),
        },
        shuffles=5,
        first=None,
    )


@pytest.fixture(scope="module")
def adult_rows(adult, tmp_path_factory):
    study = small(ADULT, adult, 8000, 1500)
    folder = tmp_path_factory.mktemp("adult")
    found = reproduce_study(study, folder, splits=1)
    again = reproduce_study(study, folder, splits=1)  # from its journal: nothing is run again
    # As text: a figure that is not a number is not equal to itself.
    assert json.dumps(again.results) == json.dumps(found.results)
    return {row["method"]: row for row in found.results["rows"]}


@pytest.mark.slow
def test_adult_orders_the_methods_as_the_paper_does(adult_rows):
    baseline, reductions, sensr = (adult_rows[m] for m in ("Baseline", "Reductions", "SenSR"))
    assert sensr["T_n"] < 1.25 < baseline["T_n"]
    assert sensr["T_tilde_n"] < baseline["T_tilde_n"]
    assert reductions["T_n_rejected"]
    assert not sensr["T_n_rejected"]
    assert abs(reductions["aod_sex"]) < abs(baseline["aod_sex"])
    assert baseline["balanced_accuracy"] > sensr["balanced_accuracy"] > 0.6
    assert -0.4 < baseline["aod_sex"] < -0.05  # women are selected less often than their like


@pytest.mark.slow
def test_a_study_has_refits_a_negative_control_and_matched_pairs_too(adult_rows):
    for row in (adult_rows[method] for method in METHODS):
        for name in ("flow", "reach"):
            assert row[name]["std_error_refitted"] > row[name]["std_error"] > 0
            assert row[name]["lower_bound"] < row[name]["estimate"] < row[name]["upper_bound"]
    baseline, sensr = adult_rows["Baseline"], adult_rows["SenSR"]
    # The first thousand of 1500 people: near the statistic of everyone.
    assert baseline["shuffled"]["T_n"] == pytest.approx(baseline["T_n"], rel=0.3)
    assert len(baseline["shuffled"]["shuffled"]) == 5
    # Permuted attributes are rejected as well, and SenSR is for neither.
    assert baseline["shuffled"]["rejected"] > 0
    assert max(sensr["shuffled"]["shuffled"]) < max(baseline["shuffled"]["shuffled"])
    # Women's rate is lower than with the columns of comparable men; SenSR's hardly differs.
    assert abs(math.log(baseline["paired"]["ratio"])) > abs(math.log(sensr["paired"]["ratio"]))


@pytest.mark.slow
def test_compas_orders_the_methods_as_the_paper_does(compas, tmp_path):
    study = small(COMPAS, compas, 4222, 1056, subspace_rate=0.1, full_steps=8, max_iter=900)
    found = reproduce_study(study, tmp_path, splits=1)
    rows = {row["method"]: row for row in found.results["rows"]}
    assert max(rows["Project"]["T_n"], rows["SenSR"]["T_n"]) < rows["Baseline"]["T_n"]
    assert rows["Baseline"]["T_n_rejected"]
    assert rows["Reductions"]["T_n_rejected"]
    # Men, and African-American defendants, are predicted to be charged again more often.
    assert rows["Baseline"]["aod_sex"] > 0.05
    assert rows["Baseline"]["aod_race"] > 0.05


@pytest.mark.slow
def test_the_statistic_grows_with_time_and_least_for_sensr(adult, tmp_path):
    study = small(ADULT, adult, 8000, 1500)
    fewer = {name: study.methods[name] for name in ("Baseline", "SenSR")}
    found = reproduce_times(dataclasses.replace(study, methods=fewer), tmp_path, splits=1)
    baseline, sensr = found.results["rows"]
    for path in (baseline, sensr):
        # The exact flow never lowers a loss, and goes on for as long as it is let.
        assert np.all(np.diff(path["S_n"]) > -1e-6)
        assert all(
            low <= value <= high
            for low, value, high in zip(path["lower"], path["S_n"], path["upper"], strict=True)
        )
    assert all(s < b for s, b in zip(sensr["T_n"][3:], baseline["T_n"][3:], strict=True))


run = functools.partial(helpers.run, "reproduce")


class NotInstalled(EntryPoint):
    def load(self):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ((), "The paper's studies are not installed here."),
        ((NotInstalled("paper", "x:y", "likewise.studies"),), "paper's studies need matplotlib"),
    ],
)
def test_studies_that_are_not_installed_are_one_sentence(found, sentence, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: found)
    result = run("adult", "--out", str(tmp_path / "new"))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "pip install 'likewise[studies]'" in result.stderr
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_run_is_one_sentence_before_any_training(tmp_path, monkeypatch):
    result = run("adlut", "--out", str(tmp_path / "new"))
    assert result.exit_code == 2
    assert "There is no study 'adlut'" in result.stderr
    assert "Did you mean 'adult'?" in result.stderr
    for name in ("splits", "workers"):
        with pytest.raises(InvalidSettings, match=f"--{name} is 0"):
            reproduce("adult", tmp_path, **{"splits": 1, "workers": 1, name: 0})
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidFile, match="cannot be written"):
        reproduce("simulation", tmp_path / "file" / "below")

    def nowhere(seed: int) -> Split:
        raise InvalidFile("The Adult data cannot be fetched; point to a local file.")

    with pytest.raises(InvalidFile, match="cannot be fetched"):
        reproduce_study(dataclasses.replace(ADULT, split=nowhere), tmp_path, splits=1)
    monkeypatch.setitem(sys.modules, "fairlearn.reductions", None)
    with pytest.raises(MissingExtra, match=r"likewise\[fairlearn\]"):
        reproduce("adult", tmp_path)


@pytest.mark.slow
def test_the_simulation_is_one_command(tmp_path):
    result = run("simulation", "--out", str(tmp_path), "--quiet")
    assert result.exit_code == 0, result.stderr
    grids = json.loads((tmp_path / "results.json").read_text())["grids"]
    assert {name: list(by_angle) for name, by_angle in grids.items()} == {
        name: ["0", "5", "10", "20"] for name in ("published", "corrected", "as_printed")
    }
    for name, counts in SIMULATION_REJECTED.items():
        known = {angle: int((np.array(grids[name][str(angle)]) > 1.25).sum()) for angle in counts}
        assert known == counts
    assert all(len(line) <= 80 for line in result.stdout.splitlines()[:20])
    assert "306" in result.stdout
