"""``likewise report``: render a saved result again."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import exit_code


def report(
    result: Annotated[
        Path, typer.Argument(help="Result saved by an audit (JSON).", metavar="RESULT")
    ],
    output: options.Output = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Read the verdict at another limit on the ratio.", metavar="NUMBER"),
    ] = None,
    redact: options.Redact = False,
    verbose: options.Verbose = False,
) -> None:
    """Render a saved RESULT again, without model or data; --delta asks at another limit.

    Without options, the summary is printed. With --delta the exit code is that of its verdict.

    Example: likewise report result.json -o report.html
    """
    from likewise.files import check_outputs
    from likewise.record import Record
    from likewise.report.export import write_outputs
    from likewise.report.redact import redact as redacted
    from likewise.report.terminal import show

    outputs = options.outputs(output, rows=False, redact=redact)
    check_outputs(outputs.values(), [result])
    record = Record.read(result)
    if delta is not None:
        from likewise.redecide import at_limit

        record = at_limit(record, delta)
    record = redacted(record) if redact else record
    write_outputs(record, outputs)
    if not outputs or delta is not None:
        show(record, verbose=verbose)
    if delta is not None:
        raise typer.Exit(exit_code(record))
