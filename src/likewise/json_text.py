"""JSON as results and states are written in: numbers that come back, and nothing out of bounds."""

import math
import sys
from typing import Annotated, Any

import pydantic_core
from pydantic import BeforeValidator, PlainSerializer


def _to_json(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def _from_json(value: Any) -> Any:
    return math.nan if value is None else value


Number = Annotated[
    float,
    BeforeValidator(_from_json),
    PlainSerializer(_to_json, return_type=float | str | None, when_used="json"),
]
"""A float; in JSON, not-a-number is null and the infinities are text, as in pydantic."""


def parse(text: str, *, finite: bool = False) -> Any:
    """Return what a JSON text holds; a ``ValueError`` says what is wrong with it.

    Parameters
    ----------
    finite
        Whether ``NaN`` and ``Infinity``, which are not JSON, are refused.
    """
    # Not json.loads: what it reads may be nested too deeply to be written again.
    value = pydantic_core.from_json(text, allow_inf_nan=not finite)
    _check_whole_numbers(value)
    return value


def _check_whole_numbers(value: Any) -> None:
    """Refuse whole numbers that no float can hold; charts and texts would stumble over them."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_whole_numbers(inner)
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError("it holds a whole number of more than 300 digits")
