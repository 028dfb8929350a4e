"""Every method goes through one loop: the same digits wherever it runs, killed or not."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import likewise
from likewise import session, setup
from likewise.data.source import Blocks
from likewise.errors import InvalidSettings
from likewise.methods import perturbation
from likewise.settings import Settings
from outside import CityBlocks, MeanScores

pytestmark = pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")

N = 2400
COLUMNS = ("income", "debt", "zip")
FAST = {"method": {"name": "matched_pairs", "redraws": 10}}


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n).astype(float)
    income = rng.normal(size=n) + 0.3 * group
    debt = rng.normal(size=n)
    area = rng.normal(size=n) + 1.2 * group
    paid = (income - 0.5 * debt + 0.7 * area + rng.logistic(size=n) > 0).astype(int)
    columns = {"income": income, "debt": debt, "zip": area, "group": group, "paid": paid}
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def fitted():
    known = people(seed=1)
    return LogisticRegression().fit(known[list(COLUMNS)], known["paid"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same people as a frame, in one file, and in seven with other row groups."""
    frame = people()
    folder = tmp_path_factory.mktemp("people")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, folder / "one.parquet", row_group_size=311)
    (folder / "seven").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(N), 7)):
        part = table.slice(rows[0], len(rows))
        pq.write_table(part, folder / "seven" / f"{k}.parquet", row_group_size=37 + k)
    return {"frame": frame, "one": folder / "one.parquet", "seven": folder / "seven"}


def metric():
    return likewise.metrics.ignoring([[0.0, 0.0, 1.0]])


def how(name):
    """Return the model's kind, and the arguments of an audit by a method."""
    pairs = {"may_matter": ["income", "debt"], "favourable": 1, "settings": Settings(**FAST)}
    flow = {"metric": metric(), "method": likewise.GradientFlow(time=1.0, lam=5.0)}
    return {
        "matched pairs, pool": {**pairs, "pool": people(1500, seed=2)},
        "matched pairs, halves": pairs,
        "gradient_flow": flow,
        "reach": {"metric": metric().with_reach(people(500)[list(COLUMNS)].to_numpy()),
                  "method": likewise.Reach(budget=20)},
        "learned metric": {**flow, "metric": None},
        "flip": {"method": likewise.Flip()},
        "another package's": {"method": MeanScores(limit=1.2)},
    }[name]  # fmt: skip


METHODS_TRIED = (
    *("matched pairs, pool", "matched pairs, halves", "gradient_flow", "learned metric"),
    *("reach", "flip", "another package's"),
)


def audit(model, people, name=None, **more):
    given = {} if name is None else how(name)
    arguments = {"label": "paid", "protected": "group", "checks": "core", **given, **more}
    return likewise.audit(model, people, **arguments)


def plain(record):
    """All that a record holds, but for when, how long, and the name of the source."""
    content = json.loads(record.to_json())
    for name in ("created", "seconds", "command", "warnings"):
        content.pop(name)
    content["data"].pop("source")
    if content["matched_pairs"] is not None:
        content["matched_pairs"].pop("pool")
    if content["metric"] is not None and content["metric"]["origin"]:
        content["metric"]["origin"].pop("source")
        content["metric"].pop("sha256")  # a learned metric's names its source
    return json.dumps(content, indent=1)


