"""Outcomes of people: losses and decisions before and after a map."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.loss import decide, probabilities, true_probability
from likewise.methods.metric import FairMetric
from likewise.methods.unfair_map import BoundMap
from likewise.models.base import Model
from likewise.outcomes import Outcomes, Status


class Seen(NamedTuple):
    """How the model serves some people where they are."""

    loss: Float[np.ndarray, " n"]
    decision: Shaped[np.ndarray, " n"]
    probability: Float[np.ndarray, " n"]

    def take(self, rows: Int[np.ndarray, " m"] | slice) -> "Seen":
        """Return some of the people."""
        return Seen(*(values[rows] for values in self))


class Observed(NamedTuple):
    """What was seen of a block of people, where they ended, and how many people's loss fell.

    It fell on the way, whether or not they were then left in place.
    """

    outcomes: Outcomes
    x: Float[np.ndarray, "n d"]
    below_one: int


@np.errstate(over="ignore", invalid="ignore")  # who is nowhere is marked
def observe(
    model: Model,
    bound: BoundMap,
    metric: FairMetric,
    x0: Float[np.ndarray, "m d"],
    y: Shaped[np.ndarray, " m"],
    *,
    n: int | None = None,
    before: Seen | None = None,
    keeps_start: bool = False,
) -> Observed:
    """Move a block of people, and compare their losses and decisions before and after.

    Parameters
    ----------
    n
        How many of the rows are people; what follows only fills the block. By default all.
    before
        Losses and decisions of these people where they are, if they are known.
    keeps_start
        Whether people whose loss would fall are left where they are.
    """
    people = slice(n)
    moved = bound(x0, y)
    before = see(model, x0, y).take(people) if before is None else before
    after = see(model, moved.x, y).take(people)
    fell = after.loss < before.loss
    stays = fell & keeps_start
    after = Seen(*(np.where(stays, *pair) for pair in zip(before, after, strict=True)))
    x = np.where(stays[:, None], x0[people], moved.x[people])
    outcomes = Outcomes(
        row=np.arange(len(x)),
        y=y[people],
        loss_before=before.loss,
        loss_after=after.loss,
        decision_before=before.decision,
        decision_after=after.decision,
        probability_before=before.probability,
        probability_after=after.probability,
        fair_distance=metric.squared_distance(x, x0[people]),
        status=moved.status[people],
    )
    # Mark people who are nowhere, or have no ratio, and are not marked already.
    here = np.isfinite(x).all(axis=1)
    here &= np.isfinite(outcomes.loss_before) & np.isfinite(outcomes.loss_after)
    defined = np.isfinite(outcomes.ratio) | (model.card.task == "regression")
    found = np.select([~here, ~defined], [Status.DIVERGED, Status.UNDEFINED], Status.MOVED)
    status = np.where(outcomes.status == Status.MOVED, found, outcomes.status)
    return Observed(dataclasses.replace(outcomes, status=status), x, int(fell.sum()))


def see(model: Model, x: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Seen:
    """Return losses, decisions and probabilities of people at ``x``."""
    out = model(x).astype(np.float64, copy=False)
    loss = model.loss(out, y)
    if model.card.task == "regression":
        return Seen(loss, out[:, 0], np.full(len(x), np.nan))
    probability = true_probability(probabilities(out, model.card.output), y)
    return Seen(loss, decide(out, model.card.output, model.card.threshold), probability)
