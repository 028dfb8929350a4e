"""What happened to a block of people when pairs visited them."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclasses.dataclass(frozen=True)
class VisitLosses:
    """Losses of people who bring along the free columns of others, by visiting pair.

    Parameters
    ----------
    after, before
        With the columns of the member of the other group, and of the own group.
    pair
        Which pair visited; -1: no counterpart.
    own, other
        Everyone's group and the other groups, by number.
    loss
        With their own columns.
    far
        Whose visitors include somebody not much like them.
    weight, cluster
        How much each person counts, and who belongs together (any whole numbers).
    row
        Row number of each person, which identifies them.
    outputs
        What the model makes of the people themselves, where it was kept.
    """

    after: Float[np.ndarray, "n h m"]
    before: Float[np.ndarray, "n h m"]
    pair: Int[np.ndarray, "n h m"]
    own: Int[np.ndarray, " n"]
    other: Int[np.ndarray, "n h"]
    loss: Float[np.ndarray, " n"]
    far: Bool[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    cluster: Int[np.ndarray, " n"]
    row: Int[np.ndarray, " n"]
    outputs: Float[np.ndarray, "n k"] | None = None

    def __len__(self) -> int:
        return len(self.own)

    def take(self, rows: Int[np.ndarray, " r"]) -> "VisitLosses":
        """Return some of the people."""
        some: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            column = getattr(self, field.name)
            some[field.name] = None if column is None else column[rows]
        return VisitLosses(**some)
