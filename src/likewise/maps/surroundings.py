"""Searches the ellipsoid around each person, in coordinates where it is the unit ball."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import final

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from likewise.maps.candidates import candidate_losses, worse
from likewise.models.base import Model

Snap = Callable[[Float[Tensor, "n m d"], Float[Tensor, "n d"]], Float[Tensor, "n m d"]]
"""Moves places near people ``x0`` to where someone could really be."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Best:
    """The worst place found so far for each person, and what it took to find it."""

    u: Float[Tensor, "n r"]
    x: Float[Tensor, "n d"]
    loss: Float[Tensor, " n"]
    calls: int
    trace: Mapping[int, Float[Tensor, " n"]]

    def after(
        self,
        calls: int,
        moves: Bool[Tensor, " n"],
        u: Float[Tensor, "n r"],
        x: Float[Tensor, "n d"],
        loss: Float[Tensor, " n"],
    ) -> "Best":
        """Return the best places after ``calls`` more model calls, which move some people."""
        worst = torch.where(moves, loss, self.loss)
        return Best(
            u=torch.where(moves[:, None], u, self.u),
            x=torch.where(moves[:, None], x, self.x),
            loss=worst,
            calls=self.calls + calls,
            trace={**self.trace, self.calls + calls: worst},
        )


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
    snap
        What makes places feasible, if that is asked for.
    """

    model: Model
    x0: Float[Tensor, "n d"]
    y: Shaped[Tensor, " n"]
    u0: Float[Tensor, "n r"]
    axes: Float[Tensor, "r d"]
    snap: Snap | None

    def start(self) -> Best:
        """Return everyone's own place."""
        loss = candidate_losses(self.model, self.x0[:, None], self.y)[:, 0]
        return Best(self.u0, self.x0, loss, 1, {1: loss})

    def consider(self, best: Best, u: Float[Tensor, "n m r"]) -> tuple[Best, Bool[Tensor, " n"]]:
        """Move people to the worst of m places each, where it is worse; and tell who moved."""
        if u.shape[1] == 0:
            return best, torch.zeros(len(best.u), dtype=torch.bool)
        x = self.x0[:, None] + (u - self.u0[:, None]) @ self.axes
        x = x if self.snap is None else self.snap(x, self.x0)
        loss = candidate_losses(self.model, x, self.y)
        place, moves = worse(best.loss, loss)
        row = torch.arange(len(place))
        m = u.shape[1]
        return best.after(m, moves, u[row, place], x[row, place], loss[row, place]), moves

    def look_around(self, best: Best, u: Float[Tensor, "m r"]) -> Best:
        """Consider the same m places of the ball for everyone."""
        return self.consider(best, u.to(self.u0).expand(len(self.u0), -1, -1))[0]

    def climb(self, best: Best, budget: int) -> Best:
        """Follow gradients: towards the rim where the loss would be largest if it were linear.

        A step that does not pay is tried again at half its length.
        """
        share = torch.ones(len(best.u), 1, dtype=best.u.dtype)
        while best.calls + 2 <= budget:
            slope = self.gradient(self.x0 + (best.u - self.u0) @ self.axes) @ self.axes.T
            length = slope.norm(dim=1, keepdim=True)
            rim = torch.where(length > 0, slope / length.clamp(min=1e-300), best.u)
            ahead = into_ball(best.u + share * (rim - best.u))
            best = dataclasses.replace(best, calls=best.calls + 1)  # the gradient
            best, moved = self.consider(best, ahead[:, None])
            share = torch.where(moved[:, None], (2 * share).clamp(max=1), share / 2)
        return best

    def look_closer(self, best: Best, budget: int, step: float) -> Best:
        """Try both ways along the rim and across it in turn, ever closer to the best place.

        Parameters
        ----------
        step
            Length of the first step along the rim; the one across it is a quarter radius.
        """
        r = best.u.shape[1]
        along = torch.full_like(best.u[:, :1], step)
        across = torch.full_like(along, 0.25)
        # Along the rim twice for every step across: the worst place is mostly on it.
        turns = [*range(1, r), *range(1, r), 0]
        turn = 0
        while best.calls + 2 <= budget:
            axis = turns[turn % len(turns)]
            h = along if axis else across
            best, moved = self.consider(best, both_ways(best.u, axis, h))
            h.copy_(torch.where(moved[:, None], h, h / 2))
            turn += 1
        return best

    def gradient(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Return the gradient of each person's loss at a place."""
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            # Sum, never mean: a row's path must not depend on who shares its block.
            loss = self.model.loss(self.model(x).to(torch.float64), self.y).sum()
        (slope,) = torch.autograd.grad(loss, x)
        return slope


def into_ball(u: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
    """Bring points outside the unit ball to its rim."""
    return u / u.norm(dim=1, keepdim=True).clamp(min=1)


def both_ways(
    u: Float[Tensor, "n r"], axis: int, h: Float[Tensor, "n 1"]
) -> Float[Tensor, "n 2 r"]:
    """Places at a distance ``h`` on either side: across the rim (axis 0), or along it.

    The directions are the columns of the reflection that takes the first axis to ``u``: the
    first points outwards, the others along the rim.
    """
    length = u.norm(dim=1, keepdim=True)
    first = torch.zeros_like(u)
    first[:, 0] = 1.0
    outward = torch.where(length > 1e-9, u / length.clamp(min=1e-9), first)
    if axis == 0:
        return torch.stack([into_ball(u + h * outward), into_ball(u - h * outward)], dim=1)
    mirror = outward + torch.where(outward[:, :1] < 0, -first, first)
    along = -2 * mirror * mirror[:, axis, None] / mirror.square().sum(1, keepdim=True)
    along[:, axis] += 1.0
    sides = []
    for sign in (1, -1):
        side = into_ball(u + sign * h * along)
        # Keep the distance from the centre, or the step would lead off the rim.
        scaled = side * (length / side.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1e9)
        sides.append(torch.where(length > h, into_ball(scaled), side))
    return torch.stack(sides, dim=1)
