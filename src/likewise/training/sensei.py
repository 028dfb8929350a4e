"""SenSeI (sensitive set invariance): train for equal outputs at adversarial examples."""

import dataclasses
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from likewise.training.networks import Batch, Classes, Objective, SubspaceClassifier, basis_of
from likewise.training.sklearn_compat import TrainingData

SMALLEST_LAM, LARGEST_LAM = 1e-3, 100.0


@final
@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SenSeIClassifier(SubspaceClassifier):
    r"""Sensitive set invariance: the loss plus the distance of outputs at the worst similar person.

    .. math:: \min_f \frac1n \sum_i \ell(f(x_i), y_i) + \rho \max_{x'} \big( d_y(f(x_i), f(x_i'))
        - \lambda (d_x^2(x_i, x_i') - \varepsilon) \big),

    with :math:`d_y` the squared distance of logits and :math:`d_x` the distance off the sensitive
    subspace. :math:`\lambda` follows its dual, :math:`\lambda \leftarrow \lambda + s (\bar d_x^2 -
    \varepsilon)`, and stays within bounds.

    Parameters
    ----------
    directions
        Rows spanning the sensitive subspace; None learns them from protected attributes.
    rho
        :math:`\rho`: what alike outputs are worth. The larger, the fairer. ``auto`` takes the
        largest of .01, .03, .1, .3, 1 and 5 that loses at most two points on a held-out fifth
        of the people (`held_out_`).
    radius
        :math:`\varepsilon`: mean squared fair distance of similar people.
    attack_steps, attack_rate
        Adam steps to the worst similar person, and their size; along the subspace, in units of
        ``directions``, steps are ``subspace_rate`` long.
    lam, lam_rate
        :math:`\lambda` at the start, and the step s of its ascent.
    protected, hidden, learning_rate, max_iter, batch_size, balanced, random_state
        As in `BaselineClassifier`.

    References
    ----------
    Yurochkin and Sun (2021), SenSeI: Sensitive set invariance for enforcing individual fairness.
    """

    strength = ("rho", (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0))
    rho_: float = dataclasses.field(init=False)
    lam_: float = dataclasses.field(init=False)

    rho: float | str = "auto"
    radius: float = 1e-2
    attack_steps: int = 10
    attack_rate: float = 1e-2
    subspace_rate: float = 0.5
    lam: float = 1.0
    lam_rate: float = 0.5
    learning_rate: float = 1e-3
    max_iter: int = 3000

    @override
    def _objective(
        self, network: nn.Sequential, data: TrainingData, rng: np.random.Generator
    ) -> Objective:
        directions = self._subspace(data).float()
        basis, self.lam_ = basis_of(directions), self.lam

        def worst(x: Batch) -> tuple[Batch, float]:
            """Return the people similar to a batch whose outputs differ most, and how similar."""
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
                gap = squared_gap(out, network(moved))
                torch.autograd.backward((gap - self.lam_ * fair).sum(), inputs=[along, aside])
                ascent.step()
            return (x + along @ directions + aside).detach(), float(fair.detach().mean())

        def loss(x: Batch, y: Classes) -> Tensor:
            out = network(x)
            plain = cross_entropy(out, y)
            if not len(directions) or self.rho_ == 0:
                return plain
            moved, distance = worst(x)
            change = self.lam_rate * (distance - self.radius)
            self.lam_ = min(max(self.lam_ + change, SMALLEST_LAM), LARGEST_LAM)
            return plain + self.rho_ * squared_gap(out, network(moved)).mean()

        return loss


def squared_gap(one: Float[Tensor, "b k"], other: Float[Tensor, "b k"]) -> Float[Tensor, " b"]:
    """Return the squared distance of outputs, whatever is added to all logits of a person."""
    gap = one - other
    return (gap - gap.mean(dim=1, keepdim=True)).square().sum(dim=1)
