"""How a run comes by its model and its people, and tells how far it is."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from likewise.audit_data import AuditData
from likewise.data.arrow import numbers
from likewise.data.columns import NumberColumn
from likewise.data.encode import Encoder
from likewise.data.table import numeric_columns, with_inputs
from likewise.errors import InvalidSettings, LikewiseWarning
from likewise.models import Endpoint, as_model, columns_read, open_model
from likewise.models.base import Model
from likewise.models.on_table import OnTable, on_table
from likewise.models.originals import Originals
from likewise.scale.executors import Executor


def as_seen(model: Model, people: AuditData) -> AuditData:
    """Return the people as this model sees them."""
    if model.front is not None:
        x, features = model.front(people.x if people.table is None else people.table)
        originals = Originals.of(model.front, people.table, x)
        return dataclasses.replace(people, x=x, features=tuple(features), originals=originals)
    columns = numbers_read(model, people)
    return people if columns == people.features else with_inputs(people, columns)


def numbers_read(model: Model, people: AuditData) -> tuple[str, ...]:
    """Return the columns of numbers that a model reads, in its order.

    By the names it was fitted with. Without any, the table does not say whether a protected column
    is an input; the model's width may.
    """
    given, named = people.features, model.card.features
    if people.encoder is not None or people.table is None:
        return given
    if named and set(named) <= set(given if people.named_inputs else numeric_columns(people)):
        return named
    wanted = model.card.n_features
    if people.named_inputs or wanted == len(given):
        return given
    wider = tuple(n for n in numeric_columns(people) if n in (*given, *people.protected))
    return wider if len(wider) == wanted else given


def own_encoder(model: Any, people: AuditData) -> Encoder | None:
    """Return what makes features of people whose columns the model reads as they are."""
    if people.encoder is not None or people.table is None:
        return None
    traits = tuple(people.protected)
    read = columns_read(model, people.table, traits, raw=not people.features)
    return Encoder.of_people(people.table, read) if read else None


def units_of(
    given: Any, model: Model, people: AuditData, known: bool | str = True
) -> Encoder | None:
    """Return what gives a model its numbers in standard deviations, if it reads numbers alone.

    A column of zeros and ones stays as it is, as one-hot features do.

    Parameters
    ----------
    known
        An encoder (JSON), if one made the features of the metric: if of these very columns, its
        units count.
    """
    table = people.table
    if table is None or people.encoder is not None or (model.front is not None and given is model):
        return None
    columns = numbers_read(model, people)
    if model.front is not None:
        columns = model.front.columns or tuple(table.column_names)
    elif model.card.n_features not in (None, len(columns)):
        return None  # and will be told so
    plain = set(numeric_columns(people))
    if not plain.issuperset(columns) or any(table[name].null_count for name in columns):
        return None
    if isinstance(known, str):
        encoder = Encoder.from_json(known, source="the metric")
        return encoder if encoder.features == columns else None
    codings = []
    for name in columns:
        coding = NumberColumn.fit(name, table[name].cast(pa.float64()))
        two = np.isin(numbers(name, table[name]), (0, 1)).all()
        codings.append(coding.model_copy(update={"mean": 0.0, "scale": 1.0} if two else {}))
    return Encoder(tuple(codings))


def by_columns(model: Model, people: AuditData) -> OnTable:
    """Return the model as a function of these people's original columns."""
    return on_table(model, people if model.front is not None else as_seen(model, people))


@dataclasses.dataclass(frozen=True, eq=False)
class ModelHandle:
    """The model as it was named or handed over, and what else is known of it.

    Parameters
    ----------
    given
        A model, or the name of its file, which every process opens for itself.
    trust
        Whether code in that file may be run.
    about
        What `as_model` is told: output, encoder, some rows of the table.
    ready
        The model of this process; it does not travel.
    """

    given: Any
    trust: bool = False
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ready: Model | None = None

    def open(self) -> Model:
        """Return the model, ready to be asked."""
        if self.ready is not None:
            return self.ready
        given = self.given
        if isinstance(given, str):
            given = open_model(given, trust=self.trust)
        return as_model(given, **self.about)

    def bounded(self) -> tuple[Model, "ModelHandle"]:
        """Return the model with bounded losses (`ModelCard.bounded`), and how to come by it."""
        model = self.open().with_card(bounded=True)
        about = {**self.about, "bounded": True}
        return model, dataclasses.replace(self, about=about, ready=model)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "ready": None}


def share_calls(model: Any, run: Executor) -> Any:
    """Divide the calls that an endpoint allows between this process and the workers."""
    if isinstance(model, str) and model.startswith(("http://", "https://")):
        model = Endpoint(model)
    if not isinstance(model, Endpoint):
        return model
    workers = getattr(run, "workers", None) if run.processes else 0
    if workers is None:
        raise InvalidSettings(
            "How many workers share the calls to the endpoint? Say it with --run processes:4, say."
        )
    return dataclasses.replace(model, processes=workers + 1)


Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@contextlib.contextmanager
def noted_warnings() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Yield what returns the warnings so far; the user is given them at the end, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LikewiseWarning)
        yield lambda: tuple(
            str(w.message) for w in caught if issubclass(w.category, LikewiseWarning)
        )
    told: set[str] = set()
    for warning in caught:
        if str(warning.message) not in told:
            warnings.warn(warning.message, stacklevel=3)
        told.add(str(warning.message))
