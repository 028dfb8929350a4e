"""The composite GitHub Action: its shell steps run as a runner would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
import yaml
from sklearn.linear_model import LogisticRegression

from likewise.models import save_model

SETTINGS = """
[files]
model = "model.safetensors"
data = "test.csv"
pool = "pool.csv"
[columns]
label = "paid"
protected = ["group"]
may_matter = ["income"]
[model]
columns = ["income", "zip"]
[decide]
favourable = "1"
"""


def table(n, seed, unfair):
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.5
    income, zip_code = rng.normal(size=n), rng.normal(1.5 * group, 0.5)
    paid = rng.random(n) < 1 / (1 + np.exp(-income - unfair * zip_code))
    columns = {"income": income.round(3), "zip": zip_code.round(3)}
    return pa.table(columns | {"group": np.where(group, "A", "B"), "paid": paid.astype(int)})


def runner(root: Path, folder: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run the action's audit step with these inputs, in a folder."""
    action = yaml.safe_load((root / "action.yml").read_text("utf-8"))
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "audit")
    given = {name: about["default"] for name, about in action["inputs"].items()} | inputs

    def expand(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: given[match[1]], text)

    variables = {name: expand(value) for name, value in step["env"].items()}
    files = {"GITHUB_OUTPUT": folder / "out", "GITHUB_STEP_SUMMARY": folder / "summary"}
    for file in files.values():
        file.write_text("", "utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # As GitHub runs `shell: bash`.
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **variables, "PATH": path, **{n: str(f) for n, f in files.items()}},
        capture_output=True,
        text=True,
    )
    pairs = (line.partition("=") for line in files["GITHUB_OUTPUT"].read_text("utf-8").splitlines())
    said = files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
    return done.returncode, {name: value for name, _, value in pairs}, said + done.stderr


@pytest.mark.parametrize(
    ("unfair", "code"), [(2.0, 1), pytest.param(0.0, 0, marks=pytest.mark.slow)]
)
def test_the_step_fails_on_evidence_and_hands_over_verdict_and_report(root, tmp_path, unfair, code):
    for name, n, seed in (("test", 1500, 3), ("pool", 3000, 2)):
        csv.write_csv(table(n, seed, unfair), tmp_path / f"{name}.csv")
    train = table(3000, 1, unfair)
    x = np.column_stack([train["income"], train["zip"]])
    save_model(LogisticRegression().fit(x, train["paid"]), tmp_path / "model.safetensors")
    (tmp_path / "likewise.toml").write_text(SETTINGS, "utf-8")
    given = {"options": "--checks core -q", "inconclusive": "pass", "output": "made here"}
    ended, outputs, said = runner(root, tmp_path, **given)
    assert ended == code, said
    assert outputs["verdict"] == ("evidence" if code else outputs["verdict"])
    assert outputs["report"] == "made here/report.html"
    assert {p.name for p in (tmp_path / "made here").iterdir()} == {
        *("report.html", "result.json", "junit.xml", "summary.md")
    }
    assert ("Evidence of unfairness by group" in said) == bool(code)


def test_bad_input_ends_the_step_with_2_and_one_sentence(root, tmp_path):
    ended, outputs, said = runner(root, tmp_path, options="; touch pwned")
    assert (ended, outputs) == (2, {})
    assert not (tmp_path / "pwned").exists()
    assert said.count("\n") <= 4
