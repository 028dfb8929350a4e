"""Drives a solver along a partition of the time."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Float

from likewise.ode.solvers import Euler, Field, Solver
from likewise.ode.steps import Steps, places


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where the rows are at the end, and on the way.

    Parameters
    ----------
    x
        The last state; a row that left the finite numbers stands at its last finite place.
    finite
        Which rows stayed finite all the way.
    kept
        States at the times that were asked for.
    evaluations
        Evaluations of the field.
    """

    x: Float[np.ndarray, "n d"]
    finite: Bool[np.ndarray, " n"]
    kept: Mapping[float, Float[np.ndarray, "n d"]]
    evaluations: int


def integrate(
    field: Field,
    x0: Float[np.ndarray, "n d"],
    steps: Steps,
    solver: Solver = Euler(),  # noqa: B008 (it has no state)
    keep: Iterable[float] = (),
    *,
    confine: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Solution:
    r"""Solve :math:`\dot x = g(x)`, :math:`x(0) = x_0`, row by row.

    Parameters
    ----------
    keep
        Times, each a partial sum of ``steps``, at which the state is kept.
    confine
        Applied after every step: brings rows back to where they may be.
    """
    wanted = places(steps, keep)
    kept: dict[float, np.ndarray] = {}
    finite = np.ones(len(x0), dtype=bool)
    lost = False
    x, before, step = x0, math.nan, None
    with _quick_and_quiet():
        for number, h in enumerate(steps, start=1):
            if step is None or h != before:
                before, step = h, solver.stepper(field, x, h)
            after = step(x) if confine is None else confine(step(x))
            # One sum is far cheaper than asking every number; it is finite unless some row is not.
            if lost or not math.isfinite(after.sum()):
                finite &= np.isfinite(after).all(axis=1)
                lost = not finite.all()
                np.copyto(after, x, where=~finite[:, None])
            x = after
            if number in wanted:
                kept[wanted[number]] = x.copy()  # the solver uses its memory again
    return Solution(x, finite, kept, len(steps) * solver.evaluations)


@contextlib.contextmanager
def _quick_and_quiet() -> Iterator[None]:
    """Let NumPy work on rows of a block in place, and say nothing of those that leave all bounds.

    With its usual buffers, NumPy would first copy whatever is shorter than they are.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.setbufsize(1024)
        try:
            yield
        finally:
            np.setbufsize(before)
