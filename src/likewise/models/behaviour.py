"""What a model must do to be audited: answer each row, with numbers, and by that row alone.

And until the end: some people are asked about again, since a model may change meanwhile.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from likewise.errors import InvalidData, InvalidModel, InvalidSettings, NoAnswer
from likewise.loss import Outputs, Rows, probabilities
from likewise.models.base import Model, ModelCard, listed
from likewise.models.black_box import call_model

SAMPLE = 64
BLOCK = 4096
CONVERSION = 1e-6
"""The largest difference between a model and its conversion that is let pass."""

CHANGE = 1e-4
"""How far two answers may lie apart: what an endpoint sends may be in single precision."""

Ask = Callable[[Int[np.ndarray, " m"]], Float[np.ndarray, "m k"]]
"""From numbers of rows to a model's outputs for them."""


def check(
    model: Model, x: Rows, *, features: tuple[str, ...] = (), classes: tuple[Any, ...] = ()
) -> None:
    """Refuse a model that cannot be audited on these rows, and say why.

    All rows are run through a differentiable model, a few through others, which may be dear to
    call. ``features`` are compared with the names that it was fitted with, the number of
    ``classes`` with that of its outputs.
    """
    _check_width(model.card, x.shape[1], features)
    few = x[spread(len(x))]
    check_answers(lambda rows: call_model(model, few[rows], model.card), len(few), model, classes)
    if model.card.differentiable:
        out, pullback = model.outputs_and_pullback(few)
        if not np.isfinite(pullback(np.ones_like(out))).all():
            raise InvalidModel("The model's gradient is NaN or infinite for some of the rows.")
    check_conversion(model, x if model.card.differentiable else few)


def check_answers(ask: Ask, n: int, model: Model, classes: tuple[Any, ...] = ()) -> None:
    """Refuse outputs that mean nothing, are random, or of rows that influence each other.

    ``ask`` is about some of ``n`` rows: the same twice, in reverse, in halves, and one alone. What
    a model says about itself (its mode, say) proves nothing.
    """
    every, half = np.arange(n), n // 2
    first = ask(every)
    _check_outputs(model, first, classes or model.card.classes)
    # Rounding depends on the shape of a product, so nothing is compared to the last bit.
    rounding = 1e-9 if model.dtype == np.float64 else 1e-4

    def gap(other: np.ndarray) -> float:
        return float((np.abs(other - first) / (1 + np.abs(first))).max())

    if gap(ask(every)) > rounding:
        raise InvalidModel(
            "The model is random: the same rows gave different outputs twice. Is dropout left on?"
        )
    other_ways: dict[str, Callable[[], np.ndarray]] = {
        "in reverse order": lambda: ask(every[::-1])[::-1],
        "in two halves": lambda: np.concatenate([ask(every[:half]), ask(every[half:])]),
        "with one of them alone": lambda: np.concatenate([ask(every[:1]), first[1:]]),
    }
    for way, run in other_ways.items() if n > 1 else ():
        try:
            found = gap(run())
        except NoAnswer:  # which says nothing about rows
            raise
        except InvalidModel as error:
            raise InvalidModel(
                f"The model's rows influence each other, or it takes a fixed number of them: the "
                f"same rows fail {way}. {error}"
            ) from None
        if found > rounding:
            raise InvalidModel(
                f"The model's rows influence each other: the same rows gave other outputs (by "
                f"{found:.2g}) {way}. Does it normalise over the batch, or rank it?"
            )


