"""Turns tables into features: standardised numbers, one feature a level for everything else."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from likewise.data.arrow import complete_rows, holds_dates, kind, without_dictionary
from likewise.data.columns import CategoryColumn, IndicatorColumn, Level, NumberColumn
from likewise.data.roles import Names, Roles, check_names, require
from likewise.data.rows import open_rows
from likewise.errors import InvalidData, InvalidFile
from likewise.files import read_whole, write_whole

NAMES = 50
"""Levels above which a column may be an identifier: if half of all people have their own."""

LARGEST = 100_000_000
"""Bytes of an encoder that are read."""

Coding = NumberColumn | CategoryColumn | IndicatorColumn


class _File(BaseModel):
    """The saved form: closed, so that nothing in a file is read in silence as something else."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: Literal["likewise.encoder"] = "likewise.encoder"
    version: Literal[1] = 1
    codings: tuple[Annotated[Coding, Field(discriminator="kind")], ...]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """What turns a table into the features of a model, learned from training data alone.

    It is never fitted again on the people who are audited, it refuses what it does not know, and
    it can go back (`decode`).

    Parameters
    ----------
    codings
        How each input column becomes features, in the model's order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> train = pa.table({"age": [30, 40, 50], "job": ["cook", "judge", "cook"]})
    >>> encoder = Encoder.fit(train)
    >>> encoder.features
    ('age', 'job=cook', 'job=judge')
    >>> encoder.decode(encoder.encode(train)).to_pylist()[0]
    {'age': 30, 'job': 'cook'}
    """

    codings: tuple[Coding, ...]

    def __post_init__(self) -> None:
        check_names(self.columns, "the encoder")
        check_names(self.features, "the encoder's features")

    @classmethod
    def fit(
        cls,
        source: Any,
        *,
        label: str | None = None,
        protected: Names = (),
        weight: str | None = None,
        cluster: str | None = None,
        ignore: Names = (),
        inputs: Names | None = None,
        categorical: Names = (),
        indicator: Mapping[str, Level] | None = None,
        drop_missing: bool = False,
        keep_missing: bool = False,
    ) -> "Encoder":
        """Learn means, standard deviations and levels from training data.

        Parameters
        ----------
        source
            A file, several files, or a data frame, as `likewise.read` takes them.
        label, protected, weight, cluster, ignore
            Columns that are not inputs.
        inputs
            The input columns in the model's order; protected columns may be among them. By
            default all columns without another role, in the order of the table.
        categorical
            Columns of numbers whose values are only names (codes, say).
        indicator
            Columns with two levels that become a single feature: the level that is 1, by column.
        drop_missing
            Leave rows with missing inputs out of the fit; otherwise they are refused.
        keep_missing
            Let a feature say where an input is missing, for models that read such gaps.
        """
        roles = Roles(label, protected, weight, cluster, ignore, inputs)
        opened = open_rows(source)
        roles.check(opened.schema.names)
        columns = list(roles.candidates(opened.schema.names))
        ones = dict(indicator or {})
        named = (categorical,) if isinstance(categorical, str) else tuple(categorical)
        for name in (*named, *ones):
            require(name, columns, "an input to be encoded as categories")
        if not columns:
            raise InvalidData("There is no input column to encode.")
        table = opened.table(columns)
        complete, _ = complete_rows(table, () if keep_missing else columns, drop=drop_missing)
        table = table.filter(pa.array(complete))
        if not len(table):
            raise InvalidData(f"There are no complete rows in {opened.name} to fit an encoder on.")
        codings = tuple(_fit(name, table[name], name in named, ones.get(name)) for name in columns)
        for coding in codings if roles.inputs is None else ():
            _check_levels(coding, len(table))
        return cls(codings)

    @classmethod
    def of_people(cls, table: pa.Table, columns: Sequence[str]) -> "Encoder":
        """Learn from the audited people themselves how to turn columns into features.

        They are coordinates only: the model is given the columns.
        """
        check = Roles(inputs=tuple(columns))
        check.check(table.column_names)
        return cls.fit(table, inputs=tuple(columns), keep_missing=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """The original columns it reads, in the model's order."""
        return tuple(coding.name for coding in self.codings)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, such as ``age`` and ``workclass=Private``."""
        return tuple(name for coding in self.codings for name in coding.features)

    @property
    def spans(self) -> Mapping[str, range]:
        """Which features each original column became."""
        widths = [len(coding.features) for coding in self.codings]
        ends = np.cumsum(widths).tolist()
        return {
            coding.name: range(end - width, end)
            for coding, width, end in zip(self.codings, widths, ends, strict=True)
        }

    @property
    def blocks(self) -> Mapping[str, range]:
        """Features of each one-hot group: of them exactly one is 1."""
        groups = {c.name for c in self.codings if isinstance(c, CategoryColumn)}
        return {name: span for name, span in self.spans.items() if name in groups}

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Columns that may not be missing, for they never were in the training data."""
        return tuple(coding.name for coding in self.codings if not coding.gaps)

    @property
    def plain_columns(self) -> tuple[str, ...]:
        """Columns of numbers and true/false, which a model can read as they are."""
        return tuple(
            coding.name for coding in self.codings if coding.holds not in ("text", "dates")
        )

    def line(
        self, columns: Sequence[str]
    ) -> tuple[Float[np.ndarray, "c d"], Float[np.ndarray, " c"]]:
        """Return the matrix and the offset that turn features into plain columns.

        Codes of categories are weighed by their features, so a row of features that is nobody's
        has a value between them.
        """
        matrix, offset = np.zeros((len(columns), len(self.features))), np.zeros(len(columns))
        known = {coding.name: coding for coding in self.codings}
        for j, name in enumerate(columns):
            span = self.spans[name]
            matrix[j, span.start : span.stop], offset[j] = known[name].line()
        return matrix, offset

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns whose levels are text, even where a CSV file makes them look like numbers."""
        return frozenset(coding.name for coding in self.codings if coding.holds == "text")

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about columns that could not be standardised."""
        return tuple(
            f"Column {c.name!r} has a single value in the training data: it is only centred."
            for c in self.codings
            if isinstance(c, NumberColumn) and c.constant
        )

    def encode(self, table: Any) -> Float[np.ndarray, "n d"]:
        """Return the features of every row; an unknown level or missing value is refused."""
        opened = open_rows(table, text=self.text_columns)
        for name in self.columns:
            require(name, opened.schema.names, "an input of the encoder")
        people = opened.table(list(self.columns))
        complete_rows(people, self.complete_columns, drop=False)
        x = np.empty((len(people), len(self.features)))
        for coding, span in zip(self.codings, self.spans.values(), strict=True):
            column = without_dictionary(people[coding.name])
            coding.check_kind(column)
            x[:, span.start : span.stop] = coding.encode(column)
        return x

    def decode(self, x: Float[np.ndarray, "n d"]) -> pa.Table:
        """Return the original columns, in original units, nearest to each row of features."""
        if x.shape[1] != len(self.features):
            raise InvalidData(
                f"There are {x.shape[1]} features to decode; the encoder has {len(self.features)}."
            )
        return pa.table(
            {
                coding.name: coding.decode(x[:, span.start : span.stop])
                for coding, span in zip(self.codings, self.spans.values(), strict=True)
            }
        )

    def to_json(self) -> str:
        """Return the saved form; numbers are written so that they come back exactly."""
        return _File(codings=self.codings).model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str, *, source: str = "the text") -> "Encoder":
        """Read what `to_json` wrote."""
        try:
            return cls(_File.model_validate_json(text).codings)
        except ValidationError as error:
            raise InvalidFile(
                f"{source} holds no encoder that can be read: {_why(error)}"
            ) from None
        except InvalidData as error:
            raise InvalidFile(f"{source} holds no encoder that can be read: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write a JSON file."""
        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> "Encoder":
        """Read a file that `save` wrote."""
        try:
            text = read_whole(path, most=LARGEST).decode()
        except UnicodeDecodeError:
            raise InvalidFile(f"{str(path)!r} cannot be read as an encoder (JSON text).") from None
        return cls.from_json(text, source=repr(str(path)))


def _fit(name: str, column: Any, as_category: bool, one: Level | None) -> Coding:
    as_category |= pa.types.is_dictionary(column.type)
    column = without_dictionary(column)
    found = kind(column.type)
    if found not in ("numbers", "true/false", "text", "dates"):
        raise InvalidData(
            f"Column {name!r} holds {found}, which cannot be encoded. "
            "Turn it into numbers or text, or ignore it (--ignore)."
        )
    if one is not None:
        return IndicatorColumn.fit(name, column, one)
    if found == "dates" or (not as_category and holds_dates(column)):
        return NumberColumn.fit(name, column)
    if found == "numbers" and not as_category:
        return NumberColumn.fit(name, column)
    return CategoryColumn.fit(name, column)


def _check_levels(coding: Coding, n: int) -> None:
    """Refuse a column that nobody named and that tells almost everyone apart."""
    count = len(coding.features)
    if isinstance(coding, CategoryColumn) and count > NAMES and 2 * count > n:
        raise InvalidData(
            f"Column {coding.name!r} has {count} different values in {n} rows, so it looks like an "
            "identifier. Ignore it (--ignore), or name the inputs (columns.inputs) with it."
        )


def _why(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if where == "version" and isinstance(first["input"], int) and first["input"] > 1:
        return "it was written by a newer version. Upgrade likewise."
    return f"{where or 'it'}: {first['msg']}."
