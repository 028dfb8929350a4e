"""Where people come from: arrays, data frames, files, addresses; read in parts, by anyone.

Rows of a source are numbered from 0. A block is a range of rows, so it holds the same people
whoever reads it, and however the rows are cut into files and row groups.
"""

import abc
import dataclasses
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Int
from typing_extensions import override

from likewise import fingerprints
from likewise.audit_data import AuditData, digests
from likewise.data.columns import Bins, Names, Roles, is_missing, kind, without_dictionary
from likewise.data.encoder import Encoder
from likewise.data.rows import CsvPart, open_rows
from likewise.data.survey import READ_ROWS, SAMPLE, Survey, SurveyJob, joined, total
from likewise.data.table import ReadPlan, plan_reading
from likewise.errors import InvalidData, InvalidSettings
from likewise.files import TemporaryFolder, make_folder, write_errors
from likewise.fingerprints import CHUNK_ROWS, row_hashes
from likewise.settings.sections import Csv


@dataclasses.dataclass(frozen=True)
class Source(abc.ABC):
    """People who can be read in parts, as often as one likes.

    Parameters
    ----------
    expected
        Fingerprints of consecutive chunks, once they are known: rows that have changed since are
        refused. Nothing is compared while it is empty.
    """

    expected: tuple[bytes, ...] = dataclasses.field(default=(), kw_only=True, repr=False)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Where the people are, in words."""

    @property
    @abc.abstractmethod
    def n_rows(self) -> int:
        """Number of rows, those left out on request included."""

    @abc.abstractmethod
    def identity(self) -> dict[str, str]:
        """Return fingerprints of how rows become features, by name; the rows have their own."""

    @abc.abstractmethod
    def rows(self, begin: int, end: int) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        """Return the people among some rows, and their numbers among all rows of the source."""

    @abc.abstractmethod
    def shared(self, folder: Path) -> "Source":
        """Return the same people so that sending them to a worker costs nothing.

        What is in memory is written to ``folder`` for it, where every worker must find it.
        """

    def raw(self) -> "Source | None":
        """Return the same people before features are made of them; None if that is settled."""
        return None

    def filled(self) -> "Source | None":
        """Return the same people, left out only for gaps that no model fills; None if settled."""
        return None

    def survey(self, seed: int = 0, size: int = SAMPLE) -> Survey:
        """Read everyone once, here."""
        job = SurveyJob(self, seed, size)
        return total(map(job.begin(), job.tasks()))

    def knowing(self, survey: Survey) -> "Source":
        """Return the source that refuses rows that are not those of the survey any more."""
        chunks = survey.chunks
        return dataclasses.replace(self, expected=tuple(chunks[k] for k in range(len(chunks))))

    def unchanged(self, rows: range) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        """Return what `rows` does, for whole chunks, unless they have changed since the survey."""
        people, places = self.rows(rows.start, rows.stop)
        if self.expected:
            for chunk, digest in digests(people, places, rows).items():
                if digest != self.expected[chunk]:
                    first = chunk * CHUNK_ROWS
                    last = min(first + CHUNK_ROWS, self.n_rows)
                    raise InvalidData(
                        f"Rows {first + 1} to {last} of {self.name} changed while they were "
                        "audited. Restore them and continue with --resume, or begin again."
                    )
        return people, places

    def blocks(self, size: int) -> "Blocks":
        """Return the source cut into blocks of so many rows."""
        return Blocks(self, size)


@final
@dataclasses.dataclass(frozen=True)
class Blocks:
    """A source cut into numbered blocks of ``size`` rows; the last may hold fewer."""

    source: Source
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidSettings(f"A block holds at least one row, not {self.size}.")

    def __len__(self) -> int:
        return -(-self.source.n_rows // self.size)

    def tasks(self, blocks: int, done: Iterable[range] = ()) -> Iterator[range]:
        """Yield ranges of up to ``blocks`` block numbers that cover all that is not done."""
        finished = {number for part in done for number in part}
        for begin in range(0, len(self), blocks):
            left = [k for k in range(begin, min(begin + blocks, len(self))) if k not in finished]
            while left:
                run = next((k for k, n in enumerate(left) if n != left[0] + k), len(left))
                yield range(left[0], left[0] + run)
                left = left[run:]

    def read(self, numbers: range) -> Iterator[tuple[int, AuditData]]:
        """Yield the blocks with these numbers; only rows that overlap them are read."""
        n_rows = self.source.n_rows
        end = min(numbers.stop * self.size, n_rows)
        begin = numbers.start * self.size // CHUNK_ROWS * CHUNK_ROWS
        last = min(-(-end // CHUNK_ROWS) * CHUNK_ROWS, n_rows)
        waiting: list[AuditData] = []
        for first in range(begin, last, READ_ROWS):
            rows = range(first, min(first + READ_ROWS, last))
            people, places = self.source.unchanged(rows)
            for number in range(rows.start // self.size, -(-rows.stop // self.size)):
                if number not in numbers:
                    continue
                limits = [number * self.size, (number + 1) * self.size]
                some = people.take(slice(*np.searchsorted(places, limits).tolist()))
                waiting.append(dataclasses.replace(some, dropped={}))
                if min(limits[1], n_rows) <= rows.stop:
                    yield number, joined(waiting)
                    waiting = []


@final
@dataclasses.dataclass(frozen=True)
class TableSource(Source):
    """People in a table: files, addresses, or a data frame."""

    plan: ReadPlan

    @property
    @override
    def name(self) -> str:
        return self.plan.source.name

    @property
    @override
    def n_rows(self) -> int:
        return self.plan.source.n_rows

    @override
    def identity(self) -> dict[str, str]:
        encoder = "" if self.plan.encoder is None else self.plan.encoder.to_json()
        made = {"inputs": fingerprints.of_json([list(self.plan.inputs), encoder])}
        cut = {name: list(limits) for name, limits in self.plan.roles.bins.items()}
        return made | ({"bins": fingerprints.of_json(cut)} if cut else {})

    @override
    def rows(self, begin: int, end: int) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        table = self.plan.source.read(begin, end, self.plan.columns)
        where = f" (of rows {begin + 1} to {end})"
        people = self.plan.people(table, first=begin, where=where)
        return people, people.row

    @override
    def raw(self) -> "TableSource | None":
        made = self.plan.encoder is not None or not self.plan.inputs
        plan = dataclasses.replace(self.plan, inputs=(), left_out=())
        return None if made else dataclasses.replace(self, plan=plan)

    @override
    def filled(self) -> "TableSource | None":
        settled = self.plan.encoder is not None or self.plan.inputs or not self.plan.drop_missing
        plan = dataclasses.replace(self.plan, filled=True)
        return None if settled else dataclasses.replace(self, plan=plan)

    @override
    def shared(self, folder: Path) -> "TableSource":
        make_folder(folder)
        plan = dataclasses.replace(self.plan, source=self.plan.source.on_disk(folder))
        return dataclasses.replace(self, plan=plan)


@final
@dataclasses.dataclass(frozen=True)
class PeopleSource(Source):
    """People in memory, read already.

    They keep their row numbers where these are consecutive but for rows left out on request, so
    that blocks are those of the table they were read from; others are numbered as they come.
    """

    people: AuditData = dataclasses.field(repr=False)
    places: Int[np.ndarray, " n"] = dataclasses.field(repr=False)
    total: int
    home: Path | None = None

    @classmethod
    def from_people(cls, people: AuditData) -> "PeopleSource":
        """Give the people their numbers."""
        return cls(people, *people.places)

    @property
    @override
    def name(self) -> str:
        return self.people.source

    @property
    @override
    def n_rows(self) -> int:
        return self.total

    @override
    def identity(self) -> dict[str, str]:
        about = list(self.people.features)
        return {"inputs": fingerprints.of_arrays({"x": self.people.x}, about)}

    @override
    def rows(self, begin: int, end: int) -> tuple[AuditData, Int[np.ndarray, " n"]]:
        first, last = np.searchsorted(self.places, [begin, end]).tolist()
        dropped = self.people.dropped if begin == 0 else {}
        people = dataclasses.replace(self.people.take(slice(first, last)), dropped=dropped)
        return people, self.places[first:last]

    @override
    def shared(self, folder: Path) -> "PeopleSource":
        make_folder(folder)
        home = folder / "people.shared"
        with write_errors(home):
            import joblib

            joblib.dump((self.people, self.places), home)
        return dataclasses.replace(self, home=home)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | ({} if self.home is None else {"people": None, "places": None})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.home is not None:  # in a folder that only this user can write to
            import joblib

            people, places = joblib.load(self.home, mmap_mode="r")
            self.__dict__.update(people=people, places=places)


def as_source(
    people: Any,
    *,
    label: str | None = None,
    protected: Names = (),
    weight: str | None = None,
    cluster: str | None = None,
    ignore: Names = (),
    inputs: Names | None = None,
    encoder: Encoder | None = None,
    drop_missing: bool = False,
    raw: bool = False,
    id: str | None = None,
    bins: Bins | None = None,
    csv: Csv | Mapping[str, Any] | None = None,
    unlabelled: bool = False,
) -> Source:
    """Return people as a source: of what `likewise.read` takes, and `AuditData`.

    Parameters
    ----------
    unlabelled
        Whether people may do without a label (it is 0 then).
    """
    if isinstance(people, AuditData):
        return PeopleSource.from_people(people)
    if label is None and not unlabelled:
        raise InvalidSettings("Which column is the label? Name it with label (--label).")
    roles = Roles(label, protected, weight, cluster, ignore, inputs, id, bins or {})
    source = TableSource(plan_reading(people, roles, encoder, drop_missing, raw, csv))
    if not any(isinstance(part, CsvPart) for part in source.plan.source.parts):
        return source
    # CSV files are kept as Parquet, which is read from any row. Every copy of the source holds
    # these very rows: the folder goes with the last of them.
    folder = TemporaryFolder()
    source = source.shared(Path(folder.name))
    weakref.finalize(source.plan.source, folder.cleanup)
    return source


def read_pool(
    pool: Any,
    source: Source,
    *,
    label: str | None = None,
    protected: Names = (),
    cluster: str | None = None,
    id: str | None = None,
    bins: Bins | None = None,
    csv: Csv | Mapping[str, Any] | None = None,
) -> AuditData:
    """Read a reference sample: people other than the audited, in the same columns and groups.

    Columns that only the pool has are left out, and types are those of the audited people.
    Whoever is audited, or of an audited cluster, leaves the pool and is counted in ``dropped``.

    Parameters
    ----------
    pool
        What `as_source` takes.
    source
        The audited people.
    label, protected, cluster, id, bins, csv
        As named for the audited people. Without a label, cluster or id the pool is read all the
        same; labels are kept only if everyone has one.
    """
    if isinstance(source, TableSource):
        whole = source.plan.source.schema
        schema = pa.schema([whole.field(n) for n in source.plan.roles.original(whole.names)])
    else:
        assert isinstance(source, PeopleSource)
        table = source.people.in_columns().table
        assert table is not None
        schema = table.schema
    if isinstance(pool, AuditData):
        found = pool.in_columns()
    else:
        opened = open_rows(pool, csv=csv)
        has = opened.schema.names
        label, cluster, id = (name if name in has else None for name in (label, cluster, id))
        if label is not None and is_missing(opened.table([label])[label]).any():
            label = None
        unasked = tuple(n for n in has if n not in (label, cluster, id, *schema.names))
        roles = Roles(label, protected, None, cluster, unasked, None, id, bins or {})
        plan = plan_reading(opened, roles, None, drop_missing=False, raw=True)
        found = plan.people(opened.table(plan.columns), first=0, where=" of the pool")
    assert found.table is not None
    found = dataclasses.replace(found, table=_same_types(found.table, schema))
    for role in ("id", "cluster"):
        theirs, ours = getattr(found, role), _everyone(source, role)
        if theirs is not None and ours is not None:
            both = np.isin(row_hashes({role: theirs}), row_hashes({role: ours}))
            gone = {f"{role} is audited": int(both.sum())} if both.any() else {}
            found = dataclasses.replace(found.take(~both), dropped={**found.dropped, **gone})
    if not len(found):
        raise InvalidData("Everyone in the pool is audited. Give other people (--pool).")
    return found


def _same_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns that the audited people have, in their types."""
    columns = {}
    for name in (name for name in table.column_names if name in schema.names):
        column, wanted = without_dictionary(table[name]), schema.field(name).type
        wanted = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
        try:
            columns[name] = column.cast(wanted)
        except pa.ArrowException:
            raise InvalidData(
                f"Column {name!r} holds {kind(column.type)} in the pool and {kind(wanted)} among "
                "the people audited. Write both in the same way."
            ) from None
    return pa.table(columns)


def _everyone(source: Source, role: str) -> Any:
    """Return the ids or clusters of all audited people, if they are known."""
    if isinstance(source, TableSource):
        name = getattr(source.plan.roles, role)
        return None if name is None else source.plan.source.table([name])[name]
    return getattr(source.people, role) if isinstance(source, PeopleSource) else None
