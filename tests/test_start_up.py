"""What an audit of boosted trees has loaded by the time it shows its first line of progress."""

import csv
import subprocess
import sys

import numpy as np
import pytest
import xgboost

WATCH = """
import contextlib, os, sys
from likewise.cli import main, progress

def tell(what, done, total):
    print(*sys.modules, flush=True)
    os._exit(0)

progress.progress_bar = contextlib.contextmanager(lambda quiet: iter([tell]))
main()
"""

AVOIDED = ("torch", "matplotlib", "pandas", "polars", "lightgbm", "onnx", "ray")


@pytest.mark.slow
def test_an_audit_of_trees_loads_what_its_library_does_and_nothing_heavy_besides(tmp_path):
    rng = np.random.default_rng(0)
    sex, age, hours = rng.choice(["f", "m"], 300), rng.integers(20, 60, 300), rng.normal(size=300)
    y = (age + 10 * hours + 8 * (sex == "m") > 44).astype(int)
    trees = xgboost.XGBClassifier(n_estimators=3, max_depth=2)
    trees.fit(np.column_stack([age, hours]), y).save_model(tmp_path / "model.ubj")
    with open(tmp_path / "people.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("sex", "age", "hours", "y"), *zip(sex, age, hours, y, strict=True)]
        )
    arguments = ["audit", "model.ubj", "people.csv", "--label", "y", "--protected", "sex"]

    def run(code, *more):
        command = [sys.executable, "-c", code, *more]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    library = run("import sys, xgboost; print(*sys.modules)")  # it brings some along by itself
    loaded = run(WATCH, *arguments, "--checks", "core")
    assert "likewise.session" in loaded
    assert {name for name in loaded - library if name.startswith(AVOIDED)} == set()
