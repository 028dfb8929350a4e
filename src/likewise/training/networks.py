"""Networks that are trained: the paper's layers, batches, and a torch module to audit."""

import abc
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.errors import InvalidData, InvalidSettings, LikewiseWarning
from likewise.methods.learn_metric import sensitive_subspace
from likewise.training.sklearn_compat import (
    LikeliestClass,
    TrainingData,
    named_columns,
    split_columns,
)

E = TypeVar("E", bound="NetworkClassifier")

CHUNK = 256
"""Steps whose batches are drawn at once: one call of the generator instead of many."""


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(LikeliestClass, abc.ABC):
    """Base class of the training methods: ``fit(X, y, sample_weight=…)``, as scikit-learn has it.

    Protected attributes come from columns of ``X`` that the parameter ``protected`` names (the
    model does not read these), or from ``fit(…, protected=…)``, which metadata routing passes on
    (`set_fit_request`). Subclasses are dataclasses, whose fields are their parameters. What is
    fitted is a torch module, which can be audited as it is.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        Label values in the order of the columns of `predict_proba`; features that the model reads.
    n_iter_
        Training steps made.
    module_
        The fitted network, in float64: features to logits, row by row.
    """

    # Run-time type checks stay off constructors: scikit-learn wants `fit` to complain.
    __no_type_check__: ClassVar[bool] = True

    binary_only: ClassVar[bool] = False
    """Whether labels with more than two classes are refused."""

    not_positive: ClassVar[tuple[str, ...]] = ("random_state", "protected")
    """Parameters that need not be positive."""

    protected: Any = None
    random_state: Any = None
    max_iter: int = 8000
    balanced: bool = True
    classes_: Shaped[np.ndarray, " k"] = dataclasses.field(init=False)
    n_features_in_: int = dataclasses.field(init=False)
    n_iter_: int = dataclasses.field(init=False)
    module_: nn.Module = dataclasses.field(init=False)

    @abc.abstractmethod
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Module:
        """Return a network from features to logits, and set ``n_iter_``."""

    def fit(self: E, X: Any, y: Any, sample_weight: Any = None, *, protected: Any = None) -> E:
        """Train on features ``X`` and labels ``y``.

        Parameters
        ----------
        X, y
            One row per person. Features should be on comparable scales.
        sample_weight
            How much each person counts; people of weight zero are left out.
        protected
            Protected attributes, if no columns of ``X`` were named: a mapping of names to columns,
            one column, or an n × p array.
        """
        X, columns = split_columns(X, self.protected)
        if columns and protected is not None:
            said = "The protected columns are named in the constructor and passed to fit. Do one."
            raise InvalidSettings(said)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self._check_parameters()
        columns = columns or named_columns(protected, len(y))
        weight = np.ones(len(y))
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, weight[:, None], dtype=np.float64)
        kept = np.flatnonzero(weight)
        self.classes_ = np.unique(y[kept])
        if len(self.classes_) < 2:
            only = ", ".join(map(repr, self.classes_))
            raise InvalidData(f"The label has one class only ({only}). Training needs two classes.")
        if self.binary_only and len(self.classes_) > 2:
            # scikit-learn's checks look for this sentence.
            said = "Only binary classification is supported. The type of the target is multiclass."
            raise InvalidData(said)
        if not columns and self._needs_protected():
            none = f"{type(self).__name__} was given no protected attributes (protected=…)"
            warnings.warn(f"{none}: it trains the plain model.", LikewiseWarning, stacklevel=2)
        # A label that only people of weight zero have is nobody's.
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        each = weight / weight[kept].mean() if np.ptp(weight[kept]) else None
        data = TrainingData(X, codes, columns, each, names)
        self._fit(data if len(kept) == len(y) else data.take(kept))
        return self

    def _fit(self, data: TrainingData) -> None:
        """Train on people whose ``y`` holds class indices."""
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = seed.randint(2**31 - 1)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # batches this small lose more time to others than they gain
        try:
            self.module_ = self._train(data, np.random.default_rng(seed)).double().eval()
        finally:
            torch.set_num_threads(threads)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row per person."""
        check_is_fitted(self)
        # People to be predicted may have the protected columns or not.
        rows, _ = split_columns(X, self.protected, self.n_features_in_)
        return self._probabilities(validate_data(self, rows, dtype=np.float64, reset=False))

    def _probabilities(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        with torch.inference_mode():
            # Copied in order: torch refuses rows in reverse, which NumPy hands out as a view.
            tensor = torch.from_numpy(np.array(x, order="C"))
            return torch.softmax(self.module_(tensor), dim=1).numpy()

    def to_torch(self) -> nn.Module:
        """Return the fitted network: a module from features to logits, one column per class."""
        check_is_fitted(self)
        return self.module_

    def _needs_protected(self) -> bool:
        """Tell whether the model is unconstrained without protected attributes."""
        return True

    def _check_parameters(self) -> None:
        """Refuse parameters out of range; scikit-learn wants this in `fit`, not before."""
        for name, value in self.get_params(deep=False).items():
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            if numeric and name not in self.not_positive and not value > 0:
                raise InvalidSettings(f"{name} is {value}; it must be positive.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self.binary_only
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
class BaselineClassifier(NetworkClassifier):
    """A network with one hidden ReLU layer, trained on balanced batches (Appendix F.3).

    Parameters
    ----------
    protected
        Names (or numbers) of the columns of ``X`` that are protected attributes, not features.
    hidden
        Units of the hidden layer.
    learning_rate, max_iter, batch_size
        Adam's step, the number of steps, and people per step. The defaults are the paper's.
    balanced
        Whether a batch holds equally many people of each class.
    random_state
        Seed of initial weights and batches; the same seed gives the same model.
    """

    initial_bias: ClassVar[float] = 0.0
    hidden: int = 50
    learning_rate: float = 1e-4
    batch_size: int = 250

    @override
    def _needs_protected(self) -> bool:
        return False

    def _objective(self, network: nn.Sequential, data: TrainingData) -> Objective:
        """Return what is minimised: the cross-entropy, which knows nothing of fairness."""
        return lambda x, y: cross_entropy(network(x), y)

    @override
    def _train(self, data: TrainingData, rng: np.random.Generator) -> nn.Sequential:
        classes = int(data.y.max()) + 1
        network = new_network(data.x.shape[1], self.hidden, classes, rng, bias=self.initial_bias)
        objective = self._objective(network, data)
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
class SubspaceClassifier(BaselineClassifier):
    """A network that is to be blind to a sensitive subspace: given, or learned."""

    directions: Any = dataclasses.field(default=None, kw_only=False)

    @override
    def _needs_protected(self) -> bool:
        return self.directions is None

    def _subspace(self, data: TrainingData) -> Float[Tensor, "m d"]:
        """Return its directions as rows; there are none without protected attributes."""
        d = data.x.shape[1]
        found = np.zeros((0, d)) if self.directions is None else self.directions
        if self.directions is None and data.protected:  # as the paper learns its metric
            people = AuditData.from_arrays(
                data.x, data.y, dict(data.protected), features=data.features, weight=data.weight
            )
            found = sensitive_subspace(people, C=1.0, groups=0, controls=0).directions
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
