"""Counterparts: people are served with what real, comparable people of other groups bring."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from likewise.data.pairs import Pairs, find_pairs
from likewise.data.row_hash import row_hashes
from likewise.data.visits import Visits, find_visits
from likewise.errors import InvalidData, InvalidSettings
from likewise.statistics.donors import DonorDesign
from likewise.statistics.visit_losses import VisitLosses

ROWS = 200_000
"""Rows a model is asked about at a time."""

Ask = Callable[[pa.Table], Float[np.ndarray, "n k"]]
"""A model that takes original columns."""

PersonLoss = Callable[[Float[np.ndarray, "n k"], Any], Float[np.ndarray, " n"]]
"""The loss of each person, from a model's outputs and the labels (``None`` if none are needed)."""


@final
@dataclasses.dataclass(frozen=True)
class Counterparts:
    r"""Asks whether people fare worse with what comparable people of another group bring along.

    A pair of people from a pool, one of the own and one of another group, alike in the columns
    that may matter, visits a person: the person keeps their own columns that may matter, :math:`L`,
    and takes *all* free columns :math:`F` of one member, then of the other,

    .. math:: b = \ell(f(x_{iL}, x_{jF}), y_i), \qquad a = \ell(f(x_{iL}, x_{kF}), y_i),

    always with their own label. Every value that the model sees is one that occurs.

    *Validity.* Pairs and visits are fixed by the pool, the columns and the seed; neither model nor
    labels enter.

    Parameters
    ----------
    may_matter, free
        The columns that may matter, or else the others: one of the two.
    m
        How many pairs visit each person, for each other group; even, at least 4.
    caliper
        Largest distance within a pair, in standard deviations.
    swaps
        Random exchanges of members, for the swap test.
    seed
        Of ties and swaps.
    """

    may_matter: tuple[str, ...] | None = None
    free: tuple[str, ...] | None = None
    m: int = 20
    caliper: float = 0.5
    swaps: int = 999
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.may_matter is None) == (self.free is None):
            raise InvalidSettings(
                "Name the columns that may matter, or else the free ones: not both."
            )
        if self.m < 4 or self.m % 2:
            raise InvalidSettings(f"m must be even and at least 4 (got {self.m}).")
        if self.swaps < 19:
            raise InvalidSettings(f"swaps must be at least 19 (got {self.swaps}).")

    def pairs(self, pool: pa.Table, trait: str, clusters: str | None = None) -> Pairs:
        """Find the pairs of a trait. No model is needed."""
        return find_pairs(
            pool,
            trait,
            may_matter=self.may_matter,
            free=self.free,
            clusters=clusters,
            caliper=self.caliper,
            seed=self.seed,
        )

    def without(self, column: str, pairs: Pairs) -> "Counterparts":
        """Return the same question with one column that may matter made free."""
        kept = tuple(name for name in pairs.may_matter if name != column)
        return dataclasses.replace(self, may_matter=kept, free=None)

    def design(self, pairs: Pairs) -> DonorDesign:
        """Return what all blocks of an audit have in common."""
        return DonorDesign(len(pairs.groups), len(pairs), self.m, self.swaps, self.seed)

    def visit(
        self,
        ask: Ask,
        loss: PersonLoss,
        people: pa.Table,
        pairs: Pairs,
        pool: pa.Table,
        *,
        label: Any = None,
        weight: Float[np.ndarray, " n"] | None = None,
        cluster: Int[np.ndarray, " n"] | None = None,
        row: Int[np.ndarray, " n"] | None = None,
        columns: Sequence[str] | None = None,
    ) -> VisitLosses:
        """Let pairs visit a block of people, and ask the model about every visit.

        Parameters
        ----------
        ask
            The model: from a table of original columns to outputs.
        loss
            From outputs and labels to one loss a row.
        people, pairs, pool
            A block of the audited, and the pairs with the pool that they were found in.
        label
            Labels of the people, as ``loss`` wants them, if it wants any.
        weight, cluster, row
            Weights, cluster numbers and row numbers of the people.
        columns
            The columns the model takes; by default all that people and pool share.
        """
        visits = find_visits(people, pairs, pool, self.m)
        wanted = _inputs(people, pool, columns)
        free = [name for name in wanted if name not in set(pairs.may_matter)]
        kept = [name for name in wanted if name in set(pairs.may_matter)]
        rows = _TableRows(people, pool, kept, free)
        return ask_visits(
            lambda i, j: ask(rows(i, j)),
            loss,
            visits,
            pairs,
            keys=(row_hashes(people, kept), row_hashes(pool, free)),
            own_outputs=ask(people.select(wanted)),
            label=label,
            weight=weight,
            cluster=cluster,
            row=row,
        )


