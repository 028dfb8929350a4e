"""The call people wish they could write, and a result that fits into their day."""

import copy
import dataclasses
import io
import pickle

import joblib
import matplotlib
import mlflow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.errors import InvalidFile, InvalidSettings

NAMES = {
    *("audit", "paper_test", "compare", "improve", "plan", "Monitor", "scorer", "metric", "read"),
    *("Settings", "AuditResult", "MatchedPairs", "GradientFlow", "Reach", "Flip", "Folder"),
    *("LikewiseError", "LikewiseWarning", "metrics", "executors", "training"),
}
INPUTS = ["ltv", "pi_rat", "zip"]


def applications(n, seed):
    rng = np.random.default_rng(seed)
    black = rng.random(n) < 0.35
    table = pd.DataFrame(
        {
            "ltv": rng.normal(0.7 + 0.03 * black, 0.15, n).round(2),
            "pi_rat": rng.normal(0.33, 0.08, n).round(2),
            "zip": rng.normal(1.0 * black, 0.6, n).round(2),
        }
    )
    score = 3 * (table.ltv - 0.7) + 4 * (table.pi_rat - 0.33) + 1.2 * table.zip - 1.2
    table["black"] = np.where(black, "yes", "no")
    table["deny"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    return table


@pytest.fixture(scope="module")
def model():
    train = applications(2000, 1)
    return LogisticRegression().fit(train[INPUTS], train["deny"])


@pytest.fixture(scope="module")
def test():
    return applications(800, 3)


@pytest.fixture(scope="module")
def reference():
    return applications(1500, 2)


@pytest.fixture(scope="module")
def result(model, test, reference):
    return likewise.audit(
        model,
        test,
        label="deny",
        protected="black",
        favourable="no",
        may_matter=["ltv", "pi_rat"],
        pool=reference,
        delta=1.25,
    )


def test_the_surface_is_small():
    assert set(likewise.__all__) == NAMES
    with pytest.raises(AttributeError):
        likewise.AuditData  # noqa: B018 - internals have their own homes


def test_the_call_answers_in_one_sentence_and_in_data_frames(result, tmp_path):
    matplotlib.use("Agg")
    assert result.verdict == "evidence"
    assert result.sentence.startswith("Evidence of unfairness by black: People with black = yes")
    for frame in (result.groups, result.people, result.balance):
        assert isinstance(frame, pd.DataFrame)
        assert len(frame)
    for draw in (result.plot, result.plot.balance, result.plot.people):
        draw().figure.savefig(tmp_path / "plot.png")
    result.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert result.to_dict()["verdict"] == "evidence"


def test_a_comparison_that_could_not_be_made_adds_no_column(result):
    part = result.record.matched_pairs
    rows = (part.comparisons[0].model_copy(update={"folds": None}), *part.comparisons[1:])
    part = part.model_copy(update={"comparisons": rows})
    record = result.record.model_copy(update={"matched_pairs": part})
    assert list(dataclasses.replace(result, record=record).groups) == list(result.groups)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_frames_come_back_as_the_kind_that_came_in(kind, model, test, reference):
    turn = pl.from_pandas if kind == "polars" else pa.Table.from_pandas
    found = likewise.audit(
        LogisticRegression().fit(applications(2000, 1)[INPUTS].to_numpy(), [0, 1] * 1000),
        turn(test),
        label="deny",
        label_map={"no": 0, "yes": 1},
        protected="black",
        may_matter=["ltv", "pi_rat"],
        pool=turn(reference),
        settings=likewise.Settings().changed(model__columns=INPUTS),
        checks="core",
    )
    assert type(found.people).__module__.partition(".")[0] in (kind, "pyarrow")
    assert type(found.groups) is type(turn(test))


def test_a_result_is_short_to_look_at(result, test):
    others = (result, result.record, result.record.settings, result.plot, likewise.Settings())
    data = likewise.read(test, label="deny", protected="black")
    for one in (*others, data, likewise.compare({"a": result, "b": result})):
        assert len(repr(one).splitlines()) <= 30
        assert len(repr(one)) < 3000
    assert result.sentence in repr(result)
    card = result._repr_html_()
    for words in ("Evidence of unfairness by black", "<svg", "Negative control", "black = yes"):
        assert words in card


def test_a_result_survives_pickle_copies_and_joblib(result):
    file = io.BytesIO()
    joblib.dump(result, file)
    file.seek(0)
    copies = (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), joblib.load(file))
    for again in copies:
        assert again.to_dict() == result.to_dict()
        assert again.people.equals(result.people)
    assert likewise.Settings(delta=1.5) == copy.deepcopy(likewise.Settings(delta=1.5))


def test_a_run_of_mlflow_holds_metrics_parameters_and_report(result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    with mlflow.start_run() as active:
        assert result.log_mlflow() == active.info.run_id
    apart = result.log_mlflow()
    assert apart != active.info.run_id
    client = mlflow.MlflowClient()
    for name in (active.info.run_id, apart):
        run = client.get_run(name)
        assert run.info.status == "FINISHED"
        row = result.record.matched_pairs.comparisons[0]
        key = f"likewise/black/{row.group}/{row.other}/ratio"
        assert run.data.metrics[key] == row.ratio
        assert run.data.params["likewise.may_matter"] == "ltv,pi_rat"
        assert run.data.tags["likewise.verdict"] == "evidence"
        files = {file.path for file in client.list_artifacts(name, "likewise")}
        assert files == {"likewise/report.html", "likewise/result.json"}


def test_a_tracker_that_is_away_is_one_sentence(result, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(InvalidSettings, match=r"tracker at 'http://127.0.0.1:9' did not take"):
        result.log_mlflow()


def test_bad_input_is_one_sentence(model, test, reference, result, tmp_path):
    given = {"label": "deny", "protected": "black", "may_matter": ["ltv"], "pool": reference}
    with pytest.raises(likewise.LikewiseError, match=r"'pi_ratio'.*pi_rat"):
        likewise.audit(model, test, **{**given, "may_matter": ["pi_ratio"]})
    with pytest.raises(likewise.LikewiseError, match="labels are not the model's classes"):
        likewise.audit(model, test.assign(deny=range(len(test))), **given)
    with pytest.raises(InvalidSettings, match=r"delta is 1.5 as an argument and 2.0 in the"):
        likewise.audit(model, test, settings=likewise.Settings(delta=2.0), delta=1.5, **given)
    old = result.to_json().replace('"schema_version": 3', '"schema_version": 2')
    (tmp_path / "old.json").write_text(old, "utf-8")
    with pytest.raises(InvalidFile, match=r"schema 2.*Audit again"):
        type(result.record).read(tmp_path / "old.json")
