"""``likewise compare``: models side by side."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options


def compare(
    results: Annotated[list[Path], typer.Argument(help="Results saved by audits (JSON).")],
    outcomes: Annotated[
        list[Path] | None,
        typer.Option(
            help="Outcomes of the same audits (Parquet), in the same order: the models are "
            "compared person by person, the first with each of the others.",
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(help="Points of accuracy that may be lost, set beforehand: 0.02 is two."),
    ] = 0.02,
    loss_margin: Annotated[
        float, typer.Option(help="By how much the mean loss may grow, set beforehand.")
    ] = 0.05,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a web page here.")
    ] = None,
    html: options.OldOutput = None,
) -> None:
    """Put the RESULTS of several audits side by side, corrected for their number.

    Example: likewise compare old.json new.json --outcomes old.parquet new.parquet -o page.html
    """
    from likewise.cli.inputs import check_writable
    from likewise.engine.paired_audits import Margins, files_together
    from likewise.engine.paired_audits import compare as compare_people
    from likewise.files import write_whole
    from likewise.report.compare_page import comparison_page
    from likewise.report.side_by_side import compare as side_by_side
    from likewise.report.side_by_side import read_all, words

    page = output or html
    check_writable(page)
    # A list behind an option ends after its first entry: tables among the results are outcomes.
    tables = [*(outcomes or ()), *(path for path in results if path.suffix == ".parquet")]
    records = read_all([path for path in results if path.suffix != ".parquet"])
    comparison = (
        compare_people(files_together(records, tables), margins=Margins(margin, loss_margin))
        if tables
        else side_by_side(records)
    )
    print(words(comparison))
    if page is not None:
        write_whole(page, comparison_page(comparison).encode("utf-8", errors="replace"))
