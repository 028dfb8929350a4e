"""Networks that are trained: the paper's layers, batches, and a torch module to audit."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from likewise.errors import InvalidSettings
from likewise.training.sklearn_compat import FairClassifier, TrainingData, learned_subspace

CHUNK = 256
"""Steps whose batches are drawn at once: one call of the generator instead of many."""


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(FairClassifier):
    """A classifier that is a torch module once fitted, and so can be audited as it is.

    Attributes
    ----------
    module_
        The fitted network, in float64: features to logits, row by row.
    """

    max_iter: int = 8000
    balanced: bool = True
    module_: nn.Module = dataclasses.field(init=False)

    @abc.abstractmethod
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Module:
        """Return a network from features to logits, and set ``n_iter_``."""

    @override
    def _learn(self, data: TrainingData, rng: np.random.Generator) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # batches this small lose more time to others than they gain
        try:
            self.module_ = self._train(data, rng).double().eval()
        finally:
            torch.set_num_threads(threads)

    @override
    def _probabilities(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        with torch.inference_mode():
            # Copied in order: torch refuses rows in reverse, which NumPy hands out as a view.
            tensor = torch.from_numpy(np.array(x, order="C"))
            return torch.softmax(self.module_(tensor), dim=1).numpy()

    def to_torch(self) -> nn.Module:
        """Return the fitted network: a module from features to logits, one column per class."""
        check_is_fitted(self)
        return self.module_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Adam moves a weight by about the learning rate a step: after a handful of short steps
        # nothing is learned yet, and scikit-learn's checks should not expect a score.
        travel = self.max_iter * getattr(self, "learning_rate", 1.0)
        tags.classifier_tags.poor_score = bool(travel < 0.1)
        return tags


Batch = Float[Tensor, "b d"]
Classes = Int[Tensor, " b"]
Objective = Callable[[Batch, Classes], Tensor | None]
"""From people and their classes to the loss of a batch; None if the batch is to be skipped."""


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class BatchClassifier(NetworkClassifier):
    """A network with one hidden ReLU layer, trained on batches by Adam."""

    initial_bias: ClassVar[float] = 0.0
    hidden: int = 50
    learning_rate: float = 1e-4
    batch_size: int = 250

    def _objective(
        self, network: nn.Sequential, data: TrainingData, rng: np.random.Generator
    ) -> Objective:
        """Return what is minimised: the cross-entropy, which knows nothing of fairness."""
        return lambda x, y: cross_entropy(network(x), y)

    @override
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Sequential:
        classes = int(data.y.max()) + 1
        network = new_network(data.x.shape[1], self.hidden, classes, rng, bias=self.initial_bias)
        objective = self._objective(network, data, rng)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        x, y = torch.tensor(data.x, dtype=torch.float32), torch.from_numpy(data.y)
        for rows in self._batches(data, rng):
            loss = objective(x[rows], y[rows])
            if loss is not None:
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
        return network

    def _batches(self, data: TrainingData, rng: np.random.Generator) -> Iterator[Int[Tensor, " b"]]:
        """Draw the row numbers of all batches, with replacement and in proportion to weights.

        A balanced batch holds equally many people of each class, class after class.
        """
        self.n_iter_ = self.max_iter
        pools = [np.arange(len(data.y))]
        if self.balanced:
            pools = [np.flatnonzero(data.y == code) for code in range(data.y.max() + 1)]
        each, weight = max(1, self.batch_size // len(pools)), data.weight

        def draw(pool: Int[np.ndarray, " p"], shape: tuple[int, int]) -> Int[np.ndarray, "s e"]:
            if weight is None:
                return pool[rng.integers(0, len(pool), shape)]
            return rng.choice(pool, shape, p=weight[pool] / weight[pool].sum())

        for start in range(0, self.max_iter, CHUNK):
            shape = (min(CHUNK, self.max_iter - start), each)
            drawn = np.concatenate([draw(pool, shape) for pool in pools], axis=1)
            yield from torch.from_numpy(drawn)


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SubspaceClassifier(BatchClassifier):
    """A network that is to be blind to a sensitive subspace: given, or learned."""

    directions: Any = dataclasses.field(default=None, kw_only=False)

    def _subspace(self, data: TrainingData) -> Float[Tensor, "m d"]:
        """Return its directions as rows; there are none without protected attributes."""
        d = data.x.shape[1]
        found = self.directions
        if found is None:
            found = learned_subspace(data).directions if data.protected else np.zeros((0, d))
        rows = np.asarray(found, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != d:
            raise InvalidSettings(f"directions has shape {rows.shape}; it must have {d} columns.")
        if not np.isfinite(rows).all():
            raise InvalidSettings("directions has entries that are not finite numbers.")
        return torch.from_numpy(rows)


def new_network(
    d: int, hidden: int, k: int, rng: np.random.Generator, *, bias: float = 0.0
) -> nn.Sequential:
    r"""Return ``d → hidden → k``, weights uniform on :math:`\pm\sqrt{6/(in + out)}` (Glorot)."""
    first, last = nn.Linear(d, hidden), nn.Linear(hidden, k)
    with torch.no_grad():
        for layer in (first, last):
            rows, columns = layer.weight.shape
            limit = math.sqrt(6 / (rows + columns))
            layer.weight.copy_(torch.from_numpy(rng.uniform(-limit, limit, (rows, columns))))
            layer.bias.fill_(bias)
    return nn.Sequential(first, nn.ReLU(), last)
