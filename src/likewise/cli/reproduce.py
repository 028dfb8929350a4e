"""``likewise reproduce``: run the paper's studies again."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.progress import progress_bar


def reproduce(
    study: Annotated[
        str, typer.Argument(help="simulation, adult, compas, stopping-time.", metavar="STUDY")
    ],
    splits: Annotated[
        int | None, typer.Option(help="Splits of the data (default: the paper's).", metavar="COUNT")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Results (default: reproduction/STUDY).", metavar="FOLDER")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes to work in.", metavar="COUNT")] = 2,
    quiet: options.Quiet = False,
) -> None:
    """Run a STUDY of the paper again, and show its numbers beside ours.

    Writes table.csv, results.json, figures (PNG and SVG) and page.md. A run that was interrupted
    continues where it stopped when the same command is given again.

    Example: likewise reproduce adult --splits 10 --out adult
    """
    run = paper_studies()
    folder = out or Path("reproduction") / study
    with progress_bar(quiet) as progress:
        text = run(study, folder, splits=splits, workers=workers, progress=progress)
    print(text)


def paper_studies() -> Callable[..., str]:
    """Return what runs the studies: another package, found by its entry point."""
    from importlib.metadata import entry_points

    from likewise.errors import MissingExtra

    install = "Install them with: pip install 'likewise[studies]'."
    entry = next(iter(entry_points(group="likewise.studies", name="paper")), None)
    if entry is None:
        raise MissingExtra(f"The paper's studies are not installed here. {install}")
    try:
        return entry.load()
    except ImportError as error:
        raise MissingExtra(f"The paper's studies need {error.name}. {install}") from None
