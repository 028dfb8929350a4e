"""``likewise report``: render a saved result again."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options


def report(
    result: Annotated[Path, typer.Argument(help="Result saved by an audit (JSON).")],
    html: Annotated[Path | None, typer.Option(help="Write a web page here.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the groups here (CSV).")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a Markdown summary here.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the result itself here.")] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Hide what is known about single people.")
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Render a saved RESULT again, without model or data.

    Without options, the summary is printed.

    Example: likewise report result.json --html report.html
    """
    from likewise.cli.files import check_writable
    from likewise.record import Record
    from likewise.report.outputs import write_outputs
    from likewise.report.redact import redact as redacted
    from likewise.report.terminal import show

    outputs = {"html": html, "junit": junit, "csv": csv, "markdown": markdown, "json": json}
    check_writable(*outputs.values())
    record = Record.read(result)
    record = redacted(record) if redact else record
    write_outputs(record, **outputs)
    if not any(outputs.values()):
        show(record, verbose=verbose)
