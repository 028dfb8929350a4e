"""Adapts whatever people have to an audit: what a model is, and how it reads a table.

A model reads the columns whose names it was fitted with, the features of a given encoder, or the
columns that the setting ``model.columns`` names; nothing is guessed from its losses. A function
that says nothing is tried with a data frame, an array and a tensor, on eight rows.
"""

import dataclasses
import functools
import types
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int, Shaped

from likewise.audit_data import AuditData
from likewise.errors import (
    InvalidData,
    InvalidModel,
    InvalidSettings,
    LikewiseError,
    import_optional,
    in_short,
    nearest,
)
from likewise.loss import CustomLoss, Output, Outputs, Rows, as_loss
from likewise.models import boosted, endpoint, sklearn
from likewise.models.base import Encoder, Model, ModelCard, Opened, in_parts, listed
from likewise.models.behaviour import check_answers, spread
from likewise.models.black_box import (
    BlackBox,
    call_model,
    from_predictor,
    output_matrix,
    rows_by_class,
)
from likewise.models.scored import REFUSAL, ScoredTable
from likewise.models.sklearn import Steps, TableAnswer

TRIAL_ROWS = 8
"""Rows that a function is tried with."""

VALUES_PER_CALL = 2**22
"""Values in the rows that a model is asked about at a time (32 MB as float64)."""

NOT_ARRAYS = (
    "The model reads original columns: give a data frame or a file with them (likewise.read with "
    "raw=True), not arrays."
)
NAME_THEM = "Name the columns it reads, in its order, with model.columns (--set model.columns=a,b)."
NO_COLUMNS: Mapping[str, Int[np.ndarray, " m"]] = types.MappingProxyType({})


# What a model is


def recognise(given: Any, output: Output | None = None, classes: tuple[Any, ...] = ()) -> Model:
    """Tell what somebody's model is; the object itself is never changed."""
    file = given if isinstance(given, Opened) else Opened(given)
    try:
        inner, threshold = sklearn.unwrap(file.content)
        found = _recognised(inner, output, classes)
    except LikewiseError:
        raise
    except Exception as error:
        if file is not given:
            raise
        # an estimator whose numbers do not go together
        raise InvalidModel(f"The model is damaged: {in_short(error)}.") from None
    threshold = found.card.threshold if threshold is None else threshold
    known = file.fingerprint or found.card.fingerprint
    return found.with_card(threshold=threshold, fingerprint=known)


def _recognised(given: Any, output: Output | None, classes: tuple[Any, ...]) -> Model:
    if isinstance(given, ScoredTable):
        return BlackBox(given.card, given.ask).replaced(answer=given)
    if isinstance(given, type):
        raise InvalidModel(f"{given.__name__} is a class, not a model. Give an instance of it.")
    if getattr(given, "__name__", "") == "forward" and _is_torch(getattr(given, "__self__", None)):
        given = given.__self__  # the module can be copied, and be put in evaluation mode
    if isinstance(given, endpoint.Endpoint):
        return given.model(output, classes)
    given = boosted.from_booster(given) or given
    if isinstance(given, Model):
        return given
    if _is_torch(given):
        found: Model = _torch().from_module(given, output=output, classes=classes)
        return found
    if hasattr(given, "to_torch"):
        return _trained(given, output)
    if hasattr(given, "predict_proba") or sklearn.is_scikit(given):
        return _estimator(given)
    if callable(given):
        kind = f"function {getattr(given, '__name__', type(given).__name__)}"
        card = ModelCard(kind, output or "probabilities", classes, differentiable=False)
        return BlackBox(card, given).replaced(answer=TableAnswer(given, free=True))
    raise InvalidModel(f"A {type(given).__name__} is not a model.")


def _trained(estimator: Any, output: Output | None) -> Model:
    """Convert an estimator that knows its torch module; ``output_`` says what that returns."""
    output = output or getattr(estimator, "output_", "logits")
    module, classes = estimator.to_torch(), sklearn.classes_of(estimator)
    model: Model = _torch().from_module(module, output=output, classes=classes)
    if hasattr(estimator, "predict_proba") or output == "values":
        reference = TableAnswer.from_estimator(estimator).matrix
        model = model.replaced(reference=reference)
    return model.with_card(kind=type(estimator).__name__, features=sklearn.features_of(estimator))


