"""The same audit gives the same numbers in memory, in processes, on Ray, and however it is cut."""

import dataclasses
import functools
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise
from likewise.data.survey import SurveyJob, total
from likewise.engine import sweep
from likewise.engine.meeting import share_calls
from likewise.errors import InvalidSettings
from likewise.outcomes import Outcomes
from likewise.report.side_by_side import compare
from likewise.settings import Settings

PLAIN: dict[str, object] = {}
WEIGHTED = {"columns__weight": "w", "columns__ignore": ("household",)}
CLUSTERED = {"columns__cluster": "household", "columns__ignore": ("w",)}
BOTH = {"columns__weight": "w", "columns__cluster": "household", "columns__ignore": ()}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of 256 people, so that three thousand are twelve blocks."""
    monkeypatch.setattr("likewise.engine.plan.block_size", lambda d: 256)


def plain(record) -> str:
    """All that a record holds, but for when, where and how long."""
    content = json.loads(record.to_json())
    for name in ("created", "seconds", "command", "warnings"):
        content.pop(name)
    content["data"].pop("source")
    return json.dumps(content, indent=1)


def audit(world, settings=None, people=None, **how):
    return likewise.audit(
        world.model,
        world.files if people is None else people,
        metric=how.pop("metric", world.metric),
        settings=settings or world.settings,
        **how,
    )


def small_sample(monkeypatch):
    """Let a survey keep 500 people at most."""

    def survey(source, seed):
        job = SurveyJob(source, seed, 500)
        return total(map(job.begin(), job.tasks()))

    monkeypatch.setattr("likewise.data.sources.Source.survey", survey)


@pytest.mark.parametrize("design", [PLAIN, WEIGHTED, CLUSTERED, BOTH])
def test_people_in_memory_and_in_files_have_one_result(world, design):
    settings = world.settings.changed(**design)
    files = audit(world, settings, run=likewise.Inline())
    memory = audit(world, settings, world.read(settings), run=likewise.Threads(2))
    assert plain(files.record) == plain(memory.record)
    assert files.outcomes.about["data"] == memory.outcomes.about["data"]
    for name, column in memory.outcomes._columns().items():
        np.testing.assert_array_equal(column, files.outcomes._columns()[name], err_msg=name)


@pytest.fixture(scope="module")
def cut(world, tmp_path_factory):
    """The same people in one file and in seven, with other row groups."""
    table = pa.concat_tables([pq.read_table(path) for path in world.files])
    one, seven = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("seven")
    pq.write_table(table, one / "all.parquet", row_group_size=100)
    for k, rows in enumerate(np.array_split(np.arange(len(table)), 7)):
        part = table.take(pa.array(rows))
        pq.write_table(part, seven / f"part-{k}.parquet", row_group_size=37 + k)
    return {"one": [one], "seven": [seven], "address": [seven.as_uri()]}


@pytest.fixture(scope="module")
def in_memory(world):
    """An audit of people in memory, by precision."""

    @functools.cache
    def run(precision):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("likewise.engine.plan.block_size", lambda d: 256)
            return audit(world, world.settings.changed(map__precision=precision), world.read())

    return run


RAY = "ray"


@pytest.mark.filterwarnings("ignore:Ray opens ports")
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("run", "files"),
    [
        (likewise.Inline(), "one"),
        (likewise.Threads(2), "seven"),
        (likewise.Inline(), "address"),
        pytest.param(likewise.Processes(1), "one", marks=pytest.mark.slow),
        pytest.param(likewise.Processes(2), "seven", marks=pytest.mark.slow),
        pytest.param(RAY, "seven", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_neither_where_it_runs_nor_how_rows_are_cut_changes_a_digit(
    world, cut, in_memory, run, files, precision, tmp_path
):
    if precision == "float32" and (run == RAY or run == likewise.Processes(1)):
        pytest.skip("the same workers as in float64, which take long to start")
    if run == RAY:
        pytest.importorskip("ray", reason="Ray is not installed (likewise[ray])")
        run = likewise.Ray("local", 2)
    expected = in_memory(precision)
    found = audit(
        world,
        world.settings.changed(map__precision=precision),
        cut[files],
        run=run,
        store=likewise.Folder(tmp_path / "store"),
        outcomes=tmp_path / "outcomes.parquet",
    )
    assert plain(found.record) == plain(expected.record)
    rows = Outcomes.read(tmp_path / "outcomes.parquet")
    for name, column in expected.outcomes._columns().items():
        np.testing.assert_array_equal(column, rows._columns()[name], err_msg=name)
    assert rows.about == expected.outcomes.about
    assert not (tmp_path / "store").exists()
    assert compare({"memory": expected.record, "here": found.record}).caveats == ()


def test_large_tasks_add_up_like_small_ones(world, monkeypatch):
    small = audit(world)
    monkeypatch.setattr(sweep, "SMALL", 1)
    monkeypatch.setattr(sweep, "TOGETHER", 4)
    large = audit(world)
    monkeypatch.setattr(sweep, "SMALL", 32)
    again = audit(world)
    assert plain(large.record) == plain(again.record)
    assert large.record.tests["loss_ratio"].estimate == pytest.approx(
        small.record.tests["loss_ratio"].estimate, rel=1e-14
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The flow and the search within reach disagree")
@pytest.mark.parametrize(
    "choices",
    [{}, {"metric__crossfit": True}, {"metric__refits": 5}, {"decide__blinded": "stronger"}],
)
def test_everything_that_works_in_memory_works_in_pieces(world, tmp_path, choices):
    settings = world.settings.changed(checks="full", **choices)
    memory = audit(world, settings, world.read(settings), metric=None)
    store = likewise.Folder(tmp_path / "store")
    pieces = audit(world, settings, metric=None, run=likewise.Processes(2), store=store)
    assert plain(memory.record) == plain(pieces.record)
    assert memory.record.metric.same_sample
    assert memory.record.decided_by.metric == "refitted"


def test_an_interrupted_audit_is_continued_where_it_stopped(world, tmp_path):
    expected = audit(world)
    folder, done = tmp_path / "store", []

    def stop(what, count, total):
        if what == "moving people" and count > 1000:
            raise KeyboardInterrupt

    def watch(what, count, total):
        if what == "moving people":
            done.append(count)

    with pytest.raises(KeyboardInterrupt):
        audit(world, store=likewise.Folder(folder), progress=stop)
    with pytest.raises(InvalidSettings, match="Continue it with --resume"):
        audit(world, store=likewise.Folder(folder))
    other = world.settings.changed(delta=1.5)
    with pytest.raises(InvalidSettings, match="begun with other settings"):
        audit(world, other, store=likewise.Folder(folder, resume=True))
    found = audit(world, store=likewise.Folder(folder, resume=True), progress=watch)
    assert done[0] > 1000
    assert plain(found.record) == plain(expected.record)
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model is no better than a constant")
def test_a_regression_is_judged_alike(world, tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    likewise.save_model(net, tmp_path / "model.safetensors")
    for k, path in enumerate(world.files):
        table = pq.read_table(path)
        value = pa.array(np.asarray(table["a"]) + np.asarray(table["b"]) + 0.3)
        place = table.column_names.index("y")
        pq.write_table(table.set_column(place, "y", value), tmp_path / f"part-{k}.parquet")
    other = dataclasses.replace(world, folder=tmp_path)
    for design in (PLAIN, WEIGHTED, CLUSTERED, {"cap": 1.5, "delta": 1.1}):
        settings = world.settings.changed(columns__output="values", **design)
        memory = audit(other, settings, other.read(settings)).record
        pieces = audit(other, settings, run=likewise.Inline()).record
        assert set(memory.tests) == {"mean_loss_ratio"}
        assert plain(memory) == plain(pieces)


def test_a_metric_learned_from_the_audited_people_is_recognised(world):
    people = world.read()
    own = likewise.sensitive_subspace(people)
    assert audit(world, metric=own).record.metric.same_sample
    turned = likewise.sensitive_subspace(people.take(np.arange(len(people))[::-1]))
    assert audit(world, metric=turned).record.metric.same_sample
    others = dataclasses.replace(people, x=people.x + 0.01, table=None)
    elsewhere = likewise.sensitive_subspace(others)
    assert not audit(world, metric=elsewhere).record.metric.same_sample


def test_a_metric_of_very_many_is_learned_in_blocks_and_says_by_whom_it_was_judged(
    world, monkeypatch
):
    small_sample(monkeypatch)
    monkeypatch.setattr("likewise.engine.learning.MOST", 1200)
    settings = world.settings.changed(metric__placebos=0)
    found = [audit(world, settings, metric=None, run=run).record
             for run in (likewise.Inline(), likewise.Threads(2))]  # fmt: skip
    assert plain(found[0]) == plain(found[1])
    assert found[0].metric.origin.n == found[0].data.n
    assert found[0].metric.origin.judged == 1200
    # All who taught it are audited, so that its groups are left out of both.
    assert found[0].metric.same_sample
    assert found[0].decided_by.metric == "refitted"


def test_what_decides_is_run_whatever_checks_were_asked_for(world):
    own = likewise.sensitive_subspace(world.read())
    core = audit(world, metric=own).record
    assert core.settings.checks.run == "core"
    assert core.decided_by.metric == "refitted"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = audit(world, world.settings.changed(checks="full"), metric=own).record
    assert full.tests == core.tests
    assert full.outcome == core.outcome


def test_all_processes_together_keep_to_the_calls_that_are_allowed():
    endpoint = likewise.models.Endpoint("http://127.0.0.1:9/predict", max_calls=100)
    assert share_calls(endpoint, likewise.Processes(3)).processes == 4
    assert share_calls("http://127.0.0.1:9/predict", likewise.Threads(3)).processes == 1
    with pytest.raises(InvalidSettings, match=r"100 calls .* too few for 101 processes"):
        share_calls(endpoint, likewise.Processes(100))


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """People one of whom has a value that no small sample holds."""
    rng = np.random.default_rng(5)
    n = 3000
    sex = rng.choice(["f", "m"], n)
    sex[1234] = "x"
    age = rng.integers(20, 60, n)
    members = rng.integers(0, 2, n)
    members[2345] = 2
    frame = pd.DataFrame({"sex": sex, "age": age, "members": members})
    frame["y"] = (age + 15 * (sex == "m") - 10 * members + 8 * rng.normal(size=n) > 45).astype(int)
    folder = tmp_path_factory.mktemp("rare")
    frame.to_parquet(folder / "part-0.parquet")
    return frame, folder


def test_a_pipelines_columns_are_swapped_for_every_value_that_occurs(rare, monkeypatch):
    frame, folder = rare
    columns = [("sex", OneHotEncoder(), ["sex"]), ("rest", "passthrough", ["age", "members"])]
    pipeline = make_pipeline(ColumnTransformer(columns), StandardScaler(), LogisticRegression())
    pipeline.fit(frame.drop(columns="y"), frame["y"])
    settings = Settings(checks="core", map="flips").changed(
        columns__label="y", columns__protected=("sex", "members")
    )
    metric = likewise.ignoring([1.0, 0.0, 0.0, 0.0, 0.0])
    expected = likewise.audit(pipeline, frame, metric=metric, settings=settings).record
    small_sample(monkeypatch)
    record = likewise.audit(pipeline, [folder], metric=metric, settings=settings).record
    assert expected.decided_by.map == "flips"
    assert expected.tests["loss_ratio"].estimate > 1.5
    assert record.tests == expected.tests


@pytest.mark.parametrize("choice", [{"map": "flips"}, {"map__feasible": True}])
def test_values_that_occur_are_those_of_everyone(rare, tmp_path, choice, monkeypatch):
    frame, _ = rare
    plain = frame.drop(columns="sex").assign(income=np.linspace(-1, 1, len(frame)))
    plain.to_parquet(tmp_path / "part-0.parquet")
    inputs = ["age", "members", "income"]
    model = LogisticRegression().fit(plain[inputs].to_numpy(), plain["y"])
    wide = plain[inputs].to_numpy() * [1, 3, 1]
    metric = likewise.ignoring([[0.0, 1.0, 0.0]]).with_reach(wide)
    settings = Settings(checks="core", map="reach").changed(
        columns__label="y", columns__protected=("members",), columns__inputs=inputs, **choice
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the scale of age
        expected = likewise.audit(model, plain, metric=metric, settings=settings).record
        small_sample(monkeypatch)
        record = likewise.audit(model, [tmp_path], metric=metric, settings=settings).record
    assert expected.tests["loss_ratio"].estimate > 1.1
    assert record.tests == expected.tests
