"""Any model on the command line: whatever it is saved as, whatever it reads and predicts."""

import json
import os
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise
from helpers import run
from likewise.methods.metric_file import load_metric
from likewise.models import save_model
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

ROLES = ["--label", "y", "--protected", "group"]
PAIRS = ["--may-matter", "a", "--favourable", "1", "--checks", "core"]
METRIC = {"controls": 0, "groups": 2}


@pytest.fixture(scope="module")
def table():
    """People of two groups; the first three hundred are audited, the others train and compare."""
    rng = np.random.default_rng(3)
    n = 1200
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + np.outer(group, [0.4, 1.2, 0])
    score = x @ [0.5, 1.0, 0.5]
    jobs = np.array(["clerk", "cook", "smith"])
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "c": x[:, 2],
            "job": jobs[np.digitize(x[:, 2] + 0.3 * rng.normal(size=n), [-0.5, 0.5])],
            "group": np.where(group, "m", "f"),
            "member": group,
            "y": (score + 0.8 * rng.normal(size=n) > 0.6).astype(int),
            "level": np.digitize(score + 0.5 * rng.normal(size=n), [0, 1]),
            "amount": score + 0.3 * rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def parts(table):
    return table[:300], table[300:800], table[800:]


@pytest.fixture(scope="module")
def estimators(parts):
    x, y = parts[2][["a", "b", "c"]].to_numpy(), parts[2]["y"].to_numpy()
    return {
        "logistic": LogisticRegression().fit(x, y),
        "network": MLPClassifier((8,), max_iter=600, random_state=0).fit(x, y),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory, parts, estimators):
    """Everything on disk: the people, and each model in every form that it can be saved in."""
    from skl2onnx import to_onnx
    from skops import io as skops

    folder = tmp_path_factory.mktemp("any-model")
    for name, part in zip(("people", "pool"), parts, strict=False):
        part[["a", "b", "c", "group", "y"]].to_csv(folder / f"{name}.csv", index=False)
        part[["a", "b", "c", "job", "group", "y"]].to_csv(folder / f"{name}_jobs.csv", index=False)
    for name, estimator in estimators.items():
        some = parts[0][["a", "b", "c"]].to_numpy(dtype=np.float32)[:1]
        graph = to_onnx(estimator, some, options={"zipmap": False})
        (folder / f"{name}.onnx").write_bytes(graph.SerializeToString())
        skops.dump(estimator, folder / f"{name}.skops")
        joblib.dump(estimator, folder / f"{name}.joblib")
    (folder / "scoring.py").write_text(
        "from pathlib import Path\nimport joblib\n"
        "model = joblib.load(Path(__file__).with_name('logistic.joblib'))\n"
        "def score(rows):\n    return model.predict_proba(rows)[:, 1]\n"
        "def quartic(out, y):\n    return (out - y) ** 4\n"
        "def slope(out, y):\n    return 4 * (out - y) ** 3\n"
        "pair = (quartic, slope)\n"
    )
    steps = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["job"]))
    whole = make_pipeline(steps, RandomForestClassifier(15, random_state=0))
    joblib.dump(whole.fit(parts[2][["a", "b", "job"]], parts[2]["y"]), folder / "pipeline.joblib")
    module = torch.nn.Linear(3, 1).double()
    module.weight.data = torch.from_numpy(estimators["logistic"].coef_)
    module.bias.data = torch.from_numpy(estimators["logistic"].intercept_)
    save_model(module, folder / "logistic.safetensors", classes=(0, 1))
    rows = torch.export.Dim("rows", min=1, max=1 << 24)
    exported = torch.export.export(
        module, (torch.zeros(2, 3, dtype=torch.float64),), dynamic_shapes=({0: rows},)
    )
    torch.export.save(exported, folder / "logistic.pt2")
    return folder


def audited(tmp_path, *arguments):
    """Run an audit that gives a verdict, and return its record."""
    result = run("audit", *arguments, "-o", tmp_path / "result.json")
    assert result.exit_code in (0, 1, 3), result.stderr
    return Record.read(tmp_path / "result.json")


def failed(result, *words, code=2):
    """Check that a command ended with one sentence and its code, and no traceback."""
    assert result.exit_code == code, result.output + result.stderr
    assert "Traceback" not in result.output + result.stderr
    lines = [line for line in result.stderr.splitlines() if line and not line.startswith("Warning")]
    assert len(lines) == 1, lines
    for word in words:
        assert word in lines[0], f"{word!r} not in {lines[0]!r}"


def rates(record):
    """Return the two rates of every comparison."""
    return [(c.own, c.swapped) for c in record.matched_pairs.comparisons]


# The same model, however it is saved


@pytest.fixture(scope="module")
def in_memory(parts, estimators):
    """Audit each model as it stands in memory."""
    columns = ["a", "b", "c", "group", "y"]
    settings = Settings(checks="core")
    return {
        name: likewise.audit(
            estimator, parts[0][columns], pool=parts[1][columns], label="y", protected="group",
            may_matter=["a"], favourable=1, settings=settings,
        ).record
        for name, estimator in estimators.items()
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("logistic", "logistic.onnx"),
        ("logistic", "logistic.skops"),
        ("network", "network.joblib --trust"),
        ("logistic", "logistic.safetensors"),
        ("logistic", "logistic.pt2 --trust"),
        ("logistic", "scoring:score --trust"),
    ],
)
def test_a_saved_model_gets_the_numbers_of_the_one_in_memory(
    name, spec, folder, in_memory, tmp_path, monkeypatch
):
    monkeypatch.chdir(folder)
    record = audited(tmp_path, *spec.split(), "people.csv", *ROLES, *PAIRS, "--pool", "pool.csv")
    expected = in_memory[name]
    assert record.verdict == expected.verdict
    # A person on the very limit may be decided otherwise in single precision.
    np.testing.assert_allclose(rates(record), rates(expected), atol=0.005)


