"""Partitions of the time into steps, and driving a solver along one."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Float

from likewise.errors import InvalidSettings
from likewise.ode.solvers import Euler, Field, Solver

Steps = tuple[float, ...]


def constant(step: float, n: int) -> Steps:
    r"""Return ``n`` equal steps :math:`\eta_k = \eta`."""
    return (step,) * n


def power_decay(first: float, power: float, n: int) -> Steps:
    r"""Return ``n`` falling steps :math:`\eta_k = \eta_1 / k^p`."""
    return tuple(first / k**power for k in range(1, n + 1))


def halved(steps: Steps) -> Steps:
    """Return the same partition with every step cut in two."""
    return tuple(h / 2 for h in steps for _ in range(2))


def partition(time: float, n: int, stops: Iterable[float] = ()) -> Steps:
    """Cut the time into about ``n`` steps, equal between one stop and the next.

    Each stop falls between two steps, so that a solution can be kept there; for that some
    stretches get a step more than their share.
    """
    ends = sorted({*stops, time})
    steps: list[float] = []
    for begin, end in itertools.pairwise([0.0, *ends]):
        # The small allowance keeps rounding from adding a step to a stretch that fits exactly.
        count = max(1, math.ceil(n * (end - begin) / time - 1e-9))
        steps += [(end - begin) / count] * count
    return tuple(steps)


def places(steps: Steps, times: Iterable[float]) -> dict[int, float]:
    """Say after how many steps each of ``times`` is reached."""
    reached = list(itertools.accumulate(steps))
    found: dict[int, float] = {}
    for time in times:
        index = min(range(len(reached)), key=lambda i: abs(reached[i] - time))
        if abs(reached[index] - time) > 1e-9 * max(1.0, reached[-1]):
            raise InvalidSettings(
                f"Time {time:g} lies between two steps (the nearest is at {reached[index]:g}). "
                "Choose a time that the steps add up to."
            )
        found[index + 1] = time
    return found


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
    x, before, step, started = x0, math.nan, None, 0
    with _quick_and_quiet():
        for number, h in enumerate(steps, start=1):
            # Steps that differ by rounding are equal: a solver would begin anew at another.
            if step is None or abs(h - before) > 1e-12 * h:
                before, step, started = h, solver.stepper(field, x, h), started + 1
            after = step(x) if confine is None else confine(step(x))
            # One product is far cheaper than asking every number: it is not finite if one is not.
            flat = after.T if after.flags.f_contiguous else after
            if lost or not math.isfinite(np.vdot(flat, flat)):
                finite &= np.isfinite(after).all(axis=1)
                lost = not finite.all()
                np.copyto(after, x, where=~finite[:, None])
            x = after
            if number in wanted:
                kept[wanted[number]] = x.copy()  # the solver uses its memory again
    return Solution(x, finite, kept, len(steps) * solver.evaluations + started * solver.at_start)


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
