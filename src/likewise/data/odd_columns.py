"""Columns that look odd: scales that differ wildly, and values that stand for missing ones."""

import math
import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from likewise.data.arrow import kind, numbers
from likewise.errors import ScaleWarning

FAR_FROM_ONE = 30.0
FAR_APART = 100.0
SAMPLE = 10_000


def warn_about_scales(
    x: Float[np.ndarray, "n d"], features: Sequence[str], lam: float = 50.0
) -> None:
    r"""Warn when the penalty :math:`\lambda d_x^2` means very different things for two columns.

    The penalty prices a move of one *unit* alike in all columns, so a move of one standard
    deviation :math:`s` costs :math:`\lambda s^2`. The paper's :math:`\lambda = 50` is meant for
    standardised features. A warning is due when some standard deviation is above 30 or below
    1/30, or two of them differ by more than a factor of 100. Constant columns and columns of
    zeros and ones (one-hot features) do not count.

    Parameters
    ----------
    x, features
        What the model sees, and the names of its columns.
    lam
        The price of a squared unit, chosen by the auditor; without one (nan) units do not matter.
    """
    if math.isnan(lam):
        return
    # Evenly spaced rows: scales that differ by 30 show in any ten thousand people.
    sample = x[:: max(1, len(x) // SAMPLE)]
    spread = sample.std(axis=0)
    two_valued = ((sample == 0) | (sample == 1)).all(axis=0)
    counted = np.flatnonzero((spread > 0) & ~two_valued)
    if not len(counted):
        return
    order = counted[np.argsort(spread[counted])]
    low, high = float(spread[order[0]]), float(spread[order[-1]])
    if high <= FAR_FROM_ONE and low >= 1 / FAR_FROM_ONE and high <= FAR_APART * low:
        return
    ends = dict.fromkeys([int(order[-1]), int(order[0])])
    found = " and ".join(
        f"{features[j]!r} (standard deviation {spread[j]:.3g}) costs {lam * spread[j] ** 2:.3g}"
        for j in ends
    )
    warnings.warn(
        f"The features are not on one scale: at lam = {lam:g} a move of one standard deviation "
        f"in {found}. Standardise them with an encoder, or choose lam for these units.",
        ScaleWarning,
        stacklevel=2,
    )


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
