"""People on whom solutions of the flow are compared, at other steps or by other solvers."""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy import special

from likewise.maps.flow import GradientFlow, Precision
from likewise.metrics.fair_metric import FairMetric
from likewise.models.base import Model
from likewise.scale.executors import block_size, run_blocks

SURE = 0.995
"""Level at which chance is allowed for, on either side."""

BEYOND = 1e100
"""Changes above this belong to people who diverge, and say nothing more."""


@dataclasses.dataclass(frozen=True, eq=False)
class Some:
    """Some of the audited people.

    Parameters
    ----------
    share
        What each of them counts for, one on average.
    scale
        The mean loss that changes are divided by, for a regression; else everyone's own loss.
    total
        People in the whole audit.
    """

    model: Model
    metric: FairMetric
    x: Float[np.ndarray, "m d"]
    y: Shaped[np.ndarray, " m"]
    share: Float[np.ndarray, " m"]
    total: int
    threads: int
    scale: float | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        metric: FairMetric,
        x: Float[np.ndarray, "m d"],
        y: Shaped[np.ndarray, " m"],
        weight: Float[np.ndarray, " m"] | None,
        total: int,
        threads: int,
    ) -> "Some":
        """Return people drawn at random, with all that their solutions are measured by."""
        share = np.ones(len(x)) if weight is None else weight / weight.mean()
        some = cls(model, metric, x, y, share, total, threads)
        if model.card.task != "regression":
            return some
        return dataclasses.replace(some, scale=float((share * some.before).mean()))

    def take(self, rows: Int[np.ndarray, " u"]) -> "Some":
        """Return some of them; what they are divided by stays that of all."""
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows], share=self.share[rows])

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
        """Return what each person adds to the change of the audit value, times their number.

        People without finite losses or ratios are left to the statuses of the audit itself.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            change = self.share * (finer - after) / (self.scale or self.before)
        return np.where(np.isfinite(change), change, 0.0)

    def value(
        self, after: Float[np.ndarray, " m"], factor: Float[np.ndarray, " m"] | None = None
    ) -> tuple[float, float]:
        """Return the audit value, and the standard error it has with all people.

        ``factor`` says how many people each of them stands for, alike by default.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = after / (self.scale or self.before)
            known = np.isfinite(terms)
            own = self.before / self.scale if self.scale else np.ones(len(terms))
        if known.sum() < 2:
            return 1.0, 0.0
        factor = np.ones(len(terms)) if factor is None else factor
        factor = factor[known] / factor[known].sum()
        share = self.share[known] / float((factor * self.share[known]).sum())
        value = float((factor * share * terms[known]).sum())
        away = share * (terms[known] - value * own[known])
        return value, math.sqrt(float((factor * np.square(away)).sum()) / self.total)


@dataclasses.dataclass(frozen=True)
class MeanChange:
    """A mean change of the audit value, as seen on the people who were drawn.

    Parameters
    ----------
    change, std_error
        The change, and its standard error, since some people were not seen.
    worth
        How many people it comes from: fewer than there are, if some change far more than others.
    """

    change: float
    std_error: float
    worth: float = math.inf

    @property
    def size(self) -> float:
        """The change, or its standard error if that is larger."""
        return max(abs(self.change), self.std_error)

    @property
    def noise(self) -> float:
        """How far off chance may have put the change; the farther, the fewer it comes from."""
        return float(special.stdtrit(max(self.worth, 3.0), SURE)) * self.std_error


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """A few of some people: half at random, half the likelier the more they may matter.

    Where a network has kinks, a few people's paths depend on the steps, and most people's do not;
    so a few hundred draws say as much of the mean error as thousands of people would. Coarse
    solutions do not show everyone who matters: that is what the random half is for.

    Parameters
    ----------
    people, rows
        Those who were drawn, each once, and where they stand among the others.
    factor
        What the change of each counts for in the mean over all.
    pool
        How many people the draws are from.
    draws
        Number of draws; that of the pool if everyone was taken.
    """

    people: Some
    rows: Int[np.ndarray, " u"]
    factor: Float[np.ndarray, " u"]
    pool: int
    draws: int

    @classmethod
    def of(
        cls,
        some: Some,
        rough: Float[np.ndarray, " m"],
        after: Float[np.ndarray, " m"],
        count: int,
        rng: np.random.Generator,
    ) -> "Drawn":
        """Draw ``count`` people, given two solutions for all; or take all if there are no more.

        What may matter is the difference between the solutions, and the loss, in equal parts.
        """
        m = len(after)
        if m <= count:
            return cls(some, np.arange(m), np.full(m, 1 / m), m, m)
        sizes = (np.abs(some.changes(start, after)) for start in (rough, np.zeros(m)))
        chance = np.full(m, 2.0)
        for size in sizes:
            chance += size / max(size.mean(), np.finfo(float).tiny)
        chance /= chance.sum()
        # At equal distances along the chances, in their order: less is left to chance than in
        # independent draws, whose standard errors are thus not too small.
        order = np.argsort(chance, kind="stable")
        marks = (np.arange(count) + rng.random()) / count
        places = np.minimum(np.searchsorted(chance[order].cumsum(), marks), m - 1)
        rows, times = np.unique(order[places], return_counts=True)
        return cls(some.take(rows), rows, times / (m * count * chance[rows]), m, count)

    def one_in(self, every: int) -> "Drawn":
        """Return one in so many of them, who count as many times as much."""
        rows = np.arange(0, len(self.rows), every)
        people, factor = self.people.take(rows), every * self.factor[rows]
        return dataclasses.replace(self, people=people, rows=self.rows[rows], factor=factor)

    def std_error(self, after: Float[np.ndarray, " u"]) -> float:
        """Return the standard error of the audit value that their losses tell."""
        return self.people.value(after, self.factor)[1]

    def parts(
        self, after: Float[np.ndarray, " u"], finer: Float[np.ndarray, " u"]
    ) -> Float[np.ndarray, " u"]:
        """Return the change of the audit value, person by person."""
        return self.factor * self.people.changes(after, finer)

    def seen(self, after: Float[np.ndarray, " u"], finer: Float[np.ndarray, " u"]) -> MeanChange:
        """Return the mean change, and how far off chance may have put it."""
        part = self.parts(after, finer)
        mean, squares = float(part.sum()), np.square(part)
        if not squares.any():
            return MeanChange(mean, 0.0)
        if np.abs(part).max() > BEYOND:
            return MeanChange(math.inf, math.inf, 1.0)
        draws = 0.0 if self.draws == self.pool else float(squares.sum()) - mean**2 / self.draws
        change = self.people.changes(after, finer)
        spread = float((self.factor * np.square(change)).sum()) - mean**2
        rest = max(0.0, 1 - self.pool / self.people.total)
        error = math.sqrt(max(0.0, draws) + rest * max(0.0, spread) / self.pool)
        return MeanChange(mean, error, float(squares.sum() ** 2 / np.square(squares).sum()))


def together(part: Float[np.ndarray, " u"]) -> float:
    """Return how much changes of either sign may come to: their sum, or twice its spread."""
    return max(abs(float(part.sum())), 2 * math.sqrt(float(np.square(part).sum())))


def largest(part: Float[np.ndarray, " u"], limit: float) -> Int[np.ndarray, " q"]:
    """Return the people without whom the changes come to at most ``limit`` together."""
    order = np.argsort(-np.abs(part), kind="stable")
    rest = part[order][::-1]
    left = np.maximum(np.abs(rest.cumsum()), 2 * np.sqrt(np.square(rest).cumsum()))[::-1]
    return np.sort(order[: int((left > limit).sum())])
