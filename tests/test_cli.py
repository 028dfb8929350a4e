"""The command line, as a user meets it: every bad input is one sentence and exit code 2."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

import likewise
from helpers import run

ROLES = ["--label", "y", "--protected", "group"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A small world on disk: people, a model, a metric, and broken versions of each."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(7)
    n = 400
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + np.outer(group, [1.0, 0, 0])
    y = (x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=n) > 0.5).astype(int)
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "group": group, "y": y})
    pyarrow.csv.write_csv(table, folder / "people.csv")
    pq.write_table(table, folder / "people.parquet")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    likewise.save_model(module, folder / "model.safetensors", classes=(0, 1))
    return folder


def refused(result, *words):
    """Check that a command ended with one sentence, exit code 2, and no traceback."""
    assert result.exit_code == 2, result.output + result.stderr
    assert "Traceback" not in result.output + result.stderr
    text = " ".join(result.stderr.split())
    for word in words:
        assert word in text, f"{word!r} not in {text!r}"
    lines = [line for line in result.stderr.splitlines() if line and not line.startswith("Warning")]
    assert len(lines) == 1, lines


def test_an_audit_writes_a_result_that_says_what_it_did(world, tmp_path):
    result = run(
        "audit",
        world / "model.safetensors",
        world / "people.csv",
        *ROLES,
        "-o",
        tmp_path / "r.json",
        "-o",
        tmp_path / "o.parquet",
    )
    assert result.exit_code in (0, 1), result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["schema_version"] == 3
    assert record["verdict"] in ("evidence", "within_tolerance", "inconclusive")
    for test in ("loss_ratio", "error_rate_ratio"):
        wanted = {"method", "estimate", "std_error", "statistic", "p_value", "rejected"}
        wanted |= {"interval", "lower_bound", "upper_bound", "delta", "alpha", "n"}
        assert wanted <= set(record["tests"][test])
        assert record["tests"][test]["n"] == 400
    assert record["rows"]["moved"] == 400
    assert len(record["settings_hash"]) == 64
    for part in ("model", "data", "metric"):
        assert len(record[part]["sha256"]) == 64
    assert result.exit_code == (1 if record["verdict"] == "evidence" else 0)
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 400


def test_the_same_command_gives_the_same_numbers(world, tmp_path):
    for name in ("one.json", "two.json"):
        run("audit", world / "model.safetensors", world / "people.parquet", *ROLES,
            "-o", tmp_path / name)  # fmt: skip
    one, two = (json.loads((tmp_path / n).read_text()) for n in ("one.json", "two.json"))
    for volatile in ("created", "seconds", "command"):
        one.pop(volatile), two.pop(volatile)
    assert one == two


def test_a_saved_metric_is_used_and_named(world, tmp_path):
    metric = tmp_path / "metric.safetensors"
    learned = run("metric", world / "people.csv", *ROLES, "--no-encoder", "-o", metric)
    assert learned.exit_code == 0, learned.stderr
    page = [line for line in learned.stdout.splitlines() if "people.csv" not in line]
    assert max(map(len, page)) <= 80
    result = run("audit", world / "model.safetensors", world / "people.csv", *ROLES,
                 "--metric", metric, "-o", tmp_path / "r.json")  # fmt: skip
    assert result.exit_code in (0, 1), result.stderr
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["metric"]["learned"]


def test_a_dry_run_checks_everything_and_moves_nobody(world, tmp_path):
    result = run("audit", world / "model.safetensors", world / "people.csv", *ROLES, "--dry-run",
                 "-o", tmp_path / "r.json")  # fmt: skip
    assert result.exit_code == 0
    assert "400" in result.stdout
    assert not (tmp_path / "r.json").exists()
    refused(run("audit", world / "model.safetensors", world / "people.csv", *ROLES, "--dry-run",
                "-o", tmp_path / "nowhere" / "r.json"), "nowhere")  # fmt: skip


def test_settings_files_are_read_and_flags_that_disagree_are_refused(world, tmp_path):
    path = tmp_path / "audit.toml"
    path.write_text("delta = 1.5\n")
    command = ["audit", world / "model.safetensors", world / "people.csv", *ROLES]
    command += ["--settings", path, "--checks", "core", "-o", tmp_path / "r.json"]
    assert run(*command).exit_code in (0, 1)
    assert json.loads((tmp_path / "r.json").read_text())["settings"]["delta"] == 1.5
    refused(run(*command, "--delta", "1.1"), "Say it once")


@pytest.fixture
def table(world):
    return pyarrow.csv.read_csv(world / "people.csv")


def write(folder, table):
    pq.write_table(table, folder / "bad.parquet")
    return folder / "bad.parquet"


def changed(table, column, values):
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def test_bad_files_are_named(world, tmp_path):
    model, people = world / "model.safetensors", world / "people.csv"
    refused(run("audit", model, tmp_path / "absent.csv", *ROLES), "absent.csv")
    refused(run("audit", tmp_path / "absent.safetensors", people, *ROLES), "absent.safetensors")
    (tmp_path / "empty.csv").write_text("")
    refused(run("audit", model, tmp_path / "empty.csv", *ROLES), "empty.csv")
    (tmp_path / "cut.parquet").write_bytes((world / "people.parquet").read_bytes()[:300])
    refused(run("audit", model, tmp_path / "cut.parquet", *ROLES), "cut.parquet")
    (tmp_path / "cut.safetensors").write_bytes(model.read_bytes()[:50])
    refused(run("audit", tmp_path / "cut.safetensors", people, *ROLES), "cut.safetensors")
    refused(run("audit", model, people, *ROLES, "--metric", tmp_path / "no.safetensors"), "no.s")
    refused(run("audit", model, people, *ROLES, "-o", tmp_path / "no" / "r.json"), "folder")
    refused(run("report", people), "people.csv")


def test_bad_columns_are_named(world, tmp_path, table):
    model, people = world / "model.safetensors", world / "people.csv"
    refused(run("audit", model, people, "--label", "yy", "--protected", "group"), "yy", "'y'")
    refused(run("audit", model, people, "--label", "y", "--protected", "grup"), "'group'")
    refused(run("audit", model, people, "--protected", "group"), "--label")
    strange = write(tmp_path, changed(table, "y", [0, 1, 7, 9] * 100))
    refused(run("audit", model, strange, *ROLES), "7")
    constant = write(tmp_path, changed(table, "group", [1] * 400))
    refused(run("audit", model, constant, *ROLES), "group")
    wide = write(tmp_path, table.append_column("d", pa.array(np.zeros(400))))
    refused(run("audit", model, wide, *ROLES), "3", "4")
    refused(run("audit", model, write(tmp_path, table.slice(0, 1)), *ROLES))


def test_bad_values_are_counted(world, tmp_path, table):
    model = world / "model.safetensors"
    a = table["a"].to_pylist()
    infinite = write(tmp_path, changed(table, "a", [float("inf"), *a[1:]]))
    refused(run("audit", model, infinite, *ROLES), "a")
    gaps = write(tmp_path, changed(table, "a", [None, None, *a[2:]]))
    refused(run("audit", model, gaps, *ROLES), "a", "2", "drop_missing")
    dropped = run(
        "audit",
        model,
        gaps,
        *ROLES,
        "--set",
        "columns.drop_missing=true",
        "-o",
        tmp_path / "r.json",
    )
    assert dropped.exit_code in (0, 1)
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["data"]["n"] == 398
    assert sum(record["data"]["dropped"].values()) == 2
    weights = write(tmp_path, table.append_column("w", pa.array([0.0] + [1.0] * 399)))
    refused(run("audit", model, weights, *ROLES, "--weights", "w"), "w")


def test_missing_traits_are_counted_and_said(world, tmp_path, table):
    group = table["group"].to_pylist()
    path = write(tmp_path, changed(table, "group", [None] * 5 + group[5:]))
    result = run("audit", world / "model.safetensors", path, *ROLES, "-o", tmp_path / "r.json")
    assert result.exit_code in (0, 1), result.stderr
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["data"]["missing"] == {"group": 5}
    assert record["data"]["n"] == 400


@pytest.mark.parametrize(
    "flags",
    [
        ("--set", "method.lam=0"),
        ("--set", "alpha=0"),
        ("--set", "alpha=1.5"),
        ("--delta", "0.5"),
        ("--set", "method.time=-1"),
        ("--set", "decide.interval=magic"),
        ("--method", "gradient_flow", "--set", "method.steps=0"),
    ],
    ids=" ".join,
)
def test_bad_choices_are_refused(world, flags):
    refused(run("audit", world / "model.safetensors", world / "people.csv", *ROLES, *flags))


def test_files_that_can_run_code_need_trust(world, tmp_path):
    import joblib
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(np.eye(3), [0, 1, 1])
    joblib.dump(fitted, tmp_path / "model.joblib")
    joblib.dump(fitted, tmp_path / "model.pkl")
    (tmp_path / "model.pt2").write_bytes(b"PK")
    for name in ("model.joblib", "model.pkl", "model.pt2"):
        refused(run("audit", tmp_path / name, world / "people.csv", *ROLES), "--trust")
    refused(run("audit", "os:system", world / "people.csv", *ROLES), "--trust")
    trusted = run("audit", tmp_path / "model.joblib", world / "people.csv", *ROLES, "--trust")
    assert trusted.exit_code != 2, trusted.stderr


def test_a_metric_of_other_features_is_refused(world, tmp_path, table):
    renamed = write(tmp_path, table.rename_columns(["a", "b", "z", "group", "y"]))
    metric = tmp_path / "metric.safetensors"
    run("metric", renamed, *ROLES, "--no-encoder", "-o", metric)
    model, people = world / "model.safetensors", world / "people.csv"
    refused(run("audit", model, people, *ROLES, "--metric", metric), "other features")


def test_a_bug_is_exit_code_4_and_says_so(world, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr("likewise._audit.bind", broken)
    result = run("audit", world / "model.safetensors", world / "people.csv", *ROLES)
    assert result.exit_code == 4
    assert "boom" in result.stderr


def test_usage_errors_are_exit_code_2():
    assert run("audit").exit_code == 2
    assert run("audit", "--nonsense").exit_code == 2
    assert run("nonsense").exit_code == 2


def test_the_version_is_printed_by_the_module_too():
    shown = subprocess.run(
        [sys.executable, "-m", "likewise", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("likewise ")


def wait_for_work(pid, seconds):
    """Wait until a process has worked so long: on a busy machine the clock says little."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        time.sleep(seconds)
        return
    while True:
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        if (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.2)


@pytest.mark.slow
def test_an_interrupt_is_exit_code_130(world, tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "likewise", "audit", world / "model.safetensors",
         world / "people.csv", *ROLES, "--paper", "--set", "method.steps=2000000"],
        stderr=subprocess.PIPE, env=environment, text=True,
    )  # fmt: skip
    wait_for_work(process.pid, seconds=8)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
