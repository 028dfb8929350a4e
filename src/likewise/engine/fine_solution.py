"""The true flow of some people, as well as steps can tell: shorter ones for who needs them."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int

from likewise.engine.certified_people import Drawn, largest, together
from likewise.maps.flow import EXPLICIT, GradientFlow
from likewise.metrics.fair_metric import FairMetric

FINE, RESOLVING, MOST_AT_ONCE = 160, 3.0, 1000
"""A fine solution has at least 160 steps, none longer than three times the time in which the
penalty pulls people back unless that would be more than a thousand; half of them for whoever is
where another solver puts them, and more for whoever halved steps still change. It begins with two
steps that resolve how people settle where gradient and penalty balance."""

FINEST = 2**12
"""Steps, at most."""

WORK = 2**20
"""Steps of all people together that may be spent on those who need more, at most."""


@dataclasses.dataclass(frozen=True, eq=False)
class FineSolution:
    """Losses after the true flow, and how sure they are.

    Parameters
    ----------
    after
        The losses.
    before
        The same with steps at least twice as long, person by person; for whoever needed no
        shorter ones than all begin with, by another solver.
    steps
        How many each of them took.
    resolved
        Whether what is left to tell is small, as was asked for.
    jump
        The largest change that halving the steps made for one person.
    """

    after: Float[np.ndarray, " u"]
    before: Float[np.ndarray, " u"]
    steps: Int[np.ndarray, " u"]
    resolved: bool
    jump: float

    @classmethod
    def of(
        cls, flow: GradientFlow, drawn: Drawn, limit: float, known: Float[np.ndarray, " u"]
    ) -> "FineSolution":
        """Halve the steps of whoever changes by that, until all changes are below ``limit``.

        The first change is that from a solution that is known already.
        """
        people = drawn.people
        first = first_steps(flow, people.metric) // 2
        before, after = known.copy(), people.after(fine(flow, people.metric, first))
        steps = np.full(len(after), first)
        spent, jump = 0, 0.0
        while True:
            jump = max(jump, float(np.abs(people.changes(before, after)).max(initial=0.0)))
            part = drawn.parts(before, after)
            resolved = together(part) <= limit
            # All at once, and a few more than must be: a round costs the same for few as for many.
            rows = largest(part, limit / 2)
            rows = rows[2 * steps[rows] <= FINEST]
            n = int(2 * steps[rows].max(initial=0))
            spent += n * len(rows)
            if resolved or not len(rows) or spent > WORK:
                return cls(after, before, steps, resolved, jump)
            before[rows] = after[rows]
            after[rows] = people.take(rows).after(fine(flow, people.metric, n))
            steps[rows] = n


def first_steps(flow: GradientFlow, metric: FairMetric) -> int:
    """Return steps that resolve the penalty; everyone is solved with half of them."""
    if not metric.quadratic:
        explicit = dataclasses.replace(flow, steps=None, horizons=())
        longest = explicit if flow.method(metric) in EXPLICIT else flow
        return 4 * max(len(flow.grid(metric)), len(longest.grid(metric)))
    resolving = min(math.ceil(flow.time * fastest(flow, metric) / RESOLVING), MOST_AT_ONCE)
    return 2 * math.ceil(max(FINE, resolving) / 2)


def fine(flow: GradientFlow, metric: FairMetric, steps: int) -> GradientFlow:
    """Return the flow with so many steps, and two more at the start."""
    rate = fastest(flow, metric)
    settling = (1 / rate, 4 / rate) if rate * flow.time > steps / 2 else ()
    rest = (flow.time - math.fsum(settling)) / steps
    return dataclasses.replace(
        flow,
        solver="exponential2" if metric.quadratic else flow.method(metric),
        steps=settling + (rest,) * steps,
        schedule="constant",
        horizons=(),
    )


def fastest(flow: GradientFlow, metric: FairMetric) -> float:
    """Return the fastest rate at which the penalty pulls people back."""
    if flow.free_only or not metric.quadratic:
        return 0.0
    return 2 * flow.lam * metric.largest_eigenvalue
