"""Per-person losses, from margins, so that none of them rounds to zero.

``log(softmax)`` in finite precision says 0 for the people a model is surest about, and a
ratio of zeros says nothing. The margin form is right to the last digit.
"""

import dataclasses
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

Output = Literal["logits", "probabilities", "values"]
LossName = Literal["cross_entropy", "squared", "absolute"]

CLIP = 0.001
"""Probabilities from a model that gives nothing else are kept within [0.001, 0.999]."""


@dataclasses.dataclass(frozen=True)
class Loss:
    r"""The loss :math:`\ell(f(x), y)` of each person, given what the model puts out.

    Parameters
    ----------
    name
        ``cross_entropy`` for classes, ``squared`` or ``absolute`` for numbers.
    output
        What the model returns: ``logits`` (k columns, or one for two classes),
        ``probabilities`` (the same; clipped to [0.001, 0.999]) or ``values``.
    """

    name: LossName
    output: Output

    def __call__(self, out: Float[Tensor, "n k"], y: Shaped[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return one loss a person."""
        if self.name == "squared":
            return (out[:, 0] - y).square()
        if self.name == "absolute":
            return (out[:, 0] - y).abs()
        if self.output == "probabilities":
            return -torch.log(true_probability(out, y).clamp(CLIP, 1 - CLIP))
        # Not softplus: torch's turns linear at 20, and its gradient jumps there.
        return -torch.nn.functional.logsigmoid(margin(out, y))


def margin(logits: Float[Tensor, "n k"], y: Shaped[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return the true logit minus the log-sum-exp of the others: the loss is -log sigmoid of it."""
    if logits.shape[1] == 1:
        return (2 * y - 1) * logits[:, 0]
    if logits.shape[1] == 2:
        return (2 * y - 1) * (logits[:, 1] - logits[:, 0])
    true = logits.gather(1, y[:, None])[:, 0]
    others = logits.scatter(1, y[:, None], -torch.inf)
    return true - others.logsumexp(dim=1)


def true_probability(p: Float[Tensor, "n k"], y: Shaped[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Probability of the true class; a single column is the probability of class 1."""
    if p.shape[1] == 1:
        return torch.where(y == 1, p[:, 0], 1 - p[:, 0])
    return p.gather(1, y[:, None])[:, 0]


def decide(out: Float[Tensor, "n k"], output: Output) -> Shaped[Tensor, " n"]:
    """Class decided for each person: the largest, or one half as the threshold of one column."""
    if out.shape[1] == 1:
        return (out[:, 0] > (0 if output == "logits" else 0.5)).long()
    return out.argmax(dim=1)


def probabilities(out: Float[Tensor, "n k"], output: Output) -> Float[Tensor, "n c"]:
    """Class probabilities, always with one column a class."""
    if output == "logits":
        out = torch.sigmoid(out) if out.shape[1] == 1 else torch.softmax(out, dim=1)
    return torch.cat([1 - out, out], dim=1) if out.shape[1] == 1 else out
