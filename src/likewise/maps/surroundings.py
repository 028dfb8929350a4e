"""Searches the ellipsoid around each person as a unit ball."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from likewise.maps.candidates import GAIN, candidate_losses, losses_of, worse
from likewise.maps.feasible import Codes, Nearby
from likewise.metrics.reach import lengths
from likewise.models.base import Model, Steps

Snap = Callable[[Float[np.ndarray, "n m d"], Float[np.ndarray, "n d"]], Float[np.ndarray, "n m d"]]
"""Moves places near people ``x0`` to where someone could really be."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Best:
    """The worst place found so far for each person, and what it took to find it.

    Parameters
    ----------
    x
        Where people are; where that place is, once the search is over (`Surroundings.placed`).
    codes, near
        Who could exist and stands for that place, and how badly they are served.
    """

    u: Float[np.ndarray, "n r"]
    x: Float[np.ndarray, "n d"]
    loss: Float[np.ndarray, " n"]
    calls: int
    trace: Mapping[int, Float[np.ndarray, " n"]]
    codes: Codes
    near: Float[np.ndarray, " n"]

    def after(
        self,
        calls: int,
        who: Int[np.ndarray, " q"],
        u: Float[np.ndarray, "q r"],
        loss: Float[np.ndarray, " q"],
        codes: Codes | None = None,
        near: Float[np.ndarray, " q"] | None = None,
    ) -> "Best":
        """Return the best places after ``calls`` more model calls, which move some people."""
        new = {"u": u, "loss": loss, "codes": codes, "near": near}
        now = {name: getattr(self, name).copy() for name in new if new[name] is not None}
        for name, value in now.items():
            value[(..., who) if name == "codes" else who] = new[name]
        calls += self.calls
        trace = {**self.trace, calls: now["loss"]}
        return dataclasses.replace(self, calls=calls, trace=trace, **now)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Surroundings:
    r"""What is within reach of a block of people.

    Parameters
    ----------
    model, x0, y
        The model, where people are, and their labels.
    u0
        Where they are in the ball; outside it for people beyond the ellipsoid.
    axes
        Half axes of the ellipsoid among the features: a place ``u`` is
        :math:`x_0 + (u - u_0) \cdot \text{axes}`.
    whiten
        From features to places in the ball.
    snap, nearby
        What makes any place feasible, if that is asked for; and places on the way.
    """

    model: Model
    x0: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, " n"]
    u0: Float[np.ndarray, "n r"]
    axes: Float[np.ndarray, "r d"]
    whiten: Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n r"]]
    snap: Snap | None
    nearby: Nearby | None

    def start(self) -> Best:
        """Return everyone's own place."""
        loss = candidate_losses(self.model, self.x0[:, None], self.y)[:, 0]
        codes = np.zeros((0, len(loss)), dtype=np.int64)
        if self.nearby is not None:
            codes = self.nearby.codes(np.arange(len(loss)), np.zeros_like(self.u0))
        return Best(self.u0, self.x0, loss, 1, {1: loss}, codes, loss)

    def consider(
        self, best: Best, u: Float[np.ndarray, "n m r"]
    ) -> tuple[Best, Bool[np.ndarray, " n"]]:
        """Move people to the worst of m places each, where it is worse; and tell who moved."""
        if u.shape[1] == 0:
            return best, np.zeros(len(best.u), dtype=bool)
        steps = u - self.u0[:, None]
        if self.nearby is None:
            loss, near = self._served(np.arange(len(u)), steps), None
        else:
            loss, near = self._possible(self.nearby, best, steps)
        place, moves = worse(best.loss, loss)
        who = np.flatnonzero(moves)
        place = place[who]
        new, calls = loss[who, place], u.shape[1]
        if self.nearby is None or near is None:
            return best.after(calls, who, u[who, place], new), moves
        codes = self.nearby.codes(who, steps[who, place])
        return best.after(calls, who, u[who, place], new, codes, near[who, place]), moves

    def placed(self, best: Best) -> Best:
        """Return the features of the worst places, or of those who could exist and count there."""
        s = best.u - self.u0
        x = s @ self.axes
        x += self.x0
        if self.nearby is not None:
            who = np.flatnonzero(best.near == best.loss)
            x[who] = self.nearby.people(who, s[who], best.codes[:, who])
        return dataclasses.replace(best, x=x)

    @functools.cached_property
    def _outputs(self) -> Steps:
        return self.model.along(self.x0, self.axes, farthest(self.u0))

    def _served(
        self, who: Int[np.ndarray, " q"], steps: Float[np.ndarray, "q m r"]
    ) -> Float[np.ndarray, "q m"]:
        """Return the losses of some people at m places each."""
        if not len(who):  # not everyone answers questions about nobody
            return np.empty(steps.shape[:2])
        return losses_of(self.model, self._outputs(steps, who), self.y[who], steps.shape[1])

    def _possible(
        self, nearby: Nearby, best: Best, steps: Float[np.ndarray, "n m r"]
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
        """Return losses at places, and those of the nearest people who could exist.

        A place counts only as far as that person is served badly, too: where they are served
        better than the place itself, they take its place, and whoever is out of reach does not
        count. So rounding alone hurts nobody. Where places are cheap to ask about they are asked
        about first, else those people, who are fewer; and then the other of the two where it
        matters: at the worst place, and at those that could be worse than what was found there.
        """
        n, m, _ = steps.shape
        everyone, cheap = np.arange(n), self.model.card.differentiable
        if cheap:
            loss, near = self._served(everyone, steps), np.full((n, m), np.nan)
        else:
            who = np.repeat(everyone, m)
            near = self._standing(nearby, best, who, steps.reshape(n * m, -1)).reshape(n, m)
            loss = near.copy()
        could = loss > best.loss[:, None] * (1 + GAIN)
        rounds = 1 if m <= 2 else 2
        for again in range(rounds):
            chosen = could
            if again + 1 < rounds:
                chosen = np.zeros_like(could)
                chosen[everyone, loss.argmax(axis=1)] = True
                chosen &= could
            who, place = np.nonzero(chosen)
            s = steps[who, place]
            if cheap:
                found = near[who, place] = self._standing(nearby, best, who, s)
            else:
                found = self._served(who, s[:, None])[:, 0]
            loss[who, place] = np.minimum(found, loss[who, place])
            if again + 1 < rounds:
                could &= ~chosen
                top = np.where(could, -np.inf, loss).max(axis=1)
                could &= loss >= (top - GAIN * np.abs(top))[:, None]
        return loss, near

    def _standing(
        self, nearby: Nearby, best: Best, who: Int[np.ndarray, " q"], s: Float[np.ndarray, "q r"]
    ) -> Float[np.ndarray, " q"]:
        """Return the losses of people who could exist near places; out of reach there is none."""
        codes = nearby.codes(who, s)
        found = best.near[who]
        # Most are whoever was found before: nothing more is asked about them.
        other = (codes != best.codes.take(who, axis=1)).any(axis=0)
        new = np.flatnonzero(other | (len(nearby.continuous) > 0))
        if len(new):
            once, back = nearby.distinct(who[new], codes[:, new])
            some, new_s = who[new[once]], s[new[once]]
            people = nearby.people(some, new_s, codes[:, new[once]])
            asked = candidate_losses(self.model, people[:, None], self.y[some])[:, 0]
            far, far_now = lengths(self.whiten(people))[:, 0], lengths(self.u0[some])[:, 0]
            asked[far > np.maximum(far_now, 1) + 1e-9] = -np.inf
            found[new] = asked[back]
        return found

    def climb(self, best: Best, budget: int) -> Best:
        """Follow gradients: towards the rim where the loss would be largest if it were linear.

        A step that does not pay is tried again at half its length.
        """
        share = np.ones((len(best.u), 1))
        while best.calls + 2 <= budget:
            slope = self.gradient(self.x0 + (best.u - self.u0) @ self.axes) @ self.axes.T
            length = lengths(slope)
            rim = np.where(length > 0, slope / np.maximum(length, 1e-300), best.u)
            ahead = into_ball((best.u + share * (rim - best.u)).T).T
            best = dataclasses.replace(best, calls=best.calls + 1)  # the gradient
            best, moved = self.consider(best, ahead[:, None])
            share = np.where(moved[:, None], np.minimum(2 * share, 1), share / 2)
        return best

    def look_closer(self, best: Best, budget: int, step: float) -> Best:
        """Try both ways along the rim and across it in turn, ever closer to the best place.

        Parameters
        ----------
        step
            Length of the first step along the rim; the one across it is a quarter radius.
        """
        r = best.u.shape[1]
        along = np.full_like(best.u[:, :1], step)
        across = np.full_like(along, 0.25)
        # Along the rim twice for every step across: the worst place is mostly on it.
        turns = [*range(1, r), *range(1, r), 0]
        turn, in_vain = 0, np.zeros_like(along)
        while best.calls + 2 <= budget:
            axis = turns[turn % len(turns)]
            best, moved = self.consider(best, both_ways(best.u, axis, along if axis else across))
            if axis:  # a step is too long when it leads nowhere along all axes
                in_vain = np.where(moved[:, None], 0, in_vain + 1)
                along = np.where(in_vain == r - 1, along / 2, along)
                in_vain %= r - 1
            else:
                across[~moved] /= 2
            turn += 1
        return best

    def gradient(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the gradient of each person's loss at a place."""
        return self.model.loss_gradient(x, self.y)


def into_ball(u: Float[np.ndarray, "r n"]) -> Float[np.ndarray, "r n"]:
    """Bring points outside the unit ball to its rim, given coordinate by coordinate."""
    return u / np.maximum(_long(u), 1)


def farthest(u0: Float[np.ndarray, "n r"]) -> Float[np.ndarray, " n"]:
    """Return how far it is at most from where people are to places in the unit ball."""
    return 1 + lengths(u0)[:, 0]


def both_ways(
    u: Float[np.ndarray, "n r"], axis: int, h: Float[np.ndarray, "n 1"]
) -> Float[np.ndarray, "n 2 r"]:
    """Places at a distance ``h`` on either side: across the rim (axis 0), or along it.

    The directions are the columns of the reflection that takes the first axis to ``u``: the
    first points outwards, the others along the rim.
    """
    # Coordinate by coordinate: rows of so few numbers are slow to go through.
    at, step = np.ascontiguousarray(u.T), h[:, 0]
    length = _long(at)
    first = np.zeros((len(at), 1))
    first[0] = 1.0
    outward = np.where(length > 1e-9, at / np.maximum(length, 1e-9), first)
    if axis == 0:
        sides = [into_ball(at + step * outward), into_ball(at - step * outward)]
    else:
        mirror = outward + np.where(outward[0] < 0, -first, first)
        along = -2 * mirror * mirror[axis] / np.square(mirror).sum(axis=0)
        along[axis] += 1.0
        sides = []
        for sign in (1, -1):
            side = into_ball(at + sign * step * along)
            # Keep the distance from the centre, or the step would lead off the rim.
            scaled = side * np.minimum(length / np.maximum(_long(side), 1e-9), 1e9)
            sides.append(np.where(length > step, into_ball(scaled), side))
    return np.ascontiguousarray(np.stack(sides).transpose(2, 0, 1))


def _long(u: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " n"]:
    return np.sqrt(np.square(u).sum(axis=0))
