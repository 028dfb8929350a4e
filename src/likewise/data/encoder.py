"""Encoders: from a table to features, by standardised numbers and one feature a level."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from likewise.audit_data import GAP
from likewise.data.columns import (
    IGNORE,
    TEXT,
    Roles,
    check_finite,
    check_names,
    complete_rows,
    holds_dates,
    is_missing,
    kind,
    numbers,
    require,
    without_dictionary,
)
from likewise.data.rows import open_rows
from likewise.errors import InvalidData, InvalidFile, few, in_short
from likewise.files import read_whole, write_whole
from likewise.settings import Csv

Level = bool | int | float | str
MAX_LEVELS = 1000  # levels that become one feature each


class Column(BaseModel):
    """What was learned about one column from the training data."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    name: str


class NumberColumn(Column):
    r"""A column of numbers, standardised: :math:`(v - \text{mean}) / \text{scale}`.

    Missing values are at the mean, and a second feature is 1. Decoded values are rounded if all
    were whole numbers (``integer``). Dates and times count in days since 1970; ``date`` is their
    type (``text`` like 2020-12-31). The scale of a single value is 1.
    """

    kind: Literal["number"] = "number"
    mean: float
    scale: Annotated[float, Field(gt=0)]
    integer: bool = False
    gaps: bool = False
    date: Literal["", "text", "date32[day]", "timestamp[us]"] = ""

    @classmethod
    def fit(cls, name: str, column: Any) -> "NumberColumn":
        """Learn mean and standard deviation of the values that are there."""
        every = numbers(name, column)
        seen = every[~np.isnan(every)]
        check_finite(name, seen)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = (seen.mean(), seen.std()) if np.ptp(seen) else (seen[0], 1.0)
        if not (np.isfinite(mean) and 0 < scale < np.inf):
            raise InvalidData(f"Column {name!r} has numbers too large or small: rescale it.")
        time = pa.types.is_timestamp(column.type)
        dates: Any = {"text": "text", "dates": "timestamp[us]" if time else "date32[day]"}
        return cls(
            name=name,
            mean=float(mean),
            scale=float(scale),
            integer=not (pa.types.is_floating(column.type) or time),
            date=dates.get(kind(column.type), ""),
            gaps=len(seen) < len(every),
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features it becomes."""
        return (self.name, self.name + GAP) if self.gaps else (self.name,)

    @property
    def holds(self) -> str:
        """What the column holds: numbers, text, dates or true/false."""
        return {"": "numbers", "text": "text"}.get(self.date, "dates")

    def encode(self, column: Any) -> Float[np.ndarray, "n m"]:
        """Turn a column of a table, without missing values, into features."""
        seen = numbers(self.name, column)
        check_finite(self.name, seen)
        x = ((seen - self.mean) / self.scale)[:, None]
        if not self.gaps:
            return x
        gone = np.isnan(x)
        return np.hstack([np.where(gone, 0.0, x), gone])

    def decode(self, x: Float[np.ndarray, "n m"]) -> Any:
        """Turn features back into an Arrow column, in the original units."""
        off = x[:, 0] * self.scale
        values = np.rint(off + self.mean).astype(int) if self.integer else self._unrounded(off)
        if self.date:
            values = np.rint(values * 86_400_000_000).astype("datetime64[us]")
        found = pa.array(values, mask=x[:, 1] > 0.5 if self.gaps else None)
        found = found.cast(pa.date32()) if self.date and self.integer else found
        return found.cast(TEXT) if self.date == "text" else found

    @np.errstate(over="ignore", invalid="ignore")
    def _unrounded(self, off: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the number so far off the mean, as it was before it was rounded there and back.

        Trees ask on which side of a number another lies, to the last digit.
        """
        mean, found = self.mean, off + self.mean
        digits = 14 - math.ceil(math.log10(min(max(abs(mean), self.scale), 1e300)))
        short = np.round(found, digits)
        near = np.abs(short - found) <= 4 * np.finfo(np.float64).eps * (np.abs(off) + abs(mean))
        return np.where(near, short, found)


class CategoryColumn(Column):
    """A column of text, true/false or categories: one feature a level, 1 where it applies.

    Where values were missing in the training data, that is one more feature. An ``indicator`` has
    two levels and a single feature, which is 1 for the second.
    """

    kind: Literal["category"] = "category"
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    gaps: bool = False
    indicator: bool = False

    @classmethod
    def fit(cls, name: str, column: Any, one: Level | None = None) -> "CategoryColumn":
        """Learn the levels, sorted; ``one`` is that of an indicator."""
        levels = tuple(sorted(pc.unique(column.drop_null()).to_pylist()))
        if one is None:
            return cls(name=name, levels=levels, gaps=column.null_count > 0)
        if len(levels) != 2 or one not in levels:
            raise InvalidData(
                f"Column {name!r} cannot be an indicator of {one!r}: it needs two levels, one of "
                f"them that, and has {', '.join(map(repr, levels[:6]))}."
            )
        return cls(name=name, levels=(levels[levels[0] == one], one), indicator=True)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features it becomes."""
        levels = tuple(f"{self.name}={level}" for level in self.levels)
        return levels[self.indicator :] + (self.name + GAP,) * self.gaps

    @property
    def holds(self) -> str:
        """What the column holds: numbers, text, dates or true/false."""
        first = self.levels[0]
        if isinstance(first, bool):
            return "true/false"
        return "text" if isinstance(first, str) else "numbers"

    def encode(self, column: Any) -> Float[np.ndarray, "n m"]:
        """Turn a column of a table, without missing values, into features."""
        common = {"true/false": pa.bool_(), "text": TEXT, "numbers": pa.float64()}[self.holds]
        column = column.cast(common)
        codes = pc.index_in(column, value_set=pa.array(self.levels).cast(common))
        if self.gaps:
            codes = pc.if_else(pc.is_null(column), len(self.levels), codes)
        strangers = column.filter(pc.is_null(codes))
        if len(strangers):
            raise InvalidData(
                f"Column {self.name!r} has {strangers[0].as_py()!r} ({len(strangers)} rows have "
                "a level that the encoder was not fitted on); it knows "
                f"{few(map(repr, self.levels), 12)}. Fit it on people who have it. Or: {IGNORE}."
            )
        return np.eye(len(self.levels) + self.gaps)[codes.to_numpy()][:, self.indicator :]

    def decode(self, x: Float[np.ndarray, "n m"]) -> Any:
        """Turn features back into an Arrow column, in the original units."""
        # The nearest corner of the unit cube with a single 1 is where the largest feature is.
        codes = x[:, 0] > 0.5 if self.indicator else x[:, : len(self.levels)].argmax(axis=1)
        gone = x[:, -1] > 0.5 if self.gaps else None
        return pa.array(self.levels).take(pa.array(codes.astype(np.int64), mask=gone))


MAX_NAMES = 50  # levels above which a column may be an identifier

MAX_BYTES = 100_000_000  # bytes of an encoder that are read

Coding = NumberColumn | CategoryColumn


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
    it can go back (`decode`). Its ``codings`` say how each input column becomes features, in the
    model's order.

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
        check_names(self.columns, "the encoder", shown=False)
        check_names(self.features, "the encoder's features", shown=False)

    @classmethod
    def fit(
        cls,
        source: Any,
        *,
        indicator: Mapping[str, Level] | None = None,
        drop_missing: bool = False,
        csv: Csv | Mapping[str, Any] | None = None,
        **roles: Any,
    ) -> "Encoder":
        """Learn means, standard deviations and levels from training data.

        ``indicator`` names columns with two levels that become a single feature, and the level that
        is 1. Rows with missing inputs are left out of the fit (``drop_missing``), or a feature says
        where one is. Everything else is as in `likewise.read`: columns with another role are no
        inputs, or ``inputs`` names those that are, in the model's order.
        """
        named, ones = Roles(**roles), dict(indicator or {})
        opened = open_rows(source, csv=csv)
        named.check(opened.schema.names)
        columns = list(named.candidates(opened.schema.names))
        for name in ones:
            require(name, columns, "an input to be encoded as an indicator")
        if not columns:
            raise InvalidData("There is no input column to encode.")
        table = opened.select(columns).table()
        if drop_missing:
            table = table.filter(pa.array(complete_rows(table, columns, drop=True)[0]))
        if not len(table):
            raise InvalidData(f"There are no complete rows in {opened.name} to fit an encoder on.")
        codings = tuple(_fit(name, table[name], ones.get(name)) for name in columns)
        # Half of all people with a value of their own have names, unless the model reads them.
        most = min(MAX_LEVELS, len(table) / 2) if named.inputs is None else MAX_LEVELS
        for coding in codings:
            if (count := len(coding.features)) > max(MAX_NAMES, most):
                raise InvalidData(
                    f"Column {coding.name!r} has {count} different values in {len(table)} rows. If "
                    f"it is an identifier: {IGNORE}. If not, name the model's columns "
                    "(model.columns)."
                )
        return cls(codings)

    @property
    def columns(self) -> tuple[str, ...]:
        """The original columns it reads, in the model's order."""
        return tuple(coding.name for coding in self.codings)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, such as ``age`` and ``workclass=Private``."""
        return tuple(name for coding in self.codings for name in coding.features)

    @property
    def spans(self) -> Mapping[str, slice]:
        """Which features each original column became."""
        ends = itertools.accumulate((len(c.features) for c in self.codings), initial=0)
        return dict(
            zip(self.columns, itertools.starmap(slice, itertools.pairwise(ends)), strict=True)
        )

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Columns that may not be missing, for they never were in the training data."""
        return tuple(coding.name for coding in self.codings if not coding.gaps)

    @property
    def plain_columns(self) -> tuple[str, ...]:
        """Columns of numbers and true/false, which a model can read as they are."""
        return tuple(c.name for c in self.codings if c.holds not in ("text", "dates"))

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns whose levels are text, even where a CSV file makes them look like numbers."""
        return frozenset(coding.name for coding in self.codings if coding.holds == "text")

    def encode(self, table: Any) -> Float[np.ndarray, "n d"]:
        """Return the features of every row; an unknown level or missing value is refused."""
        opened = open_rows(table, text=self.text_columns)
        for name in self.columns:
            require(name, opened.schema.names, "an input of the encoder")
        people = opened.select(self.columns).table()
        complete_rows(people, self.complete_columns, drop=False)
        x, spans = np.empty((len(people), len(self.features))), self.spans
        for coding in self.codings:
            column = without_dictionary(people[coding.name])
            found, known = kind(column.type), coding.holds
            if found != known and (found, known) != ("true/false", "numbers"):
                raise InvalidData(
                    f"Column {coding.name!r} holds {found}, but the encoder was fitted on {known}."
                )
            x[:, spans[coding.name]] = coding.encode(column)
        return x

    def decode(self, x: Float[np.ndarray, "n d"]) -> pa.Table:
        """Return the original columns, in original units, nearest to each row of features."""
        if x.shape[1] != len(self.features):
            raise InvalidData(
                f"There are {x.shape[1]} features to decode; the encoder has {len(self.features)}."
            )
        spans = self.spans
        return pa.table({c.name: c.decode(x[:, spans[c.name]]) for c in self.codings})

    def to_json(self) -> str:
        """Return the saved form; numbers are written so that they come back exactly."""
        return _File(codings=self.codings).model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "the text") -> "Encoder":
        """Read what `to_json` wrote."""
        try:
            return cls(_File.model_validate_json(text).codings)
        except (InvalidData, ValidationError) as error:
            why = in_short(error).removeprefix("InvalidData: ")
        raise InvalidFile(f"{source} holds no encoder that can be read: {why}.")

    def save(self, path: str | Path) -> None:
        """Write a JSON file."""
        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> "Encoder":
        """Read a file that `save` wrote."""
        return cls.from_json(read_whole(path, most=MAX_BYTES), source=repr(str(path)))


def _fit(name: str, column: Any, one: Level | None) -> Coding:
    category = pa.types.is_dictionary(column.type)
    column = without_dictionary(column)
    found = kind(column.type)
    if found not in ("numbers", "true/false", "text", "dates"):
        raise InvalidData(
            f"Column {name!r} holds {found}, which cannot be encoded. "
            f"Turn it into numbers or text. Or: {IGNORE}."
        )
    if is_missing(column).all():
        raise InvalidData(f"Column {name!r} has no value at all: {IGNORE}.")
    numeric = not category and (found == "numbers" or holds_dates(column))
    if one is None and (found == "dates" or numeric):
        return NumberColumn.fit(name, column)
    return CategoryColumn.fit(name, column, one)
