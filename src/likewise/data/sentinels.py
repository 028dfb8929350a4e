"""Numbers that are no measurements: codes such as 99999 for something that is not known."""

import numpy as np
import pyarrow as pa

from likewise.data.arrow import kind, numbers

FEWEST = 2
"""A code stands in several rows."""

GAP = 2.0
"""A code lies at least this many times as far out as every other value."""

MOST_NOTES = 5


def sentinel_notes(table: pa.Table) -> tuple[str, ...]:
    """Return a sentence for every column of numbers whose largest or smallest looks like a code.

    Such a value is made of nines (99, 999999, −9, −99), or is −1 where all else is not negative;
    it occurs more than once, and is far from every other value.
    """
    found = []
    for name in table.column_names:
        if kind(table.schema.field(name).type) != "numbers":
            continue
        values = numbers(name, table[name].drop_null())
        values = values[np.isfinite(values)]
        distinct, counts = np.unique(values, return_counts=True)
        if len(distinct) < 3:
            continue
        for place, rest in ((-1, distinct[:-1]), (0, distinct[1:])):
            value, count = float(distinct[place]), int(counts[place])
            if count >= FEWEST and _is_code(value, rest):
                found.append(
                    f"Column {name!r} is {value:.0f} in {count} of {len(table)} rows, far from all "
                    "its other values: a code for something that is not known? It is read as a "
                    "number."
                )
    return tuple(found[:MOST_NOTES])


def _is_code(value: float, others: np.ndarray) -> bool:
    nines = value == int(value) and set(str(abs(int(value)))) == {"9"}
    if value < 0:
        return bool((others >= 0).all() and (value == -1 or nines))
    far = value >= GAP * float(np.abs(others).max())
    return bool(nines and value >= 99 and far)