def _estimator(estimator: Any) -> Model:
    parts = sklearn.cut(estimator) if sklearn.is_pipeline(estimator) else None
    box = from_predictor(estimator)
    if parts is not None:
        model, threshold = as_model(parts[1]), sklearn.unwrap(parts[1])[1]
        # Models without gradients are asked whole.
        cut = Steps(parts[0], model) if model.card.differentiable else None
        answer = dataclasses.replace(box.answer, steps=cut)
        return box.with_card(threshold=threshold).replaced(answer=answer)
    scikit, trees = sklearn.is_scikit(estimator), boosted.table_answer(estimator)
    if trees is not None:
        return box.replaced(answer=trees)
    if not scikit and not box.card.features:
        return box.replaced(answer=dataclasses.replace(box.answer, free=True))
    converted = sklearn.convert(estimator) if scikit else None
    if converted is None:
        return box
    about = {"answer": box.answer, "reference": box.answer.matrix}
    return converted.with_card(features=box.card.features).replaced(**about)


def _is_torch(given: Any) -> bool:
    """Tell whether an object is a torch module, without importing torch."""
    base = ("torch.nn.modules.module", "Module")
    return any((kind.__module__, kind.__qualname__) == base for kind in type(given).__mro__)


def _torch() -> Any:
    return import_optional("likewise.models.torch", "torch", "A function of tensors")


def wants_columns(given: Any, output: Output | None = None) -> bool:
    """Tell whether a model can be asked with original columns, text and gaps included."""
    answer = recognise(given, output).answer
    if not isinstance(answer, TableAnswer):
        return isinstance(answer, ScoredTable)
    return answer.free or _is_typed(answer)


def takes_gaps(given: Any) -> bool:
    """Tell whether a model reads missing values itself."""
    answer = recognise(given).answer
    return isinstance(answer, TableAnswer) and (answer.native or answer.pipeline)


def as_model(
    model: Any,
    *,
    output: Output | None = None,
    classes: Sequence[Any] = (),
    reading: "Reading | None" = None,
    loss: Any = None,
    threshold: float | None = None,
    bounded: bool = False,
) -> Model:
    """Turn whatever the user has into a model; the user's own object is never changed.

    Parameters
    ----------
    model
        A torch module; a fitted scikit-learn estimator or pipeline; boosted trees; an estimator
        with ``to_torch()`` or ``predict_proba``; what `open_model` returned; a function of data
        frames, arrays or tensors.
    output
        What the numbers are: ``logits`` (the default for torch), ``probabilities`` or ``values``.
    classes
        Label values in the order of the outputs, if the model does not know them.
    reading
        How the model reads a table (`resolve_reading`).
    loss
        For regressions ``squared`` (the default) or ``absolute``; or one's own (`as_loss`).
    threshold
        Probability above which class 1 of two is decided, if that is not the model's own.
    bounded
        Whether losses of logits are kept within those of probabilities in [0.001, 0.999].
    """
    declared = tuple(classes)
    known = recognise(model, output, declared)
    found = _with_declared(_build(known, reading, output), output, declared)
    found = found.with_card(bounded=bounded or found.card.bounded)
    if threshold is not None and found.card.task == "classification":
        found = found.with_card(threshold=threshold)
    if loss is None:
        return found
    chosen = as_loss(loss)
    usual = (chosen == "cross_entropy") == (found.card.task == "classification")
    if not (usual or isinstance(chosen, CustomLoss)):
        raise InvalidSettings(f"A {found.card.task} is not judged by the {loss} loss.")
    return found.with_card(loss=chosen)


def _with_declared(found: Model, output: Output | None, classes: tuple[Any, ...]) -> Model:
    """Give a model the classes and the meaning of outputs that someone named, if they fit."""
    known = found.card.classes
    if classes and known != classes:
        if known and known != tuple(range(len(classes))):  # which are codes for something
            raise InvalidModel(
                f"The model's classes are {listed(known)}; others cannot be given to it."
            )
        found = found.with_card(classes=classes)
    returned = getattr(found, "returns", None) or found.card.output
    if output is None or returned == output:
        return found
    if found.card.stated is not None:
        raise InvalidModel(f"The {found.card.kind} returns {returned}, not {output}.")
    return found.with_card(stated=output)


