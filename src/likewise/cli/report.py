"""``likewise report``: render a saved result again."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.errors import InvalidSettings


def report(
    result: Annotated[Path, typer.Argument(help="Result saved by an audit (JSON).")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            help="Write this file: .html a report, .md a summary, .csv the groups, .xml for "
            "JUnit, .json the result itself; repeat it.",
            metavar="FILE",
        ),
    ] = None,
    html: options.OldOutput = None,
    junit: options.OldOutput = None,
    csv: options.OldOutput = None,
    markdown: options.OldOutput = None,
    json: options.OldOutput = None,
    redact: options.Redact = False,
    verbose: options.Verbose = False,
) -> None:
    """Render a saved RESULT again, without model or data.

    Without options, the summary is printed.

    Example: likewise report result.json -o report.html
    """
    from likewise.cli.inputs import check_writable
    from likewise.record import Record
    from likewise.report.outputs import write_outputs
    from likewise.report.redact import redact as redacted
    from likewise.report.terminal import show

    outputs = options.outputs(output, html=html, junit=junit, csv=csv, markdown=markdown, json=json)
    if "outcomes" in outputs:
        raise InvalidSettings("A result holds no rows of people: an audit writes those (-o).")
    check_writable(*outputs.values())
    record = Record.read(result)
    record = redacted(record) if redact else record
    write_outputs(record, **outputs)
    if not outputs:
        show(record, verbose=verbose)
