"""What the audit needs to know of a model: per-row outputs, and what they mean."""

import abc
import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidData, InvalidModel, InvalidSettings
from likewise.loss import CustomLoss, Labels, Loss, LossName, Output, Outputs, Rows

Task = Literal["classification", "regression"]
Reference = Callable[[np.ndarray], np.ndarray]
DOUBLE = np.dtype(np.float64)
MOST_CLASSES = 100
"""Classes of a model that only numbers them; more different labels are taken for numbers."""


def in_parts(ask: Callable[[slice], np.ndarray], n: int, size: int) -> Float[np.ndarray, "n ..."]:
    """Ask about ``size`` of ``n`` rows at a time, once at least; return all answers."""
    return np.concatenate([ask(slice(k, k + size)) for k in range(0, max(n, 1), max(size, 1))])


Pullback = Callable[[np.ndarray], np.ndarray]
"""From gradients in the outputs (n × k) to gradients in the rows (n × d)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
    """A linear layer, with the activation that comes before it (none before the first)."""

    activation: str
    weight: Float[np.ndarray, "k m"]
    bias: Float[np.ndarray, "k 1"]


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """What is known of a model without running it.

    ``kind`` is what it is, in words for a report. ``classes`` are label values in the order of the
    columns of the output, ``features`` the names of its inputs; both are empty if the model does
    not say. The ``fingerprint`` is a sha256 of what determines its outputs, ``""`` if there is
    none. The ``loss`` is named if it is not the usual one for the task, the ``threshold``, the
    probability above which it decides for class 1 of two, if it is not one half. ``decisions``
    says that it gives no probabilities; ``bounded``, that losses of its logits are those of
    probabilities within [0.001, 0.999].
    """

    kind: str
    stated: Output | None
    """What the outputs are, if the model or its user says so."""

    classes: tuple[Any, ...] = ()
    n_features: int | None = None
    features: tuple[str, ...] = ()
    differentiable: bool = True
    fingerprint: str = ""
    loss: LossName | CustomLoss | None = None
    threshold: float | None = None
    decisions: bool = False
    bounded: bool = False

    @property
    def output(self) -> Output:
        """What the outputs are: logits, unless it is stated otherwise."""
        return self.stated or "logits"

    @property
    def task(self) -> Task:
        """What follows from what the outputs are."""
        return "regression" if self.output == "values" else "classification"


Encoder = Any
"""What turns original columns into features, and back: an encoder of `likewise.data`."""

Front = Any
"""How original columns become the features of an audit: `likewise.models.adapt.TableFront`."""


class Model(abc.ABC):
    """A model as the audit sees it: a function of rows, one by one, that never changes.

    Final subclasses keep a private copy of whatever they wrap, so that the user's object keeps
    its mode, flags, gradients and dtype.
    """

    card: ModelCard

    front: Front | None = None
    """How the features are made of a table's original columns, where there is a table."""

    answer: Any = None
    """What it answers to typed columns of a table, if it can be asked with them: by ``prepare`` and
    ``ask``, as `likewise.models.sklearn.TableAnswer`."""

    reference: Reference | None = None
    """The user's own probabilities (or predictions), if this model is a conversion of theirs."""

    dtype: np.dtype[Any] = DOUBLE
    """What it computes in, so that checks know its rounding."""

    @abc.abstractmethod
    def __call__(self, x: Rows) -> Outputs:
        """Return outputs, row by row: logits, probabilities or values (see `ModelCard.output`)."""

    def outputs_and_pullback(self, x: Rows) -> tuple[Outputs, Pullback]:
        r"""Return outputs, and the map :math:`g \mapsto g J_f(x)` from gradients in them to rows.

        Only models whose card says ``differentiable`` have it.
        """
        raise InvalidModel(f"The {self.card.kind} gives answers only, no gradients.")

    def with_card(self, **changes: Any) -> "Model":
        """Return the same model, of which something else is known."""
        card = dataclasses.replace(self.card, **changes)
        return self if card == self.card else self.replaced(card=card)

    def replaced(self, **attributes: Any) -> "Model":
        """Return the same model with other attributes: its front or its reference, say."""
        model = copy.copy(self)
        for name, value in attributes.items():
            object.__setattr__(model, name, value)
        return model

    @property
    def network(self) -> tuple[Affine, ...]:
        """The layers of a plain network, in float64, if it is one: gradients are written out."""
        return ()

    def loss_gradient(self, x: Rows, y: Labels) -> Rows:
        r"""Return :math:`\nabla_x \ell(f(x), y)`, row by row."""
        out, pullback = self.outputs_and_pullback(x)
        return pullback(self.loss.gradient(out, y))

    @property
    def loss(self) -> Loss | CustomLoss:
        """The user's own loss, or that of the task: by default cross-entropy or squared error."""
        if isinstance(self.card.loss, CustomLoss):
            return self.card.loss
        usual: LossName = "cross_entropy" if self.card.task == "classification" else "squared"
        return Loss(self.card.loss or usual, self.card.output, self.card.bounded)


