"""Asks a model about every visit, each different row once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from likewise.data.pairs import Pairs
from likewise.data.visits import Visits
from likewise.errors import InvalidData
from likewise.statistics.visit_losses import VisitLosses

ROWS = 200_000
"""Rows a model is asked about at a time."""

PersonLoss = Callable[[Float[np.ndarray, "n k"], Any], Float[np.ndarray, " n"]]
"""The loss of each person, from a model's outputs and the labels (``None`` if none are needed)."""


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
        Small numbers (`numbered`) that stand for the kept columns of people and the free columns of
        the pool: equal numbers, equal rows. ``None``: every row is asked.
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
            raise InvalidData(
                "The model gives losses that are not finite numbers for some people. Does it read "
                "missing values? If not, fill them in or leave them out, also in the pool."
            )
    row = np.arange(n) if row is None else np.asarray(row)
    return VisitLosses(
        after=after,
        before=before,
        pair=visits.pair,
        own=visits.own,
        other=visits.other,
        loss=own_loss,
        far=visits.far,
        weight=np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64),
        # Row numbers tell people of all blocks apart.
        cluster=row if cluster is None else np.asarray(cluster),
        row=row,
        outputs=own_outputs,
    )


def _each_once(
    outputs: Callable[[Int[np.ndarray, " r"], Int[np.ndarray, " r"]], Float[np.ndarray, "r k"]],
    i: Int[np.ndarray, " r"],
    j: Int[np.ndarray, " r"],
    keys: tuple[Shaped[np.ndarray, " n"], Shaped[np.ndarray, " q"]] | None,
) -> Float[np.ndarray, "r k"]:
    """Ask about each different row once."""
    if keys is None:
        return outputs(i, j)
    one, two = keys
    combined = one[i].astype(np.int64) * (int(two.max(initial=0)) + 1) + two[j]
    inverse = numbered(combined)
    first = np.zeros(int(inverse.max(initial=-1)) + 1, dtype=np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return outputs(i[first], j[first])[inverse]


def numbered(keys: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return small numbers that stand for the same things, by hashing: sorting takes longer."""
    return np.asarray(pa.array(keys).dictionary_encode().indices.to_numpy()).astype(np.int64)
