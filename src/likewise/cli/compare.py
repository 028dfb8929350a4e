"""``likewise compare``: models side by side."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options


def compare(
    results: Annotated[list[Path], typer.Argument(help="Results saved by audits (JSON).")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a web page here.")
    ] = None,
    html: options.OldOutput = None,
) -> None:
    """Put the RESULTS of several audits side by side, corrected for their number.

    Example: likewise compare baseline.json project.json -o compare.html
    """
    from likewise.cli.files import check_writable
    from likewise.files import write_whole
    from likewise.report.compare import compare as side_by_side
    from likewise.report.compare import read_all, words
    from likewise.report.compare_page import comparison_page

    page = output or html
    check_writable(page)
    comparison = side_by_side(read_all(results))
    print(words(comparison))
    if page is not None:
        write_whole(page, comparison_page(comparison).encode("utf-8", errors="replace"))
