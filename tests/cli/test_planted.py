"""Nothing in the current folder runs, whatever it is called and whichever command is given."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from likewise.models import save_model

NAMES = (
    *("hashlib", "json", "random", "tempfile", "logging"),
    *("decimal", "socket", "uuid", "platform", "queue"),
)
RUNS = "open({path!r}, 'a').write(__name__ + chr(10))\nraise ImportError('planted')\n"

COMMAND = "import sys; from likewise.__main__ import main; sys.argv[0] = 'likewise'; main()"
ROLES = ["--label", "y", "--protected", "group"]
AUDIT = ["audit", "model.safetensors", "people.parquet", *ROLES, "--may-matter", "b"]
AUDIT += ["--checks", "core"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, people, results, and ten modules that leave a trace when they run."""
    place = tmp_path_factory.mktemp("planted")
    rng = np.random.default_rng(7)
    group = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, 3)) + np.outer(group, [1.0, 0, 0])
    y = (x[:, 0] + 0.5 * rng.normal(size=400) > 0.5).astype(int)
    people = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "group": group, "y": y})
    pq.write_table(people, place / "people.parquet")
    save_model(LogisticRegression().fit(x, y), place / "model.safetensors")
    for name in NAMES:
        (place / f"{name}.py").write_text(RUNS.format(path=str(place / "traces")))
    metric = ["metric", "people.parquet", *ROLES, "-o", "metric.safetensors"]
    for command in (metric, [*AUDIT, "-o", "r.json", "-o", "o.parquet", "--run", "inline"]):
        ended = start(place, *command)
        assert ended.returncode in (0, 1), ended.stderr
    shutil.copy(place / "r.json", place / "copy.json")
    return place


def start(place: Path, *arguments: str, how: tuple[str, ...] = ("-P", "-c", COMMAND)):
    """Run a command in a folder; ``-P -c`` finds modules as an installed ``likewise`` does."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, *how, *arguments],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([*AUDIT, "-o", "t.json", "--run", "threads:2"], marks=pytest.mark.slow),
        pytest.param([*AUDIT, "-o", "p.json", "--run", "processes:1"], marks=pytest.mark.slow),
        pytest.param([*AUDIT, "-o", "ray.json", "--run", "ray:1"], marks=pytest.mark.slow),
        ["report", "r.json", "-o", "r.html"],
        ["compare", "r.json", "copy.json"],
        ["plan", "--effect", "1.4", "--sd", "0.9"],
        ["init", "model.safetensors", "people.parquet", "-o", "settings.toml"],
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_nothing_planted_in_the_folder_runs(folder, command):
    if command[-1].startswith("ray"):
        pytest.importorskip("ray")
    ended = start(folder, *command)
    assert ended.returncode in (0, 1), ended.stderr
    assert not (folder / "traces").exists(), (folder / "traces").read_text()


STUDIES = """
import functools, math, pathlib
from likewise_studies.jobs import FinishedJobs, run_jobs
if __name__ == "__main__":
    jobs = {str(k): functools.partial(math.sqrt, k) for k in range(2)}
    kept = FinishedJobs(pathlib.Path("kept.jsonl"), "key")
    assert run_jobs(jobs, kept, workers=2, words="roots") == {"0": 0, "1": 1}
"""
GRAPH = """
    <ir_version: 8, opset_import: ["" : 15]> g (float[n, 3] x) => (float[n, 2] y)
    <float[3, 2] w = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}> { y = MatMul(x, w) }
"""
STRANGER = "from likewise.models import as_model, open_model; as_model(open_model('m.onnx'))"


@pytest.mark.parametrize(
    "how",
    [
        ("-m", "likewise", "plan", "--effect", "1.4", "--sd", "0.9"),
        ("-P", "-c", STUDIES),
        ("-P", "-c", STRANGER),
    ],
    ids=["python -m", "studies", "a stranger's model"],
)
def test_no_other_process_runs_anything_planted(folder, how):
    if how[-1] == STRANGER:
        (folder / "m.onnx").write_bytes(onnx.parser.parse_model(GRAPH).SerializeToString())
    ended = start(folder, how=how)
    assert ended.returncode == 0, ended.stderr
    assert not (folder / "traces").exists()
