"""Any model, end to end: whatever it is saved as, whatever it predicts, whichever map."""

import contextlib
import json
import os
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
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
from likewise.models import endpoint
from likewise.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

ROLES = ["--label", "y", "--protected", "group"]
QUICK = ["--checks", "core"]


@pytest.fixture(scope="module")
def table():
    """People of two groups; the first three hundred are audited, the others train."""
    rng = np.random.default_rng(3)
    n = 900
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + np.outer(group, [1.2, 0.4, 0])
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
def audited(table):
    return table[:300]


@pytest.fixture(scope="module")
def training(table):
    return table[300:]


@pytest.fixture(scope="module")
def x(training):
    return training[["a", "b", "c"]].to_numpy()


@pytest.fixture(scope="module")
def estimators(x, training):
    y = training["y"].to_numpy()
    return {
        "logistic": LogisticRegression().fit(x, y),
        "network": MLPClassifier((8,), max_iter=600, random_state=0).fit(x, y),
        # An odd number of trees: no ties, which single precision would break its own way.
        "forest": RandomForestClassifier(31, random_state=0).fit(x, y),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory, audited, estimators, x):
    """Everything on disk: the people, and each model in every form that it can be saved in."""
    from skl2onnx import to_onnx
    from skops import io as skops

    folder = tmp_path_factory.mktemp("any-model")
    audited[["a", "b", "c", "group", "y"]].to_csv(folder / "people.csv", index=False)
    for name, estimator in estimators.items():
        graph = to_onnx(estimator, x[:1].astype(np.float32), options={"zipmap": False})
        (folder / f"{name}.onnx").write_bytes(graph.SerializeToString())
        skops.dump(estimator, folder / f"{name}.skops")
        joblib.dump(estimator, folder / f"{name}.joblib")
    (folder / "scoring.py").write_text(
        "from pathlib import Path\nimport joblib\n"
        "_model = joblib.load(Path(__file__).with_name('logistic.joblib'))\n"
        "def score(rows):\n    return _model.predict_proba(rows)[:, 1]\n"
    )
    module = torch.nn.Linear(3, 1).double()
    module.weight.data = torch.from_numpy(estimators["logistic"].coef_)
    module.bias.data = torch.from_numpy(estimators["logistic"].intercept_)
    rows = torch.export.Dim("rows", min=1, max=1 << 24)
    exported = torch.export.export(
        module, (torch.zeros(2, 3, dtype=torch.float64),), dynamic_shapes=({0: rows},)
    )
    torch.export.save(exported, folder / "logistic.pt2")
    return folder


def people_of(frame, *inputs, label="y", protected="group", raw=False):
    columns = list(dict.fromkeys([*inputs, protected, label]))
    known = None if raw else inputs
    return likewise.read(frame[columns], label=label, protected=[protected], inputs=known, raw=raw)


def record_of(tmp_path, *arguments):
    """Run an audit that gives a verdict, and return its result file and its outcomes."""
    files = tmp_path / "result.json", tmp_path / "outcomes.parquet"
    result = run("audit", *arguments, "--json", files[0], "--outcomes", files[1])
    assert result.exit_code in (0, 1), result.stderr
    record = likewise.Record.read(files[0])
    assert result.exit_code == (record.outcome == "evidence_of_unfairness")
    return record, likewise.Outcomes.read(files[1])


def failed(result, *words, code=2):
    """Check that a command ended with one sentence and its code, and no traceback."""
    assert result.exit_code == code, result.output + result.stderr
    assert "Traceback" not in result.output + result.stderr
    lines = [line for line in result.stderr.splitlines() if line and not line.startswith("Warning")]
    assert len(lines) == 1, lines
    for word in words:
        assert word in lines[0], f"{word!r} not in {lines[0]!r}"


