"""SenSeI: train for alike outputs at the worst similar person."""

from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.metrics.quadratic import span
from likewise.training.directions import find_directions
from likewise.training.manners import counted
from likewise.training.network import batches, new_network
from likewise.training.trained_classifier import TrainedClassifier, unchecked

SMALLEST_LAM, LARGEST_LAM = 1e-3, 100.0


@final
class SenSeIClassifier(TrainedClassifier):
    r"""Sensitive set invariance: the loss plus the distance of outputs at the worst similar person.

    .. math:: \min_f \frac1n \sum_i \ell(f(x_i), y_i) + \rho \max_{x'} \big( d_y(f(x_i), f(x_i'))
        - \lambda (d_x^2(x_i, x_i') - \varepsilon) \big),

    with :math:`d_y` the squared distance of logits and :math:`d_x` the distance off the sensitive
    subspace. :math:`\lambda` follows its dual, :math:`\lambda \leftarrow \lambda + s (\bar d_x^2 -
    \varepsilon)`, and stays within bounds.

    Parameters
    ----------
    directions
        Rows spanning the sensitive subspace; None learns them from ``protected``.
    rho
        :math:`\rho`: what alike outputs are worth. The larger, the fairer.
    radius
        :math:`\varepsilon`: mean squared fair distance of similar people.
    attack_steps, attack_rate
        Adam steps to the worst similar person, and their size; along the subspace, in units of
        ``directions``, steps are ``subspace_rate`` long.
    lam, lam_rate
        :math:`\lambda` at the start, and the step s of its ascent.
    hidden, learning_rate, max_iter, batch_size, balanced, random_state, progress
        As in `BaselineClassifier`.

    References
    ----------
    Yurochkin and Sun (2021), SenSeI: Sensitive set invariance for enforcing individual fairness.
    """

    @unchecked
    def __init__(
        self,
        directions: Any = None,
        *,
        rho: float = 5.0,
        radius: float = 1e-2,
        attack_steps: int = 10,
        attack_rate: float = 1e-2,
        subspace_rate: float = 0.5,
        lam: float = 1.0,
        lam_rate: float = 0.5,
        hidden: int = 50,
        learning_rate: float = 1e-3,
        max_iter: int = 3000,
        batch_size: int = 250,
        balanced: bool = True,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.directions = directions
        self.rho = rho
        self.radius = radius
        self.attack_steps = attack_steps
        self.attack_rate = attack_rate
        self.subspace_rate = subspace_rate
        self.lam = lam
        self.lam_rate = lam_rate
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.balanced = balanced
        self.random_state = random_state
        self.progress = progress

    @override
    def _learn(self, people: AuditData, rng: np.random.Generator) -> nn.Module:
        directions = find_directions(self.directions, people).float()
        basis = torch.from_numpy(span(directions.double().numpy())).to(directions)
        classes = int(people.y.max()) + 1
        network = new_network(people.x.shape[1], self.hidden, classes, rng)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        x, y = torch.tensor(people.x, dtype=torch.float32), torch.from_numpy(people.y)
        drawn = batches(people.y, self.batch_size, self.max_iter, rng, balanced=self.balanced)
        lam = self.lam
        for rows in counted(drawn, self.max_iter, "SenSeI", show=self.progress):
            batch = x[rows]
            worst = batch
            if len(directions):
                worst, distance = self._worst(network, batch, directions, basis, lam, rng)
                change = self.lam_rate * (distance - self.radius)
                lam = min(max(lam + change, SMALLEST_LAM), LARGEST_LAM)
            optimizer.zero_grad()
            out = network(batch)
            loss = nn.functional.cross_entropy(out, y[rows])
            if len(directions):
                loss = loss + self.rho * apart(out, network(worst)).mean()
            torch.autograd.backward(loss)
            optimizer.step()
        self.n_iter_, self.lam_ = self.max_iter, lam
        return network

    def _worst(
        self,
        network: nn.Sequential,
        x: Float[Tensor, "b d"],
        directions: Float[Tensor, "m d"],
        basis: Float[Tensor, "r d"],
        lam: float,
        rng: np.random.Generator,
    ) -> tuple[Float[Tensor, "b d"], float]:
        """Return the people similar to a batch whose outputs differ most, and their distance."""
        with torch.no_grad():
            out = network(x)
        # At the person itself outputs do not differ, and there is no slope to follow.
        size = self.subspace_rate * rng.standard_normal((len(x), len(directions)))
        along = torch.from_numpy(size).float().requires_grad_()
        aside = torch.zeros_like(x, requires_grad=True)
        steps: list[dict[str, Any]] = [
            {"params": [along], "lr": self.subspace_rate},
            {"params": [aside], "lr": self.attack_rate},
        ]
        ascent = torch.optim.Adam(steps, maximize=True)
        fair = torch.zeros(())
        for _ in range(self.attack_steps):
            ascent.zero_grad()
            moved = x + along @ directions + aside
            fair = (aside - (aside @ basis.T) @ basis).square().sum(dim=1)
            torch.autograd.backward(
                (apart(out, network(moved)) - lam * fair).sum(), inputs=[along, aside]
            )
            ascent.step()
        moved = (x + along @ directions + aside).detach()
        return moved, float(fair.detach().mean())


def apart(one: Float[Tensor, "b k"], other: Float[Tensor, "b k"]) -> Float[Tensor, " b"]:
    """Return the squared distance of outputs, whatever is added to all logits of a person."""
    gap = one - other
    return (gap - gap.mean(dim=1, keepdim=True)).square().sum(dim=1)
