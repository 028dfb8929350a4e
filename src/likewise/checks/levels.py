"""Protected traits as levels: what a person's group is called."""

import numpy as np
from jaxtyping import Shaped

from likewise.people import missing
from likewise.statistics.numerals import numerals, range_names
from likewise.statistics.trait_levels import MANY


def as_levels(column: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Return a trait as text, ``None`` where it is missing.

    Numbers with many values become four groups of about equal size, named by their range.
    """
    gone = missing(column)
    names = np.full(len(column), None, dtype=object)
    known = column[~gone]
    numeric = column.dtype.kind in "iuf"
    if numeric and len(np.unique(known)) > MANY:
        names[~gone] = _quarters(known)
    elif numeric:
        written = numerals(known.tolist())
        names[~gone] = [written[value] for value in known.tolist()]
    else:
        names[~gone] = [str(value) for value in known.tolist()]
    return names


def _quarters(values: Shaped[np.ndarray, " m"]) -> list[str]:
    inner = np.unique(np.quantile(values, (0.25, 0.5, 0.75), method="lower"))
    place = np.searchsorted(inner, values)
    ranges = range_names(values, place)
    return [ranges[int(p)] for p in place]
