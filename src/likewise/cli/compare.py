"""``likewise compare``: models side by side."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.errors import InvalidSettings


def compare(
    results: Annotated[
        list[Path], typer.Argument(help="Results saved by audits (JSON).", metavar="RESULTS")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a web page here.", metavar="FILE")
    ] = None,
    margin: Annotated[
        float, typer.Option(help="Factor of the ratio that a difference must exceed.")
    ] = 1.1,
) -> None:
    """Compare models audited on the same people; the first with each of the others.

    Example: likewise compare old.json new.json -o comparison.html
    """
    from likewise._compare import compare as compare_audits
    from likewise.files import check_outputs, write_whole
    from likewise.report.comparison import comparison_page, comparison_text
    from likewise.report.terminal import terminal_width

    check_outputs([output], results)
    stems = [path.stem for path in results]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in results]
    if len(set(names)) < len(names):
        raise InvalidSettings("The same result is named twice.")
    comparison = compare_audits(dict(zip(names, results, strict=True)), margin=margin)
    print(comparison_text(comparison, terminal_width()))
    if output is not None:
        write_whole(output, comparison_page(comparison).encode("utf-8", errors="replace"))
