"""How one column of a table becomes features of a model, and comes back."""

import abc
import math
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from likewise.audit_data import GAP
from likewise.data.arrow import TEXT, check_finite, days, kind, numbers
from likewise.errors import InvalidData

Level = bool | int | float | str
MOST_LEVELS = 1000


class Column(BaseModel, abc.ABC):
    """What was learned about one column from the training data."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    name: str

    @property
    @abc.abstractmethod
    def features(self) -> tuple[str, ...]:
        """Names of the features it becomes."""

    @property
    @abc.abstractmethod
    def holds(self) -> str:
        """What the column holds: numbers, text or true/false."""

    @abc.abstractmethod
    def encode(self, column: Any) -> Float[np.ndarray, "n m"]:
        """Turn a column of a table, without missing values, into features."""

    @abc.abstractmethod
    def decode(self, x: Float[np.ndarray, "n m"]) -> Any:
        """Turn features back into an Arrow column, in the original units."""

    @abc.abstractmethod
    def line(self) -> tuple[Float[np.ndarray, " m"], float]:
        """Return the factors and the offset that turn features into the original number."""

    def check_kind(self, column: Any) -> None:
        """Refuse a column that holds another kind of value than in the training data."""
        found = kind(column.type)
        if found != self.holds and not (found == "true/false" and self.holds == "numbers"):
            raise InvalidData(
                f"Column {self.name!r} holds {found}, but the encoder was fitted on {self.holds}."
            )


class NumberColumn(Column):
    r"""A column of numbers, standardised: :math:`(v - \text{mean}) / \text{scale}`.

    Parameters
    ----------
    mean, scale
        Mean and standard deviation (dividing by n) of the training data.
    gaps
        Whether values were missing. They are at the mean, and a second feature is 1.
    integer
        Whether it held whole numbers, so that decoded values are rounded.
    date
        If it held dates or times, their type (``text`` like 2020-12-31); they count in days since
        1970.
    constant
        Whether it held a single value; its scale is then 1.
    """

    kind: Literal["number"] = "number"
    mean: float
    scale: Annotated[float, Field(gt=0)]
    integer: bool = False
    constant: bool = False
    gaps: bool = False
    date: Literal["", "text", "date32[day]", "timestamp[us]"] = ""

    @classmethod
    def fit(cls, name: str, column: Any) -> "NumberColumn":
        """Learn mean and standard deviation of the values that are there."""
        every = numbers(name, column) if kind(column.type) == "numbers" else days(column)
        seen = every[~np.isnan(every)]
        if not len(seen):
            raise InvalidData(f"Column {name!r} has no value at all. Ignore it (--ignore).")
        check_finite(name, seen)
        constant = bool((seen == seen[0]).all())
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = (seen[0], 1.0) if constant else (seen.mean(), seen.std())
        if not (np.isfinite(mean) and 0 < scale < np.inf):
            raise InvalidData(f"Column {name!r} has numbers too large or small: rescale it.")
        return cls(
            name=name,
            mean=float(mean),
            scale=float(scale),
            integer=not (pa.types.is_floating(column.type) or pa.types.is_timestamp(column.type)),
            date=_date_type(column.type),
            constant=constant,
            gaps=len(seen) < len(every),
        )

    @property
    @override
    def features(self) -> tuple[str, ...]:
        return (self.name, self.name + GAP) if self.gaps else (self.name,)

    @property
    @override
    def holds(self) -> str:
        return {"": "numbers", "text": "text"}.get(self.date, "dates")

    @override
    def encode(self, column: Any) -> Float[np.ndarray, "n m"]:
        seen = days(column) if self.date else numbers(self.name, column)
        check_finite(self.name, seen)
        x = ((seen - self.mean) / self.scale)[:, None]
        if not self.gaps:
            return x
        gone = np.isnan(x)
        return np.hstack([np.where(gone, 0.0, x), gone])

    @override
    def line(self) -> tuple[Float[np.ndarray, " m"], float]:
        return np.array([self.scale, 0.0][: len(self.features)]), self.mean

    @override
    def decode(self, x: Float[np.ndarray, "n m"]) -> Any:
        off, mean = x[:, 0] * self.scale, self.mean
        values = np.rint(off + mean).astype(int) if self.integer else self._unrounded(off)
        if self.date:
            exact = (1, "D") if self.integer else (86_400_000_000, "us")
            values = np.rint(values * exact[0]).astype(f"datetime64[{exact[1]}]")
        if self.date == "text":
            values = values.astype(str).astype(object)
        return pa.array(values, mask=x[:, 1] > 0.5 if self.gaps else None)

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


def _date_type(column_type: Any) -> Literal["", "text", "date32[day]", "timestamp[us]"]:
    if kind(column_type) == "text":
        return "text"
    if pa.types.is_timestamp(column_type):
        return "timestamp[us]"
    return "date32[day]" if pa.types.is_date(column_type) else ""


class _Levels(Column):
    """A column with a fixed list of levels."""

    gaps: bool = False

    @property
    @abc.abstractmethod
    def known(self) -> tuple[Level, ...]:
        """The levels, each at its index."""

    @property
    @override
    def holds(self) -> str:
        first = self.known[0]
        return (
            "true/false"
            if isinstance(first, bool)
            else ("text" if isinstance(first, str) else "numbers")
        )

    def codes(self, column: Any) -> Any:
        """Return the index of each value among the levels, and refuse any other value."""
        common = {"true/false": pa.bool_(), "text": TEXT, "numbers": pa.float64()}[self.holds]
        column = column.cast(common)
        places = pc.index_in(column, value_set=pa.array(self.known).cast(common))
        if self.gaps:
            places = pc.if_else(pc.is_null(column), len(self.known), places)
        strangers = column.filter(pc.is_null(places))
        if len(strangers):
            shown = ", ".join(map(repr, self.known[:12]))
            more = f" and {len(self.known) - 12} more" if len(self.known) > 12 else ""
            raise InvalidData(
                f"Column {self.name!r} has {strangers[0].as_py()!r} ({len(strangers)} rows have "
                f"a level that the encoder was not fitted on); it knows {shown}{more}. Fit it on "
                "people who have it, or ignore the column (--ignore)."
            )
        return places.to_numpy()

    def of_codes(self, codes: Any) -> Any:
        """Return the levels at these indices."""
        return pa.array(self.known).take(
            pa.array(codes) if isinstance(codes, np.ndarray) else codes
        )


class CategoryColumn(_Levels):
    """A column of text, true/false or categories: one feature a level, 1 where it applies.

    Where values were missing in the training data, that is one more feature.
    """

    kind: Literal["category"] = "category"
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]

    @classmethod
    def fit(cls, name: str, column: Any) -> "CategoryColumn":
        """Learn the levels, sorted."""
        return cls(name=name, levels=levels_in(name, column), gaps=column.null_count > 0)

    @property
    @override
    def known(self) -> tuple[Level, ...]:
        return self.levels

    @property
    @override
    def features(self) -> tuple[str, ...]:
        levels = tuple(f"{self.name}={level}" for level in self.levels)
        return (*levels, self.name + GAP) if self.gaps else levels

    @override
    def encode(self, column: Any) -> Float[np.ndarray, "n m"]:
        return np.eye(len(self.features))[self.codes(column)]

    @override
    def line(self) -> tuple[Float[np.ndarray, " m"], float]:
        factors = [float(level) for level in self.levels] + [0.0] * self.gaps
        return np.array(factors), 0.0

    @override
    def decode(self, x: Float[np.ndarray, "n m"]) -> Any:
        # The nearest corner of the unit cube with a single 1 is where the largest feature is.
        codes = x[:, : len(self.levels)].argmax(axis=1)
        return self.of_codes(pa.array(codes, mask=x[:, -1] > 0.5 if self.gaps else None))


class IndicatorColumn(_Levels):
    """A column with two levels, as a single feature that is 1 for one of them."""

    kind: Literal["indicator"] = "indicator"
    zero: Level
    one: Level

    @classmethod
    def fit(cls, name: str, column: Any, one: Level) -> "IndicatorColumn":
        """Learn the other level."""
        levels = levels_in(name, column)
        if len(levels) != 2 or one not in levels:
            raise InvalidData(
                f"Column {name!r} cannot be an indicator of {one!r}: it needs two levels, one of "
                f"them that, and has {', '.join(map(repr, levels[:6]))}."
            )
        return cls(name=name, zero=levels[levels[0] == one], one=one)

    @property
    @override
    def known(self) -> tuple[Level, ...]:
        return (self.zero, self.one)

    @property
    @override
    def features(self) -> tuple[str, ...]:
        return (f"{self.name}={self.one}",)

    @override
    def encode(self, column: Any) -> Float[np.ndarray, "n m"]:
        return self.codes(column).astype(np.float64)[:, None]

    @override
    def line(self) -> tuple[Float[np.ndarray, " m"], float]:
        return np.array([float(self.one) - float(self.zero)]), float(self.zero)

    @override
    def decode(self, x: Float[np.ndarray, "n m"]) -> Any:
        return self.of_codes((x[:, 0] > 0.5).astype(np.int64))


def levels_in(name: str, column: Any) -> tuple[Level, ...]:
    """Return the different values of a column, sorted."""
    found = [value for value in pc.unique(column).to_pylist() if value is not None]
    if len(found) > MOST_LEVELS:
        raise InvalidData(
            f"Column {name!r} has {len(found)} different values in {len(column)} rows, too many "
            "for one feature each. If it is an identifier, ignore it (--ignore)."
        )
    return tuple(sorted(found))
