"""How an audit and its workers come by the model, and how it sees people."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from likewise.audit_data import AuditData
from likewise.data.columns import numbers
from likewise.data.encoder import Encoder, NumberColumn
from likewise.models import as_model, open_model
from likewise.models.adapt import Reading, is_number, recognise, resolve_reading
from likewise.models.base import Model


def as_seen(model: Model, people: AuditData) -> AuditData:
    """Return the people as this model sees them."""
    front = model.front
    if front is None or people.encoder is not None:
        return people
    x, features = front(people.x if people.table is None else people.table)
    return dataclasses.replace(people, x=x, features=features, originals=front.reading.encoder)


def adapt(
    given: Any,
    people: AuditData,
    *,
    attributes: Sequence[str] = (),
    columns: Sequence[str] = (),
    encoded: bool = True,
    units: bool | str = False,
    **about: Any,
) -> tuple[Model, dict[str, Any]]:
    """Return a model that reads these people, and what `as_model` is told of it anywhere.

    The model reads the ``columns``, if it was said. People are made features for a model that
    reads columns, if they are to be ``encoded``. In ``units`` of standard deviations numbers do
    not say by their scale who is similar; or in those of an encoder (JSON). ``about`` is what else
    `as_model` is told: the meaning of outputs, a threshold.
    """
    known, table = recognise(given, about.get("output")), people.table
    reading = resolve_reading(known, people, columns, attributes, about.get("output"))
    if reading is not None and table is not None and people.encoder is None:
        if reading.form == "frame" and reading.scored is None and encoded:
            # Coordinates only: the model is given the columns.
            own = Encoder.fit(table, inputs=reading.columns)
            reading = dataclasses.replace(reading, encoder=own)
        elif units and reading.form == "numbers":
            reading = _in_units(reading, table, units)
    about["reading"] = reading
    return as_model(known, **about), about


def _in_units(reading: Reading, table: pa.Table, units: bool | str) -> Reading:
    """Return a reading of columns of numbers in standard deviations, if they are numbers.

    A column of zeros and ones stays as it is, as one-hot features do.
    """
    columns = reading.columns
    if any(table[n].null_count or not is_number(table[n].type) for n in columns):
        return reading
    if isinstance(units, str):  # those of the metric, if it is of these very columns
        encoder = Encoder.from_json(units, source="the metric")
        if encoder.features != columns:
            return reading
    else:
        codings = []
        for name in columns:
            coding = NumberColumn.fit(name, table[name].cast(pa.float64()))
            two = np.isin(numbers(name, table[name]), (0, 1)).all()
            codings.append(coding.model_copy(update={"mean": 0.0, "scale": 1.0} if two else {}))
        encoder = Encoder(tuple(codings))
    return dataclasses.replace(reading, encoder=encoder)


@dataclasses.dataclass(frozen=True, eq=False)
class ModelHandle:
    """The model as it was handed over, or named: then every process opens it for itself.

    ``about`` is what `as_model` is told; the model that is ``ready`` here does not travel.
    """

    given: Any
    trust: bool = False
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ready: Model | None = None

    @property
    def units(self) -> Encoder | None:
        """What gives the model its numbers in standard deviations, if it is given them so."""
        reading = self.about.get("reading")
        return None if reading is None or reading.form != "numbers" else reading.encoder

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
