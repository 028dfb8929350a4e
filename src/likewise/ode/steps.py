"""Step sizes: a partition of the time, as a plain tuple."""

import itertools
import math
from collections.abc import Iterable

from likewise.errors import InvalidSettings

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
