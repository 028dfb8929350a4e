"""Nothing is lost: journals, damage, other settings, full disks."""

import errno
import os

import pytest

import likewise
from likewise.errors import InvalidFile, InvalidSettings, Untrustworthy
from likewise.scale.crew import Inline, Task, work_through
from likewise.scale.journal import Journal
from likewise.streaming import Means, audit_stream

IDENTITY = {"settings": "1", "data": "2"}
SMALL = Means(piece_rows=512)


def pieces(n):
    return [Task(k, 10 * k, 10 * k + 9, k) for k in range(n)]


class Moody:
    """A job that fails as often as it is told, for some pieces."""

    def __init__(self, failures):
        self.left = dict(failures)

    def begin(self):
        def work(content):
            if self.left.get(content, 0) > 0:
                self.left[content] -= 1
                raise RuntimeError("the wire was cut")
            return str(content).encode()

        return work


def test_what_fails_twice_is_done_the_third_time():
    done = work_through(pieces(5), Inline(Moody({1: 2, 4: 1})))
    assert {task.number: answer.result for task, answer in done} == {
        k: str(k).encode() for k in range(5)
    }


def test_what_fails_three_times_ends_the_run_and_names_its_rows():
    with pytest.raises(Untrustworthy, match=r"Rows 21 to 30 failed 3 times .*the wire was cut"):
        list(work_through(pieces(5), Inline(Moody({2: 3}))))
    assert Untrustworthy.exit_code == 3


def test_bad_input_is_not_tried_again():
    class Refusing:
        calls = 0

        def begin(self):
            def work(content):
                Refusing.calls += 1
                raise likewise.errors.InvalidData("no")

            return work

    with pytest.raises(likewise.errors.InvalidData):
        list(work_through(pieces(3), Inline(Refusing())))
    assert Refusing.calls == 1


def test_a_journal_is_begun_once_and_resumed_only_by_the_same_audit(tmp_path):
    folder = tmp_path / "journal"
    with pytest.raises(InvalidSettings, match="no unfinished audit"):
        Journal.open(folder, IDENTITY, resume=True)
    assert not folder.exists()
    book = Journal.open(folder, IDENTITY, resume=False)
    book.write(3, b"three")
    with pytest.raises(InvalidSettings, match="Continue it with --resume"):
        Journal.open(folder, IDENTITY, resume=False)
    with pytest.raises(InvalidSettings, match="begun with other data"):
        Journal.open(folder, {**IDENTITY, "data": "9"}, resume=True)
    assert Journal.open(folder, IDENTITY, resume=True).done() == {3}
    book.remove()
    assert not folder.exists()


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InvalidSettings, match="something else"):
        Journal.open(tmp_path, IDENTITY, resume=False)


def test_what_a_killed_process_had_begun_to_write_is_cleared_away(tmp_path):
    half = (f".identity.json.{'0' * 32}", f".piece-00000003.parquet.{'a' * 32}")
    for name in half:
        (tmp_path / name).write_bytes(b"ha")
    assert Journal.open(tmp_path, IDENTITY, resume=False).done() == set()
    assert [path.name for path in tmp_path.iterdir()] == ["identity.json"]


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    book = Journal.open(tmp_path / "book", IDENTITY, resume=False)
    before = list(book.folder.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidFile, match=r"No space left on device. Make room, and continue"):
        book.write(0, b"content")
    assert list(book.folder.iterdir()) == before


class Stop(Exception):
    """What interrupts an audit in these tests."""


def interrupted(world, folder, after, settings=None):
    """Begin an audit, and stop it when so many people are moved."""

    def progress(what, done, total):
        if what == "moving people" and done >= after:
            raise Stop

    with pytest.raises(Stop):
        audit_stream(
            world.model,
            world.files,
            metric=world.metric,
            settings=settings or world.settings,
            journal=folder,
            means=SMALL,
            progress=progress,
        )


def whole(world, **more):
    return audit_stream(
        world.model,
        world.files,
        metric=world.metric,
        settings=world.settings,
        **{"means": SMALL, **more},
    ).model_dump(exclude={"created", "seconds"})


def test_an_interrupted_audit_ends_with_the_identical_result(world, tmp_path):
    expected = whole(world, outcomes=tmp_path / "a.parquet")
    for after in (1, 1600, 3000):
        folder = tmp_path / f"journal-{after}"
        interrupted(world, folder, after)
        assert Journal(folder).done()
        path = tmp_path / f"{after}.parquet"
        found = whole(world, journal=folder, resume=True, outcomes=path)
        assert repr(found) == repr(expected)
        assert path.read_bytes() == (tmp_path / "a.parquet").read_bytes()
        assert not folder.exists()


def test_a_damaged_piece_is_done_again(world, tmp_path):
    expected = whole(world)
    folder = tmp_path / "journal"
    interrupted(world, folder, 2000)
    number = min(Journal(folder).done())
    path = Journal(folder).path(number)
    path.write_bytes(path.read_bytes()[:-200])
    assert repr(whole(world, journal=folder, resume=True)) == repr(expected)


def test_resuming_under_other_choices_is_refused(world, tmp_path):
    folder = tmp_path / "journal"
    interrupted(world, folder, 600)

    def resumed(**changes):
        known = {"metric": world.metric, "settings": world.settings, **changes}
        audit_stream(world.model, world.files, journal=folder, resume=True, means=SMALL, **known)

    with pytest.raises(InvalidSettings, match="other settings"):
        resumed(settings=world.settings.changed(delta=1.3))
    other = likewise.ignoring([[0.0, 1.0, 0.0, 0.0]])
    with pytest.raises(InvalidSettings, match="other metric"):
        resumed(metric=other)
    with pytest.raises(InvalidSettings, match="other data"):
        audit_stream(
            world.model,
            world.files[:-1],
            metric=world.metric,
            settings=world.settings,
            journal=folder,
            resume=True,
            means=SMALL,
        )