def check_conversion(model: Model, x: Rows) -> None:
    """Refuse a model that does not answer as the one it was converted from, on any row."""
    card = model.card
    numbers = card.task == "regression"
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        out = call_model(model, block, card)
        if model.reference is None:
            continue
        ours = out if numbers else probabilities(out, card.output)
        other = np.asarray(model.reference(block)).reshape(len(ours), -1)
        if other.shape != ours.shape:
            raise InvalidModel(
                f"The {card.kind} gives {other.shape[1]} columns, its conversion {ours.shape[1]}."
            )
        # Predictions may be in any unit, so a difference between them is relative.
        gap = (np.abs(ours - other) / (1 + np.abs(other) if numbers else 1)).max(axis=1)
        if not gap.max() <= CONVERSION:
            raise InvalidModel(
                f"The {card.kind} was not converted exactly: row {start + int(gap.argmax())} "
                f"differs by {gap.max():.2g} (more than {CONVERSION:g})."
            )


def _check_width(card: ModelCard, given: int, features: tuple[str, ...]) -> None:
    if card.n_features not in (None, given):
        raise InvalidModel(
            f"The model takes {card.n_features} features, but the data have {given}: name the "
            "columns it reads (model.columns), or give the encoder it was trained with (--encoder)."
        )
    for j, (known, name) in enumerate(zip(card.features, features, strict=False)):
        if known != name and set(card.features) == set(features):
            raise InvalidModel(
                f"The model was fitted with its columns in another order: column {j + 1} is "
                f"{known!r} there, and {name!r} in the data."
            )


def _check_outputs(model: Model, out: Outputs, classes: tuple[Any, ...]) -> None:
    width, output = out.shape[1], model.card.output
    if model.card.task == "regression":
        if width != 1:
            raise InvalidModel(f"The model predicts {width} numbers a person; an audit needs one.")
        return
    if classes and len(classes) != max(width, 2):
        known = f"{len(classes)} classes ({listed(classes)})"
        raise InvalidModel(f"The model has {width} outputs, but there are {known}.")
    # How far from probabilities: rounded or in single precision, they are off by a little.
    excess = float(np.maximum(-out, out - 1).max())
    if width > 1:
        excess = max(excess, float(np.abs(out.sum(axis=1) - 1).max()))
    if output == "probabilities" and excess > 1e-3:
        raise InvalidModel(
            "The model's outputs are said to be probabilities, but leave [0, 1] or do not add up "
            "to 1. Say what they are: output='logits' or output='values' (columns.output)."
        )
    if output == "logits" and model.card.stated is None and excess < 1e-6:
        raise InvalidModel(
            "The model's outputs look like probabilities, not logits: leave out its last layer, or "
            "say so with output='probabilities' (columns.output)."
        )


def spread(n: int) -> Int[np.ndarray, " m"]:
    """Return the numbers of a few rows, evenly spread over all."""
    if not n:
        raise InvalidData("There are no rows to try the model on.")
    return np.unique(np.linspace(0, n - 1, min(SAMPLE, n)).astype(np.int64))


Answers = Float[np.ndarray, "m k"]


class Canary:
    """A few people whose outputs before and after the audit tell whether the model changed.

    ``once`` returns what the same audit was answered when it was begun, if it is resumed.
    """

    def __init__(
        self,
        question: Callable[[], Answers],
        once: Callable[[Callable[[], Answers]], Answers],
    ) -> None:
        now = question()
        self.question, self.before = question, once(lambda: now)
        if others := self._others(now):
            raise InvalidSettings(
                "The audit cannot be resumed: the model does not answer as when it was begun. "
                f"About the same people, {others}. Use that model, or remove the journal."
            )

    def changed(self) -> tuple[str, ...]:
        """Ask again; return why the audit must not be used, if the answers are others now."""
        others = self._others(self.question())
        return (f"the model changed during the audit: asked again, {others}",) if others else ()

    def _others(self, now: Answers) -> str:
        """Return about how many people the answers are others now, in words; empty if none."""
        if now.shape != self.before.shape:
            return "it answered with other numbers of classes"
        gap = (np.abs(now - self.before) / (1 + np.abs(self.before))).max(axis=1)
        changed = int((gap > CHANGE).sum())
        largest = f"(by up to {gap.max():.2g})"
        return f"it answered otherwise about {changed} of {len(gap)} {largest}" if changed else ""