def ask_visits(
    outputs: Callable[[Int[np.ndarray, " r"], Int[np.ndarray, " r"]], Float[np.ndarray, "r k"]],
    loss: PersonLoss,
    visits: Visits,
    pairs: Pairs,
    *,
    keys: tuple[Shaped[np.ndarray, " n"], Shaped[np.ndarray, " q"]] | None,
    own_outputs: Float[np.ndarray, "n k"],
    label: Any = None,
    weight: Float[np.ndarray, " n"] | None = None,
    cluster: Int[np.ndarray, " n"] | None = None,
    row: Int[np.ndarray, " n"] | None = None,
) -> VisitLosses:
    """Ask a model about every visit, each different row once.

    Parameters
    ----------
    outputs
        From row numbers of people and of members in the pool to the model's outputs for the
        people with the members' free columns.
    keys
        Numbers that stand for the kept columns of people and the free columns of the pool: equal
        numbers, equal rows. ``None``: every row is asked.
    own_outputs
        Outputs for the people as they are.
    """
    n, groups, m = visits.pair.shape
    after, before = np.zeros((n, groups, m)), np.zeros((n, groups, m))
    y = None if label is None else np.asarray(label)
    own_loss = loss(own_outputs, y)
    after[:], before[:] = own_loss[:, None, None], own_loss[:, None, None]
    person, h = np.nonzero(visits.pair[:, :, 0] >= 0)
    # The first member of a pair is of the group that comes first.
    side = (visits.own[person] > visits.other[person, h]).astype(np.int64)
    size = max(1, ROWS // (2 * m))
    for start in range(0, len(person), size):
        who, to, mine = (x[start : start + size] for x in (person, h, side))
        members = pairs.rows[visits.pair[who, to]]
        places = np.arange(len(who))
        j = np.stack([members[places, :, mine], members[places, :, 1 - mine]]).reshape(-1)
        i = np.tile(np.repeat(who, m), 2)
        found = loss(_each_once(outputs, i, j, keys), None if y is None else y[i])
        before[who, to], after[who, to] = found.reshape(2, len(who), m)
    for losses in (after, before, own_loss):
        if not np.isfinite(losses).all():
            raise InvalidData("The model gives losses that are not finite numbers for some people.")
    return VisitLosses(
        after=after,
        before=before,
        pair=visits.pair,
        own=visits.own,
        other=visits.other,
        loss=own_loss,
        far=visits.far,
        weight=np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64),
        cluster=np.arange(n) if cluster is None else np.asarray(cluster),
        row=np.arange(n) if row is None else np.asarray(row),
    )


def free_features(
    people: Float[np.ndarray, "n d"], pool: Float[np.ndarray, "q d"], free: Sequence[int]
) -> Callable[[Int[np.ndarray, " r"], Int[np.ndarray, " r"]], Float[np.ndarray, "r d"]]:
    """Return visitor rows for encoded people: their features, with a member's free ones."""
    places = list(free)

    def rows(i: Int[np.ndarray, " r"], j: Int[np.ndarray, " r"]) -> Float[np.ndarray, "r d"]:
        x = people[i]
        x[:, places] = pool[j][:, places]
        return x

    return rows


@dataclasses.dataclass(frozen=True)
class _TableRows:
    """Builds visitor rows in original columns."""

    people: pa.Table
    pool: pa.Table
    kept: Sequence[str]
    free: Sequence[str]

    def __call__(self, i: Int[np.ndarray, " r"], j: Int[np.ndarray, " r"]) -> pa.Table:
        mine = self.people.select(self.kept).take(pa.array(i))
        theirs = self.pool.select(self.free).take(pa.array(j))
        names = [name for name in self.people.column_names if name in {*self.kept, *self.free}]
        columns = [mine[name] if name in self.kept else theirs[name] for name in names]
        return pa.table(dict(zip(names, columns, strict=True)))


def _inputs(people: pa.Table, pool: pa.Table, columns: Sequence[str] | None) -> list[str]:
    wanted = [name for name in people.column_names if columns is None or name in set(columns)]
    shared = [name for name in wanted if name in pool.column_names]
    absent = [name for name in wanted if name not in pool.column_names]
    if columns is not None and absent:
        raise InvalidData(f"The pool has no column {absent[0]!r}, which the model takes.")
    for name in shared:
        one, other = people.schema.field(name).type, pool.schema.field(name).type
        if one != other:
            raise InvalidData(
                f"Column {name!r} is {other} in the pool and {one} in the people audited. Read "
                "both in the same way."
            )
    return shared


def _each_once(
    outputs: Callable[[Int[np.ndarray, " r"], Int[np.ndarray, " r"]], Float[np.ndarray, "r k"]],
    i: Int[np.ndarray, " r"],
    j: Int[np.ndarray, " r"],
    keys: tuple[Shaped[np.ndarray, " n"], Shaped[np.ndarray, " q"]] | None,
) -> Float[np.ndarray, "r k"]:
    """Ask about each different row once."""
    if keys is None:
        return outputs(i, j)
    one = np.unique(keys[0][i], return_inverse=True)[1].reshape(-1)
    two = np.unique(keys[1][j], return_inverse=True)[1].reshape(-1)
    combined = one.astype(np.int64) * (int(two.max(initial=0)) + 1) + two
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    return outputs(i[first], j[first])[inverse.reshape(-1)]