def targets(y: Labels, classes: tuple[Any, ...]) -> Labels:
    """Return labels as indices of classes, or as numbers for a regression."""
    if not classes:
        try:
            return np.array(y, dtype=np.float64)
        except ValueError:
            raise InvalidData("The model predicts a number, and the label is text.") from None
    place = {value: index for index, value in enumerate(classes)}
    return np.array([place[value] for value in y.tolist()], dtype=np.int64)


def label_classes(y: Labels, card: ModelCard, label_map: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the label value of each class, in the order of the model's outputs.

    A regression has none. A label is the class that is spelled alike. A model that does not know
    its classes numbers them from 0. Anything else is mapped by the user (``label_map``), never by
    the alphabet.
    """
    if card.task == "regression":
        return ()
    kind, found = card.kind, sorted(set(y.tolist()), key=lambda v: (str(type(v)), v))
    classes = list(card.classes) or _numbered(found, label_map, kind)
    place = {str(value): index for index, value in enumerate(classes)}
    named: dict[int, Any] = {}
    for label, name in label_map.items():
        value = next((v for v in found if str(v) == str(label)), label)
        if str(name) not in place:
            raise InvalidSettings(
                f"The label {label!r} is to stand for {name!r} (label_map), which is not a class "
                f"of the {kind}: its classes are {listed(classes)}."
            )
        if named.setdefault(place[str(name)], value) != value:
            raise InvalidSettings(f"Two labels stand for the class {name!r} (label_map).")
    for value in found if not label_map else ():
        # A file may hold 1 where a model says '1'.
        alike = (i for i, c in enumerate(classes) if value == c or str(value) == str(c))
        named.setdefault(next(alike, -1), value)
    if -1 in named or not set(found) <= set(named.values()):
        # No guess at which is which: a pasted one that is wrong would turn the audit round.
        example = ",".join(f"{value}=CLASS" for value in found)
        advice = f"Say which label is which class (label_map): --label-map {example}."
        if len(found) > len(classes):
            advice = "Write one label for each class, or name another column (--label)."
        raise InvalidData(
            f"The labels are not the model's classes: the labels are {listed(found)}, and the "
            f"classes of the {kind} are {listed(classes)}. {advice}"
        )
    return tuple(named.get(index, value) for index, value in enumerate(classes))


def _numbered(found: list[Any], label_map: Mapping[str, str], kind: str) -> list[int]:
    """Return the classes of a model that only numbers them, as many as the labels ask for."""
    numbers = [v for v in found if isinstance(v, int | float)]
    whole = [int(v) for v in numbers if v == int(v)]
    if len(numbers) == len(found) and (len(found) > MOST_CLASSES or len(whole) < len(found)):
        raise InvalidData(
            f"The label holds {len(found)} different numbers, and the {kind} is taken for a "
            "classifier. Does it predict a number? Say so: output='values' (columns.output)."
        )
    codes = [int(v) for v in [*label_map.values(), *map(str, found)] if str(v).isdecimal()]
    codes += [code for code in whole if code >= 0]
    count = max([2, *(code + 1 for code in codes if code < MOST_CLASSES)])
    return list(range(count if label_map or codes else max(2, len(found))))


def listed(values: Sequence[Any], most: int = 6) -> str:
    """Return values as a list in words, the first few of them."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(map(repr, values[:most])) + more


@dataclasses.dataclass(frozen=True)
class Opened:
    """What was in a file, and a sha256 of its bytes: `open_model` returns it for `as_model`."""

    content: Any
    fingerprint: str = ""
