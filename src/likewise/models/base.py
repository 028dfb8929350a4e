"""What the audit needs to know of a model: per-row outputs, and what they mean."""

import abc
import copy
import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from likewise.errors import InvalidData, InvalidModel
from likewise.losses import Loss, LossName, Output
from likewise.models.layers import Network

Task = Literal["classification", "regression"]
Reference = Callable[[np.ndarray], np.ndarray]
DOUBLE = np.dtype(np.float64)
Pullback = Callable[[np.ndarray], np.ndarray]
"""From gradients in the outputs (n × k) to gradients in the rows (n × d)."""


Steps = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From m steps along r axes for each person (n × m × r) to the outputs there (nm × k)."""


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """What is known of a model without running it.

    Parameters
    ----------
    kind
        What it is, in words for a report: ``torch module``, ``LogisticRegression``, …
    task
        Whether it decides among classes or predicts a number.
    output
        Whether its numbers are logits, probabilities, or predicted values.
    classes
        Label values in the order of the columns of the output; empty if the model does not say.
    n_features
        Number of inputs, if the model says.
    features
        Names of its inputs, if the model says.
    differentiable
        Whether gradients can be taken through it.
    fingerprint
        A sha256 of what determines its outputs (weights, file), or ``""`` if there is none.
    loss
        The loss that counts, if it is not the usual one for the task.
    threshold
        Probability of class 1 of two above which it decides for it, if that is not one half.
    decisions
        Whether its decisions alone mean something: it gives no probabilities.
    space
        What it is fed where an encoder makes the features: those, or decoded original columns.
    bounded
        Whether its losses are those of probabilities within [0.001, 0.999], if it gives logits.
    """

    kind: str
    task: Task
    output: Output
    classes: tuple[Any, ...] = ()
    n_features: int | None = None
    features: tuple[str, ...] = ()
    differentiable: bool = True
    fingerprint: str = ""
    loss: LossName | None = None
    threshold: float | None = None
    decisions: bool = False
    space: Literal["", "original", "encoded"] = ""
    bounded: bool = False


@runtime_checkable
class Front(Protocol):
    """What stands in front of the audited step: raw columns in, the step's own inputs out."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns it reads; empty if it takes all there are, in their order."""
        ...

    def __call__(
        self, rows: pa.Table | Shaped[np.ndarray, "n c"]
    ) -> tuple[Float[np.ndarray, "n d"], tuple[str, ...]]:
        """Return the matrix the audit runs in, and the names of its columns."""
        ...


