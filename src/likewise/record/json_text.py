"""What results are made of: numbers that come back from JSON, text that can be shown, no more."""

import math
import sys
from typing import Annotated, Any

import pydantic
import pydantic_core
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer

from likewise.errors import UNPRINTABLE, printable

MAX_NUMBER = 1e100
"""Numbers beyond it are written as infinite, and refused in a result that is read."""


def printable_within(value: Any) -> Any:
    """Return a value in which every text can be shown."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_within(key): printable_within(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(printable_within(inner) for inner in value)
    return value


def _to_json(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return ("Infinity" if value > 0 else "-Infinity") if abs(value) > MAX_NUMBER else value


def _from_zero(most: float) -> AfterValidator:
    def check(value: float) -> float:
        # A p-value is a sum of terms, which may end a rounding error beyond its range.
        if value < -1e-9 or value > most + 1e-9:
            raise ValueError(f"it must lie between 0 and {most:g}, not at {value:g}")
        return value

    return AfterValidator(check)


Number = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(_to_json, return_type=float | str | None, when_used="json"),
]
"""A float; in JSON, not-a-number is null and the infinities are text, as in pydantic."""

Share = Annotated[Number, _from_zero(1)]
"""A probability, a p-value or a rate, if it is known."""

Size = Annotated[Number, _from_zero(math.inf)]
"""A number that is not negative, if it is known."""

Count = Annotated[int, Field(ge=0, le=10**15)]
"""How many."""

Text = Annotated[str, AfterValidator(printable)]
"""Text that can be shown anywhere; from JSON, anything else is refused before."""

Anything = Annotated[Any, AfterValidator(printable_within)]
"""A person's value, say, whose texts can be shown anywhere."""

Hash = Annotated[str, Field(pattern="^[0-9a-f]{0,64}$")]
"""A sha256 in hexadecimal digits, or nothing."""


Tolerance = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
Level = Annotated[float, Field(gt=0, lt=1)]


class Part(pydantic.BaseModel):
    """A part of a result: closed, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def parse(text: str | bytes, *, finite: bool = False, largest: float = sys.float_info.max) -> Any:
    """Return what a JSON text holds; a ``ValueError`` says what is wrong with it.

    Unprintable text is refused, and so are numbers beyond ``largest``, and whole numbers that no
    float can hold. ``finite`` refuses ``NaN`` and ``Infinity``, which are not JSON.
    """
    # Not json.loads: what it reads may be nested too deeply to be written again.
    value = pydantic_core.from_json(text, allow_inf_nan=not finite)
    _check(value, largest)
    return value


def _check(value: Any, largest: float) -> None:
    if isinstance(value, dict | list):
        for inner in (*value, *(value.values() if isinstance(value, dict) else ())):
            _check(inner, largest)
    elif isinstance(value, str):
        if found := UNPRINTABLE.search(value):
            raise ValueError(f"it holds the unprintable character {found[0]!a}")
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError("it holds a whole number of more than 300 digits")
    elif isinstance(value, int | float) and largest < abs(value) < math.inf:
        raise ValueError(f"it holds the number {float(value):g}, beyond all that is measured here")
