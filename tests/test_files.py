"""Files that are not files: whatever reads one refuses a pipe, a device, and what has no end."""

import os
import re
import shutil
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import likewise
from helpers import outcomes_of, run
from likewise.data.encoder import Encoder
from likewise.errors import InvalidFile, LikewiseError
from likewise.files import check_outputs
from likewise.models import open_model
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.run.journal import Folder
from likewise.settings.settings_file import settings_and_files
from likewise.stats.monitor import Monitor

READERS = {
    "settings.toml": settings_and_files,
    "result.json": Record.read,
    "encoder.json": Encoder.load,
    "metric.safetensors": likewise.metrics.load_metric,
    "model.safetensors": open_model,
    "model.onnx": open_model,
    "model.skops": open_model,
    "monitor.json": Monitor.load,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_is_no_regular_file_is_refused_without_waiting(name, kind, tmp_path):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        import socket

        socket.socket(socket.AF_UNIX).bind(str(path))
    with pytest.raises(InvalidFile, match=r"is not a regular file|cannot be read: No such device"):
        READERS[name](str(path))


@pytest.mark.parametrize("name", READERS)
def test_a_file_without_end_is_not_read(name, tmp_path):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(10**12)  # a hole: it takes no room on disk
    with pytest.raises(InvalidFile, match="is larger than"):
        READERS[name](str(path))


def test_a_journal_whose_identity_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "identity.json")
    with pytest.raises(LikewiseError, match="is damaged"):
        Folder(tmp_path, resume=True).begun()


@pytest.mark.parametrize("column", ["group:g", "cluster"])
def test_outcomes_whose_traits_are_lists_are_refused(tmp_path, column):
    path = tmp_path / "o.parquet"
    table = outcomes_of([1.0, 2.0, 3.0]).to_arrow()
    pq.write_table(table.append_column(column, pa.array([[1, 2]] * 3)), path)
    with pytest.raises(LikewiseError, match=f"column '{column}' holds lists"):
        Outcomes.read(path)


@pytest.mark.parametrize("kind", ["name", "link", "hard link", "detour", "pattern", "folder"])
def test_an_output_that_is_an_input_is_refused(kind, tmp_path):
    (tmp_path / "in").mkdir()
    given = tmp_path / "in" / "people.csv"
    given.write_text("a\n1\n")
    written = tmp_path / "out.csv"
    if kind == "link":
        written.symlink_to(given)
    elif kind == "hard link":
        written.hardlink_to(given)
    else:
        written = tmp_path / "in" / ".." / "in" / "people.csv" if kind == "detour" else given
    named = {"pattern": tmp_path / "in" / "*.csv", "folder": tmp_path / "in"}.get(kind, given)
    with pytest.raises(InvalidFile, match="is the same file as the input"):
        check_outputs([tmp_path / "other.csv", None, written], ["http://a.b/c", None, named])
    check_outputs([tmp_path / "other.csv", tmp_path / "in" / "new.csv"], [named])


def test_rows_that_cannot_be_written_are_refused_before_anybody_is_read(tmp_path):
    given = tmp_path / "people.parquet"
    given.touch()
    with pytest.raises(InvalidFile, match="There is no folder"):
        likewise.audit(None, [given], outcomes=tmp_path / "nowhere" / "rows.parquet")
    with pytest.raises(InvalidFile, match="is the same file as the input"):
        likewise.audit(None, given, outcomes=given)


ROLES = ("--label", "y", "--protected", "g")


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "model.onnx", "people.parquet", "-o", "people.parquet"],
        ["audit", "model.onnx", "people.csv", "--settings", "a.json", "-o", "a.json"],
        ["audit", "model.onnx", "people.csv", "--pool", "b.csv", "-o", "b.csv"],
        ["metric", "people.csv", "-o", "people.csv", *ROLES],
        ["report", "a.json", "-o", "a.json"],
        ["compare", "a.json", "b.json", "-o", "b.json"],
        ["monitor", "a.parquet", "--state", "a.parquet"],
        ["improve", "model.joblib", "people.csv", "-o", ".", *ROLES, "--may-matter", "a"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_overwrites_what_it_reads(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = ("people.parquet", "people.csv", "a.parquet", "b.csv", "b.json", "model.joblib")
    for name in kept:
        (tmp_path / name).write_text("kept")
    (tmp_path / "a.json").write_text("")  # settings with nothing in them, too
    ended = run(*command)
    assert ended.exit_code == 2
    assert "is the same file as the input" in ended.stderr
    assert all((tmp_path / name).read_text() == "kept" for name in kept)


def test_an_output_that_cannot_be_written_is_refused_before_work_begins(tmp_path):
    with pytest.raises(InvalidFile, match="cannot be written"):
        check_outputs(["/proc/self/report.html"])
    (tmp_path / "link.html").symlink_to(tmp_path / "a.json")
    with pytest.raises(InvalidFile, match="is the same file as the output"):
        check_outputs([tmp_path / "a.json", tmp_path / "link.html"])
    (tmp_path / "link.html").unlink()
    os.mkfifo(tmp_path / "report.html")
    with pytest.raises(InvalidFile, match="no regular file"):
        check_outputs([tmp_path / "report.html"])
    check_outputs([tmp_path / "other.html"])
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_temporary_folders_of_killed_processes_are_removed_at_the_next_start(tmp_path):
    code = """
        import os, signal
        from likewise.files import TemporaryFolder
        folder = TemporaryFolder()
        (open(os.path.join(folder.name, "people.parquet"), "w")).close()
        print(folder.name, flush=True)
        input()
    """
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    (tmp_path / "likewise-other").mkdir()  # of something else
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "likewise-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / ".lock").touch()
    alive, killed = (subprocess.Popen(command, env=environment, **options) for _ in range(2))
    kept, left = alive.stdout.readline().strip(), killed.stdout.readline().strip()
    killed.kill()
    killed.communicate()
    assert os.path.exists(left)
    third = subprocess.run(command, env=environment, input="\n", capture_output=True, text=True)
    assert not os.path.exists(left)
    assert os.path.exists(kept)
    assert not os.path.exists(third.stdout.strip())
    alive.communicate("\n")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"likewise-other", "likewise-link", "elsewhere"}


LOSES_ITS_FOLDER = """
import shutil
import numpy as np

def model(x):
    shutil.rmtree("out", ignore_errors=True)
    return 1 / (1 + np.exp(-np.asarray(x)[:, 0]))
"""


def test_a_result_that_cannot_be_written_is_shown_and_kept_elsewhere(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loses_its_folder.py").write_text(LOSES_ITS_FOLDER)
    group = rng.integers(0, 2, 400)
    a, b = rng.normal(size=400) + group, rng.normal(size=400)
    y = (a + rng.normal(size=400) > 0.5).astype(int)
    pq.write_table(pa.table({"a": a, "b": b, "g": group, "y": y}), "people.parquet")
    (tmp_path / "out").mkdir()
    files = ("-o", "out/report.html", "-o", "result.md", "-o", "out/result.json")
    choices = (*ROLES, "--may-matter", "b", "--checks", "core", "--trust")
    ended = run("audit", "loses_its_folder:model", "people.parquet", *choices, *files)
    assert ended.exit_code == 2
    assert "Compared" in ended.stdout
    assert (tmp_path / "result.md").exists()
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("Error")]
    kept = re.search(r"The result is kept in '([^']+)'", sentence)[1]
    assert Record.read(kept).data.n == 400
    shutil.rmtree(os.path.dirname(kept))