class Model(abc.ABC):
    """A model as the audit sees it: a function of rows, one by one, that never changes.

    Final subclasses keep a private copy of whatever they wrap, so that the user's object keeps
    its mode, flags, gradients and dtype.
    """

    card: ModelCard

    front: Front | None = None
    """How a pipeline gets from raw columns to the space in front of its last step."""

    reference: Reference | None = None
    """The user's own probabilities (or predictions), if this model is a conversion of theirs."""

    dtype: np.dtype[Any] = DOUBLE
    """What it computes in, so that checks know its rounding."""

    declared: bool = True
    """Whether someone said what the outputs mean, or they are taken for logits."""

    @abc.abstractmethod
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Return outputs, row by row: logits, probabilities or values (see `ModelCard.output`)."""

    def outputs_and_pullback(
        self, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n k"], Pullback]:
        r"""Return outputs, and the map :math:`g \mapsto g J_f(x)` from gradients in them to rows.

        Only models whose card says ``differentiable`` have it.
        """
        raise InvalidModel(f"The {self.card.kind} gives answers only, no gradients.")

    def along(
        self,
        x0: Float[np.ndarray, "n d"],
        axes: Float[np.ndarray, "r d"],
        far: Float[np.ndarray, " n"],
    ) -> Steps:
        r"""Return the outputs at places :math:`x_0 + s A`, as a function of the steps s.

        They are m for each of some people, whose numbers are given, too.

        Parameters
        ----------
        far
            How long the steps of each row are at most.
        """

        def outputs(
            steps: Float[np.ndarray, "q m r"], who: Int[np.ndarray, " q"]
        ) -> Float[np.ndarray, "_ k"]:
            q, m, r = steps.shape
            # Laid out feature by feature, as trees are asked.
            x = (axes.T @ steps.reshape(q * m, r).T).reshape(len(axes.T), q, m)
            x += x0.T[:, who, None]
            return self(x.reshape(len(x), q * m).T)

        return outputs

    def with_card(self, **changes: Any) -> "Model":
        """Return the same model, of which something else is known."""
        model = copy.copy(self)
        object.__setattr__(model, "card", dataclasses.replace(self.card, **changes))
        return model

    @property
    def cells(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """What its answers depend on, if that is less than numbers: between which thresholds."""
        return None

    @property
    def network(self) -> Network | None:
        """The model as a plain network, if it is one: its gradients are then written out."""
        return None

    def loss_gradient(
        self, x: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        r"""Return :math:`\nabla_x \ell(f(x), y)`, row by row."""
        out, pullback = self.outputs_and_pullback(x)
        return pullback(self.loss.gradient(out, y))

    @property
    def loss(self) -> Loss:
        """The loss that goes with the task: cross-entropy, or the squared error by default."""
        usual: LossName = "cross_entropy" if self.card.task == "classification" else "squared"
        return Loss(self.card.loss or usual, self.card.output, self.card.bounded)

    def targets(
        self, y: Shaped[np.ndarray, " n"], *, positive: Any = None
    ) -> tuple[Shaped[np.ndarray, " n"], tuple[Any, ...]]:
        """Turn labels into class indices (or float targets), and say which classes they stand for.

        The model's own classes count if it knows them; else the sorted values of the labels;
        ``positive`` names the value that is class 1 of two, which must be the model's own.
        """
        known = self.card.classes
        classes = () if self.card.task == "regression" else label_classes(y, known, positive)
        return targets(y, classes), classes


def targets(y: Shaped[np.ndarray, " n"], classes: tuple[Any, ...]) -> Shaped[np.ndarray, " n"]:
    """Return labels as indices of classes, or as numbers for a regression."""
    if not classes:
        try:
            return np.array(y, dtype=np.float64)
        except ValueError:
            raise InvalidData(
                "The model predicts a number, but the label column holds text."
            ) from None
    place = {value: index for index, value in enumerate(classes)}
    return np.array([place[value] for value in y.tolist()], dtype=np.int64)


def label_classes(
    y: Shaped[np.ndarray, " n"], known: tuple[Any, ...], positive: Any
) -> tuple[Any, ...]:
    """Return the classes behind the labels, in the order of the model's columns."""
    found = sorted(set(y.tolist()), key=lambda v: (str(type(v)), v))
    if len(found) < 2 and len(known) < 2:
        raise InvalidData(
            f"The label has one class only ({found[0]!r}), and the model does not say which others "
            "there are."
        )
    if known:
        classes = tuple(_match(value, found) for value in known)
        _check_positive(positive, known)
    elif positive is not None:
        chosen = _match(positive, found)
        if len(found) != 2 or chosen not in found:
            raise InvalidData(
                f"columns.positive {positive!r} needs a label with two values, one of them that; "
                f"the label has {', '.join(map(repr, found[:6]))}."
            )
        classes = tuple(sorted(found, key=lambda v: v == chosen))
    else:
        classes = tuple(found)
    strangers = [value for value in found if value not in classes]
    if strangers:
        raise InvalidData(
            f"The label has {strangers[0]!r}, which is not a class of the model "
            f"({', '.join(map(repr, classes[:6]))})."
        )
    return classes


def _check_positive(positive: Any, known: tuple[Any, ...]) -> None:
    """Refuse a positive class other than the model's own, which its outputs stand for."""
    if positive is None or (len(known) == 2 and str(known[1]) == str(positive)):
        return
    classes = ", ".join(map(repr, known[:6]))
    if str(positive) not in map(str, known):
        raise InvalidData(f"columns.positive {positive!r} is not a class of the model ({classes}).")
    why = f"class 1 of the model is {known[1]!r}" if len(known) == 2 else "it needs two classes"
    raise InvalidData(
        f"columns.positive {positive!r} cannot be met: {why}, and the model knows its classes "
        f"({classes}). Leave it out."
    )


def _match(value: Any, found: list[Any]) -> Any:
    """Return the label that is spelled like ``value``: a file may hold 1 where a model says '1'."""
    return next((v for v in found if v == value or str(v) == str(value)), value)


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model from a file, with what the file said: `open_model` returns it, `as_model` reads it.

    Parameters
    ----------
    content
        The object that was in the file.
    fingerprint
        A sha256 of the bytes that were read.
    classes, output
        What the file says about the outputs, if it does.
    """

    content: Any
    fingerprint: str = ""
    classes: tuple[Any, ...] = ()
    output: Output | None = None
