"""What became of people: losses and decisions before and after a map, as outcomes."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.losses import decide, probabilities, true_probability
from likewise.maps.base import BoundMap, Moved
from likewise.metrics.base import FairMetric
from likewise.models.base import Model
from likewise.outcomes import AtHorizon, Outcomes, Status


@dataclasses.dataclass(frozen=True)
class Observed:
    """A block of people: what was seen of them, and where they went.

    Parameters
    ----------
    below_one
        How many people's loss fell on the way, whether or not they were then left in place.
    """

    outcomes: Outcomes
    moved: Moved
    below_one: int


@dataclasses.dataclass(frozen=True)
class _Seen:
    loss: Float[np.ndarray, " n"]
    decision: Shaped[np.ndarray, " n"]
    probability: Float[np.ndarray, " n"]


@np.errstate(over="ignore", invalid="ignore")  # who is nowhere is marked
def observe(
    model: Model,
    bound: BoundMap,
    metric: FairMetric,
    x0: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    *,
    row: Int[np.ndarray, " n"] | None = None,
) -> Observed:
    """Move a block of people, and compare how the model serves them before and after.

    Parameters
    ----------
    row
        Their row numbers in the audit data; by default counted from 0.
    """
    moved = bound(x0, y)
    before, after = _see(model, x0, y), _see(model, moved.x, y)
    outcomes = Outcomes(
        row=np.arange(len(x0)) if row is None else row,
        y=y,
        loss_before=before.loss,
        loss_after=after.loss,
        decision_before=before.decision,
        decision_after=after.decision,
        probability_before=before.probability,
        probability_after=after.probability,
        fair_distance=metric.squared_distance(moved.x, x0),
        status=moved.status,
        horizons={time: _at(model, x, y) for time, x in moved.horizons.items()},
    )
    lost = ~np.isfinite(moved.x).all(axis=1)
    status = _status(outcomes, lost, ratios=model.card.task == "classification")
    fell = int((after.loss < before.loss).sum())
    return Observed(dataclasses.replace(outcomes, status=status), moved, moved.below_one + fell)


def _see(model: Model, x: np.ndarray, y: np.ndarray) -> _Seen:
    out = model(x).astype(np.float64, copy=False)
    loss = model.loss(out, y)
    if model.card.task == "regression":
        return _Seen(loss, out[:, 0], np.full(len(x), np.nan))
    probability = true_probability(probabilities(out, model.card.output), y)
    return _Seen(loss, decide(out, model.card.output), probability)


def _at(model: Model, x: np.ndarray, y: np.ndarray) -> AtHorizon:
    seen = _see(model, x, y)
    return AtHorizon(seen.loss, seen.decision)


def _status(
    outcomes: Outcomes, lost: Bool[np.ndarray, " n"], *, ratios: bool
) -> Int[np.ndarray, " n"]:
    """Mark people who are nowhere, or have no ratio, and are not marked already."""
    lost = lost | ~(np.isfinite(outcomes.loss_before) & np.isfinite(outcomes.loss_after))
    undefined = ~np.isfinite(outcomes.ratio) if ratios else np.zeros(len(outcomes), dtype=bool)
    found = np.select([lost, undefined], [Status.DIVERGED, Status.UNDEFINED], Status.MOVED)
    return np.where(outcomes.status == Status.MOVED, found, outcomes.status)
