"""From whatever the user has to a model."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Shaped

from likewise.errors import (
    ConversionWarning,
    InvalidModel,
    InvalidSettings,
    LikewiseError,
    in_short,
    need,
)
from likewise.losses import LossName, Output
from likewise.models import black_box, decoded, endpoint, layered, native, pipeline, scikit
from likewise.models.base import Model, ModelCard, Opened
from likewise.models.behaviour import check_cut
from likewise.models.feeding import in_units, of_numbers
from likewise.models.space import LabelledPeople, Space, possible, readings, settle


def as_model(
    model: Any,
    *,
    output: Output | None = None,
    classes: Sequence[Any] | None = None,
    table: pa.Table | None = None,
    encoder: decoded.Decoder | None = None,
    loss: LossName | None = None,
    protected: Sequence[str] = (),
    labels: Shaped[np.ndarray, " n"] | None = None,
    positive: Any = None,
    space: Literal["auto", "original", "encoded"] = "auto",
    own: decoded.Decoder | None = None,
    threshold: float | None = None,
    units: decoded.Decoder | None = None,
    bounded: bool = False,
) -> Model:
    """Turn whatever the user has into a model; the user's own object is never changed.

    Parameters
    ----------
    model
        A torch module; a fitted scikit-learn estimator or pipeline; an estimator with
        ``to_torch()`` or ``predict_proba``; what `open_model` returned; a function of tensors, if
        ``output`` is said, or else a function from an array of rows to probabilities.
    output
        What the numbers are: ``logits`` (the default for torch), ``probabilities`` or ``values``.
    classes
        Label values in the order of the outputs, if the model does not know them.
    table
        Original columns of the audit data. With them a pipeline is tried out: cut in front of its
        last step it must answer as it does whole.
    encoder
        What can decode features to original columns; a pipeline is then not cut, but audited
        whole, in the encoder's space.
    loss
        For regressions: ``squared`` (the default) or ``absolute``.
    protected
        Columns of the table that a pipeline which was fitted without names may not read.
    labels, positive
        Labels of the people in ``table``, and the one that is class 1 of two, to find out whether
        a model was fitted on original columns or on the encoder's features.
    space
        Which of the two, if that is known.
    own
        What makes features of the audited people themselves, for a model that reads their columns
        where no encoder is given (see `columns_read`).
    threshold
        Probability above which class 1 of two is decided, if that is not the model's own.
    units
        What gives a model of numbers its columns in standard deviations; a pipeline is then not
        cut.
    bounded
        Whether losses of logits are kept within those of probabilities in [0.001, 0.999].
    """
    people = LabelledPeople(table, labels, positive)
    said = None if space == "auto" else space
    recogniser = _Recogniser(
        output, tuple(classes or ()), table, encoder, tuple(protected), said, people, own, units
    )
    found = recogniser.model(model)
    if classes and found.card.classes != tuple(classes):
        known = found.card.classes
        if known and known != tuple(range(len(classes))):  # which are codes for something
            raise InvalidModel(
                f"The model's classes are {', '.join(map(repr, known[:6]))}; "
                "others cannot be given to it."
            )
        found = found.with_card(classes=tuple(classes))
    returned = getattr(found, "says", None) or found.card.output
    if output is not None and returned != output:
        if not found.declared:
            task = "regression" if output == "values" else "classification"
            found = found.with_card(output=output, task=task)
            found = dataclasses.replace(found, declared=True)  # type: ignore[type-var]
        else:
            raise InvalidModel(f"The {found.card.kind} returns {returned}, not {output}.")
    if units is not None:
        found = in_units(found, units)
    if encoder is not None and not found.card.space:
        found = settle(possible(found, encoder, table), encoder, said, people)
    if bounded:
        found = found.with_card(bounded=True)
    if threshold is not None and found.card.task == "classification":
        found = found.with_card(threshold=threshold)
    if loss is None:
        return found
    if (loss == "cross_entropy") != (found.card.task == "classification"):
        raise InvalidSettings(f"A {found.card.task} is not judged by the {loss} loss.")
    return found.with_card(loss=loss)


def is_torch(given: Any) -> bool:
    """Tell whether an object is a torch module, without importing torch."""
    base = ("torch.nn.modules.module", "Module")
    return any((kind.__module__, kind.__qualname__) == base for kind in type(given).__mro__)


def asked_with_frames(given: Any) -> bool:
    """Tell whether a model is somebody's own code, which takes original columns as a data frame."""
    ours = isinstance(given, Model | layered.Chain | endpoint.Endpoint | type)
    known = scikit.is_scikit(given) or is_torch(given) or hasattr(given, "to_torch")
    if ours or known or scikit.features_of(given) or native.table_answer(given) is not None:
        return False
    return callable(given) or hasattr(given, "predict_proba")


