"""Sources, executors and stores together: the same parts whoever does the work."""

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import likewise
from likewise.data.sources import Blocks, as_source
from likewise.data.survey import SurveyJob, total
from likewise.errors import InvalidData
from likewise.scale.executors import Inline, Threads
from likewise.scale.folder_store import Folder
from likewise.scale.process_pool import Processes
from likewise.scale.store import Book, FinishedPart, Memory

N = 30_000


@dataclasses.dataclass(frozen=True)
class Norms:
    """A stand-in for an audit: one number a person, and their sum."""

    blocks: Blocks
    book: Book

    def begin(self) -> Callable[[range], FinishedPart]:
        def work(task: range) -> FinishedPart:
            people = [block for _, block in self.blocks.read(task)]
            norms = np.concatenate([np.sqrt((block.x**2).sum(1)) for block in people])
            rows = np.concatenate([block.row for block in people])
            table = pa.table({"row": rows, "norm": norms})
            return self.book.keep(FinishedPart(task, json.dumps(norms.sum()).encode(), table))

        return work


@pytest.fixture
def table(rng):
    columns: dict[str, Any] = {f"x{j}": rng.normal(size=N) for j in range(4)}
    columns["sex"] = rng.choice(["f", "m"], N)
    return pa.table(columns | {"y": rng.integers(0, 2, N)})


@pytest.fixture
def forms(table, tmp_path):
    (tmp_path / "seven").mkdir()
    cuts = [0, 1, 700, 9_000, 9_001, 20_000, 29_000, N]
    for k, (begin, end) in enumerate(itertools.pairwise(cuts)):
        path = tmp_path / "seven" / f"{k}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=1111)
    pq.write_table(table, tmp_path / "one.parquet")
    one = str(tmp_path / "one.parquet")
    people = likewise.read(one, label="y", protected="sex")
    return {"one": one, "seven": str(tmp_path / "seven"), "people": people}


def audit(people, run, store, folder):
    source = as_source(people, label="y", protected="sex").shared(folder)
    job = SurveyJob(source)
    known = total(answer for _, answer in run.map(job, job.tasks(4096)))
    blocks = source.knowing(known).blocks(512)
    with store.opened({"data": known.fingerprint}) as book:
        for _, part in run.map(Norms(blocks, book), blocks.tasks(7, book.done())):
            book.put(part)
        sums = [json.loads(book.tally(done)) for done in book.done()]
        return known.fingerprint, sums, pa.concat_tables(book.tables())


def test_the_same_rows_sums_and_fingerprint_wherever_blocks_run(forms, tmp_path):
    first, *others = [
        audit(forms["one"], Inline(), Memory(), tmp_path / "a"),
        audit(forms["seven"], Inline(), Folder(tmp_path / "b"), tmp_path / "b-rows"),
        audit(forms["people"], Threads(3), Memory(), tmp_path / "c"),
        audit(forms["seven"], Threads(3), Folder(tmp_path / "d"), tmp_path / "d-rows"),
        audit(forms["one"], Processes(2), Folder(tmp_path / "e"), tmp_path / "e-rows"),
        audit(forms["people"], Processes(2), Memory(), tmp_path / "f"),
    ]
    assert first[2]["row"].to_pylist() == list(range(N))
    for other in others:
        assert other[0] == first[0]
        assert other[1] == first[1]
        assert other[2].equals(first[2])


def test_an_audit_goes_on_after_changed_data_are_restored(table, tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(table, path, row_group_size=4096)
    source = as_source(str(path), label="y", protected="sex")
    known = source.survey()
    blocks = source.knowing(known).blocks(512)
    flipped = pa.array(1 - table["y"].to_numpy())
    place = table.column_names.index("y")
    changed = pa.concat_tables(
        [table.slice(0, 20_480), table.set_column(place, "y", flipped).slice(20_480)]
    )
    folder, identity = tmp_path / "journal", {"data": known.fingerprint}
    with Folder(folder).opened(identity) as book:
        tasks = blocks.tasks(8, book.done())
        pq.write_table(changed, path, row_group_size=4096)
        with pytest.raises(InvalidData, match="changed while they were audited"):
            list(Inline().map(Norms(blocks, book), tasks))
        assert book.done() == [range(8 * k, 8 * k + 8) for k in range(5)]
    pq.write_table(table, path, row_group_size=4096)
    with Folder(folder, resume=True).opened(identity) as book:
        list(Inline().map(Norms(blocks, book), blocks.tasks(8, book.done())))
        joined = pa.concat_tables(book.tables())
    assert joined["row"].to_pylist() == list(range(N))
