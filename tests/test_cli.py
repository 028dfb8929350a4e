"""The command line, as a user meets it: every bad input is one sentence and exit code 2."""

import json

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from helpers import run, sentence
from likewise.models import save_model

ROLES = ["--label", "y", "--protected", "group"]
N = 400


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with people, a model, and people who cannot be audited as they are."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(7)
    group = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 3)) + np.outer(group, [1.0, 0, 0])
    y = (x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=N) > 0.5).astype(int)
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "group": group, "y": y})
    pyarrow.csv.write_csv(table, folder / "people.csv")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    save_model(module, folder / "model.safetensors", classes=(0, 1))

    def changed(column, values):
        return table.set_column(table.column_names.index(column), column, pa.array(values))

    a, groups = x[:, 0].tolist(), group.tolist()
    tables = {
        "people": table,
        "gaps": changed("a", [None, None, *a[2:]]),
        "no_group": changed("group", [None] * 5 + groups[5:]),
        "weighted": table.append_column("w", pa.array([0.0] + [1.0] * (N - 1))),
        "renamed": table.rename_columns(["a", "b", "z", "group", "y"]),
    }
    for name, one in tables.items():
        pq.write_table(one, folder / f"{name}.parquet")
    fitted = LogisticRegression().fit(np.eye(3), [0, 1, 1])
    joblib.dump(fitted, folder / "model.joblib")
    return folder


@pytest.fixture
def audit(world, monkeypatch, tmp_path):
    """Audit in that folder, by default its model and people; results go elsewhere."""
    monkeypatch.chdir(world)

    def run_audit(*flags, model="model.safetensors", people="people.csv", roles=ROLES):
        return run("audit", model, people, *roles, *flags)

    return run_audit


def read(path):
    return json.loads(path.read_text())


def refused(result, *words):
    """Check that a command refused in one sentence, with these words."""
    said = sentence(result)
    assert [word for word in words if word not in said] == []


def test_an_audit_writes_a_result_that_says_what_it_did_and_can_be_repeated(audit, tmp_path):
    result = audit("-o", tmp_path / "r.json", "-o", tmp_path / "o.parquet")
    assert result.exit_code in (0, 1), result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "o.parquet" in result.stdout.split("\nReport")[1]
    record = read(tmp_path / "r.json")
    assert record["schema_version"] == 3
    for test in ("loss_ratio", "error_rate_ratio"):
        wanted = {"method", "estimate", "std_error", "statistic", "p_value", "rejected"}
        wanted |= {"interval", "lower_bound", "upper_bound", "delta", "alpha", "n"}
        assert wanted <= set(record["tests"][test])
        assert record["tests"][test]["n"] == N
    assert record["rows"]["moved"] == N
    assert len(record["settings_hash"]) == 64
    assert all(len(record[part]["sha256"]) == 64 for part in ("model", "data", "metric"))
    assert result.exit_code == (1 if record["verdict"] == "evidence" else 0)
    assert pq.read_table(tmp_path / "o.parquet").num_rows == N
    audit("-o", tmp_path / "again.json")
    again = read(tmp_path / "again.json")
    for volatile in ("created", "seconds", "command"):
        record.pop(volatile), again.pop(volatile)
    assert record == again


def test_a_saved_metric_is_used_and_one_of_other_features_refused(audit, tmp_path):
    metric = tmp_path / "metric.safetensors"
    learned = run("metric", "people.csv", *ROLES, "--model", "model.safetensors", "-o", metric)
    assert learned.exit_code == 0, learned.stderr
    page = [line for line in learned.stdout.splitlines() if "people.csv" not in line]
    assert max(map(len, page)) <= 80
    result = audit("--metric", metric, "-o", tmp_path / "r.json")
    assert result.exit_code in (0, 1), result.stderr
    assert read(tmp_path / "r.json")["metric"]["learned"]
    run("metric", "renamed.parquet", *ROLES, "--model", "model.safetensors", "-o", metric)
    refused(audit("--metric", metric), "other features")


def test_a_dry_run_checks_everything_and_measures_no_one(audit, tmp_path):
    result = audit("--dry-run", "-o", tmp_path / "r.json", "--trust", model="model.joblib")
    assert result.exit_code == 0
    assert str(N) in result.stdout
    assert not (tmp_path / "r.json").exists()
    refused(audit("--dry-run", "-o", tmp_path / "nowhere" / "r.json"), "nowhere")
    refused(run("report", "people.csv"), "people.csv")


def test_settings_files_are_read_and_flags_that_disagree_are_refused(audit, tmp_path):
    path = tmp_path / "audit.toml"
    path.write_text("delta = 1.5\n")
    flags = ["--settings", path, "--checks", "core", "-o", tmp_path / "r.json"]
    assert audit(*flags).exit_code in (0, 1)
    assert read(tmp_path / "r.json")["settings"]["delta"] == 1.5
    refused(audit(*flags, "--delta", "1.1"), "Say it once")


def test_rows_with_gaps_are_dropped_when_asked_for_and_counted(audit, tmp_path):
    flags = ["--set", "columns.drop_missing=true", "-o", tmp_path / "r.json"]
    assert audit(*flags, people="gaps.parquet").exit_code in (0, 1)
    record = read(tmp_path / "r.json")
    data = record["data"]
    assert (data["n"], sum(data["dropped"].values())) == (N - 2, 2)
    assert record["notes"][0] == "2 rows are left out: missing a (2)."
    assert audit("-o", tmp_path / "r.json", people="no_group.parquet").exit_code in (0, 1)
    record = read(tmp_path / "r.json")
    assert (record["data"]["n"], record["data"]["missing"]) == (N, {"group": 5})
    assert record["notes"][0] == "5 of 400 people have no value of 'group': they are in no group."


BAD_CHOICES = (
    *("--set method.lam=0", "--set alpha=0", "--set alpha=1.5", "--set method.time=-1"),
    *("--delta 0.5", "--set decide.interval=magic", "--metric no.safetensors", "-o no/r.json"),
    "--method gradient_flow --set method.steps=0",
)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"people": "absent.csv"}, "absent.csv"),
        ({"model": "absent.safetensors"}, "absent.safetensors"),
        ({"people": "gaps.parquet"}, "a 2 drop_missing"),
        ({"people": "weighted.parquet", "roles": [*ROLES, "--weights", "w"]}, "weights"),
        ({"roles": ["--label", "yy", "--protected", "group"]}, "yy 'y'"),
        ({"roles": ["--label", "y", "--protected", "grup"]}, "'group'"),
        ({"roles": ["--protected", "group"]}, "--label"),
        ({"model": "model.joblib"}, "--trust"),
        ({"model": "os:system"}, "--trust"),
        *(({"flags": flags}, "") for flags in BAD_CHOICES),
    ],
    ids=str,
)
def test_bad_files_columns_and_values_are_named(audit, given, words):
    flags = given.get("flags", "").split()
    refused(audit(*flags, **{k: v for k, v in given.items() if k != "flags"}), *words.split())


@pytest.mark.parametrize("words", [["audit"], ["audit", "--nonsense"], ["nonsense"]])
def test_usage_errors_are_exit_code_2(words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(*words).exit_code == 2


def test_the_version_is_printed():
    assert run("--version").stdout.startswith("likewise ")