@dataclasses.dataclass(frozen=True)
class _Recogniser:
    output: Output | None
    classes: tuple[Any, ...]
    table: pa.Table | None
    encoder: decoded.Decoder | None
    protected: tuple[str, ...]
    space: Space | None
    people: LabelledPeople
    own: decoded.Decoder | None = None
    units: decoded.Decoder | None = None

    def model(self, given: Any) -> Model:
        if isinstance(given, Model):
            return given
        if isinstance(given, Opened):
            return self.opened(given)
        if isinstance(given, native.TableModel):
            return self.table_model(given)
        if isinstance(given, endpoint.Endpoint):
            return given.model(self.classes)
        if isinstance(given, decoded.ColumnReader):
            return decoded.through(given, self.encoder)
        if isinstance(given, layered.Chain):
            return layered.from_chain(given, output=self.output, classes=self.classes)
        if is_torch(given):
            return _torch().from_module(given, output=self.output, classes=self.classes)
        if isinstance(given, type):
            raise InvalidModel(f"{given.__name__} is a class, not a model. Give an instance of it.")
        if hasattr(given, "to_torch"):
            return self.trained(given)
        if hasattr(given, "predict_proba") or scikit.is_scikit(given):
            return self.estimator(given)
        if callable(given):
            if self.own is not None and asked_with_frames(given):
                return self.frames(black_box.from_callable(given, classes=self.classes).card, given)
            if self.output is None:
                return black_box.from_callable(given, classes=self.classes)
            return _torch().from_function(given, output=self.output, classes=self.classes)
        raise InvalidModel(f"A {type(given).__name__} is not a model.")

    def opened(self, file: Opened) -> Model:
        inner = dataclasses.replace(
            self, output=self.output or file.output, classes=self.classes or file.classes
        )
        try:
            found = inner.model(file.content)
        except LikewiseError:
            raise
        except Exception as error:  # an estimator whose numbers do not go together
            raise InvalidModel(f"The model is damaged: {in_short(error)}.") from None
        return found.with_card(fingerprint=file.fingerprint or found.card.fingerprint)

    def trained(self, estimator: Any) -> Any:
        """Convert an estimator that knows its torch module; ``output_`` says what that returns."""
        output = self.output or getattr(estimator, "output_", "logits")
        module, classes = estimator.to_torch(), scikit.classes_of(estimator)
        found = _torch().from_module(module, output=output, classes=classes)
        card = dataclasses.replace(
            found.card, kind=type(estimator).__name__, features=scikit.features_of(estimator)
        )
        answers = hasattr(estimator, "predict_proba") or output == "values"
        reference = scikit.Answer.of(estimator) if answers else None
        return dataclasses.replace(found, card=card, reference=reference)

    def estimator(self, estimator: Any) -> Model:
        inner, threshold = scikit.looked_through(estimator)
        if inner is not estimator:
            found = self.model(inner)
            return found if threshold is None else found.with_card(threshold=threshold)
        if scikit.is_scikit(estimator) and pipeline.is_pipeline(estimator):
            return self.pipeline(estimator)
        answer = native.table_answer(estimator)
        if answer is not None and (answer.categories or self.own is not None):
            return self.reader(decoded.ColumnReader(_card(estimator), answer.columns, answer))
        if self.own is not None and asked_with_frames(estimator):
            return self.frames(_card(estimator), scikit.Answer.of(estimator).method)
        if self.table is not None and pipeline.reads_text(estimator, self.table):
            return self.reader(_reader(estimator))
        converted = scikit.convert(estimator) if scikit.is_scikit(estimator) else None
        return converted or black_box.from_predictor(estimator)

    def table_model(self, given: native.TableModel) -> Model:
        """Read what a file of boosted trees says: by the table if it has categories or gaps."""
        rows = native.OnMatrix(given.answer)
        box = black_box.from_callable(rows, output=given.output, classes=given.classes)
        names = given.answer.columns
        card = dataclasses.replace(
            box.card, kind=given.kind, n_features=given.width, features=names
        )
        if given.answer.categories or self.own is not None:
            return self.reader(decoded.ColumnReader(card, names, given.answer))
        return dataclasses.replace(box, card=card)

    def reader(self, reader: decoded.ColumnReader) -> Model:
        """Audit a model of columns in the encoder's space, or in one of its own."""
        if self.encoder is not None:
            return decoded.through(reader, self.encoder)
        return decoded.behind(reader, self.own)

    def frames(self, card: ModelCard, method: Any) -> Model:
        """Ask what does not name its columns about data frames of all of them."""
        assert self.own is not None
        answer = pipeline.RawAnswer(scikit.Answer(method, self.own.columns), None)
        return self.reader(decoded.ColumnReader(card, self.own.columns, answer))

    def pipeline(self, whole: Any) -> Model:
        """Cut a pipeline in front of its last step, or read it through decoded rows if told how."""
        if self.own is not None:
            return self.reader(_reader(whole))
        if self.encoder is not None:
            choices = readings(_reader(whole), black_box.from_predictor(whole), self.encoder)
            return settle(choices, self.encoder, self.space, self.people)
        front, last = pipeline.cut(whole)
        if self.units is not None:
            step = dataclasses.replace(self, table=None, units=None).model(last)
            return of_numbers(whole, front, step, self.units)
        front = front if self.table is None else front.among(self.table, self.protected)
        found = dataclasses.replace(self, table=None).model(last)
        names = front.names(found.card.n_features) if found.card.n_features else ()
        found = found.with_card(kind=f"Pipeline ending in {found.card.kind}", features=names)
        found = dataclasses.replace(found, front=front)  # type: ignore[type-var]
        if self.table is None:
            return found
        table = self.table if front.named else self.table.select(list(front.columns))
        answer = _reader(whole).function
        try:
            check_cut(found, answer, table)
        except InvalidModel:
            sparse = hasattr(front.transform(table.slice(0, 1)), "toarray")
            if not sparse or not isinstance(found, black_box.BlackBox):
                raise
            found = _given_sparse(found, last)
            check_cut(found, answer, table)
        return found


def _torch() -> Any:
    return need("likewise.models.torch_module", "torch", "A function of tensors")


def _given_sparse(model: black_box.BlackBox, last: Any) -> black_box.BlackBox:
    warnings.warn(
        f"The {type(last).__name__} takes zeros of the pipeline's sparse matrix for missing "
        "values, and a person moved a little off zero for someone else. Keep categories whole "
        "(reach.feasible = true), or let the pipeline give dense rows.",
        ConversionWarning,
        stacklevel=2,
    )
    return dataclasses.replace(model, function=pipeline.SparseAnswer.of(last))


def _reader(estimator: Any) -> decoded.ColumnReader:
    card = _card(estimator)
    return decoded.ColumnReader(card, card.features, pipeline.RawAnswer.of(estimator))


def _card(estimator: Any) -> ModelCard:
    return black_box.from_predictor(estimator).card
