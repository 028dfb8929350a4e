"""Writes a record in every form that was asked for."""

from pathlib import Path

from likewise.files import write_whole
from likewise.record import Record


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
    from likewise.report.tables import groups_csv

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
