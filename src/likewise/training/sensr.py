"""SenSR (sensitive subspace robustness): train on adversarial examples of each batch.

Gradients are written out. With the first layer's products kept, moving a batch along m directions
costs m columns instead of d, which makes a training step several times faster than autograd.
"""

import dataclasses
import itertools
import math
import warnings
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from likewise.errors import InvalidSettings, LikewiseWarning
from likewise.methods.metric import span
from likewise.training.networks import Batch, Classes, Objective, SubspaceClassifier
from likewise.training.sklearn_compat import TrainingData

SMALLEST_LAM, LARGEST_LAM = 1e-5, 10.0

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
"""Rates of the first attack that ``auto`` chooses among."""

MAX_LOSS = 0.02
"""Balanced accuracy that ``auto`` may lose on held-out people."""

HELD_OUT, FEWEST_HELD_OUT = 0.2, 10
"""Share of the people on whom a rate is chosen; and people of the smallest class without whom
nothing is held out."""

Hidden = Float[Tensor, "b h"]


@final
@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SenSRClassifier(SubspaceClassifier):
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
        units of them. None learns them from protected attributes.
    protected, hidden, learning_rate, max_iter, batch_size, balanced, random_state
        As in `BaselineClassifier`. The length of training, too, trades accuracy for fairness.
    subspace_steps
        Adam steps of the first attack.
    subspace_rate
        Their size: the larger, the fairer; the paper's is 10. ``auto`` takes the largest of .01,
        .03, .1, .3, 1 and 10 that loses at most two points on a held-out fifth.
    full_steps, full_rate
        Steps of the second attack, and their size. The whole budget ``full_steps × full_rate`` is
        so short that the gradient's sign hardly changes on the way: it is spent in one step along
        that sign, for a fifth of the time.
    radius
        Mean squared fair distance :math:`\rho` that :math:`\lambda` steers the second attack to.
    lam
        :math:`\lambda` at the start.

    Attributes
    ----------
    subspace_rate_, held_out_
        The rate of the first attack; and, where it was ``auto``, balanced accuracy on held-out
        people, by rate.

    References
    ----------
    Yurochkin, Bower and Sun (2020), Training individually fair ML models with sensitive subspace
    robustness.
    """

    initial_bias = 0.1
    not_positive = (*SubspaceClassifier.not_positive, "subspace_rate")
    subspace_rate_: float = dataclasses.field(init=False)
    held_out_: dict[float, float] = dataclasses.field(init=False)

    hidden: int = 100
    max_iter: int = 4800
    batch_size: int = 1000
    subspace_steps: int = 10
    subspace_rate: float | str = "auto"
    full_steps: int = 50
    full_rate: float = 1e-4
    radius: float = 1e-3
    lam: float = 2.0

    @override
    def _check_parameters(self) -> None:
        super()._check_parameters()
        rate = self.subspace_rate
        if rate != "auto" and not (isinstance(rate, int | float) and 0 <= rate < math.inf):
            said = "it is a number or 'auto', and must not be negative"
            raise InvalidSettings(f"subspace_rate is {rate!r}; {said}.")

    @override
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Sequential:
        rate = self.subspace_rate
        if rate == "auto":
            fair = bool(data.protected) or not self._needs_protected()
            rate = self._chosen_rate(data, rng) if fair else 0.0
        self.subspace_rate_ = float(rate)
        return super()._train(data, rng)

    def _chosen_rate(self, data: TrainingData, rng: np.random.Generator) -> float:
        """Return the largest rate that loses at most `MAX_LOSS` on held-out people.

        A fifth of the people, with the shares of the classes, is held out. Rates are tried from
        the largest down; the model is then trained on everyone.
        """
        self.held_out_ = {}
        if np.bincount(data.y).min() < FEWEST_HELD_OUT:
            return RATES[0]
        seed = int(rng.integers(2**31 - 1))
        parts = train_test_split(
            np.arange(len(data.y)), test_size=HELD_OUT, stratify=data.y, random_state=seed
        )
        train, test = (data.take(rows) for rows in parts)
        lost = math.inf
        for rate in (0.0, *reversed(RATES)):
            trial = clone(self).set_params(subspace_rate=rate, random_state=seed)
            trial._fit(train)
            decided = trial._probabilities(test.x).argmax(axis=1)
            score = balanced_accuracy_score(test.y, decided, sample_weight=test.weight)
            self.held_out_[rate] = float(score)
            lost = self.held_out_[0.0] - self.held_out_[rate]
            if rate and lost <= MAX_LOSS:
                return rate
        said = (
            f"The least subspace_rate tried, {RATES[0]:g}, loses {lost:.3f} of balanced "
            f"accuracy on held-out people, more than {MAX_LOSS:g}. It is used."
        )
        warnings.warn(said, LikewiseWarning, stacklevel=5)
        return RATES[0]

    @override
    def _objective(self, network: nn.Sequential, data: TrainingData) -> Objective:
        directions, step = self._subspace(data).float(), itertools.count()
        attack = Attack(self, network, directions)

        def loss(x: Batch, y: Classes) -> Tensor | None:
            # The first step is a clean one, as in the authors' training.
            attacked = attack(x, y) if next(step) and len(directions) else x
            return None if attacked is None else cross_entropy(network(attacked), y)

        return loss


class Attack:
    r"""Adversarial examples of a batch, the worst similar people; remembers :math:`\lambda`.

    ``choices`` says how many steps, how long, and the radius; the weights of ``network``, one
    hidden ReLU layer, are read anew at every call.
    """

    def __init__(
        self, choices: SenSRClassifier, network: nn.Sequential, directions: Float[Tensor, "m d"]
    ) -> None:
        self.choices, self.network, self.directions = choices, network, directions
        self.full_rate, self.lam = choices.full_rate, choices.lam
        self.basis = torch.from_numpy(span(directions.double().numpy())).to(directions)

    @torch.no_grad()
    def __call__(self, x: Batch, y: Classes) -> Batch | None:
        """Return the attacked batch, or None if the second attack failed: then skip the step."""
        weight, bias, last_weight, last_bias = self.network.parameters()
        head = Head(last_weight, last_bias, y)
        hidden = nn.functional.linear(x, weight, bias)
        along, hidden = self._within(hidden, weight, head)
        # In one step: the budget is so short that the sign hardly changes on the way.
        budget = self.choices.full_steps * self.full_rate
        aside = (head.slope(hidden) @ weight).sign_() * budget
        outside = aside - (aside @ self.basis.T) @ self.basis
        distance = outside.square().sum().item() / len(x)
        ahead = head.loss(torch.addmm(hidden, aside, weight.T)) - self.lam * distance
        if ahead < head.loss(hidden):
            self.full_rate *= 0.999
            return None
        radius = self.choices.radius
        wide, narrow = max(distance, radius), min(distance, radius)
        change = wide / max(narrow, 1e-12) * (distance - radius)
        self.lam = min(max(self.lam + change, SMALLEST_LAM), LARGEST_LAM)
        return x + along @ self.directions + aside

    def _within(
        self, hidden: Hidden, weight: Float[Tensor, "h d"], head: "Head"
    ) -> tuple[Float[Tensor, "b m"], Hidden]:
        """Move within the subspace by Adam; return coefficients, and the hidden layer there."""
        through = self.directions @ weight.T
        moved, still = hidden, hidden.new_zeros(len(hidden), len(through))
        along, mean, square = still.clone(), still.clone(), still.clone()
        for step in range(1, self.choices.subspace_steps + 1):
            gradient = head.slope(moved) @ through.T
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            size = self.choices.subspace_rate_ * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
            along.addcdiv_(mean, square.sqrt().add_(1e-8), value=size)
            moved = torch.addmm(hidden, along, through)
        return (still, hidden) if head.loss(moved) < head.loss(hidden) else (along, moved)


class Head:
    """Mean cross-entropy of a batch as a function of the hidden layer, and its gradient there.

    With two classes, the usual case, only the difference of the logits counts: half the time.
    """

    def __init__(self, weight: Float[Tensor, "k h"], bias: Float[Tensor, " k"], y: Classes) -> None:
        self.weight, self.bias, self.y = weight, bias, y
        self.two = len(bias) == 2
        self.lean, self.start = weight[-1] - weight[0], bias[-1] - bias[0]
        self.sign = (2 * y - 1).to(weight.dtype)

    def loss(self, hidden: Hidden) -> Float[Tensor, ""]:
        """Return the mean loss."""
        if self.two:
            return -nn.functional.logsigmoid(self._margin(hidden)).mean()
        return cross_entropy(nn.functional.linear(hidden.relu(), self.weight, self.bias), self.y)

    def slope(self, hidden: Hidden) -> Hidden:
        """Return its gradient, in the hidden layer before the ReLU."""
        if self.two:
            error = torch.sigmoid(-self._margin(hidden)) * self.sign / -len(self.y)
            pull = torch.outer(error, self.lean)
        else:
            logits = nn.functional.linear(hidden.relu(), self.weight, self.bias)
            error = torch.softmax(logits, dim=1)
            error[torch.arange(len(self.y)), self.y] -= 1
            pull = (error / len(self.y)) @ self.weight
        return torch.ops.aten.threshold_backward(pull, hidden, 0)

    def _margin(self, hidden: Hidden) -> Float[Tensor, " b"]:
        return self.sign * (hidden.relu() @ self.lean + self.start)
