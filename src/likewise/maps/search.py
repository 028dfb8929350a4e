"""The worst similar person who could exist, found without gradients, λ or a horizon."""

import dataclasses
from typing import ClassVar, cast, final

import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.errors import InvalidMetric, InvalidSettings
from likewise.maps.candidates import (
    EXACT,
    NUMBERS,
    ball_design,
    candidate_losses,
    directions,
    first_step,
    worse,
)
from likewise.maps.feasible import Feasible, Levels, Nearby, column_groups
from likewise.maps.surroundings import Best, Surroundings, farthest
from likewise.maps.unfair_map import KnownPeople, Moved, UnfairMap
from likewise.metrics.fair_metric import FairMetric, QuadraticForm
from likewise.metrics.reach import Ellipsoid
from likewise.models.base import Model

SHARES = (1.0, 0.5, 0.25, 2.0)
"""Lengths of the step that are tried, in units of what would be best were the loss linear."""

ROUGH, FEWEST = 5, 12
"""Where many metrics are compared, one in so many of the places is looked at; at least twelve."""

PROBE = 0.5
"""Length of the probes for a model without gradients, in standardised features."""

MOST_VALUES = 2**20
"""A column with more values than this counts as continuous."""


@final
@dataclasses.dataclass(frozen=True)
class Reach(UnfairMap):
    r"""Everyone becomes the worst-served of those who differ along free directions, within reach.

    The free coordinates stay inside the ellipsoid that holds 99 % of the metric's own sample; a
    person's own place always counts as within reach. A fixed design in the ellipsoid is followed
    by a local search around the worst point. With more than five free directions, gradients
    lead the way where the model has them, beside directions spread evenly.

    *Validity.* The theorems ask one thing of a map: that it is fixed before the audited people are
    seen. This one is: the design, the budget and the rules of the search are constants, and metric
    and reach come from their own sample. So the ratios are independent draws, whatever the model.
    A search need not find the very worst person: what it misses lowers the ratio, so that a
    rejection stands. (A metric learned from the audited people themselves makes this
    approximate, as for any map.)

    Parameters
    ----------
    budget
        Places looked at for each person, at most. Gradients count as places. By default 60, and
        30 more for every free direction after the second.
    within
        How far people may go; by default the reach that the metric was learned with.
    price
        Also allow a step off the free directions, at this price :math:`\lambda` for a squared fair
        distance of one. By default there is none, and all moves cost nothing.
    feasible
        Move categories and whole numbers to values that were observed, so that everyone found is
        someone who could exist. Such moves may cost some fair distance, which is reported; they
        stay within reach, and the harm that counts is the lesser of that person's and that of the
        place which they stand for: rounding alone hurts nobody. An audit learns the values from
        the people it is about, unless this is ``False``.
    """

    name: ClassVar[str] = "reach"
    asks_answers: ClassVar[bool] = True
    claim: ClassVar[str] = (
        "For each person, similar people within reach are searched without gradients, and the "
        "worst is kept."
    )

    budget: int | None = None
    within: Ellipsoid | None = None
    price: float | None = None
    feasible: Feasible | bool | None = None
    keeps_start: bool = dataclasses.field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise InvalidSettings(f"The budget must be at least one model call, not {self.budget}.")
        if self.price is not None and not 0 < self.price < float("inf"):
            raise InvalidSettings(f"The price must be a positive number, not {self.price:g}.")

    @override
    def knowing(self, known: KnownPeople) -> "Reach":
        if self.feasible is False or isinstance(self.feasible, Feasible):
            return self
        groups = column_groups(known.people.x, known.people.features)
        found = zip(groups, known.combinations(groups, MOST_VALUES), strict=True)
        choices = [Levels(tuple(part), values) for part, values in found if values is not None]
        return dataclasses.replace(self, feasible=Feasible.keeping(choices, known.n))

    @override
    def under(self, metric: FairMetric) -> "Reach":
        # A reach stands in the coordinates of one metric's free directions: another has its own.
        return self if metric.reach is None else dataclasses.replace(self, within=None)

    @override
    def rough(self, metric: FairMetric) -> "Reach":
        places = self.budget or 60 + 30 * max(len(cast(QuadraticForm, metric).free) - 2, 0)
        return dataclasses.replace(self, budget=max(places // ROUGH, min(places, FEWEST)))

    @override
    def without(self, direction: int) -> "Reach":
        within = None if self.within is None else self.within.without(direction)
        return dataclasses.replace(self, within=within)

    @override
    def bind(self, model: Model, metric: FairMetric) -> "BoundReach":
        if not isinstance(metric, QuadraticForm):
            raise InvalidMetric("Only quadratic metrics have free directions to search.")
        if self.feasible is True:
            raise InvalidSettings(
                "What is feasible is learned from people: let an audit do it, or give "
                "Feasible.of(x, features)."
            )
        within = self.within or metric.reach
        if within is None:
            raise InvalidMetric(
                "This metric does not say how far a similar person may be. Learn it from data "
                "(sensitive_subspace), or give it the reach of a sample: metric.with_reach(x)."
            )
        if len(within.mean) != len(metric.free):
            raise InvalidMetric(
                f"The reach has {len(within.mean)} coordinates for {len(metric.free)} free "
                "directions."
            )
        places = self.budget or 60 + 30 * max(len(metric.free) - 2, 0)
        return BoundReach(self, model, metric, within, places)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundReach:
    """A search made ready for one model and one metric."""

    map: Reach
    model: Model
    metric: QuadraticForm
    within: Ellipsoid
    budget: int

    @property
    def feasible(self) -> Feasible | None:
        """What can be observed, if that is asked for and leaves anything out."""
        chosen = self.map.feasible
        return chosen if isinstance(chosen, Feasible) and chosen.choices else None

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        # About half of the budget is looked at in one call.
        size = max(1, 2 * NUMBERS // (x0.shape[1] * self.budget))
        parts, shown = [], []
        for start in range(0, max(len(x0), 1), size):
            around = self.surroundings(x0[start : start + size], y[start : start + size])
            parts.append(self.search(around))
            shown.append(self._shown(around, parts[-1]))
        feasible = self.feasible
        return Moved(
            x=np.concatenate(shown),
            counted=None if feasible is None else np.concatenate([part.x for part in parts]),
            status=np.zeros(len(x0), dtype=np.int64),
            evaluations=parts[0].calls,
            trace={
                calls: np.concatenate([part.trace[calls] for part in parts])
                for calls in parts[0].trace
            },
        )

    def _shown(self, around: Surroundings, best: Best) -> Float[np.ndarray, "n d"]:
        """Return who could exist at the worst places, if that is asked for."""
        if around.nearby is None or around.snap is None:
            return best.x
        if self.map.price is not None:  # they may have left the free directions
            return around.snap(best.x[:, None], around.x0)[:, 0]
        return around.nearby.people(np.arange(len(best.u)), best.u - around.u0, best.codes)

    def search(self, around: Surroundings) -> Best:
        """Find everyone's worst place.

        With three directions or more the loss may have several summits within reach: half of the
        calls begin again, from the other half of the places first looked at.
        """
        outside = 0 if self.map.price is None else self.budget // 3
        best = own = around.start()
        starts = 1 if len(around.axes) < 3 else 2
        for number in range(starts if len(around.axes) else 0):
            calls = 1 + (self.budget - outside - 1) // starts
            found = self._summit(around, own, calls, slice(number, None, starts))
            if number == 0:
                best = found
                continue
            who = np.flatnonzero(found.loss > best.loss)
            there = found.u[who], found.loss[who], found.codes[:, who], found.near[who]
            best = best.after(found.calls - own.calls, who, *there)
        best = around.placed(best)
        if self.map.price is None:
            return best
        return step_outside(around, best, self.metric, self.map.price, outside)

    def _summit(self, around: Surroundings, best: Best, budget: int, part: slice) -> Best:
        """Look at part of the places of the design, and closer around the worst of them."""
        r = len(around.axes)
        uphill = r > EXACT and self.model.card.differentiable
        if r <= EXACT:
            # More calls look at more places and look closer, in the same proportion.
            share = 33 if r < 3 else 20
            most = self.budget - 1 if self.budget < 60 else share * self.budget // 60
            places = ball_design(r, most)[part][: budget - 1]
        else:
            # Gradients find the way from nearly anywhere: fewer places are enough.
            left = budget - best.calls
            places = directions(r, 2 * left // 3)[part][: left // 5 if uphill else left]
        best, _ = around.consider(best, np.broadcast_to(places, (len(best.u), *places.shape)))
        if uphill:
            best = around.climb(best, best.calls + (budget - best.calls) // 2)
        return around.look_closer(best, budget, first_step(r))

    def surroundings(
        self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
    ) -> Surroundings:
        """Return what is within reach of a block of people."""
        free = self.metric.free
        axes = self.within.axes @ free
        # Axes have no direction of their own: give them one that any basis of the subspace gives.
        sign = np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1))

        def whiten(x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m r"]:
            return self.within.whiten(x @ free.T) * sign.T

        u0, axes, feasible = whiten(x0), sign * axes, self.feasible
        nearby = feasible and Nearby.of(feasible, x0, axes, farthest(u0))
        return Surroundings(
            self.model, x0, y, u0, axes, whiten, feasible and feasible.nearest, nearby
        )


def step_outside(
    around: Surroundings, best: Best, metric: QuadraticForm, price: float, budget: int
) -> Best:
    r"""Add the step that pays best after its price, if any does.

    Were the loss linear, :math:`\ell + \langle g, v\rangle - \lambda v^\top \Sigma v` would be
    largest at :math:`v = \Sigma^{+} g / (2\lambda)`. Shares of that step are tried, and the largest
    of the loss minus the price wins; no step is one of them.
    """
    calls = 1 if around.model.card.differentiable else budget - len(SHARES)
    if calls < 1 or budget < len(SHARES) + 1:
        return best
    step = uphill(around, best, metric, calls) / (2 * price)
    x = best.x[:, None] + step[:, None] * np.array(SHARES, dtype=step.dtype)[:, None]
    x = x if around.snap is None else around.snap(x, around.x0)
    loss = candidate_losses(around.model, x, around.y)
    n, m, d = x.shape
    start = np.repeat(around.x0, m, axis=0)
    cost = price * metric.squared_distance(x.reshape(n * m, d), start).reshape(n, m)
    own_cost = price * metric.squared_distance(best.x, around.x0)
    place, _ = worse(best.loss, loss - cost)
    row = np.arange(n)
    gains = (loss - cost)[row, place] > (best.loss - own_cost) + 1e-9 * best.loss
    # A person whose place was made feasible has paid already, and must not lose by paying less.
    who = np.flatnonzero(gains & (loss[row, place] > best.loss))
    place = place[who]
    after = best.after(calls + m, who, best.u[who], loss[who, place])
    now = best.x.copy()
    now[who] = x[who, place]
    return dataclasses.replace(after, x=now)


def uphill(
    around: Surroundings, best: Best, metric: QuadraticForm, calls: int
) -> Float[np.ndarray, "n d"]:
    r"""Return :math:`\Sigma^{+} g`: where loss rises most for the fair distance it costs.

    ``calls`` of the model are for the gradient of one that has none.
    """
    differentiable = around.model.card.differentiable
    slope = around.gradient(best.x) if differentiable else _estimated(around, best, calls)
    return metric.function(lambda e: np.where(e > 0, 1 / np.maximum(e, 1e-300), 0.0), slope)


def _estimated(around: Surroundings, best: Best, calls: int) -> Float[np.ndarray, "n d"]:
    """Estimate the gradient from differences along fixed random directions."""
    d = best.x.shape[1]
    drawn = np.random.default_rng(0).normal(size=(calls, d))
    units = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    loss = candidate_losses(around.model, best.x[:, None] + PROBE * units, around.y)
    return (loss - best.loss[:, None]) / PROBE @ units * (d / calls)
