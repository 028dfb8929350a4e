"""Was a model fitted on original columns, or on an encoder's features? It is found out.

First by the names and the number of inputs that the model carries, then by which of the two gives
the better losses: a model that is fed the wrong one is another model, and its audit worthless.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Shaped

from likewise.errors import (
    ConversionWarning,
    InvalidModel,
    InvalidSettings,
    LikewiseError,
    NoAnswer,
    Untrustworthy,
    nearest,
)
from likewise.models.base import Model, ModelCard
from likewise.models.decoded import ColumnReader, Decoder, through
from likewise.models.feeding import DecodedInputs
from likewise.models.performance import Performance

Space = Literal["original", "encoded"]
SAMPLE = 1000
"""People whose losses are compared."""

WORDS: Mapping[str, str] = {"original": "original columns", "encoded": "the encoder's features"}
SAY = "Say what it was fitted on with model.space (--set model.space=original, or encoded)."


@dataclasses.dataclass(frozen=True)
class LabelledPeople:
    """People to find out with: their original columns and labels."""

    table: pa.Table | None = None
    labels: Shaped[np.ndarray, " n"] | None = None
    positive: Any = None


def settle(
    choices: Mapping[Space, Model], encoder: Decoder, space: Space | None, known: LabelledPeople
) -> Model:
    """Return the model as a function of the encoder's features, fed what it was fitted on."""
    first = next(iter(choices.values()))
    if space is not None:
        if space not in choices:
            raise InvalidSettings(
                f"The {first.card.kind} cannot be fed {WORDS[space]} (model.space): its names or "
                "number of inputs say otherwise."
            )
        return choices[space]
    if len(choices) == 1 or known.table is None:
        return first
    if known.labels is None:
        raise InvalidModel(
            f"The {first.card.kind} may have been fitted on original columns or on the encoder's "
            f"features, and there are no labels to find out by. {SAY}"
        )
    return choices[which_space(choices, encoder, known)]


def possible(model: Model, encoder: Decoder, table: pa.Table | None) -> dict[Space, Model]:
    """Return the model in the spaces that its names and number of inputs allow."""
    choices: dict[Space, Model] = {}
    if _fits_features(model.card, encoder):
        choices["encoded"] = model.with_card(space="encoded")
    columns = original_columns(model.card, encoder)
    if columns:
        choices["original"] = DecodedInputs.of(model, encoder, columns)
    if choices:
        return choices
    names, there = model.card.features, set() if table is None else set(table.column_names)
    if unknown := [name for name in names if name in there and name not in encoder.columns]:
        raise InvalidModel(
            f"The {model.card.kind} reads the column {unknown[0]!r}, which the encoder leaves out. "
            f"Fit the encoder, and the metric, on all columns that it reads: --set columns.inputs="
            f"{','.join(names[:8])}{',…' if len(names) > 8 else ''}."
        )
    if strangers := [name for name in names if name not in (*encoder.columns, *encoder.features)]:
        hint = nearest(strangers[0], (*encoder.columns, *encoder.features))
        raise InvalidModel(
            f"The {model.card.kind} was fitted with an input {strangers[0]!r}, which is neither a "
            f"column nor a feature of the encoder.{hint} {_counts(model, encoder)}."
        )
    raise InvalidModel(
        f"The {model.card.kind} cannot be fed through this encoder: {_counts(model, encoder)}. Fit "
        "the encoder, and the metric, on the columns that it reads (--set columns.inputs=a,b)."
    )


def readings(reader: ColumnReader, whole: Model, encoder: Decoder) -> dict[Space, Model]:
    """Return a pipeline in the spaces that its names and number of inputs allow."""
    names, width = set(whole.card.features), whole.card.n_features
    choices: dict[Space, Model] = {}
    if _fits_features(whole.card, encoder) and not names - set(encoder.features):
        choices["encoded"] = whole.with_card(space="encoded")
    fits = names <= set(encoder.columns) if names else width in (None, len(encoder.columns))
    if fits or not choices:
        choices["original"] = through(reader, encoder)
    return choices


def which_space(choices: Mapping[Space, Model], encoder: Decoder, known: LabelledPeople) -> Space:
    """Return the space in which a model gives the better losses to people with labels.

    A space is plausible if the model beats a constant there, by its log loss or by its AUC. If
    both are, the lower loss counts; if none is so by its loss, the higher AUC.
    """
    table, labels = known.table, known.labels
    assert table is not None
    assert labels is not None
    rows = np.unique(np.linspace(0, len(table) - 1, min(SAMPLE, len(table))).astype(np.int64))
    x = encoder.encode(table.take(pa.array(rows)))
    first = next(iter(choices.values()))
    y = first.targets(labels, positive=known.positive)[0][rows]
    found: dict[Space, Performance] = {}
    failed: list[LikewiseError] = []
    for space, model in choices.items():
        try:
            found[space] = Performance.of(model, x, y)
        except NoAnswer:
            raise
        except LikewiseError as error:  # it cannot be run on such rows
            failed.append(error)
    if not found:
        raise failed[0]
    if len(found) == 1:
        return next(iter(found))
    one, other = found["encoded"], found["original"]
    if np.array_equal(one.losses, other.losses):
        return "encoded"  # it makes no difference
    if not (one.useful or other.useful):
        raise Untrustworthy(
            f"The model beats a constant neither on original columns ({_said(other)}) nor on the "
            f"encoder's features ({_said(one)}); a constant has the loss {one.constant:.3g}. So it "
            f"was fitted on something else, or knows nothing. {SAY}"
        )
    if one.better_loss or other.better_loss:
        better: Space = "encoded" if one.loss <= other.loss else "original"
        gap = one.losses - other.losses
        unclear = abs(gap.mean()) < 2 * gap.std() / np.sqrt(len(gap))
    else:
        better, unclear = ("encoded" if one.auc >= other.auc else "original"), False
    if unclear and one.useful and other.useful:
        warnings.warn(
            f"The model may have been fitted on original columns ({_said(other)}) or on the "
            f"encoder's features ({_said(one)}): the better loss decided, for {WORDS[better]}, but "
            f"hardly. {SAY}",
            ConversionWarning,
            stacklevel=2,
        )
    return better


def original_columns(card: ModelCard, encoder: Decoder) -> tuple[str, ...]:
    """Return the columns that a model of numbers may have been fitted on; none if it cannot be."""
    plain = encoder.plain_columns
    if card.features and set(card.features) <= set(encoder.columns):
        return card.features if set(card.features) <= set(plain) else ()
    if card.features and set(card.features) == set(encoder.features):
        return ()
    whole = len(plain) == len(encoder.columns)
    return plain if card.n_features == len(plain) or (card.n_features is None and whole) else ()


def _fits_features(card: ModelCard, encoder: Decoder) -> bool:
    names, features = set(card.features), set(encoder.features)
    if names and names <= set(encoder.columns) and names != features:
        return False
    return card.n_features in (None, len(encoder.features))


def _counts(model: Model, encoder: Decoder) -> str:
    plain, columns = len(encoder.plain_columns), len(encoder.columns)
    takes = model.card.n_features
    return (
        f"it takes {'any number of' if takes is None else takes} inputs, and the encoder makes "
        f"{len(encoder.features)} features of {columns} columns, {plain} of them numbers"
    )


def _said(found: Performance) -> str:
    area = "" if np.isnan(found.auc) else f", AUC {found.auc:.2f}"
    return f"loss {found.loss:.3g}{area}"
