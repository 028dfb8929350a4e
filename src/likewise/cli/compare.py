"""``likewise compare``: models side by side."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    results: Annotated[list[Path], typer.Argument(help="Results saved by audits (JSON).")],
    html: Annotated[Path | None, typer.Option(help="Write a web page here.")] = None,
) -> None:
    """Put the RESULTS of several audits side by side, corrected for their number.

    Example: likewise compare baseline.json project.json --html compare.html
    """
    from likewise.cli.files import check_writable
    from likewise.files import write_whole
    from likewise.report.compare import compare as side_by_side
    from likewise.report.compare import read_all, words
    from likewise.report.compare_page import comparison_page

    check_writable(html)
    comparison = side_by_side(read_all(results))
    print(words(comparison))
    if html is not None:
        write_whole(html, comparison_page(comparison).encode("utf-8", errors="replace"))
