"""Groups as a table of comma-separated values, safe to open in a spreadsheet."""

import csv
import io

from likewise.record import GroupRecord, Record
from likewise.report.escaping import for_csv


def groups_csv(record: Record) -> str:
    """Return one line a group; numbers in full, unknown ones empty.

    The last column names the settings, so that a table on its own can be traced to its audit.
    """
    names = list(GroupRecord.model_fields)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "settings_hash"])
    for group in record.groups:
        row = [*(getattr(group, name) for name in names), record.settings_hash]
        writer.writerow(map(for_csv, row))
    return text.getvalue()
