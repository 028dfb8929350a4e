"""``likewise reproduce``: run the paper's studies again."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.progress import progress_bar


def reproduce(
    study: Annotated[str, typer.Argument(help="simulation, adult, compas or stopping-time.")],
    splits: Annotated[
        int | None, typer.Option(help="Random splits of the data; by default the paper's ten.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; by default reproduction/STUDY.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes to work in, one thread each.")] = 2,
    quiet: options.Quiet = False,
) -> None:
    """Run a STUDY of the paper again, and show its numbers beside ours.

    Writes table.csv, results.json, figures (PNG and SVG) and page.md. A run that was interrupted
    continues where it stopped when the same command is given again.

    Example: likewise reproduce adult --splits 10 --out adult
    """
    import textwrap

    from likewise.experiments.output import write
    from likewise.experiments.reproduce import reproduce as run

    folder = out or Path("reproduction") / study
    with progress_bar(quiet) as progress:
        found = run(study, folder, splits=splits, workers=workers, progress=progress)
    written = write(found, folder)
    for table in found.tables:
        print(table.text(), end="\n\n")
    for note in found.notes:
        print(textwrap.fill(note, 80, initial_indent="- ", subsequent_indent="  "))
    print(f"\nWrote {', '.join(path.name for path in written)} in {folder}.")
