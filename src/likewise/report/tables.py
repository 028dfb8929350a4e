"""Groups as a table of comma-separated values, safe to open in a spreadsheet."""

import csv
import io
import math
from typing import Any

from likewise.record import GroupRecord, Record

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def groups_csv(record: Record) -> str:
    """Return one line a group; numbers in full, unknown ones empty.

    The last column names the settings, so that a table on its own can be traced to its audit.
    """
    names = list(GroupRecord.model_fields)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "settings_hash"])
    for group in record.groups:
        writer.writerow([*(cell(getattr(group, name)) for name in names), record.settings_hash])
    return text.getvalue()


def cell(value: Any) -> Any:
    """Return a value for a cell. Text that a spreadsheet would run as a formula gets a quote.

    Examples
    --------
    >>> cell("=1+1"), cell(-1.5)
    ("'=1+1", -1.5)
    """
    if isinstance(value, float):
        return "" if math.isnan(value) else value
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text
