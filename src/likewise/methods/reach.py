"""Reach: an adversarial example in the plausible region, searched for without gradients."""

import dataclasses
import itertools
import math
from typing import ClassVar, cast, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from typing_extensions import override

from likewise.errors import InvalidMetric, InvalidModel, InvalidSettings
from likewise.methods.metric import FairMetric, QuadraticForm
from likewise.methods.plausible_region import Ellipsoid
from likewise.methods.unfair_map import Moved, UnfairMap
from likewise.models.base import Model

GAIN = 1e-9  # a relative gain of loss below this is rounding, and moves nobody

NUMBERS = 4_000_000
"""Numbers in one array of candidates (32 MB): large enough for any model to be at its fastest."""

ROUGH_PART, MIN_PLACES = 5, 12
"""Where many metrics are compared, one in so many of the places is looked at; at least twelve."""


@final
@dataclasses.dataclass(frozen=True)
class Reach(UnfairMap):
    r"""Everyone becomes the one with the largest loss of those who differ along free directions.

    The free coordinates stay inside the metric's plausible region; a person's own place always
    counts as within it. A fixed design in the region is followed by a local search around the
    worst point. Design, budget and rules are constants, so the map is fixed before the audited
    people are seen, which is all that the theorems ask for; what a search misses lowers the ratio,
    so that a rejection stands.

    Parameters
    ----------
    budget
        Places looked at for each person, at most. By default 60, and 30 more for every free
        direction after the second.
    """

    name: ClassVar[str] = "reach"
    asks_answers: ClassVar[bool] = True
    keeps_start: ClassVar[bool] = True
    claim: ClassVar[str] = (
        "For each person, similar people within reach are searched without gradients, and the "
        "worst is kept."
    )

    budget: int | None = None

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise InvalidSettings(f"The budget must be at least one model call, not {self.budget}.")

    @override
    def rough(self, metric: FairMetric) -> "Reach":
        places = self._places(metric)
        return Reach(max(places // ROUGH_PART, min(places, MIN_PLACES)))

    def _places(self, metric: FairMetric) -> int:
        return self.budget or 60 + 30 * max(len(metric.free) - 2, 0)

    @override
    def bind(self, model: Model, metric: FairMetric) -> "BoundReach":
        if not isinstance(metric, QuadraticForm):
            raise InvalidMetric("Only quadratic metrics have free directions to search.")
        if metric.reach is None:
            raise InvalidMetric(
                "This metric does not say how far a similar person may be. Learn it from data "
                "(sensitive_subspace), or give it the reach of a sample: metric.with_reach(x)."
            )
        return BoundReach(model, metric, self._places(metric))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundReach:
    """A search made ready for one model and one metric."""

    model: Model
    metric: QuadraticForm
    budget: int

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        # People who agree in everything are searched for once.
        _, once, back = np.unique(
            np.column_stack([x0, y]), axis=0, return_index=True, return_inverse=True
        )
        # About half of the budget is looked at in one call.
        size = max(1, 2 * NUMBERS // (x0.shape[1] * self.budget))
        blocks = np.split(once, range(size, len(once), size))
        found = [self._search(x0[rows], y[rows]) for rows in blocks]
        x = np.concatenate([places for places, _ in found])[back.reshape(-1)]
        return Moved(x, np.zeros(len(x0), dtype=np.int64), found[0][1])

    def _search(
        self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n d"], int]:
        """Return everyone's worst place, and the number of model calls.

        With three directions or more the loss may have several maxima within reach: half of the
        calls begin again, from the other half of the places first looked at.
        """
        region, free = cast(Ellipsoid, self.metric.reach), self.metric.free
        axes = region.axes @ free
        # Axes have no direction of their own: give them one that any basis of the subspace gives.
        sign = np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1))
        axes, u0 = sign * axes, region.whiten(x0 @ free.T) * sign.T
        own = candidate_losses(self.model, x0[:, None], y)[:, 0]
        r, u, loss, used = len(axes), u0, own, 1
        starts = min(r, 1) if r < 3 else 2
        for number in range(starts):
            calls = 1 + (self.budget - 1) // starts
            places = first_places(r, self.budget, calls)[number::starts][: calls - 1]
            search = LocalSearch(self.model, x0, y, axes, u0, u0, own)
            search.consider(np.broadcast_to(places, (len(x0), *places.shape)))
            search.look_closer(calls)
            better = search.loss > loss
            u = np.where(better[:, None], search.u, u)
            loss = np.where(better, search.loss, loss)
            used += search.calls - 1
        return x0 + (u - u0) @ axes, used


@dataclasses.dataclass(eq=False)
class LocalSearch:
    r"""The worst place found so far for each person, in a ball that stands for the region.

    A place ``u`` of the unit ball is :math:`x_0 + (u - u_0) \cdot \text{axes}` among the features;
    people beyond the region have their own :math:`u_0` outside of the ball.
    """

    model: Model
    x0: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, " n"]
    axes: Float[np.ndarray, "r d"]
    u0: Float[np.ndarray, "n r"]
    u: Float[np.ndarray, "n r"]
    loss: Float[np.ndarray, " n"]
    calls: int = 1

    def consider(self, u: Float[np.ndarray, "n m r"]) -> Bool[np.ndarray, " n"]:
        """Move people to the worst of m places each, where it is worse; and tell who moved."""
        n, m, _ = u.shape
        if m == 0:
            return np.zeros(n, dtype=bool)
        x = self.x0[:, None] + (u - self.u0[:, None]) @ self.axes
        loss = candidate_losses(self.model, x, self.y)
        place, moves = worst_candidate(self.loss, loss)
        row = np.arange(n)
        self.u = np.where(moves[:, None], u[row, place], self.u)
        self.loss = np.where(moves, loss[row, place], self.loss)
        self.calls += m
        return moves

    def look_closer(self, budget: int) -> None:
        """Try both ways along the rim and across it in turn, ever closer to the best place."""
        r = self.u.shape[1]
        # At first half the way to the next point of the design along the rim, and a quarter across.
        along = np.full_like(self.u[:, :1], 0.13 if r == 2 else 0.4)
        across = np.full_like(along, 0.25)
        in_vain = np.zeros_like(along)
        # Along the rim twice for every step across: the worst place is mostly on it.
        for axis in itertools.cycle([*range(1, r), *range(1, r), 0]):
            if self.calls + 2 > budget:
                return
            moved = self.consider(both_ways(self.u, axis, along if axis else across))
            if axis:  # a step is too long when it leads nowhere along all axes
                in_vain = np.where(moved[:, None], 0, in_vain + 1)
                along = np.where(in_vain == r - 1, along / 2, along)
                in_vain %= r - 1
            else:
                across[~moved] /= 2


def first_places(r: int, budget: int, calls: int) -> Float[np.ndarray, "m r"]:
    """Return where in the unit ball to look first: more places the more calls there are.

    A line is cut evenly, and a disc has points on its rim, half way to it, and its centre; with
    more dimensions directions are spread evenly over the sphere, each beside its opposite.
    """
    most = budget - 1 if budget < 60 else 33 * budget // 60
    if r == 1:
        return np.linspace(1, -1, min(most, 17 + max(most - 33, 0)))[:, None]
    if r == 2:
        fine = max(most // 33, 1)
        rim, inner = (np.arange(m * fine) * (2 * math.pi / (m * fine)) for m in (24, 8))
        points = [np.stack([np.cos(a), np.sin(a)], axis=1) for a in (rim, inner)]
        disc = np.concatenate([points[0], points[1] / 2, np.zeros((1, 2))])
        if len(disc) <= most:
            return disc
        return disc[np.linspace(0, len(disc) - 1, most).astype(int)]
    from scipy.stats import qmc  # late: it takes long to import

    sequence = qmc.MultivariateNormalQMC(np.zeros(r), seed=np.random.default_rng(0))
    most = (calls - 1) // 2
    drawn = sequence.random(2 ** max(most, 1).bit_length())  # balanced at powers of two
    units = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.stack([units, -units], axis=1).reshape(-1, r)[:most]


def candidate_losses(
    model: Model, x: Float[np.ndarray, "n m d"], y: Shaped[np.ndarray, " n"]
) -> Float[np.ndarray, "n m"]:
    """Loss of each person at each of m places, from one call of the model."""
    n, m, d = x.shape
    out = model(x.reshape(n * m, d)).astype(np.float64, copy=False)
    loss = model.loss(out, np.repeat(y, m)).reshape(n, m)
    if not np.isfinite(loss).all():
        bad = int((~np.isfinite(loss)).any(axis=1).sum())
        raise InvalidModel(
            f"The model returns NaN or infinity for people similar to {bad} of {n} in a block, "
            "so it cannot be searched."
        )
    return loss


def worst_candidate(
    now: Float[np.ndarray, " n"], candidates: Float[np.ndarray, "n m"]
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return the candidate with the largest loss, and whether it is worse than ``now``.

    Of several that differ by rounding the first is taken, so that the choice does not depend on
    how rows were put together.
    """
    top = candidates.max(axis=1)
    below = candidates < (top - GAIN * np.abs(top))[:, None]
    return np.argmin(below, axis=1), top > now * (1 + GAIN)


def both_ways(
    u: Float[np.ndarray, "n r"], axis: int, h: Float[np.ndarray, "n 1"]
) -> Float[np.ndarray, "n 2 r"]:
    """Places at a distance ``h`` on either side: across the rim (axis 0), or along it.

    Directions are the columns of the reflection that takes the first axis to ``u``.
    """
    length = np.linalg.norm(u, axis=1, keepdims=True)
    first = np.eye(1, u.shape[1])
    outward = np.where(length > 1e-9, u / np.maximum(length, 1e-9), first)
    if axis == 0:
        return np.stack([_into_ball(u + h * outward), _into_ball(u - h * outward)], axis=1)
    mirror = outward + np.where(outward[:, :1] < 0, -first, first)
    along = -2 * mirror * mirror[:, [axis]] / np.square(mirror).sum(axis=1, keepdims=True)
    along[:, axis] += 1.0
    sides = []
    for sign in (1, -1):
        side = _into_ball(u + sign * h * along)
        # Keep the distance from the centre, or the step would lead off the rim.
        far = np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9)
        scaled = _into_ball(side * np.minimum(length / far, 1e9))
        sides.append(np.where(length > h, scaled, side))
    return np.stack(sides, axis=1)


def _into_ball(u: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n r"]:
    """Bring points outside the unit ball to its rim."""
    return u / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1)
