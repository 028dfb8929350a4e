"""A second opinion on the flow: what a search without gradients finds in the same directions."""

import dataclasses
import math

import numpy as np

from likewise.checks.choices import reach_beside
from likewise.checks.crossfit import move_everyone
from likewise.checks.gather import Progress, gather
from likewise.checks.introduce import Introduced
from likewise.checks.judge import Judged, judge
from likewise.maps.flow import GradientFlow
from likewise.maps.search import Reach
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.outcomes import Outcomes
from likewise.record import TestRecord
from likewise.settings import Settings

PEOPLE = 500
"""People on whom flow and search are compared."""

LONG = 100.0
STEPS = 100
"""Time and steps of the flow they are compared with: long enough to come to rest within reach."""

MATERIAL = 0.05
"""Mean log ratio by which it must find more: five per cent, one fifth of the usual tolerance."""

SIGNIFICANT = 3.0
"""Standard errors by which the search must find more."""


@dataclasses.dataclass(frozen=True)
class SecondOpinion:
    """What the search within reach says, and whether the flow can be believed.

    Parameters
    ----------
    search
        The map that was searched by.
    judged
        The tests on the outcomes of the search.
    blinded
        Whether the search finds significantly more than a flow that had all the time it needs.
    flow_gain, search_gain
        Mean logarithm of the loss ratio that either finds, on the same people.
    """

    search: Reach
    judged: Judged
    blinded: bool
    flow_gain: float
    search_gain: float

    @property
    def complaint(self) -> str:
        """Why the flow's result must not be used, if it was blinded."""
        return (
            "the gradient flow misses unfairness in this model: a search without gradients "
            f"multiplies losses by {math.exp(self.search_gain):.3g} where the flow finds "
            f"{math.exp(self.flow_gain):.3g} (geometric means); audit it with --map reach"
        )


def second_opinion(
    who: Introduced,
    metric: FairMetric,
    settings: Settings,
    *,
    threads: int,
    progress: Progress | None = None,
) -> SecondOpinion | None:
    """Search within reach for everyone; ``None`` where there is nothing to search."""
    if not isinstance(metric, QuadraticForm) or not len(metric.free):
        return None
    search = reach_beside(settings, who, metric)
    found = move_everyone(
        who, metric, search, settings, threads=threads, progress=progress
    ).outcomes
    rows = np.arange(len(who.x))
    if len(rows) > PEOPLE:
        rng = np.random.default_rng([settings.seed, 2])
        rows = np.sort(rng.choice(len(rows), PEOPLE, replace=False))
    flow = GradientFlow(
        time=LONG,
        solver="exponential4",
        steps=STEPS,
        free_only=True,
        reach=search.within or getattr(metric, "reach", None),
    )
    flowed = gather(who.take(rows), metric, flow, threads=threads).outcomes
    searched = found.take(rows)
    blinded, flow_gain, search_gain = compare(flowed, searched)
    return SecondOpinion(search, judge(found, settings), blinded, flow_gain, search_gain)


def disagreement(flow: TestRecord, search: TestRecord) -> str:
    """Say so if flow and search disagree about the tolerance; an empty text if they do not."""
    if (flow.estimate > flow.delta) == (search.estimate > flow.delta):
        return ""
    return (
        f"The flow and the search within reach disagree about the tolerance {flow.delta:g}: "
        f"{flow.outcome.replace('_', ' ')} ({flow.estimate:.3g}) against "
        f"{search.outcome.replace('_', ' ')} ({search.estimate:.3g}). The settings said beforehand "
        "that the flow decides."
    )


def compare(flowed: Outcomes, searched: Outcomes) -> tuple[bool, float, float]:
    """Tell whether the search finds significantly more, and the mean log ratio of either.

    A flow that follows true gradients comes to rest near what the search finds. One that finds
    less than half of something that matters is not following them: outputs that are rounded, or
    saturated, have none. Logarithms, because one person's ratio may exceed all others' together.
    """
    flow, search = (np.log(np.maximum(o.loss_after, _TINY) / np.maximum(o.loss_before, _TINY))
                    for o in (flowed, searched))  # fmt: skip
    more = search - flow
    error = float(more.std(ddof=1)) / np.sqrt(len(more)) if len(more) > 1 else np.inf
    mean_flow, mean_search = float(flow.mean()), float(search.mean())
    significant = float(more.mean()) > max(SIGNIFICANT * error, MATERIAL)
    return bool(significant and mean_flow < mean_search / 2), mean_flow, mean_search


_TINY = 1e-300
