"""Who can be a counterpart: a pool of people other than the audited, in the same columns."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from likewise.audit_data import AuditData
from likewise.data.arrow import without_dictionary
from likewise.data.pairs import Pairs
from likewise.data.pairs_file import holds_pairs, read_pairs
from likewise.data.row_hash import row_hashes
from likewise.data.rows import open_rows
from likewise.errors import InvalidData, InvalidSettings, nearest

SPLIT = 104_729
"""Added to the seed, so that halving people has nothing to do with pairing them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """People that pairs are found among.

    Parameters
    ----------
    table
        Their original columns, and their clusters.
    name
        Where they come from, in words.
    given
        Whether they were handed over; else they are a half of the people to be audited.
    cluster
        The column with clusters, if they are known.
    saved
        Pairs that were found before, by trait.
    """

    table: pa.Table
    name: str
    given: bool
    cluster: str | None = None
    saved: Mapping[str, Pairs] = dataclasses.field(default_factory=dict)


def read_pool(source: Any, people: pa.Table, cluster: str | None) -> Pool:
    """Read a pool: files, a data frame, or people who were read already.

    Files of pairs (`likewise pairs`) may stand among the files of people they were found in.

    Parameters
    ----------
    people
        Some of the audited, in original columns: the pool has the same columns, of the same types.
    cluster
        Column that groups dependent rows, used where the pool has it.
    """
    if isinstance(source, AuditData):
        table, name, files = source.in_columns().table, source.source, []
    else:
        listed = isinstance(source, list | tuple)
        paths = list(source) if listed else [source]
        files = [p for p in paths if isinstance(p, str | Path) and holds_pairs(p)]
        rest = [p for p in paths if p not in files] if files else paths
        if not rest:
            raise InvalidSettings(
                "A file of pairs holds row numbers alone: name the pool that they were found in, "
                "too (--pool)."
            )
        rows = open_rows(rest if listed or files else source)
        table, name = rows.table(list(rows.schema.names)), rows.name
    assert table is not None
    shared = [name for name in people.column_names if name in table.column_names]
    grouped = cluster is not None and cluster in table.column_names
    wanted = [*shared, *([cluster] if grouped and cluster not in shared else [])]
    table = same_types(table.select(wanted), people)
    saved = [read_pairs(path, table) for path in files]
    return Pool(
        table,
        name,
        given=True,
        cluster=cluster if grouped else None,
        saved={pairs.trait: pairs for pairs in saved},
    )


def divide(people: AuditData, seed: int, cluster: str | None) -> tuple[AuditData, Pool]:
    """Make a random half of the people the pool of the other half.

    Whole clusters, and equal rows, are on one side; the sides do not depend on the order of rows.
    """
    people = people.in_columns()
    assert people.table is not None
    table = people.table
    if people.cluster is not None:
        name = cluster or "cluster "
        table = table.append_column(name, pa.array(people.cluster, from_pandas=True))
        key = row_hashes(table, [name], seed + SPLIT)
    else:
        name = ""
        key = row_hashes(table, table.column_names, seed + SPLIT)
    chosen: Bool[np.ndarray, " n"] = (key >> np.uint64(63)).astype(bool)
    if chosen.all() or not chosen.any():
        raise InvalidData(
            "The people cannot be halved into a pool and the audited: they are too few, or all "
            "alike. Give a pool (--pool)."
        )
    pool = plain(table.filter(pa.array(chosen)))
    return people.take(~chosen), Pool(
        pool, f"a random half of {people.source}", False, name or None
    )


def plain(table: pa.Table) -> pa.Table:
    """Return a table whose categories are written out, so that equal values are equal."""
    return pa.table({name: without_dictionary(table[name]) for name in table.column_names})


def same_types(table: pa.Table, people: pa.Table) -> pa.Table:
    """Return a pool whose columns have the types of the audited people's, if they can."""
    people, table = plain(people), plain(table)
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name in people.column_names and column.type != people.schema.field(name).type:
            wanted = people.schema.field(name).type
            try:
                column = column.cast(wanted)
            except pa.ArrowException:
                raise InvalidData(
                    f"Column {name!r} is {column.type} in the pool and {wanted} in the people "
                    "audited. Write both in the same way."
                ) from None
        columns[name] = column
    return pa.table(columns)


def check_columns(question: Any, traits: tuple[str, ...], people: pa.Table, pool: pa.Table) -> None:
    """Refuse columns that people or pool do not have, or that are named for two things."""
    if not traits:
        raise InvalidSettings(
            "Counterparts are people of another group: name the trait (--protected)."
        )
    named = question.may_matter if question.may_matter is not None else question.free
    for name in (*traits, *named):
        for table, whose in ((people, "people audited have"), (pool, "pool has")):
            if name not in table.column_names:
                hint = nearest(name, table.column_names)
                raise InvalidData(f"The {whose} no column {name!r}.{hint}")
    for trait in traits:
        if question.may_matter is not None and trait in question.may_matter:
            raise InvalidSettings(
                f"{trait!r} is protected, so it cannot be among the columns that may matter."
            )
