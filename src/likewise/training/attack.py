r"""The two attacks of SenSR: freely within a subspace, then a little in all directions.

Gradients are written out. With the first layer's products kept, moving a batch along m directions
costs m columns instead of d, which makes a training step several times faster than autograd.
"""

import dataclasses

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from likewise.metrics.quadratic import span

SMALLEST_LAM, LARGEST_LAM = 1e-5, 10.0


@dataclasses.dataclass
class Attack:
    r"""Where a network treats people similar to a batch worst; remembers :math:`\lambda`.

    Parameters
    ----------
    network
        One hidden ReLU layer; its weights are read anew at every call.
    directions
        Rows that span the subspace. Their lengths are the units of the first attack.
    subspace_steps, subspace_rate, full_steps, full_rate, faithful, radius, lam
        See `likewise.training.SenSRClassifier`.
    """

    network: nn.Sequential
    directions: Float[Tensor, "m d"]
    subspace_steps: int
    subspace_rate: float
    full_steps: int
    full_rate: float
    faithful: bool
    radius: float
    lam: float

    def __post_init__(self) -> None:
        self.basis = torch.from_numpy(span(self.directions.double().numpy())).to(self.directions)

    @torch.no_grad()
    def __call__(
        self, x: Float[Tensor, "b d"], y: Int[Tensor, " b"]
    ) -> Float[Tensor, "b d"] | None:
        """Return the attacked batch, or None if the second attack failed: then skip the step."""
        weight, bias, last_weight, last_bias = self.network.parameters()
        head = Head(last_weight, last_bias, y)
        hidden = nn.functional.linear(x, weight, bias)
        along, hidden = self._within(hidden, weight, head)
        aside = self._around(hidden, weight, head)
        distance = self._fair(aside).square().sum().item() / len(x)
        ahead = head.loss(torch.addmm(hidden, aside, weight.T)) - self.lam * distance
        if ahead < head.loss(hidden):
            self.full_rate *= 0.999
            return None
        self._steer(distance)
        return x + along @ self.directions + aside

    def _within(
        self, hidden: Float[Tensor, "b h"], weight: Float[Tensor, "h d"], head: "Head"
    ) -> tuple[Float[Tensor, "b m"], Float[Tensor, "b h"]]:
        """Move within the subspace; return coefficients, and the hidden layer there."""
        through = self.directions @ weight.T
        along = AdamAscent(hidden.new_zeros(len(hidden), len(through)))
        moved = hidden
        for _ in range(self.subspace_steps):
            along.step(head.slope(moved) @ through.T, self.subspace_rate)
            moved = torch.addmm(hidden, along.x, through)
        if head.loss(moved) < head.loss(hidden):
            return torch.zeros_like(along.x), hidden
        return along.x, moved

    def _around(
        self, hidden: Float[Tensor, "b h"], weight: Float[Tensor, "h d"], head: "Head"
    ) -> Float[Tensor, "b d"]:
        """Move in all directions; return the displacement."""
        if not self.faithful:
            budget = self.full_steps * self.full_rate
            return (head.slope(hidden) @ weight).sign_() * budget
        aside = AdamAscent(hidden.new_zeros(len(hidden), weight.shape[1]))
        for _ in range(self.full_steps):
            gradient = head.slope(torch.addmm(hidden, aside.x, weight.T)) @ weight
            gradient -= (2 * self.lam / len(hidden)) * self._fair(aside.x)
            aside.step(gradient, self.full_rate)
        return aside.x

    def _fair(self, v: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return the part of ``v`` that costs something: outside the subspace."""
        return v - (v @ self.basis.T) @ self.basis

    def _steer(self, distance: float) -> None:
        r"""Move :math:`\lambda` so that the mean squared fair distance tends to the radius."""
        wide, narrow = max(distance, self.radius), min(distance, self.radius)
        change = wide / max(narrow, 1e-12) * (distance - self.radius)
        self.lam = min(max(self.lam + change, SMALLEST_LAM), LARGEST_LAM)


class Head:
    """Mean cross-entropy of a batch as a function of the hidden layer, and its gradient there.

    With two classes, the usual case, only the difference of the logits counts: half the time.
    """

    def __init__(
        self, weight: Float[Tensor, "k h"], bias: Float[Tensor, " k"], y: Int[Tensor, " b"]
    ) -> None:
        self.weight, self.bias, self.y = weight, bias, y
        self.two = len(bias) == 2
        self.lean, self.start = weight[-1] - weight[0], bias[-1] - bias[0]
        self.sign = (2 * y - 1).to(weight.dtype)

    def loss(self, hidden: Float[Tensor, "b h"]) -> Float[Tensor, ""]:
        """Return the mean loss."""
        if self.two:
            return -nn.functional.logsigmoid(self._margin(hidden)).mean()
        return nn.functional.cross_entropy(self._logits(hidden), self.y)

    def slope(self, hidden: Float[Tensor, "b h"]) -> Float[Tensor, "b h"]:
        """Return its gradient, in the hidden layer before the ReLU."""
        if self.two:
            error = torch.sigmoid(-self._margin(hidden)) * self.sign / -len(self.y)
            pull = torch.outer(error, self.lean)
        else:
            error = torch.softmax(self._logits(hidden), dim=1)
            error[torch.arange(len(self.y)), self.y] -= 1
            pull = (error / len(self.y)) @ self.weight
        return torch.ops.aten.threshold_backward(pull, hidden, 0)

    def _margin(self, hidden: Float[Tensor, "b h"]) -> Float[Tensor, " b"]:
        return self.sign * (hidden.relu() @ self.lean + self.start)

    def _logits(self, hidden: Float[Tensor, "b h"]) -> Float[Tensor, "b k"]:
        return nn.functional.linear(hidden.relu(), self.weight, self.bias)


@dataclasses.dataclass
class AdamAscent:
    """Adam uphill from ``x``, with the usual constants and a fresh memory."""

    x: Float[Tensor, "b m"]

    def __post_init__(self) -> None:
        self.mean, self.square, self.steps = torch.zeros_like(self.x), torch.zeros_like(self.x), 0

    def step(self, gradient: Float[Tensor, "b m"], size: float) -> None:
        """Move ``x`` by about ``size`` in every coordinate."""
        self.steps += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        correction = (1 - 0.999**self.steps) ** 0.5
        scale = size * correction / (1 - 0.9**self.steps)
        self.x.addcdiv_(self.mean, self.square.sqrt().add_(1e-8), value=scale)
