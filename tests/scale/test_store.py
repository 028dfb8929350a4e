"""Finished blocks: kept whole, recognised, never mistaken for others."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pytest

from likewise.errors import InvalidFile, InvalidSettings
from likewise.scale.folder_store import Folder
from likewise.scale.store import FinishedPart, Memory

IDENTITY = {"data": "1", "model": "2", "rows of a block": 2048}
BLOCKS = [range(0, 4), range(4, 8), range(8, 9)]


def part(blocks, seed=0):
    table = pa.table({"loss": [float(k + seed) for k in blocks], "row": list(blocks)})
    return FinishedPart(blocks, f"tally of {blocks} {seed}".encode(), table)


def fill(book, blocks=BLOCKS):
    for numbers in blocks:
        book.put(book.keep(part(numbers)))


def name(blocks):
    return f"part-{blocks.start:010d}-{blocks.stop:010d}.done"


@pytest.fixture
def stores(tmp_path):
    return {"memory": Memory(), "folder": Folder(tmp_path / "journal")}


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_what_is_kept_comes_back_in_block_order(stores, kind):
    with stores[kind].opened(IDENTITY) as book:
        assert book.done() == []
        fill(book, BLOCKS[::-1])
        assert book.done() == BLOCKS
        for numbers in BLOCKS:
            assert book.tally(numbers) == part(numbers).tally
            assert book.outcomes(numbers).equals(part(numbers).outcomes)
        joined = pa.concat_tables(book.tables())
        assert joined["row"].to_pylist() == list(range(9))
        book.remove()
        if kind == "folder":
            assert not stores[kind].path.exists()


def test_a_folder_sends_back_only_the_tally_and_travels_light(stores):
    with stores["folder"].opened(IDENTITY) as book:
        away = pickle.loads(pickle.dumps(book))
        receipt = away.keep(part(range(0, 4)))
        assert receipt.outcomes is None
        assert receipt.tally == part(range(0, 4)).tally
        assert book.done() == [range(0, 4)]


def test_memory_takes_what_workers_send(stores):
    with stores["memory"].opened(IDENTITY) as book:
        fill(book)
        away = pickle.loads(pickle.dumps(book))
        assert away.done() == []
        book.put(pickle.loads(pickle.dumps(away.keep(part(range(9, 12))))))
        assert book.done()[-1] == range(9, 12)


@pytest.fixture
def journal(tmp_path):
    folder = tmp_path / "journal"
    with Folder(folder).opened(IDENTITY) as book:
        fill(book)
    return folder


def swapped(folder):
    one, two = folder / name(BLOCKS[0]), folder / name(BLOCKS[1])
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    return {BLOCKS[0], BLOCKS[1]}


def copied(folder):
    shutil.copy(folder / name(BLOCKS[0]), folder / name(BLOCKS[1]))
    return {BLOCKS[1]}


def renamed(folder):
    (folder / name(BLOCKS[2])).rename(folder / name(range(9, 10)))
    return {BLOCKS[2]}


def foreign(folder):
    other = folder.parent / "other"
    with Folder(other).opened({**IDENTITY, "model": "3"}) as book:
        book.keep(part(BLOCKS[1]))
    shutil.copy(other / name(BLOCKS[1]), folder / name(BLOCKS[1]))
    return {BLOCKS[1]}


def overlapping(folder):
    with Folder(folder, resume=True).opened(IDENTITY) as book:
        book.keep(part(range(2, 6)))
    return set()


def cut(at):
    def damage(folder):
        path = folder / name(BLOCKS[1])
        content = path.read_bytes()
        path.write_bytes(content[: int(at * len(content))])
        return {BLOCKS[1]}

    return damage


def flipped(at):
    def damage(folder):
        path = folder / name(BLOCKS[1])
        content = bytearray(path.read_bytes())
        content[int(at * len(content))] ^= 1
        path.write_bytes(content)
        return {BLOCKS[1]}

    return damage


def replaced(line):
    def damage(folder):
        path = folder / name(BLOCKS[1])
        _, _, rest = path.read_bytes().partition(b"\n")
        path.write_bytes(line + b"\n" + rest)
        return {BLOCKS[1]}

    return damage


DAMAGES = {
    "swapped": swapped,
    "copied": copied,
    "renamed": renamed,
    "foreign": foreign,
    "overlapping": overlapping,
    "empty": cut(0),
    **{f"cut {k}": cut(k / 10) for k in range(1, 10, 2)},
    **{f"flipped {k}": flipped(k / 20) for k in range(20)},
    "no json": replaced(b"\xff\xfe"),
    "a list": replaced(b"[]"),
    "nested": replaced(b"[" * 900),
    "negative": replaced(b'{"tally": -5}'),
    "text": replaced(b'{"tally": "5"}'),
    "huge": replaced(b'{"tally": 1e300}'),
    "very huge": replaced(b'{"tally": 99999999999999999999999}'),
    "endless": replaced(b"1" * 5000),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_part_that_is_not_as_it_was_written_is_done_again(journal, damage):
    again = damage(journal)
    with Folder(journal, resume=True).opened(IDENTITY) as book:
        assert book.done() == [blocks for blocks in BLOCKS if blocks not in again]
        fill(book, again)
        assert book.done() == BLOCKS
        assert pa.concat_tables(book.tables())["row"].to_pylist() == list(range(9))


def test_damage_after_the_check_is_said(journal):
    with Folder(journal, resume=True).opened(IDENTITY) as book:
        swapped(journal)
        with pytest.raises(InvalidFile, match=r"damaged or removed .*--resume"):
            book.outcomes(BLOCKS[0])
        (journal / name(BLOCKS[1])).unlink()
        with pytest.raises(InvalidFile, match=r"damaged or removed .*--resume"):
            book.tally(BLOCKS[1])


def test_another_audit_cannot_be_resumed(journal):
    with (
        pytest.raises(InvalidSettings, match="begun with other model"),
        Folder(journal, resume=True).opened({**IDENTITY, "model": "3"}),
    ):
        pass


def test_an_unfinished_audit_is_not_overwritten(journal, tmp_path):
    with pytest.raises(InvalidSettings, match="Continue it with --resume"):
        Folder(journal).check()
    with pytest.raises(InvalidSettings, match="to resume: leave out"):
        Folder(tmp_path / "new", resume=True).check()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(InvalidSettings, match="something else than a journal"):
        Folder(tmp_path / "photos").check()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"rows of a block": null}', '{"rows of a block": [1]}', "[" * 9999]
)
def test_a_damaged_identity_is_a_sentence(journal, text):
    (journal / "identity.json").write_text(text)
    with pytest.raises(InvalidFile, match="is damaged"):
        Folder(journal, resume=True).begun()


@pytest.mark.parametrize("rows", ["many", True, -1, 0, 10**400])
def test_rows_of_a_block_that_are_no_number_are_a_sentence(journal, rows):
    about = {**IDENTITY, "rows of a block": rows}
    (journal / "identity.json").write_text(json.dumps(about))
    with pytest.raises(InvalidFile, match="is damaged"):
        Folder(journal, resume=True).number("rows of a block")


def test_numbers_of_an_identity_come_back(journal, tmp_path):
    assert Folder(journal, resume=True).number("rows of a block") == 2048
    assert Folder(tmp_path / "none").number("rows of a block") is None


def test_two_audits_do_not_share_a_folder(journal):
    store = Folder(journal, resume=True)
    with (
        store.opened(IDENTITY),
        pytest.raises(InvalidSettings, match="Another audit is at work"),
        store.opened(IDENTITY),
    ):
        pass
    with store.opened(IDENTITY) as book:
        assert book.done() == BLOCKS


SCRIPT = """
    import sys
    from pathlib import Path
    import pyarrow as pa
    from likewise.scale.folder_store import Folder
    from likewise.scale.store import FinishedPart
    folder = Path(sys.argv[1])
    with Folder(folder, resume=folder.exists()).opened({"data": "1"}) as book:
        left = set(range(4000)) - {k for done in book.done() for k in done}
        rows = pa.table({"row": list(range(2000))})
        print("begun", flush=True)
        for k in sorted(left):
            book.keep(FinishedPart(range(k, k + 1), b"%d" % k, rows))
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_loses_nothing_that_was_done(tmp_path, rng):
    (tmp_path / "fill.py").write_text(textwrap.dedent(SCRIPT))
    folder = tmp_path / "journal"
    done = 0
    for pause in rng.uniform(0, 2, 8):
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "fill.py"), str(folder)], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        time.sleep(pause)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        with Folder(folder, resume=True).opened({"data": "1"}) as book:
            now = book.done()
            assert all(book.tally(blocks) == b"%d" % blocks.start for blocks in now)
            assert len(now) >= done
            done = len(now)
    assert done


def test_a_full_disk_is_a_sentence(journal, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with Folder(journal, resume=True).opened(IDENTITY) as book:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InvalidFile, match="Make room, and continue with --resume"):
            book.keep(part(range(9, 10)))
        monkeypatch.undo()
        assert book.done() == BLOCKS
        assert not [p for p in Path(journal).iterdir() if p.name.startswith(".part")]
