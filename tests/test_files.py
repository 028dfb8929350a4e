"""Files that are not files: whatever reads one refuses a pipe, a device, and what has no end."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import likewise
from helpers import outcomes_of
from likewise.data.encode import Encoder
from likewise.errors import InvalidFile, LikewiseError
from likewise.inference.monitor import Monitor
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.scale.folder_store import Folder
from likewise.settings.settings_file import read_settings

READERS = {
    "settings.toml": read_settings,
    "result.json": Record.read,
    "encoder.json": Encoder.load,
    "metric.safetensors": likewise.load_metric,
    "model.safetensors": likewise.open_model,
    "model.onnx": likewise.open_model,
    "model.skops": likewise.open_model,
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


@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
def test_an_mlflow_folder_whose_listing_is_no_file_is_refused(target, tmp_path):
    listing = tmp_path / "MLmodel"
    if target == "pipe":
        os.mkfifo(listing)
    else:
        listing.symlink_to(target)
    with pytest.raises(InvalidFile, match="without a readable MLmodel file"):
        likewise.open_model(str(tmp_path))


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


def test_a_folder_of_finished_blocks_may_be_named_by_text(tmp_path):
    assert Folder(str(tmp_path)).begun() == Folder(tmp_path).begun() == {}
