"""Numbers as names of groups: short, and never the same name for two of them."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int, Shaped

EXACT = 1e15
"""Whole numbers up to this are written out; beyond it floats no longer hold every one."""


def numerals(values: Iterable[float]) -> dict[float, str]:
    """Return numbers as text: whole ones in full, others with six digits or as many as it takes.

    Examples
    --------
    >>> numerals([1.0, 1000001, 1000002])
    {1.0: '1', 1000001: '1000001', 1000002: '1000002'}
    >>> sorted(numerals([0.1, 0.12345671, 0.12345672]).values())
    ['0.1', '0.12345671', '0.12345672']
    """
    known = dict.fromkeys(values)
    names: dict[float, str] = {}
    for digits in range(6, 18):
        names = {value: _written(value, digits) for value in known}
        if len(set(names.values())) == len(known):
            break
    return names


def range_names(values: Shaped[np.ndarray, " n"], place: Int[np.ndarray, " n"]) -> dict[int, str]:
    """Return the name of each group of numbers: its smallest to its largest."""
    groups = {int(p): values[place == p] for p in np.unique(place)}
    ends = {p: (own.min().item(), own.max().item()) for p, own in groups.items()}
    names = numerals(end for pair in ends.values() for end in pair)
    return {p: f"{names[low]} to {names[high]}" for p, (low, high) in ends.items()}


def _written(value: float, digits: int) -> str:
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < EXACT)
    return str(int(value)) if whole else f"{value:.{digits}g}"
