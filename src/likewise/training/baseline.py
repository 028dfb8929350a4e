"""Baseline: a small network that knows nothing of fairness."""

from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.training.manners import counted
from likewise.training.network import batches, new_network, train
from likewise.training.trained_classifier import TrainedClassifier, unchecked


@final
class BaselineClassifier(TrainedClassifier):
    """A network with one hidden ReLU layer, trained on balanced batches (Appendix F.3).

    Parameters
    ----------
    hidden
        Units of the hidden layer.
    learning_rate, max_iter, batch_size
        Adam's step, the number of steps, and people a step. The defaults are the paper's.
    balanced
        Whether a batch holds equally many people of each class.
    random_state
        Seed of initial weights and batches; the same seed gives the same model.
    progress
        Whether to show a progress bar (on stderr, after two seconds).
    """

    needs_protected: ClassVar[bool] = False

    @unchecked
    def __init__(
        self,
        *,
        hidden: int = 50,
        learning_rate: float = 1e-4,
        max_iter: int = 8000,
        batch_size: int = 250,
        balanced: bool = True,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.balanced = balanced
        self.random_state = random_state
        self.progress = progress

    @override
    def _learn(self, people: AuditData, rng: np.random.Generator) -> nn.Module:
        return learn_network(self, people.x, people.y, rng)


def learn_network(
    choices: Any, x: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"], rng: np.random.Generator
) -> nn.Sequential:
    """Train the network of `BaselineClassifier` with the ``choices`` of an estimator."""
    network = new_network(x.shape[1], choices.hidden, int(y.max()) + 1, rng)
    people, classes = torch.tensor(x, dtype=torch.float32), torch.from_numpy(y)
    drawn = batches(y, choices.batch_size, choices.max_iter, rng, balanced=choices.balanced)
    words = type(choices).__name__.removesuffix("Classifier")
    steps = counted(drawn, choices.max_iter, words, show=choices.progress)
    stream = ((people[rows], classes[rows]) for rows in steps)
    train(network, stream, learning_rate=choices.learning_rate)
    choices.n_iter_ = choices.max_iter
    return network
