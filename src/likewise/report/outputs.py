"""Writes a record in every form that was asked for."""

import csv as comma_separated
import io
from pathlib import Path

from likewise.files import write_whole
from likewise.record import GroupRecord, Record
from likewise.report.escaping import for_csv


def write_outputs(
    record: Record,
    *,
    html: str | Path | None = None,
    junit: str | Path | None = None,
    csv: str | Path | None = None,
    markdown: str | Path | None = None,
    json: str | Path | None = None,
) -> None:
    """Write a web page, JUnit XML, the groups as CSV, a Markdown summary, the result itself."""
    from likewise.report.html import to_html
    from likewise.report.junit import to_junit
    from likewise.report.markdown import to_markdown

    asked = (
        (html, to_html),
        (junit, to_junit),
        (csv, groups_csv),
        (markdown, to_markdown),
        (json, Record.to_json),
    )
    for path, make in asked:
        if path is not None:
            # A lone surrogate in a column name has no place in a file.
            write_whole(Path(path), make(record).encode("utf-8", errors="replace"))


def groups_csv(record: Record) -> str:
    """Return the groups that are judged as comma-separated values, safe to open in a spreadsheet.

    One line a group; numbers in full, unknown ones empty. The last column names the settings, so
    that a table on its own can be traced to its audit.
    """
    names = list(GroupRecord.model_fields)
    text = io.StringIO()
    writer = comma_separated.writer(text, lineterminator="\n")
    writer.writerow([*names, "settings_hash"])
    for group in record.judged_groups():
        row = [*(getattr(group, name) for name in names), record.settings_hash]
        writer.writerow(map(for_csv, row))
    return text.getvalue()
