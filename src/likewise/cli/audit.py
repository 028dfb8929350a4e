"""``likewise audit``: the whole audit of one model."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, NOT_TRUSTWORTHY, say
from likewise.cli.job import AuditJob
from likewise.cli.where import Where
from likewise.errors import InvalidSettings


def audit(
    model: Annotated[
        str, typer.Argument(help="Model file, package.module:name, or endpoint.", metavar="MODEL")
    ],
    data: options.Table,
    label: options.Label = None,
    protected: options.Protected = None,
    weight: options.Weight = None,
    cluster: options.Cluster = None,
    ignore: options.Ignore = None,
    encoder: options.EncoderFile = None,
    drop_missing: options.DropMissing = None,
    csv_separator: options.CsvSeparator = None,
    csv_decimal: options.CsvDecimal = None,
    may_matter: options.MayMatter = None,
    free: options.Free = None,
    pool: options.Pool = None,
    favourable: options.Favourable = None,
    delta: options.Delta = None,
    alpha: options.Alpha = None,
    require: Annotated[
        str | None,
        typer.Option(
            help="within-tolerance: exit 1 unless that was shown.",
            metavar="OUTCOME",
            rich_help_panel=options.QUESTION,
        ),
    ] = None,
    metric: Annotated[
        Path | None,
        typer.Option(
            help="Saved fair metric; learned from DATA if none is given.",
            rich_help_panel=options.METHOD,
        ),
    ] = None,
    map: Annotated[
        str | None,
        typer.Option(
            help="How people are moved: flow, reach, flips or worst.",
            rich_help_panel=options.METHOD,
        ),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The paper's own procedure: its flow, steps and intervals.",
            rich_help_panel=options.METHOD,
        ),
    ] = False,
    checks: Annotated[
        str | None,
        typer.Option(help="core (fewer, faster) or full.", rich_help_panel=options.METHOD),
    ] = None,
    settings: options.SettingsFile = None,
    assigned: options.Set = None,
    output: options.Output = None,
    outcomes: options.OldOutput = None,
    json: options.OldOutput = None,
    html: options.OldOutput = None,
    junit: options.OldOutput = None,
    csv: options.OldOutput = None,
    markdown: options.OldOutput = None,
    redact: options.Redact = False,
    run: Annotated[
        str | None,
        typer.Option(
            help="threads:4, processes:4, or ray:4@ADDRESS; with a limit of memory: "
            "processes:4,8GB.",
            metavar="WHERE",
            rich_help_panel=options.RUNNING,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue an audit in pieces that was interrupted.",
            rich_help_panel=options.RUNNING,
        ),
    ] = False,
    trust: options.Trust = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything, move nobody.", rich_help_panel=options.RUNNING
        ),
    ] = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Audit MODEL on the people in DATA.

    Exit codes: 0 no evidence, 1 evidence of unfairness, 2 bad input, 3 not trustworthy,
    4 internal error.

    Example: likewise audit model.onnx test.csv --label income --protected sex
    --may-matter age,education --pool train.csv -o report.html
    """
    options.csv_written(csv_separator, csv_decimal)
    if paper and (may_matter or free or map):
        raise InvalidSettings(
            "--paper is the paper's procedure; leave out --map, --may-matter and --free."
        )
    choices = {
        **options.counterparts_named(map, may_matter, free),
        "delta": delta,
        "alpha": alpha,
        "checks": checks,
        "decide__favourable": favourable,
        "columns__label": label,
        "columns__protected": options.names(protected),
        "columns__weight": weight,
        "columns__cluster": cluster,
        "columns__ignore": options.names(ignore),
        "columns__drop_missing": drop_missing,
    }
    if require not in (None, "within-tolerance"):
        raise InvalidSettings(f"--require knows one outcome: within-tolerance (got {require!r}).")
    if resume and choices["map"] == "counterparts":
        raise InvalidSettings(
            "Nothing of an audit by counterparts is kept before it is finished: leave out --resume."
        )
    where = Where.parse(run)
    job = AuditJob(
        model=model,
        paths=data,
        metric=metric,
        encoder=encoder,
        settings=options.settings_from(settings, choices, assigned, paper=paper),
        pool=options.names(pool),
        trust=trust,
        threads=where.threads,
        quiet=quiet,
        verbose=verbose,
        redact=redact,
    )
    outputs = options.outputs(
        output, outcomes=outcomes, json=json, html=html, junit=junit, csv=csv, markdown=markdown
    )
    rows = outputs.pop("outcomes", None)
    if dry_run:
        print(job.rehearse(rows, outputs))
        return
    record = job.run(rows, outputs, where.pieces(resume))
    if not record.trustworthy:
        say(f"The result is not trustworthy: {'; '.join(record.reasons)}.")
        raise typer.Exit(NOT_TRUSTWORTHY)
    unfair = record.outcome == "evidence_of_unfairness"
    missed = require is not None and record.outcome != "within_tolerance"
    raise typer.Exit(EVIDENCE if unfair or missed else NO_EVIDENCE)