# How it reads a table


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """How a model reads a table: settled once, and told to every worker.

    ``form`` is what the model is given: ``numbers``, a matrix of columns; ``features``, the matrix
    that an encoder makes of them; ``frame``, the columns with their types; ``steps``, columns for
    a pipeline that is cut in front of its last step.

    ``columns`` are those that it reads, in its order, none where there is no table; ``levels`` the
    values of those that are categories. The ``encoder`` makes the features that the audit runs in,
    if these are not the model's own inputs. A function may take a ``tensor``, or name its
    ``scores`` by class. A table that was ``scored`` answers itself.
    """

    form: Literal["numbers", "features", "frame", "steps"]
    columns: tuple[str, ...]
    encoder: Encoder | None = None
    tensor: bool = False
    scores: tuple[str, ...] = ()
    scored: ScoredTable | None = None
    levels: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_table(cls, form: Any, table: pa.Table, columns: tuple[str, ...]) -> "Reading":
        """Return a reading of the columns of a table, with the levels of categories."""
        levels = {
            name: table[name].unify_dictionaries().chunk(0).dictionary.to_pylist()
            for name in columns
            if pa.types.is_dictionary(table.schema.field(name).type) and table[name].num_chunks
        }
        return cls(form, columns, levels=levels)


def resolve_reading(
    known: Model,
    people: AuditData,
    columns: Sequence[str] = (),
    protected: Sequence[str] = (),
    output: Output | None = None,
) -> Reading | None:
    """Tell how a model reads people: by its names, by an encoder, or by the columns named.

    A model without names does not read the columns that are ``protected``. Of people without a
    table there is nothing to tell, but whether a function takes arrays or tensors.
    """
    answer, table, encoder = known.answer, people.table, people.encoder
    if isinstance(answer, ScoredTable) and table is not None:
        scored = answer.read(table)
        return Reading("frame", (scored.column,), scored=scored)
    columns = columns or (people.features if people.named_inputs else ())
    names = tuple(columns) or known.card.features
    if encoder is not None:
        reading = _with_encoder(known, encoder, names)
        return _of_features(known, reading, people.x, output)
    if table is None:
        return _of_features(known, None, people.x, output)
    _selected(table, names)
    every = names or tuple(name for name in table.column_names if name not in protected)
    if _is_free(known):
        return _try_forms(known, table, every, output, named=bool(names))
    names = names or _by_position(known, table, every)
    if isinstance(answer, TableAnswer) and answer.steps is not None:
        return Reading.from_table("steps", table, names)
    text = [name for name in names if not is_number(table.schema.field(name).type)]
    gaps = any(table[name].null_count for name in names)
    if answer is not None and (text or gaps or _is_typed(answer)):
        frames = _frames(known, table, names)
        tried = _first_tried(known, table, [], frames) if len(frames) > 1 else []
        return tried[0][0] if tried else frames[0]
    if text:
        raise InvalidData(
            f"Column {text[0]!r} holds text, which the {known.card.kind} can read only through the "
            "encoder it was trained with (--encoder)."
        )
    return Reading("numbers", names)


def _of_features(
    known: Model, reading: Reading | None, x: Rows, output: Output | None
) -> Reading | None:
    """Return a reading of features, or of arrays, and whether a function takes a tensor of them."""
    if not _is_free(known) or (reading is not None and reading.form != "features"):
        return reading
    some = pa.table({f"x{j}": column for j, column in enumerate(x[:TRIAL_ROWS].T)})
    array = Reading("numbers", tuple(some.column_names))
    tensor = dataclasses.replace(array, tensor=True)
    either = (array, tensor) if output is None else (tensor, array)
    reading = reading or Reading("numbers", ())
    for found, _ in _first_tried(known, some, [], either):
        return dataclasses.replace(reading, tensor=found.tensor, scores=found.scores)
    return reading


def _with_encoder(known: Model, encoder: Encoder, names: tuple[str, ...]) -> Reading:
    card, there, answer = known.card, (*encoder.columns, *encoder.features), known.answer
    if names and set(names) <= set(encoder.columns):
        if not _is_typed(answer) and set(names) <= set(encoder.plain_columns):
            return Reading("numbers", names, encoder)
        if answer is not None:
            return Reading("frame", names, encoder)
        raise InvalidModel(
            f"The {card.kind} reads numbers, and not all of its columns are: {listed(names)}."
        )
    if names and set(names) != set(encoder.features):
        stranger = next((name for name in names if name not in there), names[0])
        raise InvalidModel(
            f"The {card.kind} reads {stranger!r}, which is neither a column nor a feature of the "
            f"encoder.{nearest(stranger, there)} Fit the encoder, and the metric, on all columns "
            f"that it reads: --set model.columns={','.join(names)}."
        )
    if card.n_features not in (None, len(encoder.features)):
        raise InvalidModel(
            f"The {card.kind} takes {card.n_features} inputs, and the encoder makes "
            f"{len(encoder.features)} features of {len(encoder.columns)} columns. {NAME_THEM}"
        )
    return Reading("features", encoder.columns, encoder)