def stop(what, count, total):
    """Interrupt an audit that has measured something."""
    if what == "measuring" and count:
        raise KeyboardInterrupt


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 256 people, so that there are ten."""
    monkeypatch.setattr(session, "Blocks", lambda source, size: Blocks(source, min(size, 256)))


def model_for(name, fitted):
    """Return a model that suits the method: one that reads the attribute, for flips."""
    if name != "flip":
        return fitted
    known = people(seed=1)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    return tree.fit(known[[*COLUMNS, "group"]], known["paid"])


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS_TRIED)
def test_where_it_runs_and_how_rows_are_cut_changes_no_digit(
    name, files, fitted, tmp_path, small_blocks
):
    model = model_for(name, fitted)
    expected = audit(model, files["frame"], name, executor=likewise.executors.Inline())
    assert expected.record.data.n == N
    runs = [(likewise.executors.Threads(3), "frame"), (likewise.executors.Inline(), "seven")]
    runs.append((likewise.executors.Processes(2), "one"))
    # It starts slowly; what can be sent to processes can be sent there.
    if importlib.util.find_spec("ray") is not None and name in ("reach", "matched pairs, pool"):
        runs.append((likewise.executors.Ray("local", 2), "seven"))
    for executor, form in runs:
        store = likewise.Folder(tmp_path / "journal")
        found = audit(model, files[form], name, executor=executor, store=store)
        assert plain(found.record) == plain(expected.record), (executor, form)
        assert found.rows.equals(expected.rows)  # whatever they say about themselves
        assert not (tmp_path / "journal").exists()


class Backwards(likewise.executors.Executor):
    """Answers the last task first."""

    def pool(self, job):
        raise NotImplementedError

    def map(self, job, tasks):
        yield from reversed(list(likewise.executors.Inline().map(job, tasks)))


@pytest.mark.parametrize("size", [256, 32])  # each block a task, and tasks of two
def test_the_order_in_which_blocks_are_done_changes_no_digit(size, files, fitted, monkeypatch):
    monkeypatch.setattr(session, "Blocks", lambda source, _: Blocks(source, size))
    runs = likewise.executors.Inline(), Backwards()
    one, two = (audit(fitted, files["one"], "gradient_flow", executor=run) for run in runs)
    assert plain(one.record) == plain(two.record)
    assert one.rows.equals(two.rows)


@pytest.mark.parametrize("name", ["matched pairs, halves", "gradient_flow", "another package's"])
def test_an_interrupted_audit_is_continued_where_it_stopped(
    name, files, fitted, tmp_path, small_blocks
):
    expected = audit(fitted, files["seven"], name)
    store, done = tmp_path / "journal", []

    def watch(what, count, total):
        if what == "measuring":
            done.append(count)

    again = {"executor": likewise.executors.Inline(), "store": likewise.Folder(store, resume=True)}
    with pytest.raises(KeyboardInterrupt):
        audit(fitted, files["seven"], name, store=likewise.Folder(store), progress=stop)
    with pytest.raises(InvalidSettings, match="Continue it with --resume"):
        audit(fitted, files["seven"], name, store=likewise.Folder(store))
    with pytest.raises(InvalidSettings, match="begun with other settings"):
        audit(fitted, files["seven"], name, delta=1.5, **again)
    found = audit(fitted, files["seven"], name, progress=watch, **again)
    assert done[0] > 0
    assert plain(found.record) == plain(expected.record)
    assert not store.exists()


def test_an_audit_goes_on_with_what_it_was_begun_with(files, tmp_path, small_blocks, monkeypatch):
    def audited(folder, slope=1.0, **more):
        def scores(rows):
            return 1 / (1 + np.exp(-slope * rows[:, 0] - rows[:, 2]))

        columns = Settings(model={"columns": COLUMNS}, **FAST)
        more = {"pool": people(1500, seed=2), "may_matter": ["income"], "settings": columns} | more
        return audit(scores, files["frame"], store=folder, **more)

    with pytest.raises(KeyboardInterrupt):
        audited(likewise.Folder(tmp_path / "journal"), progress=stop)
    again = likewise.Folder(tmp_path / "journal", resume=True)
    with pytest.raises(InvalidSettings, match="begun with other pool"):
        audited(again, pool=people(1500, seed=3))
    with pytest.raises(InvalidSettings, match="does not answer as when it was begun"):
        audited(again, slope=-1.0)
    monkeypatch.setattr(setup, "MAX_ROWS", 1000)
    with pytest.raises(InvalidSettings, match="begun with other rows"):
        audited(again)


def test_a_resumed_audit_does_not_learn_its_metric_again(files, fitted, tmp_path, monkeypatch):
    learned = []
    known = perturbation.learn_metric
    monkeypatch.setattr(
        perturbation, "learn_metric", lambda *given: learned.append(1) or known(*given)
    )
    how = {"metric": None, "method": likewise.GradientFlow(time=0.5, lam=5.0)}
    expected = audit(fitted, files["seven"], **how)

    with pytest.raises(KeyboardInterrupt):
        audit(fitted, files["seven"], store=likewise.Folder(tmp_path / "j"), progress=stop, **how)
    again = likewise.Folder(tmp_path / "j", resume=True)
    found = audit(fitted, files["seven"], store=again, **how)
    assert len(learned) == 2
    assert plain(found.record) == plain(expected.record)
    assert found.record.warnings == expected.record.warnings


@pytest.mark.slow
def test_ctrl_c_says_what_is_true(files, tmp_path):
    known = people(seed=1)
    model = LogisticRegression().fit(known[list(COLUMNS)], known["paid"])
    joblib.dump(model, tmp_path / "model.joblib")
    big = pa.concat_tables([pq.read_table(files["one"])] * 40)
    pq.write_table(big, tmp_path / "people.parquet")
    command = [
        *(sys.executable, "-m", "likewise", "audit", "model.joblib", "people.parquet", "--trust"),
        *("--label", "paid", "--protected", "group", "--may-matter", "income,debt"),
        *("--run", "processes:2", "-o", "result.json"),
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    journal = tmp_path / "result.json.journal"
    while process.poll() is None and not (journal.is_dir() and len(list(journal.iterdir())) > 2):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everyone gets it
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "--resume" in stderr
    assert "Traceback" not in stderr


def test_every_module_can_be_imported_and_every_public_name_is_there():
    code = (
        "import importlib, pkgutil, likewise\n"
        "for module in pkgutil.walk_packages(likewise.__path__, 'likewise.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "for name in likewise.__all__:\n"
        "    value = getattr(likewise, name)\n"
        "    assert callable(value) != hasattr(value, '__file__'), (name, value)\n"
        "    assert value.__doc__, name\n"
    )
    # In a process of its own: a lazy package must hand out the name, not a module of that name.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_method_of_another_package_has_its_name_parameters_and_hash(files, fitted):
    given = audit(fitted, files["frame"], "another package's").record
    assert given.method == "mean_scores"
    assert given.settings.method.model_dump() == {"name": "outside:MeanScores", "limit": 1.2}
    by_name = likewise.audit(
        fitted,
        files["frame"],
        settings=given.settings,
        executor=likewise.executors.Inline(),
        trust=True,
    ).record
    assert plain(by_name) == plain(given)
    other = audit(
        fitted, files["frame"], method={"name": "outside:MeanScores", "limit": 9.0}, trust=True
    )
    assert other.verdict == "inconclusive"
    assert given.verdict == "evidence"
    assert other.record.settings_hash != given.settings_hash
    assert set(other.rows.column_names) >= {"row", "score"}


def test_a_metric_of_another_package_has_its_name_and_hash(files, fitted):
    flow = likewise.GradientFlow(time=0.01, lam=1.0)
    found = [
        audit(fitted, files["frame"][:200], metric=CityBlocks(scale), method=flow).record
        for scale in (1.0, 50.0)
    ]
    assert found[0].metric.kind == "CityBlocks"
    assert found[0].settings.metric.name == "outside:CityBlocks"
    assert found[0].settings_hash != found[1].settings_hash
    assert found[0].metric.sha256 != found[1].metric.sha256


def test_a_check_of_another_package_runs_for_every_method(files, fitted):
    checks = {"run": ["outside:Counted"], "outside:Counted": {"times": 2.0}}
    for name in ("matched pairs, halves", "gradient_flow", "another package's"):
        settings = how(name).get("settings", Settings()).changed(checks=checks)
        found = audit(fitted, files["frame"], name, settings=settings, checks=None, trust=True)
        assert found.record.diagnostics["counted"] == 2 * N


def test_code_outside_needs_trust_and_parameters_are_those_of_the_class(files, fitted):
    def tried(trust=True, **method):
        return audit(fitted, files["frame"], method=method, trust=trust)

    with pytest.raises(InvalidSettings, match="trust"):
        tried(trust=False, name="outside:MeanScores")
    with pytest.raises(InvalidSettings, match=r"has no parameter 'limt'.*Did you mean 'limit'"):
        tried(name="outside:MeanScores", limt=3)
    with pytest.raises(InvalidSettings, match="limit is refused"):
        tried(name="outside:MeanScores", limit="wide")


def test_names_that_stand_for_nothing_are_told_before_people_are_looked_at(fitted, tmp_path):
    for wrong in ({"method": "gradient_flwo"}, {"checks": ["grups"]}):
        with pytest.raises(InvalidSettings, match=r"There is no .* Did you mean"):
            likewise.audit(fitted, "nowhere.parquet", **wrong)
