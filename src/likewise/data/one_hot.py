"""Columns that belong together: the zeros and ones that one category became."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def column_groups(table: pa.Table, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return columns by the name of their group: a column alone, or all levels of one category.

    Columns named ``race_White`` or ``race=White`` are one category if all of them hold zeros and
    ones, and nobody has two ones.

    Examples
    --------
    >>> column_groups(pa.table({"race=A": [1, 0], "race=B": [0, 1], "age": [3, 4]}),
    ...     ["race=A", "race=B", "age"])
    {'race': ('race=A', 'race=B'), 'age': ('age',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in columns:
        mark = "=" if "=" in name else "_"
        stem = name.rpartition(mark)[0]
        level = f"{stem}{mark}"
        family = tuple(c for c in columns if stem and c.startswith(level))
        if len(family) > 1 and _one_hot(table, family):
            found[stem] = family
        else:
            found[name] = (name,)
    return found


def _one_hot(table: pa.Table, columns: Sequence[str]) -> bool:
    total = np.zeros(len(table))
    for name in columns:
        kind = table.schema.field(name).type
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            return False
        values = table[name].cast(pa.float64()).to_numpy()
        if not np.isin(values, (0.0, 1.0)).all():
            return False
        total += values
    return bool((total <= 1).all())
