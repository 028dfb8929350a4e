"""One factor for each coordinate of a state, multiplied and added in a single pass over memory."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Float

State = Float[np.ndarray, "n d"]

FEW = 4
"""Runs of equal factors up to which each is added by a call of its own."""


@final
class Diagonal:
    """A diagonal matrix that acts on states.

    States are best laid out coordinate by coordinate (the transpose of a C-ordered array): then
    neighbours with the same factor, of which there are mostly two runs, take one call each.

    Parameters
    ----------
    factors
        One a coordinate.
    """

    def __init__(self, factors: Float[np.ndarray, " d"]) -> None:
        self.factors = factors
        cuts = [0, *(np.flatnonzero(np.diff(factors)) + 1).tolist(), len(factors)]
        self.runs = tuple(
            (slice(begin, end), factors[begin])
            for begin, end in itertools.pairwise(cuts)
            if begin < end
        )
        self.add_run = _axpy(factors.dtype.char)

    def times(self, x: State, out: State) -> State:
        """Write the product with ``x`` to ``out``, and return that."""
        if not self._in_runs(x, out):
            return np.multiply(x, self.factors, out=out)
        for rows, factor in self.runs:
            np.multiply(x.T[rows], factor, out=out.T[rows])
        return out

    def add(self, x: State, out: State, room: State) -> State:
        """Add the product with ``x`` to ``out``, and return that; ``room`` may be overwritten."""
        if not self._in_runs(x, out):
            return np.add(out, np.multiply(x, self.factors, out=room), out=out)
        flat, target = x.T.reshape(-1), out.T.reshape(-1)
        for rows, factor in self.runs:
            begin, count = rows.start * len(x), (rows.stop - rows.start) * len(x)
            self.add_run(flat, target, count, factor, begin, 1, begin, 1)
        return out

    def _in_runs(self, x: State, out: State) -> bool:
        # Anything but contiguous memory would be copied, and the sum written to the copy.
        plain = x.flags.f_contiguous and out.flags.f_contiguous and x.dtype == out.dtype
        return plain and len(self.runs) <= FEW


@functools.cache
def _axpy(kind: str) -> Callable[..., Any]:
    """Return the BLAS routine that adds a multiple of a vector to another, in place."""
    from scipy.linalg import blas  # late: it takes a while to import

    return {"d": blas.daxpy, "f": blas.saxpy}[kind]