@contextlib.contextmanager
def serving(behave, heard=None):
    """Run a real server on this machine; ``behave(rows)`` returns a status and an answer.

    A list ``heard`` collects the authorisations that requests come with.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            size = int(self.headers["Content-Length"])
            if heard is not None:
                heard.append(self.headers["Authorization"])
            status, answer = behave(json.loads(self.rfile.read(size))["instances"])
            content = json.dumps(answer).encode()
            with contextlib.suppress(OSError):  # a client that lost patience is gone
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/predict"
    finally:
        server.shutdown()
        server.server_close()


# The same model, however it is saved


@pytest.fixture(scope="module")
def in_memory(audited, estimators):
    """Audit each model as it stands in memory."""
    people = people_of(audited, "a", "b", "c")
    settings = Settings(checks="core", map="reach", decide={"test": "error_rate_ratio"})
    return {
        name: likewise.audit(estimator, people, settings=settings)
        for name, estimator in estimators.items()
    }


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("logistic", "logistic.onnx"),
        ("network", "network.onnx"),
        ("forest", "forest.onnx"),
        ("logistic", "logistic.skops"),
        ("network", "network.skops"),
        ("forest", "forest.skops --trust"),
        ("network", "network.joblib --trust"),
        ("logistic", "logistic.pt2 --trust"),
        ("logistic", "scoring:score --trust"),
    ],
)
def test_a_saved_model_gets_the_verdict_of_the_one_in_memory(
    name, spec, folder, in_memory, tmp_path, monkeypatch
):
    monkeypatch.chdir(folder)
    choices = ["--map", "reach", "--set", "decide.test=error_rate_ratio", *QUICK]
    record, outcomes = record_of(tmp_path, *spec.split(), "people.csv", *ROLES, *choices)
    expected = in_memory[name]
    assert record.outcome == expected.outcome
    gap = np.abs(outcomes.probability_before - expected.outcomes.probability_before).max()
    assert gap < 1e-6
    assert record.model.n_features == 3
    assert record.search.keys() == expected.record.search.keys()
    # Not to the last digit: single precision may send the search to another place as bad.
    found, wanted = (r.tests["error_rate_ratio"].estimate for r in (record, expected.record))
    assert found == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("protected", ["group", "member"])
def test_a_pipeline_fitted_without_names_reads_the_columns_that_are_not_protected(
    protected, audited, training, x, tmp_path
):
    from skops import io as skops

    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, training["y"])
    skops.dump(pipeline, tmp_path / "model.skops")
    columns = ["a", "job", "b", protected, "c", "y"]
    for name, frame in (("train", training), ("people", audited)):
        frame[columns].to_csv(tmp_path / f"{name}.csv", index=False)
    roles = ["--label", "y", "--protected", protected]
    learned = run("metric", tmp_path / "train.csv", "--model", tmp_path / "model.skops", *roles,
                  "-o", tmp_path / "metric.safetensors")  # fmt: skip
    assert learned.exit_code == 0, learned.stderr
    record, outcomes = record_of(
        tmp_path, tmp_path / "model.skops", tmp_path / "people.csv", *roles, *QUICK,
        "--metric", tmp_path / "metric.safetensors",
    )  # fmt: skip
    expected = pipeline.predict_proba(audited[["a", "b", "c"]].to_numpy())
    wanted = expected[np.arange(300), audited["y"]]
    assert np.abs(outcomes.probability_before - wanted).max() < 1e-9
    assert record.decided_by.map == "reach"
    failed(run("audit", tmp_path / "model.skops", tmp_path / "people.csv", *roles,
               "--map", "flips"), "swap")  # fmt: skip


def test_a_model_at_an_address_gets_the_same_verdict(folder, estimators, in_memory, tmp_path):
    seen = []

    def behave(rows):
        seen.append(len(rows))
        return 200, {"predictions": estimators["network"].predict_proba(np.array(rows)).tolist()}

    choices = ["--map", "reach", *QUICK]
    with serving(behave) as url:
        record, outcomes = record_of(tmp_path, url, folder / "people.csv", *ROLES, *choices)
    expected = in_memory["network"]
    assert record.outcome == expected.outcome
    assert record.decided_by.test == "error_rate_ratio"
    gap = np.abs(outcomes.probability_before - expected.outcomes.probability_before).max()
    assert gap < 1e-12  # JSON keeps all digits
    assert max(seen) == 1000
    # Sixty calls a person under the metric, each of its refits and each of 39 placebos, which
    # decide, in large requests; and a few rows to try the model out.
    assert sum(seen) < 62 * 300 * (11 + 40) + 1000


def test_an_authorisation_is_sent_and_never_shown(folder):
    heard = []
    with serving(lambda rows: (403, {}), heard) as url:
        people = folder / "people.csv"
        result = run("audit", url, people, *ROLES, LIKEWISE_AUTHORIZATION="Bearer 4711")
    failed(result, "403")
    assert heard == ["Bearer 4711"]
    assert "4711" not in result.output + result.stderr


def test_a_forests_clipped_people_are_counted_and_the_error_rates_decide(folder, tmp_path):
    result = run(
        "audit", folder / "forest.onnx", folder / "people.csv", *ROLES, *QUICK,
        "--json", tmp_path / "r.json", "--outcomes", tmp_path / "o.parquet",
    )  # fmt: skip
    record = likewise.Record.read(tmp_path / "r.json")
    seen = likewise.Outcomes.read(tmp_path / "o.parquet")
    p = np.stack([seen.probability_before, seen.probability_after])
    assert record.model.clipped == ((p < 0.001) | (p > 0.999)).any(axis=0).sum() > 30
    assert record.decided_by.test == "error_rate_ratio"
    assert record.decided_by.map == "reach"
    shown = " ".join(result.stdout.split())
    assert f"{record.model.clipped} with a probability clipped" in shown
    assert "60 places a person" in shown


# Every task in every map


TASKS = {
    "classes, network": (LogisticRegression(), "level"),
    "classes, forest": (RandomForestClassifier(15, random_state=0), "level"),
    "number, line": (LinearRegression(), "amount"),
    "number, forest": (RandomForestRegressor(15, random_state=0), "amount"),
}


@pytest.mark.parametrize("map", ["flow", "reach", "flips", "worst"])
@pytest.mark.parametrize("task", TASKS)
def test_many_classes_and_numbers_are_audited_in_every_map(task, map, audited, training):
    estimator, label = TASKS[task]
    inputs = ("a", "b", "c", "member")
    fitted = estimator.fit(training[[*inputs]].to_numpy(), training[label])
    people = people_of(audited, *inputs, label=label, protected="member")
    settings = Settings(checks="core", map={"name": map} | ({"time": 0.5} if map == "flow" else {}))
    if map in ("flow", "worst") and "forest" in task:
        with pytest.raises(likewise.LikewiseError, match="no gradient"):
            likewise.audit(fitted, people, settings=settings)
        return
    result = likewise.audit(fitted, people, settings=settings)
    record, outcomes = result.record, result.outcomes
    assert record.decided_by.map == map
    assert record.settings.map.name == map
    assert (outcomes.loss_after >= outcomes.loss_before * (1 - 1e-9)).all()
    assert outcomes.loss_after.mean() > 1.001 * outcomes.loss_before.mean()
    expected = {"mean_loss_ratio"} if label == "amount" else {"loss_ratio", "error_rate_ratio"}
    assert record.tests.keys() == expected
    assert (record.certificate is not None) == (map in ("flow", "worst"))
    # With three classes one wrong decision can become another, or right.
    if label == "level":
        assert "score" in record.tests["error_rate_ratio"].method
    assert result.summary()
    assert "<html" in result.to_html()


def test_the_worst_map_is_the_worse_of_both_for_everyone(audited, estimators):
    people = people_of(audited, "a", "b", "c")
    metric = likewise.sensitive_subspace(people)
    flow, reach, worst = (
        likewise.audit(
            estimators["network"], people, metric=metric, settings=Settings(checks="core", map=map)
        ).outcomes.loss_after
        for map in ("flow", "reach", "worst")
    )
    # The search alone bounds losses, as those of probabilities within [0.001, 0.999] are.
    free = reach < -np.log(0.001) - 1e-9
    assert free.mean() > 0.9
    np.testing.assert_allclose(worst[free], np.maximum(flow, reach)[free], rtol=1e-6)
    assert (worst[~free] >= reach[~free]).all()


def test_the_worst_map_may_be_handed_over_and_is_noted(audited, estimators):
    people = people_of(audited, "a", "b", "c")
    settings = Settings(
        checks="core",
        map={"name": "worst", "maps": [{"name": "flow", "time": 2}, {"name": "reach"}]},
    )
    said = likewise.audit(estimators["network"], people, settings=settings)
    flow = likewise.GradientFlow(time=2)
    given = likewise.audit(
        estimators["network"],
        people,
        map=likewise.Worst((flow, likewise.Reach())),
        settings=Settings(checks="core"),
    )
    assert given.record.settings.map.name == "worst"
    assert given.record.settings.map.get("maps")[0]["time"] == 2
    np.testing.assert_array_equal(given.outcomes.loss_after, said.outcomes.loss_after)


@pytest.mark.parametrize("map", ["flow", "reach"])
def test_absolute_errors_judge_a_regression_on_request(map, audited, training, tmp_path):
    fitted = LinearRegression().fit(training[["a", "b", "c"]].to_numpy(), training["amount"])
    joblib.dump(fitted, tmp_path / "line.joblib")
    frame = audited[["a", "b", "c", "group", "amount"]]
    frame.to_csv(tmp_path / "people.csv", index=False)
    record, outcomes = record_of(
        tmp_path, tmp_path / "line.joblib", tmp_path / "people.csv", "--trust",
        "--label", "amount", "--protected", "group",
        "--map", map, "--set", "decide.loss=absolute",
        *(("--set", "map.time=0.5") if map == "flow" else ()), *QUICK,
    )  # fmt: skip
    wanted = np.abs(fitted.predict(frame[["a", "b", "c"]].to_numpy()) - frame["amount"])
    np.testing.assert_allclose(outcomes.loss_before, wanted, atol=1e-12)
    test = record.tests["mean_loss_ratio"]
    assert test.estimate == pytest.approx(outcomes.loss_after.mean() / outcomes.loss_before.mean())


def test_cap_and_interval_of_the_settings_hold_for_a_regression_too(audited, training):
    fitted = LinearRegression().fit(training[["a", "b", "c"]].to_numpy(), training["amount"])
    people = people_of(audited, "a", "b", "c", label="amount")
    settings = Settings(checks="core", cap=20, map="reach", decide={"interval": "paper"})
    test = likewise.audit(fitted, people, settings=settings).record.tests["mean_loss_ratio"]
    assert (test.cap, test.method) == (20, "paper")


def test_a_classifier_is_not_judged_by_absolute_errors(folder):
    result = run("audit", folder / "logistic.onnx", folder / "people.csv", *ROLES,
                 "--set", "decide.loss=absolute")  # fmt: skip
    failed(result, "absolute")


# Swaps and feasible people


def expected_flips(predict, frame, column, values, y):
    """The largest cross-entropy under any value of a column, by hand."""
    losses = []
    for value in values:
        p = predict(frame.assign(**{column: value})).clip(0.001, 0.999)
        losses.append(-np.log(p[np.arange(len(y)), y]))
    return np.max(losses, axis=0)


def test_a_protected_input_of_a_bare_model_is_swapped(audited, training, tmp_path):
    inputs = ["a", "b", "c", "member"]
    fitted = LogisticRegression().fit(training[inputs].to_numpy(), training["y"])
    joblib.dump(fitted, tmp_path / "bare.joblib")
    audited[[*inputs, "y"]].to_csv(tmp_path / "people.csv", index=False)
    roles = ["--label", "y", "--protected", "member", "--trust", "--map", "flips"]
    record, outcomes = record_of(
        tmp_path, tmp_path / "bare.joblib", tmp_path / "people.csv", *roles
    )
    worst = expected_flips(
        lambda frame: fitted.predict_proba(frame.to_numpy()),
        audited[inputs], "member", (0, 1), audited["y"].to_numpy(),
    )  # fmt: skip
    np.testing.assert_allclose(outcomes.loss_after, worst, rtol=1e-9)
    assert record.decided_by.map == "flips"
    # Swaps do not go by the metric, so its uncertainty is none of theirs.
    assert record.decided_by.metric == "fixed"
    assert not record.refits
    assert not record.sensitivity


@pytest.mark.parametrize("last", [LogisticRegression(), RandomForestClassifier(15, random_state=0)])
def test_a_protected_column_of_a_pipeline_is_swapped_in_the_table(
    last, audited, training, tmp_path
):
    inputs = ["a", "b", "job", "group"]
    prepare = make_column_transformer(
        (StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["job", "group"])
    )
    pipeline = make_pipeline(prepare, last).fit(training[inputs], training["y"])
    joblib.dump(pipeline, tmp_path / "pipeline.joblib")
    audited[[*inputs, "y"]].to_csv(tmp_path / "people.csv", index=False)
    _, outcomes = record_of(
        tmp_path, tmp_path / "pipeline.joblib", tmp_path / "people.csv", *ROLES, "--trust",
        "--map", "flips", *QUICK,
    )  # fmt: skip
    worst = expected_flips(
        pipeline.predict_proba, audited[inputs], "group", ("f", "m"), audited["y"].to_numpy(),
    )  # fmt: skip
    np.testing.assert_allclose(outcomes.loss_after, worst, rtol=1e-9)


def test_a_model_that_does_not_see_the_trait_has_nothing_to_swap(folder):
    result = run(
        "audit", folder / "logistic.skops", folder / "people.csv", *ROLES, "--map", "flips"
    )
    failed(result, "nothing to swap")


@pytest.fixture
def feasible(tmp_path):
    (tmp_path / "audit.toml").write_text("[map]\nname = 'reach'\nfeasible = true\n")
    return ["--settings", tmp_path / "audit.toml", *QUICK]


def test_people_found_by_a_feasible_search_of_a_pipeline_have_one_category(
    feasible, audited, training, tmp_path
):
    inputs = ["a", "b", "job"]
    prepare = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["job"]))
    pipeline = make_pipeline(prepare, RandomForestClassifier(15, random_state=0))
    joblib.dump(pipeline.fit(training[inputs], training["y"]), tmp_path / "pipeline.joblib")
    audited[[*inputs, "group", "y"]].to_csv(tmp_path / "people.csv", index=False)
    record, _ = record_of(
        tmp_path,
        tmp_path / "pipeline.joblib",
        tmp_path / "people.csv",
        *ROLES,
        "--trust",
        *feasible,
    )
    assert record.settings.map.get("feasible")
    assert {case.after["job"] for case in record.worst} <= {"clerk", "cook", "smith"}
    assert all(case.before.keys() == {"a", "b", "job"} for case in record.worst)


def test_people_found_by_a_feasible_search_with_an_encoder_are_real_in_their_own_columns(
    feasible, audited, training, tmp_path
):
    frames = {"train": training, "people": audited}
    for name, frame in frames.items():
        frame[["a", "b", "job", "group", "y"]].to_csv(tmp_path / f"{name}.csv", index=False)
    metric = tmp_path / "metric.safetensors"
    assert run("metric", tmp_path / "train.csv", *ROLES, "-o", metric).exit_code == 0
    encoder = likewise.Encoder.from_json(likewise.load_metric(metric).attached["encoder"])
    train = encoder.encode(pa.Table.from_pandas(training[["a", "b", "job"]]))
    forest = RandomForestClassifier(15, random_state=0).fit(train, training["y"])
    joblib.dump(forest, tmp_path / "forest.joblib")
    record, outcomes = record_of(
        tmp_path, tmp_path / "forest.joblib", tmp_path / "people.csv", *ROLES, "--trust",
        "--metric", metric, *feasible,
    )  # fmt: skip
    assert {case.after["job"] for case in record.worst} <= {"clerk", "cook", "smith"}
    # A whole category is some way off, and the way is reported.
    assert outcomes.fair_distance.max() > 0


# What goes wrong


def first_answers(rows):
    return [[0.4, 0.6]] * len(rows)


PROBLEMS = {
    "an error": (lambda rows: (500, {}), "error (500)"),
    "not a number": (lambda rows: (200, [[float("nan"), 0.5]] * len(rows)), "NaN"),
    "too few rows": (lambda rows: (200, first_answers(rows)[1:]), "63 answers for 64 rows"),
    "no columns": (lambda rows: (200, [[]] * len(rows)), "without a list of numbers"),
    "text": (lambda rows: (200, ["yes"] * len(rows)), "other than numbers"),
    "no probabilities": (lambda rows: (200, [[7.0, -6.0]] * len(rows)), "probabilities"),
    "too few rows later": (
        lambda rows: (200, first_answers(rows)[: -1 if len(rows) > 100 else None]),
        "299 answers for 300 rows",
    ),
    "an error later": (lambda rows: (500 if len(rows) > 100 else 200, first_answers(rows)), "500"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_endpoint_that_misbehaves_is_one_sentence(problem, folder, monkeypatch):
    monkeypatch.setattr(endpoint.time, "sleep", lambda seconds: None)
    behave, words = PROBLEMS[problem]
    with serving(behave) as url:
        result = run("audit", url, folder / "people.csv", *ROLES, *QUICK)
        failed(result, words)


def test_an_endpoint_that_fails_for_a_moment_is_asked_again(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(endpoint.time, "sleep", lambda seconds: None)
    asked = []

    def behave(rows):
        asked.append(rows)
        p = 1 / (1 + np.exp(-np.array(rows)[:, 0]))
        return (503 if len(asked) % 3 == 0 else 200), p.tolist()

    with serving(behave) as url:
        record, _ = record_of(tmp_path, url, folder / "people.csv", *ROLES, *QUICK)
    assert record.rows["moved"] == 300


def test_an_endpoint_that_is_slow_is_given_up(folder, monkeypatch):
    monkeypatch.setattr(endpoint.time, "sleep", lambda seconds: None)
    end = threading.Event()

    def behave(rows):
        end.wait(30)
        return 200, first_answers(rows)

    with serving(behave) as url:
        result = run("audit", url, folder / "people.csv", *ROLES, "--set", "model.timeout=0.2")
        end.set()
    failed(result, url, "no answer within 0.2 seconds")


def test_what_was_done_before_an_endpoint_failed_is_kept(
    folder, audited, training, monkeypatch, tmp_path
):
    monkeypatch.setattr(endpoint.time, "sleep", lambda seconds: None)
    monkeypatch.setattr("likewise.engine.plan.block_size", lambda d: 50)
    rows_asked, limit = [], [9_000]

    def behave(rows):
        rows_asked.append(len(rows))
        p = 1 / (1 + np.exp(-np.array(rows) @ [0.5, 1.0, 0.5]))
        return (500 if sum(rows_asked) > limit[0] else 200), p.tolist()

    metric = likewise.sensitive_subspace(people_of(training, "a", "b", "c"), groups=0, placebos=0)
    settings = Settings(checks="core", columns={"label": "y", "protected": ("group",)})

    def attempt(address="", **choices):
        return likewise.audit(
            endpoint.Endpoint(address or url), [folder / "people.csv"], metric=metric,
            settings=settings, store=likewise.Folder(tmp_path / "journal", **choices),
            run=likewise.Inline(),
        ).record  # fmt: skip

    with serving(behave) as url:
        with pytest.raises(likewise.LikewiseError, match="500"):
            attempt()
        done = len(list((tmp_path / "journal").glob("part-*")))
        assert done >= 1
        limit[0], first = 10**9, sum(rows_asked)
        with pytest.raises(likewise.LikewiseError, match="model"):
            attempt(f"{url}/another", resume=True)
        record = attempt(resume=True)
        # The rest of the people, and everyone once more for the checks that rest on a sample.
        assert sum(rows_asked) - first < (600 - 50 * done) * 62 + 1000
        whole = likewise.audit(
            endpoint.Endpoint(url), people_of(audited, "a", "b", "c"), metric=metric,
            settings=settings,
        ).record  # fmt: skip
    for name, test in whole.tests.items():
        assert record.tests[name].estimate == pytest.approx(test.estimate, rel=1e-12)


def test_an_endpoint_is_asked_no_more_than_allowed(folder):
    with serving(lambda rows: (200, first_answers(rows))) as url:
        result = run("audit", url, folder / "people.csv", *ROLES, "--set", "model.max_calls=8")
    failed(result, "8 times", code=3)


def test_patience_is_for_endpoints(folder):
    failed(run("audit", folder / "logistic.onnx", folder / "people.csv", *ROLES,
               "--set", "model.timeout=3"), "model.timeout")  # fmt: skip


class Hostile:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


SUFFIXES = ["safetensors", "onnx", "skops", "pt2", "pt", "pkl", "pickle", "joblib", "ubj", "txt"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_hostile_file_is_one_sentence_and_nothing_runs(suffix, folder, tmp_path):
    mark, path = tmp_path / "mark", tmp_path / f"model.{suffix}"
    path.write_bytes(pickle.dumps(Hostile(mark)))
    failed(run("audit", path, folder / "people.csv", *ROLES), path.name)
    assert not mark.exists()


def test_a_hostile_folder_is_one_sentence_and_nothing_runs(folder, tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Hostile(mark)))
    (tmp_path / "MLmodel").write_text("flavors:\n  sklearn:\n    pickled_model: model.pkl\n")
    failed(run("audit", tmp_path, folder / "people.csv", *ROLES), "--trust")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["network.onnx", "forest.onnx", "network.skops"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_half_a_file_is_one_sentence(name, share, folder, tmp_path):
    content = (folder / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(content[: int(share * len(content))])
    failed(run("audit", path, folder / "people.csv", *ROLES), path.name)
