"""People on whom solutions of the flow are compared, at other steps or by other solvers."""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.maps.flow import GradientFlow, Precision
from likewise.metrics.base import FairMetric
from likewise.models.base import Model
from likewise.scale.blocks import block_size, run_blocks


@dataclasses.dataclass(frozen=True, eq=False)
class Some:
    """Some of the audited people.

    Parameters
    ----------
    total
        People in the whole audit.
    """

    model: Model
    metric: FairMetric
    x: Float[np.ndarray, "m d"]
    y: Shaped[np.ndarray, " m"]
    total: int
    threads: int

    def after(
        self, flow: GradientFlow, precision: Precision = "float32"
    ) -> Float[np.ndarray, " m"]:
        """Return everyone's loss after a flow.

        Differences between steps are far above the rounding of float32, which takes half as long.
        """
        # Who would be left in place is known from the losses.
        quick = dataclasses.replace(
            flow,
            steps=flow.grid(self.metric),
            precision=precision,
            horizons=(),
            keeps_start=False,
        )
        bound = quick.bind(self.model, self.metric)
        losses = self._losses(lambda x, y: bound(x, y).x)
        return np.maximum(losses, self.before) if flow.keeps_start else losses

    @functools.cached_property
    def before(self) -> Float[np.ndarray, " m"]:
        """Everyone's loss where they are."""
        return self._losses(lambda x, y: x)

    def _losses(
        self, move: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> Float[np.ndarray, " m"]:
        def block(rows: slice) -> Float[np.ndarray, " b"]:
            x, y = self.x[rows], self.y[rows]
            return self.model.loss(self.model(move(x, y)), y)

        # Twice as large as those of the audit, since float32 takes half the room.
        size = 2 * block_size(self.x.shape[1])
        return np.concatenate(run_blocks(block, len(self.x), size=size, threads=self.threads))

    def changes(
        self, after: Float[np.ndarray, " m"], finer: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, " m"]:
        """Return what each person adds to the change of the audit value, times their number."""
        mean = self.before.mean() if self.model.card.task == "regression" else self.before
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((finer - after) / mean)

    def value(self, after: Float[np.ndarray, " m"]) -> tuple[float, float]:
        """Return the audit value, and the standard error it has with all people.

        People without finite losses or ratios are left to the statuses of the audit itself.
        """
        if self.model.card.task == "regression":
            mean = self.before.mean()
            value = after.mean() / mean
            terms = value + (after - value * self.before) / mean
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = after / self.before
        terms = terms[np.isfinite(terms)]
        if len(terms) < 2:
            return 1.0, 0.0
        return float(terms.mean()), float(terms.std()) / math.sqrt(self.total)

    def mean_change(
        self, after: Float[np.ndarray, " m"], finer: Float[np.ndarray, " m"]
    ) -> tuple[float, float]:
        """Return the change of the audit value, and the standard error of having seen only some."""
        change = self.changes(after, finer)
        change = change[np.isfinite(change)]
        if len(change) < 2:
            return math.inf, 0.0
        rest = max(0.0, 1 - len(self.x) / self.total)
        return float(change.mean()), float(change.std()) * math.sqrt(rest / len(change))


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """A few of some people, drawn the likelier the more their losses depend on the steps.

    Where a network has kinks, a few people's paths depend on the steps, and most people's do not;
    so a few hundred draws say as much of the mean error as thousands of people would.

    Parameters
    ----------
    people, rows
        Those who were drawn, each once, and where they stand among the others.
    place, weight
        For every draw who it was, and one over the number of times they were to be expected.
    pool
        How many people the draws are from.
    """

    people: Some
    rows: Int[np.ndarray, " u"]
    place: Int[np.ndarray, " k"]
    weight: Float[np.ndarray, " k"]
    pool: int

    @classmethod
    def of(
        cls,
        some: Some,
        coarse: Float[np.ndarray, " m"],
        fine: Float[np.ndarray, " m"],
        count: int,
        rng: np.random.Generator,
    ) -> "Drawn":
        """Draw ``count`` people, given two solutions for all; or take all if there are no more.

        Half of the chance goes with the difference between the solutions, half with the loss.
        """
        m = len(coarse)
        if m <= count:
            return cls(some, np.arange(m), np.arange(m), np.ones(m), m)
        nothing = np.zeros(m)
        parts = (np.abs(some.changes(start, fine)) for start in (coarse, nothing))
        sizes = [np.where(np.isfinite(part), part, 0.0) for part in parts]
        chance = sum(size / max(size.mean(), np.finfo(float).tiny) for size in sizes) + 0.01
        chance /= chance.sum()
        drawn = rng.choice(m, count, p=chance)
        rows, place = np.unique(drawn, return_inverse=True)
        few = dataclasses.replace(some, x=some.x[rows], y=some.y[rows])
        return cls(few, rows, place, 1 / (m * chance[drawn]), m)

    def mean_change(
        self, after: Float[np.ndarray, " u"], finer: Float[np.ndarray, " u"]
    ) -> tuple[float, float]:
        """Return the change of the audit value, and its standard error."""
        change = self.people.changes(after, finer)[self.place]
        known = np.isfinite(change)
        change, weight = change[known], self.weight[known]
        if len(change) < 2:
            return math.inf, 0.0
        weighted = weight * change
        mean = float(weighted.mean())
        everyone = len(self.weight) == self.pool
        draws = 0.0 if everyone else float(weighted.var()) / len(change)
        spread = max(0.0, float((weight * change**2).mean()) - mean**2)
        rest = max(0.0, 1 - self.pool / self.people.total)
        return mean, math.sqrt(draws + rest * spread / self.pool)