def test_a_metric_for_a_model_of_columns_carries_the_encoder_of_its_features(folder, tmp_path):
    model, metric = folder / "pipeline.joblib", tmp_path / "metric.safetensors"
    learned = run(
        "metric", folder / "people_jobs.csv", *ROLES, "--model", model, "--trust", "-o", metric
    )
    assert learned.exit_code == 0, learned.stderr
    assert json.loads(load_metric(metric).attached["encoder"])["codings"]


def test_a_table_that_is_scored_already_needs_no_model(folder, parts, estimators, tmp_path):
    names = []
    for name, part in zip(("people", "pool"), parts, strict=False):
        decided = estimators["logistic"].predict(part[["a", "b", "c"]].to_numpy())
        scored = part[["a", "b", "c", "group"]].assign(approved=np.where(decided, "yes", "no"))
        names.append(tmp_path / f"{name}.parquet")
        scored.to_parquet(names[-1])
    choices = ["--protected", "group", "--may-matter", "a", "--favourable", "yes"]
    record = audited(
        tmp_path, "--scores", names[0], "--decision", "approved", *choices, "--checks", "core",
        "--pool", names[1],
    )  # fmt: skip
    assert record.model.kind == "scored table"


def test_a_loss_of_ones_own_is_named_on_the_command_line(folder, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    line = LinearRegression().fit(parts[2][["a", "b", "c"]].to_numpy(), parts[2]["amount"])
    joblib.dump(line, tmp_path / "line.joblib")
    parts[0][["a", "b", "c", "group", "amount"]].to_csv(tmp_path / "people.csv", index=False)
    command = [
        tmp_path / "line.joblib", tmp_path / "people.csv", "--label", "amount", "--protected",
        "group", "--loss", "scoring:pair", "--set", "method.name=reach", "--set", "method.budget=8",
        "--set", "metric.controls=0", "--set", "metric.groups=2", "--checks", "core",
    ]  # fmt: skip
    failed(run("audit", *command), "--trust")
    record = audited(tmp_path, *command, "--trust", "-o", tmp_path / "outcomes.parquet")
    outcomes = Outcomes.read(tmp_path / "outcomes.parquet")
    error = line.predict(parts[0][["a", "b", "c"]].to_numpy()) - parts[0]["amount"]
    np.testing.assert_allclose(outcomes.loss_before, error**4, rtol=1e-9)
    assert record.settings.decide.loss == "scoring:pair"


# Every task by every method that perturbs people


TASKS = {
    "classes, network": (LogisticRegression(), "level"),
    "classes, forest": (RandomForestClassifier(15, random_state=0), "level"),
    "number, line": (LinearRegression(), "amount"),
    "number, forest": (RandomForestRegressor(15, random_state=0), "amount"),
}


@pytest.mark.parametrize("method", ["gradient_flow", "reach", "flip"])
@pytest.mark.parametrize("task", TASKS)
def test_many_classes_and_numbers_are_audited_by_every_method(task, method, parts):
    estimator, label = TASKS[task]
    inputs = ["a", "b", "c", "member"]
    fitted = estimator.fit(parts[2][inputs], parts[2][label])
    named = {"name": method} | ({"time": 0.5} if method == "gradient_flow" else {})
    settings = Settings(checks="core", method=named, metric=METRIC)
    choices = {"label": label, "protected": "member", "settings": settings}
    if method == "gradient_flow" and "forest" in task:
        with pytest.raises(likewise.LikewiseError, match="no gradient"):
            likewise.audit(fitted, parts[0][[*inputs, label]], **choices)
        return
    result = likewise.audit(fitted, parts[0][[*inputs, label]], **choices)
    outcomes = result.outcomes
    assert (outcomes.loss_after >= outcomes.loss_before * (1 - 1e-9)).all()
    assert outcomes.loss_after.mean() > 1.001 * outcomes.loss_before.mean()
    expected = {"mean_loss_ratio"} if label == "amount" else {"loss_ratio", "error_rate_ratio"}
    assert result.record.tests.keys() == expected
    assert result.record.decided_by.test in expected
    for found in result.record.tests.values():
        assert (found.S_n, found.T_n) == (found.estimate, found.statistic)


# What goes wrong


class Hostile:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


PICKLES = ["pt2", "pt", "pth", "pkl", "pickle", "joblib"]


@pytest.mark.parametrize("suffix", ["safetensors", "onnx", "skops", "ubj", "txt", *PICKLES])
def test_a_hostile_file_is_one_sentence_and_nothing_runs(suffix, folder, tmp_path):
    mark, path = tmp_path / "mark", tmp_path / f"model.{suffix}"
    path.write_bytes(pickle.dumps(Hostile(mark)))
    words = ("can run code", "--trust") if suffix in PICKLES else ()
    failed(run("audit", path, folder / "people.csv", *ROLES), path.name, *words)
    assert not mark.exists()