def _by_position(known: Model, table: pa.Table, every: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that a model without names reads: all that are not protected.

    If it reads numbers alone, or takes as many inputs as there are columns of numbers: these.
    """
    numbers, width = _numbers(table, every), known.card.n_features
    for names in (every, numbers) if known.answer is not None else (numbers,):
        if width in (None, len(names)) and names:
            return names
    raise InvalidModel(
        f"The {known.card.kind} takes {width} inputs and does not know their names, and the table "
        f"has {len(numbers)} columns of numbers that are not protected ({listed(numbers)}). "
        f"{NAME_THEM} Or give the encoder it was trained with (--encoder)."
    )


def _frames(known: Model, table: pa.Table, names: tuple[str, ...]) -> list[Reading]:
    """Return readings of typed columns: text as text, and as categories."""
    plain = Reading.from_table("frame", table, names)
    texts = [n for n in names if pa.types.is_large_string(table.schema.field(n).type)]
    if not texts or getattr(known.answer, "native", True):
        return [plain]
    levels = {n: sorted(pc.unique(table[n].drop_null()).to_pylist()) for n in texts}
    return [plain, dataclasses.replace(plain, levels=levels)]


def _try_forms(
    known: Model,
    table: pa.Table,
    every: tuple[str, ...],
    output: Output | None,
    *,
    named: bool = False,
) -> Reading:
    """Try a function with a data frame, an array and a tensor, on eight rows."""
    numbers = _numbers(table, every)
    frames, array = _frames(known, table, every), Reading("numbers", numbers)
    tensor = dataclasses.replace(array, tensor=True)
    problems: list[str] = []
    first = functools.partial(_first_tried, known, table, problems)
    if not numbers or (named and numbers != every):
        found = first(frames)
    elif output is not None:  # which is said of tensors
        found = first([tensor]) or [*first(frames), *first([array])]
    else:
        found = [*first(frames), *first([array])] or first([tensor])
    if not found:
        raise InvalidModel(
            f"The {known.card.kind} answers neither to a data frame of {len(every)} columns nor to "
            f"an array or a tensor of the {len(numbers)} that are numbers "
            f"({'; '.join(dict.fromkeys(problems))}). {NAME_THEM}"
        )
    (as_frame, one), (as_array, other) = found[0], found[-1]
    if one.shape == other.shape and np.abs(one - other).max() <= 1e-6:
        return as_array if every == numbers else as_frame  # numbers alone are faster
    raise InvalidModel(
        f"The {known.card.kind} answers to a data frame of {len(every)} columns and, in another "
        f"way, to an array of the {len(numbers)} that are numbers. {NAME_THEM}"
    )


def _first_tried(
    known: Model, table: pa.Table, problems: list[str], readings: Sequence[Reading]
) -> list[tuple[Reading, Outputs]]:
    """Ask about a few rows in several ways; return the first that is answered, and the outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for reading in readings:
            try:
                return [_asked_once(known, reading, table.slice(0, TRIAL_ROWS))]
            except Exception as error:  # it is someone else's code
                problems.append(in_short(error))
    return []


def _asked_once(known: Model, reading: Reading, table: pa.Table) -> tuple[Reading, Outputs]:
    if reading.form == "frame":
        front = TableFront(reading, _answer(known, reading))
        raw = front.ask(front.prepare(table))
    elif reading.tensor:
        model = _torch().from_function(known.answer.method, output=None)
        raw, pullback = model.outputs_and_pullback(_matrix(table, reading.columns))
        pullback(np.ones_like(raw))  # refuses what has no gradient
    else:
        raw = known.answer.method(_matrix(table, reading.columns))
    scores = tuple(sorted({name for row in rows_by_class(raw) for name in row}))
    out = output_matrix(raw, len(table), dataclasses.replace(known.card, classes=scores))
    return dataclasses.replace(reading, scores=scores), out


def is_number(kind: pa.DataType) -> bool:
    """Tell whether a column holds numbers or true/false."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _numbers(table: pa.Table, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if is_number(table.schema.field(name).type))


def _is_free(known: Model) -> bool:
    return isinstance(known.answer, TableAnswer) and known.answer.free


def _is_typed(answer: Any) -> bool:
    """Tell whether a model must be asked with typed columns, as it reads categories."""
    return isinstance(answer, TableAnswer) and (answer.pipeline or bool(answer.levels))


# The model that reads it so


def _answer(known: Model, reading: Reading) -> Any:
    """Return what a model answers to columns that it reads so."""
    answer = reading.scored or known.answer
    if isinstance(answer, TableAnswer) and not answer.native:
        method = answer.steps if reading.form == "steps" else answer.method
        return dataclasses.replace(answer, method=method, levels=reading.levels)
    return answer


def _build(known: Model, reading: Reading | None, output: Output | None = None) -> Model:
    """Return a model that reads tables as was settled, or arrays."""
    inner, answer, card = known, known.answer, known.card
    if reading is None and isinstance(answer, TableAnswer) and (answer.steps or answer.levels):
        reading = Reading("steps" if answer.steps else "frame", card.features)
    if _is_free(known) and (output is not None if reading is None else reading.tensor):
        inner = _torch().from_function(answer.method, output=output, classes=card.classes)
        inner = inner.with_card(threshold=card.threshold, fingerprint=card.fingerprint)
    if reading is None:
        return inner
    if reading.form == "steps":
        last: Model = answer.steps.last
        last = last.with_card(
            kind=f"Pipeline ending in {last.card.kind}",
            features=answer.steps.names(last.card.n_features or 0),
            threshold=card.threshold,
            fingerprint=card.fingerprint,
        )
        return last.replaced(front=TableFront(reading, _answer(known, reading)))
    inner = inner.with_card(classes=reading.scores or inner.card.classes)
    if not reading.columns:
        return inner
    encoder, typed = reading.encoder, reading.form == "frame"
    front = TableFront(reading, _answer(known, reading) if typed else inner)
    if reading.form == "features":
        return inner.replaced(front=front)
    if encoder is None and not typed:
        return inner.with_card(features=reading.columns).replaced(front=front)
    features = () if encoder is None else encoder.features
    card = (reading.scored or inner).card
    card = dataclasses.replace(
        card,
        kind=f"{card.kind} of original columns" if card.differentiable else card.kind,
        n_features=len(features) or None,
        features=features,
        differentiable=False,
    )
    return BlackBox(card, front.answer_features, inner.dtype).replaced(front=front)


# The model as a function of a table


Columns = Mapping[str, Any]
"""Rows as a model is asked about them: by original column, an array of the type that it takes
(NumPy, pandas or Arrow), or the features that an encoder made of it."""


def _taken(column: Any, rows: Any) -> Any:
    return column.take(rows) if isinstance(column, pa.Array) else column[rows]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class TableFront:
    """How a table's original columns become a model's inputs, and the features of an audit.

    The ``answer`` is the model itself, if it is given a matrix; else what takes typed columns.
    """

    reading: Reading
    answer: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """The original columns that the model reads, in its order."""
        return self.reading.columns

    def prepare(self, table: pa.Table) -> Columns:
        """Return the rows of a table in the form that the model is asked with."""
        form, encoder = self.reading.form, self.reading.encoder
        table = _selected(table, self.columns or table.column_names)
        if form == "numbers":
            return {name: _matrix(table, [name]) for name in table.column_names}
        if form == "features" and encoder is not None:
            x = encoder.encode(table)
            return {name: x[:, span] for name, span in encoder.spans.items()}
        found: Columns = self.answer.prepare(table)
        return found

    def ask(self, columns: Columns) -> Any:
        """Return the model's answer to rows in that form."""
        if isinstance(self.answer, Model):
            return self.answer(np.hstack(list(columns.values())))
        return self.answer.ask(columns)

    def __call__(self, rows: pa.Table | Shaped[np.ndarray, "n c"]) -> tuple[Rows, tuple[str, ...]]:
        """Return the features that the audit runs in, and their names."""
        reading, encoder = self.reading, self.reading.encoder
        if reading.form == "steps":
            if not isinstance(rows, pa.Table):
                names = self.columns or [f"x{j}" for j in range(rows.shape[1])]
                rows = pa.table(dict(zip(names, rows.T, strict=True)))
            steps: Steps = self.answer.method
            x = steps.inputs(self.answer.rows(self.prepare(rows)))
            return x, steps.names(x.shape[1])
        if reading.scored is not None:
            raise InvalidModel(REFUSAL)
        if not isinstance(rows, pa.Table) or (reading.form == "frame" and encoder is None):
            raise InvalidData(NOT_ARRAYS)
        if encoder is not None:
            return encoder.encode(rows), encoder.features
        return _matrix(rows, self.columns), self.columns

    def answer_features(self, x: Rows) -> Any:
        """Return what the model answers to the nearest people who could exist, by decoding."""
        if self.reading.encoder is None:
            raise InvalidModel(NOT_ARRAYS)
        table = self.reading.encoder.decode(x).select(list(self.columns))
        return self.ask(self.prepare(table))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class TableModel:
    """A model that is asked about rows of a table, with gaps and categories as they are.

    A table is prepared once (`prepare`): encoded, or given the types that the model was fitted
    with. Composed rows (`substitute`) are then gathered from what was prepared.
    """

    model: Model
    front: TableFront

    @property
    def columns(self) -> tuple[str, ...]:
        """The original columns that the model reads, in its order."""
        return self.front.columns

    def prepare(self, table: pa.Table) -> Columns:
        """Return the rows of a table in the form that the model is asked with."""
        return self.front.prepare(table)

    def __call__(self, table: pa.Table) -> Outputs:
        """Return outputs, as `Model` does, one row a person."""
        return self.outputs(self.prepare(table))

    def outputs(self, rows: Columns) -> Outputs:
        """Return outputs for prepared rows."""
        return call_model(self.front.ask, rows, self.model.card)

    def check(self, table: pa.Table, classes: tuple[Any, ...] = ()) -> None:
        """Refuse a model that cannot be audited on such rows, and say why."""
        few = spread(len(table))
        prepared = self.prepare(table.take(pa.array(few)))

        def ask(rows: Int[np.ndarray, " m"]) -> Outputs:
            return self.outputs({name: _taken(c, rows) for name, c in prepared.items()})

        check_answers(ask, len(few), self.model, classes)

    def substitute(
        self,
        people: Columns,
        i: Int[np.ndarray, " m"],
        pool: Columns,
        j: Int[np.ndarray, " m"],
        keep: Collection[str],
        by_column: Mapping[str, Int[np.ndarray, " m"]] = NO_COLUMNS,
    ) -> Float[np.ndarray, "m k"]:
        """Return outputs for counterfactual rows: people with some columns of the pool's members.

        ``i`` and ``j`` say of which person and which member each row is composed. The columns to
        ``keep`` are the person's own; all others are the member's, some of them ``by_column`` of
        another than ``j``.
        """
        if not len(i):  # how many outputs there are, the model says
            return self.outputs({name: column[:1] for name, column in people.items()})[:0]

        def ask(at: slice) -> Outputs:
            rows = {
                name: _taken(column, i[at])
                if name in keep
                else _taken(pool[name], by_column.get(name, j)[at])
                for name, column in people.items()
            }
            return self.outputs(rows)

        width = sum(c.shape[1] if np.ndim(c) == 2 else 1 for c in people.values())
        return in_parts(ask, len(i), VALUES_PER_CALL // width)


def table_model(model: Model, people: AuditData) -> TableModel:
    """Return a model as a function of original columns.

    Without a front, its columns are the features of ``people``, as the model sees them.
    """
    if model.front is not None:
        return TableModel(model, model.front)
    encoder = people.encoder
    reading = Reading("numbers", people.features)
    if encoder is not None:
        reading = Reading("features", encoder.columns, encoder)
    return TableModel(model, TableFront(reading, model))


def _selected(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    for name in columns:
        if name not in table.column_names:
            raise InvalidData(
                f"The model reads a column {name!r}, which is not among the table's inputs "
                "(columns named as label, weights, clusters or id are not)."
                f"{nearest(name, table.column_names)}"
            )
    return table.select(list(columns))


def _matrix(table: pa.Table, columns: Sequence[str]) -> Rows:
    """Return columns of numbers as a matrix; gaps are not-a-number."""
    table, x = _selected(table, columns), np.empty((len(table), len(columns)))
    for j, name in enumerate(columns):
        try:
            x[:, j] = table[name].cast(pa.float64()).to_numpy()
        except pa.ArrowException as error:
            raise InvalidData(
                f"Column {name!r} cannot be read as numbers ({in_short(error)})."
            ) from None
    return x
