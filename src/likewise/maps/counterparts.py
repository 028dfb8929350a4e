"""Counterparts: people are served with what real, comparable people of other groups bring."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from likewise.data.pairs import Pairs, find_pairs
from likewise.data.row_hash import row_hashes
from likewise.data.visits import Visitors
from likewise.errors import InvalidData, InvalidSettings
from likewise.maps.ask_visits import PersonLoss, ask_visits, numbered
from likewise.statistics.donors import DonorDesign
from likewise.statistics.visit_losses import VisitLosses

Ask = Callable[[pa.Table], Float[np.ndarray, "n k"]]
"""A model that takes original columns."""


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

    def bind(
        self,
        ask: Ask,
        loss: PersonLoss,
        pairs: Pairs,
        pool: pa.Table,
        people: pa.Schema,
        columns: Sequence[str] | None = None,
    ) -> "BoundCounterparts":
        """Make ready to visit any number of blocks of people.

        Parameters
        ----------
        ask
            The model: from a table of original columns to outputs.
        loss
            From outputs and labels to one loss a row.
        pairs, pool
            The pairs, with the pool that they were found in.
        people
            The columns of the people, and their types.
        columns
            The columns the model takes; by default all that people and pool share.
        """
        wanted = _inputs(people, pool.schema, columns)
        free = tuple(name for name in wanted if name not in set(pairs.may_matter))
        return BoundCounterparts(
            question=self,
            ask=ask,
            loss=loss,
            pool=pool.select(free),
            columns=wanted,
            free=free,
            free_keys=numbered(row_hashes(pool, free)),
            visitors=Visitors.of(pairs, pool, people.names),
        )

    def visit(
        self,
        ask: Ask,
        loss: PersonLoss,
        people: pa.Table,
        pairs: Pairs,
        pool: pa.Table,
        *,
        columns: Sequence[str] | None = None,
        **about: Any,
    ) -> VisitLosses:
        """Visit a single block of people; ``about`` is for `BoundCounterparts`."""
        return self.bind(ask, loss, pairs, pool, people.schema, columns)(people, **about)


@final
@dataclasses.dataclass(frozen=True)
class BoundCounterparts:
    """Counterparts made ready for one model and one pool."""

    question: Counterparts
    ask: Ask
    loss: PersonLoss
    pool: pa.Table
    columns: tuple[str, ...]
    free: tuple[str, ...]
    free_keys: Shaped[np.ndarray, " q"]
    visitors: Visitors

    def __call__(
        self,
        people: pa.Table,
        *,
        label: Any = None,
        weight: Float[np.ndarray, " n"] | None = None,
        cluster: Int[np.ndarray, " n"] | None = None,
        row: Int[np.ndarray, " n"] | None = None,
    ) -> VisitLosses:
        """Let pairs visit a block of people, and ask the model about every visit.

        Parameters
        ----------
        people
            A block of the audited, with the trait and all columns that may matter.
        label
            Labels of the people, as the loss wants them, if it wants any.
        weight, cluster, row
            Weights, cluster numbers and row numbers of the people.
        """
        kept = [name for name in self.columns if name not in set(self.free)]
        return ask_visits(
            lambda i, j: self.ask(self._rows(people, i, j)),
            self.loss,
            self.visitors(people, self.question.m),
            self.visitors.pairs,
            keys=(numbered(row_hashes(people, kept)), self.free_keys),
            own_outputs=self.ask(people.select(self.columns)),
            label=label,
            weight=weight,
            cluster=cluster,
            row=row,
        )

    def _rows(
        self, people: pa.Table, i: Int[np.ndarray, " r"], j: Int[np.ndarray, " r"]
    ) -> pa.Table:
        """Return people i with the free columns of members j."""
        mine, theirs = pa.array(i), pa.array(j)
        return pa.table(
            {
                name: self.pool[name].take(theirs) if name in self.free else people[name].take(mine)
                for name in self.columns
            }
        )


def _inputs(people: pa.Schema, pool: pa.Schema, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns a model takes, in the order of the people's; all have one type."""
    wanted = [name for name in people.names if columns is None or name in set(columns)]
    absent = [name for name in wanted if name not in pool.names]
    if columns is not None and absent:
        raise InvalidData(f"The pool has no column {absent[0]!r}, which the model takes.")
    shared = tuple(name for name in wanted if name in pool.names)
    for name in shared:
        one, other = people.field(name).type, pool.field(name).type
        if one != other:
            raise InvalidData(
                f"Column {name!r} is {other} in the pool and {one} in the people audited. Read "
                "both in the same way."
            )
    return shared
