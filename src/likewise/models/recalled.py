"""Asks a model about every row once: searches come back to the same people again and again."""

from collections.abc import Callable
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from typing_extensions import override

from likewise.models.base import Model, Steps
from likewise.models.tree_cells import Cells, stepped

WORTH = 0.7
"""If more than this share of rows are new, looking them up does not pay."""

MANY = 100_000
"""Rows from which that can be told."""

ROOM = 2**22
"""Numbers of rows that are remembered (32 MB), before all is forgotten."""


@final
class Recalled(Model):
    """A model without gradients, and what it answered so far.

    Its answers are the model's own, to the last digit: only rows that agree in every bit are the
    same, or of trees those between the same thresholds. They are found by one number made of
    each; rows that share it and differ are asked about as if nothing were known.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.card, self.front = model, model.card, model.front
        self.reference, self.dtype, self.declared = model.reference, model.dtype, model.declared
        self.pays, self.seen, self.asked = True, 0, 0
        self._memory: _Memory | None = None

    @override
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        if not self.pays or not len(x):
            return self.model(x)
        cells = self.model.cells
        rows = np.ascontiguousarray(x.T, dtype=np.float64) if cells is None else cells(x)
        return self._answers(rows, lambda some: self.model(x[some]))

    @override
    def along(
        self,
        x0: Float[np.ndarray, "n d"],
        axes: Float[np.ndarray, "r d"],
        far: Float[np.ndarray, " n"],
    ) -> Steps:
        plain, cells = super().along(x0, axes, far), self.model.cells
        if not isinstance(cells, Cells) or not len(axes) or np.isnan(x0).any():
            return plain
        numbers = cells.along(x0, axes, far)

        def outputs(
            steps: Float[np.ndarray, "q m r"], who: Int[np.ndarray, " q"]
        ) -> Float[np.ndarray, "_ k"]:
            m = steps.shape[1]
            if not (self.pays and steps.size):
                return plain(steps, who)

            def ask(some: Int[np.ndarray, " a"]) -> Float[np.ndarray, "a k"]:
                row, place = np.divmod(some, m)
                return self.model(stepped(x0.T[:, who[row]], axes, steps[row, place]).T)

            return self._answers(numbers(steps, who), ask)

        return outputs

    def _answers(
        self,
        rows: Float[np.ndarray, "d n"],
        ask: Callable[[Int[np.ndarray, " q"]], Float[np.ndarray, "q k"]],
    ) -> Float[np.ndarray, "n k"]:
        """Return what is known about rows, and ask about others, by their place among them."""
        memory = self._memory or _Memory(len(rows))
        keys = _keys(rows)
        place = memory.places(keys, rows)
        new = np.flatnonzero(place < 0)
        if len(new):
            # In the order they came: neighbours are alike, and take trees down the same branches.
            some = np.sort(new[np.unique(keys[new], return_index=True)[1]])
            self.asked += len(some)
            memory.add(keys[some], rows[:, some], ask(some))
            place[new] = memory.places(keys[new], rows[:, new])
        found = memory.answers[place]
        other = np.flatnonzero(place < 0)  # they share the key of another row that is new, too
        if len(other):
            found[other] = ask(other)
        self.seen += len(keys)
        self.asked += len(other)
        self.pays = self.seen < MANY or self.asked <= WORTH * self.seen
        self._memory = memory if self.pays and memory.rows.size <= ROOM else None
        return found


@final
class _Memory:
    """Rows and answers in the order they came, and a table that leads from keys to them."""

    def __init__(self, features: int) -> None:
        self.size, self.table = 0, np.full(2**10, -1)
        self.keys, self.rows = np.zeros(0), np.zeros((features, 0))
        self.answers = np.zeros((0, 0))

    def places(
        self, keys: Float[np.ndarray, " m"], rows: Float[np.ndarray, "d m"]
    ) -> Int[np.ndarray, " m"]:
        """Return where rows are, -1 if they are not known."""
        slot = self._slots(keys)
        place = self.table[slot]
        left = np.flatnonzero(place >= 0)
        while len(left):
            left = left[self._differs(place[left], rows[:, left])]
            slot[left] = (slot[left] + 1) % len(self.table)
            place[left] = self.table[slot[left]]
            left = left[place[left] >= 0]
        return place

    def add(
        self,
        keys: Float[np.ndarray, " m"],
        rows: Float[np.ndarray, "d m"],
        answers: Float[np.ndarray, "m k"],
    ) -> None:
        """Remember rows that are new, no two of one key."""
        size, end = self.size, self.size + len(keys)
        if end > len(self.keys):  # twice the room, so that little is copied
            room = 2 * end
            known, old, told = self.keys[:size], self.rows[:, :size], self.answers[:size]
            self.keys, self.rows = np.empty(room), np.empty((len(rows), room))
            self.answers = np.empty((room, answers.shape[1]))
            self.keys[:size], self.rows[:, :size] = known, old
            if size:
                self.answers[:size] = told
            self.table = np.full(1 << (2 * room).bit_length(), -1)
            self._enter(np.arange(size))
        self.keys[size:end], self.rows[:, size:end] = keys, rows
        self.answers[size:end], self.size = answers, end
        self._enter(np.arange(size, end))

    def _enter(self, places: Int[np.ndarray, " m"]) -> None:
        """Lead from keys to these places; whoever finds a slot taken goes on to the next."""
        slot = self._slots(self.keys[places])
        while len(places):
            free = self.table[slot] < 0
            self.table[slot[free]] = places[free]
            late = self.table[slot] != places
            places, slot = places[late], (slot[late] + 1) % len(self.table)

    def _slots(self, keys: Float[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        mixed = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        shift = np.uint64(65 - len(self.table).bit_length())
        return (mixed >> shift).astype(np.int64)

    def _differs(
        self, place: Int[np.ndarray, " n"], rows: Float[np.ndarray, "d n"]
    ) -> Bool[np.ndarray, " n"]:
        """Tell which rows are not those remembered at these places, in some bit."""
        differs = np.zeros(len(place), dtype=bool)
        for known, row in zip(self.rows.view(np.int64), rows.view(np.int64), strict=True):
            differs |= known[place] != row
        return differs


def _keys(rows: Float[np.ndarray, "d n"]) -> Float[np.ndarray, " n"]:
    """Return a number for each row: the same for the same rows, mostly different for others."""
    weights = np.random.default_rng(0).normal(size=len(rows))
    keys = weights @ rows
    gaps = ~np.isfinite(keys)
    if gaps.any():  # models may be asked about people with missing values
        keys[gaps] = weights @ np.nan_to_num(rows[:, gaps], nan=0.1, posinf=0.2, neginf=0.3)
    return keys
