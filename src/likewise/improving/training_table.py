"""The people that remedies are trained, chosen and judged on, as a data frame of plain types."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.data.encode import NAMES
from likewise.data.rows import open_rows
from likewise.engine.pool import plain
from likewise.errors import InvalidData, InvalidSettings, nearest, need
from likewise.training.frame_features import is_calendar

MOST_CLASSES = 20
"""Different labels above which they are numbers to predict rather than classes."""

SHARES = (0.5, 0.25, 0.25)
"""Of the people: to train on (and to find counterparts among), to choose on, and to judge on."""


def as_frame(people: Any) -> Any:
    """Return a data frame with plain types, however people are given."""
    need("pandas", "boosted", "Looking for a fairer model")
    rows = open_rows(people)
    return plain(rows.table(list(rows.schema.names))).to_pandas()


def shown_columns(
    table: Any,
    label: str,
    protected: Sequence[str],
    may_matter: Sequence[str],
    ignore: Sequence[str],
    fitted: Sequence[str],
) -> list[str]:
    """Return the columns that are shown to the model: those it was fitted on, if it says."""
    names = list(table.columns)
    for name in (label, *protected, *may_matter, *ignore):
        if name not in names:
            raise InvalidData(f"The table has no column {name!r}.{nearest(name, names)}")
    if not protected:
        raise InvalidSettings("Fairer for whom? Name the trait (--protected).")
    apart = {label, *protected, *ignore}
    if wrong := [name for name in may_matter if name in apart]:
        raise InvalidSettings(f"{wrong[0]!r} cannot be among the columns that may matter.")
    _check_label(table[label], label)
    spelled = {name.replace(" ", "_"): name for name in names} | {name: name for name in names}
    known = [spelled[name] for name in fitted if name in spelled]  # LightGBM knows no blanks
    if known and len(known) < len(fitted):
        lost = next(name for name in fitted if name not in spelled)
        raise InvalidData(
            f"The model was fitted on a column {lost!r}, which the table does not have."
            f"{nearest(lost, names)}"
        )
    if known:  # where none is, it was fitted on features that were made of the columns
        return list(dict.fromkeys([*known, *may_matter]))
    shown = [name for name in names if name not in apart]
    for name in shown:
        _check_levels(name, table[name])
    return shown


def _check_label(label: Any, name: str) -> None:
    """Refuse labels that are missing, or no classes."""
    if missing := int(label.isna().sum()):
        raise InvalidData(f"{missing} people have no label ({name!r}). Leave them out.")
    values = label.nunique()
    if values < 2:
        raise InvalidData(f"The label {name!r} has one value only ({label.iloc[0]!r}).")
    if values > MOST_CLASSES:
        raise InvalidData(
            f"The label {name!r} has {values} different values; remedies are for classes, at most "
            f"{MOST_CLASSES}."
        )


def _check_levels(name: str, column: Any) -> None:
    """Refuse a column that nobody named and that tells almost everyone apart."""
    count = 0 if column.dtype.kind in "biufM" or is_calendar(column) else column.nunique()
    if count > NAMES and 2 * count > len(column):
        raise InvalidData(
            f"Column {name!r} has {count} different values in {len(column)} rows, so it looks like "
            "an identifier. Ignore it (--ignore)."
        )


def divided(table: Any, seed: int) -> list[Any]:
    """Divide people at random into those to train, to choose and to judge on."""
    order = np.random.default_rng([seed, 18]).permutation(len(table))
    ends = np.cumsum([int(share * len(table)) for share in SHARES[:-1]])
    parts = [table.iloc[np.sort(rows)].reset_index(drop=True) for rows in np.split(order, ends)]
    if len(parts[-1]) < 100:
        raise InvalidData(
            f"{len(table)} people are too few to train, choose and judge on: 400 are needed."
        )
    return parts
