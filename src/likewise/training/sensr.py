"""SenSR: train on the worst people similar to those in the batch."""

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.training.attack import Attack
from likewise.training.directions import find_directions
from likewise.training.manners import counted
from likewise.training.network import batches, new_network, train
from likewise.training.trained_classifier import TrainedClassifier, unchecked


@final
class SenSRClassifier(TrainedClassifier):
    r"""Sensitive subspace robustness: a network trained on attacked batches only.

    Each step moves a balanced batch twice against the network: freely within the sensitive
    subspace, then a little in all directions at the price :math:`\lambda \|P\,\cdot\|^2`, and
    makes one Adam step on where the people ended up. :math:`\lambda` follows the mean squared
    fair distance :math:`m` towards ``radius`` :math:`\rho`:
    :math:`\lambda \leftarrow \lambda + \frac{\max(m,\rho)}{\min(m,\rho)}(m - \rho)`.

    Parameters
    ----------
    directions
        Rows spanning the sensitive subspace. Their lengths matter: the first attack moves in
        units of them. None learns them from ``protected``.
    hidden, learning_rate, max_iter, batch_size, balanced, random_state, progress
        As in `BaselineClassifier`. The length of training is what trades accuracy for fairness.
    subspace_steps, subspace_rate
        Adam steps of the first attack, and their size.
    full_steps, full_rate
        Adam steps of the second attack, and their size.
    faithful
        Whether to make all the steps of the second attack. Their whole budget
        ``full_steps × full_rate`` is so short that the gradient's sign hardly changes on the
        way; by default it is spent in one step along that sign, for a fifth of the time.
    radius
        Mean squared fair distance :math:`\rho` that :math:`\lambda` steers the second attack to.
    lam
        :math:`\lambda` at the start.

    References
    ----------
    Yurochkin, Bower and Sun (2020), Training individually fair ML models with sensitive subspace
    robustness.
    """

    @unchecked
    def __init__(
        self,
        directions: Any = None,
        *,
        hidden: int = 100,
        learning_rate: float = 1e-5,
        max_iter: int = 20000,
        batch_size: int = 1000,
        balanced: bool = True,
        subspace_steps: int = 10,
        subspace_rate: float = 10.0,
        full_steps: int = 50,
        full_rate: float = 1e-4,
        faithful: bool = False,
        radius: float = 1e-3,
        lam: float = 2.0,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.directions = directions
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.balanced = balanced
        self.subspace_steps = subspace_steps
        self.subspace_rate = subspace_rate
        self.full_steps = full_steps
        self.full_rate = full_rate
        self.faithful = faithful
        self.radius = radius
        self.lam = lam
        self.random_state = random_state
        self.progress = progress

    @override
    def _learn(self, people: AuditData, rng: np.random.Generator) -> nn.Module:
        directions = find_directions(self.directions, people).float()
        network = new_network(
            people.x.shape[1], self.hidden, int(people.y.max()) + 1, rng, bias=0.1
        )
        attack = Attack(
            network=network,
            directions=directions,
            subspace_steps=self.subspace_steps,
            subspace_rate=self.subspace_rate,
            full_steps=self.full_steps,
            full_rate=self.full_rate,
            faithful=self.faithful,
            radius=self.radius,
            lam=self.lam,
        )
        train(network, self._stream(people, attack, rng), learning_rate=self.learning_rate)
        self.n_iter_ = self.max_iter
        return network

    def _stream(
        self, people: AuditData, attack: Attack, rng: np.random.Generator
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Draw batches, and attack each with the weights that the network has by then."""
        x, y = torch.tensor(people.x, dtype=torch.float32), torch.from_numpy(people.y)
        drawn = batches(people.y, self.batch_size, self.max_iter, rng, balanced=self.balanced)
        for step, rows in enumerate(counted(drawn, self.max_iter, "SenSR", show=self.progress)):
            # The first step is a clean one, as in the authors' training.
            attacked = attack(x[rows], y[rows]) if step and len(attack.directions) else x[rows]
            if attacked is not None:
                yield attacked, y[rows]
