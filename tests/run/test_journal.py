"""Finished blocks: kept whole, recognised, never mistaken for others."""

import os
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from likewise.errors import InvalidFile, InvalidSettings
from likewise.run.journal import FinishedPart, Folder, Memory

IDENTITY = {"data": "1", "model": "2", "rows of a block": 2048}
BLOCKS = [range(0, 4), range(4, 8), range(8, 9)]


def part(blocks, seed=0):
    table = pa.table({"loss": [float(k + seed) for k in blocks], "row": list(blocks)})
    return FinishedPart(blocks, f"tally of {blocks} {seed}".encode(), table)


def fill(kept, blocks=BLOCKS):
    for numbers in blocks:
        kept.put(kept.keep(part(numbers)))


def name(blocks):
    return f"part-{blocks.start:010d}-{blocks.stop:010d}.done"


@pytest.fixture
def stores(tmp_path):
    return {"memory": Memory(), "folder": Folder(tmp_path / "journal")}


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_what_is_kept_comes_back_in_block_order(stores, kind):
    with stores[kind].opened(IDENTITY) as kept:
        assert kept.done() == []
        fill(kept, BLOCKS[::-1])
        assert kept.done() == BLOCKS
        for numbers in BLOCKS:
            assert kept.read(numbers).tally == part(numbers).tally
            assert kept.read(numbers).outcomes.equals(part(numbers).outcomes)
        joined = pa.concat_tables(kept.read(blocks).outcomes for blocks in kept.done())
        assert joined["row"].to_pylist() == list(range(9))
        kept.remove()
        if kind == "folder":
            assert not stores[kind].path.exists()


@pytest.mark.parametrize("steps", range(5))
def test_a_kill_while_it_is_removed_leaves_a_journal_or_nothing(stores, steps, monkeypatch):
    left, unlink = iter(range(steps)), Path.unlink

    def killed(path, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        unlink(path, **options)

    store = stores["folder"]
    with store.opened(IDENTITY) as kept:
        fill(kept)
        monkeypatch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            kept.remove()
        monkeypatch.undo()
    resumed = Folder(store.path, resume=bool(store.begun()))
    with resumed.opened(IDENTITY) as kept:
        assert len(kept.done()) == max(3 - steps, 0)


def test_a_folder_sends_back_only_the_tally_and_travels_light(stores):
    with stores["folder"].opened(IDENTITY) as kept:
        away = pickle.loads(pickle.dumps(kept))
        receipt = away.keep(part(range(0, 4)))
        assert receipt.outcomes is None
        assert receipt.tally == part(range(0, 4)).tally
        assert kept.done() == [range(0, 4)]


def test_memory_takes_what_workers_send(stores):
    with stores["memory"].opened(IDENTITY) as kept:
        fill(kept)
        away = pickle.loads(pickle.dumps(kept))
        assert away.done() == []
        kept.put(pickle.loads(pickle.dumps(away.keep(part(range(9, 12))))))
        assert kept.done()[-1] == range(9, 12)


@pytest.fixture
def journal(tmp_path):
    folder = tmp_path / "journal"
    with Folder(folder).opened(IDENTITY) as kept:
        fill(kept)
    return folder


def swapped(folder):
    one, two = folder / name(BLOCKS[0]), folder / name(BLOCKS[1])
    one.rename(folder / "aside")
    two.rename(one)
    (folder / "aside").rename(two)
    return {BLOCKS[0], BLOCKS[1]}


def copied(folder):
    shutil.copy(folder / name(BLOCKS[0]), folder / name(BLOCKS[1]))
    return {BLOCKS[1]}


def renamed(folder):
    (folder / name(BLOCKS[2])).rename(folder / name(range(9, 10)))
    return {BLOCKS[2]}


def foreign(folder):
    other = folder.parent / "other"
    with Folder(other).opened({**IDENTITY, "model": "3"}) as kept:
        kept.keep(part(BLOCKS[1]))
    shutil.copy(other / name(BLOCKS[1]), folder / name(BLOCKS[1]))
    return {BLOCKS[1]}


def rewritten(change):
    def damage(folder):
        path = folder / name(BLOCKS[1])
        path.write_bytes(change(path.read_bytes()))
        return {BLOCKS[1]}

    return damage


def cut(at):
    return rewritten(lambda content: content[: int(at * len(content))])


def flipped(at):
    def change(content):
        place = int(at * len(content))
        return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]

    return rewritten(change)


