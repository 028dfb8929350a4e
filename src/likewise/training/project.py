"""Project: forget the sensitive subspace, then train as usual."""

from typing import Any, final

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.metrics.quadratic import ignoring
from likewise.models.torch_layers import FixedProjection
from likewise.training.baseline import learn_network
from likewise.training.directions import find_directions
from likewise.training.trained_classifier import TrainedClassifier, unchecked


@final
class ProjectClassifier(TrainedClassifier):
    """The network of `BaselineClassifier` behind a layer that removes the sensitive subspace.

    Parameters
    ----------
    directions
        Rows that span the subspace to be removed. None learns them from ``protected``.
    hidden, learning_rate, max_iter, batch_size, balanced, random_state, progress
        As in `BaselineClassifier`.
    """

    @unchecked
    def __init__(
        self,
        directions: Any = None,
        *,
        hidden: int = 50,
        learning_rate: float = 1e-4,
        max_iter: int = 8000,
        batch_size: int = 250,
        balanced: bool = True,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.directions = directions
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.balanced = balanced
        self.random_state = random_state
        self.progress = progress

    @override
    def _learn(self, people: AuditData, rng: np.random.Generator) -> nn.Module:
        directions = find_directions(self.directions, people)
        if not len(directions):
            return learn_network(self, people.x, people.y, rng)
        remove = FixedProjection(torch.from_numpy(ignoring(directions.numpy()).free))
        # The layer has nothing to learn, so people pass it once, before training.
        seen = remove(torch.tensor(people.x)).numpy()
        return nn.Sequential(remove, *learn_network(self, seen, people.y, rng))