def replaced(line):
    return rewritten(lambda content: line + b"\n" + content.partition(b"\n")[2])


DAMAGES = {
    "swapped": swapped,
    "copied": copied,
    "renamed": renamed,
    "foreign": foreign,
    "empty": cut(0),
    **{f"cut {k}": cut(k / 10) for k in (1, 9)},
    **{f"flipped {k}": flipped(k / 20) for k in range(1, 20, 3)},
    "no text": replaced(b"\xff\xfe"),
    "no length": replaced(b"a b"),
    "backwards": replaced(b"-5 b"),
    "huge": replaced(b"9" * 9999 + b" b"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_part_that_is_not_as_it_was_written_is_done_again(journal, damage):
    again = damage(journal)
    with Folder(journal, resume=True).opened(IDENTITY) as kept:
        assert kept.done() == [blocks for blocks in BLOCKS if blocks not in again]
        fill(kept, again)
        assert kept.done() == BLOCKS
        assert pa.concat_tables(kept.read(blocks).outcomes for blocks in kept.done())[
            "row"
        ].to_pylist() == list(range(9))


def test_damage_after_the_check_is_said(journal):
    with Folder(journal, resume=True).opened(IDENTITY) as kept:
        swapped(journal)
        (journal / name(BLOCKS[2])).unlink()
        for blocks in BLOCKS:
            with pytest.raises(InvalidFile, match=r"damaged or removed .*--resume"):
                kept.read(blocks)


def refused(words, folder, identity=IDENTITY, **how):
    with pytest.raises(InvalidSettings, match=words), Folder(folder, **how).opened(identity):
        pass


def test_a_folder_that_is_not_this_audits_is_refused(journal, tmp_path):
    refused("begun with other model", journal, {**IDENTITY, "model": "3"}, resume=True)
    refused("Continue it with --resume", journal)
    refused("to resume: leave out", tmp_path / "new", resume=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    refused("something else than a journal", tmp_path / "photos")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused("is a link", tmp_path / "link")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"rows of a block": null}', '{"rows of a block": [1]}', "[" * 9999]
)
def test_a_damaged_identity_is_a_sentence(journal, text):
    (journal / "identity.json").write_text(text)
    with pytest.raises(InvalidFile, match="is damaged"):
        Folder(journal, resume=True).begun()


def test_two_audits_do_not_share_a_folder(journal):
    store = Folder(journal, resume=True)
    with store.opened(IDENTITY):
        refused("Another audit is at work", journal, resume=True)
    with store.opened(IDENTITY) as kept:
        assert kept.done() == BLOCKS


def test_a_full_disk_is_a_sentence(journal, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with Folder(journal, resume=True).opened(IDENTITY) as kept:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InvalidFile, match="Make room, and continue with --resume"):
            kept.keep(part(range(9, 10)))
        monkeypatch.undo()
        assert kept.done() == BLOCKS
        assert not [p for p in Path(journal).iterdir() if p.name.startswith(".part")]


def test_a_lock_that_is_a_link_leaves_its_target_alone(tmp_path):
    target = tmp_path / "precious"
    target.write_text("kept")
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / ".lock").symlink_to(target)
    with pytest.raises(InvalidFile, match="cannot be written"), Folder(folder).opened(IDENTITY):
        pass
    assert target.read_text() == "kept"
    (folder / ".lock").unlink()
    (folder / ".lock").hardlink_to(target)  # no link that could be told from a file
    with Folder(folder).opened(IDENTITY):
        pass
    assert target.read_text() == "kept"


def test_a_journal_is_its_owners_alone(tmp_path):
    with Folder(tmp_path / "above" / "journal").opened(IDENTITY):
        found = [path.stat().st_mode & 0o777 for path in (tmp_path / "above").rglob("*")]
        lock = (tmp_path / "above" / "journal" / ".lock").stat().st_mode & 0o777
    assert found[0] == 0o700
    assert lock == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody")
def test_a_journal_of_another_user_is_refused(tmp_path):
    (tmp_path / "journal").mkdir()
    os.chown(tmp_path / "journal", 12345, 12345)
    refused("belongs to another user", tmp_path / "journal")
