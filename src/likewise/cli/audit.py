"""``likewise audit``: the whole audit of one model."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE, NOT_TRUSTWORTHY, say
from likewise.cli.job import Job
from likewise.cli.stream import Pieces


def audit(
    model: Annotated[
        str, typer.Argument(help="Model file, package.module:name, or endpoint.", metavar="MODEL")
    ],
    data: options.Table,
    label: options.Label = None,
    protected: options.Protected = None,
    metric: Annotated[
        Path | None, typer.Option(help="Saved fair metric; learned from DATA if none is given.")
    ] = None,
    encoder: options.EncoderFile = None,
    settings: Annotated[
        Path | None, typer.Option(help="Settings file (see `likewise init`); flags override it.")
    ] = None,
    map: Annotated[
        str | None, typer.Option(help="Map that decides: flow, reach, flips or worst.")
    ] = None,
    lam: Annotated[float | None, typer.Option(help="Price λ of moving unlike oneself.")] = None,
    time: Annotated[float | None, typer.Option(help="Time T of the flow.")] = None,
    solver: Annotated[
        str | None,
        typer.Option(help="auto, euler, rk4, exponential2 or exponential4."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps, unless solver is auto.")
    ] = None,
    feasible: Annotated[
        bool | None,
        typer.Option("--feasible", help="Search among values that occur: categories stay whole."),
    ] = None,
    delta: options.Delta = None,
    alpha: options.Alpha = None,
    test: Annotated[
        str | None,
        typer.Option(help="Test that decides: loss_ratio, error_rate_ratio, or auto."),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Of a regression: squared or absolute errors.")
    ] = None,
    interval: options.Interval = None,
    refits: Annotated[
        int | None,
        typer.Option(help="Refit the metric on so many bootstrap samples (by default, 10 groups)."),
    ] = None,
    checks: Annotated[str | None, typer.Option(help="core or full.")] = None,
    weight: options.Weight = None,
    cluster: options.Cluster = None,
    ignore: options.Ignore = None,
    inputs: options.Inputs = None,
    positive: options.Positive = None,
    model_output: Annotated[
        str | None, typer.Option(help="What the model returns: logits, probabilities or values.")
    ] = None,
    drop_missing: options.DropMissing = None,
    require: Annotated[
        str | None,
        typer.Option(help="within-tolerance: exit 1 unless that was shown.", metavar="OUTCOME"),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the result here (JSON).")] = None,
    outcomes: Annotated[
        Path | None, typer.Option(help="Write one row a person here (Parquet).")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a web page here.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the groups here (CSV).")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a Markdown summary here.")] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Hide what is known about single people.")
    ] = False,
    seed: options.Seed = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Blocks moved at a time.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Audit in pieces, in so many processes.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Audit in pieces on Ray: local, auto, or an address.")
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Audit in pieces, within this memory: 4GB, say.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an audit in pieces that was interrupted.")
    ] = False,
    journal: Annotated[
        Path | None, typer.Option(help="Folder for finished pieces; by default beside the result.")
    ] = None,
    trust: options.Trust = False,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds to wait for an answer of an endpoint.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(help="Requests to an endpoint that are allowed.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, move nobody.")
    ] = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Audit MODEL on the people in DATA.

    Exit codes: 0 no evidence, 1 evidence of unfairness, 2 bad input, 3 not trustworthy,
    4 internal error.

    Example: likewise audit model.safetensors test.csv --label income --protected sex
    --metric metric.safetensors --json result.json
    """
    choices = {
        "delta": delta,
        "alpha": alpha,
        "checks": checks,
        "seed": seed,
        "columns__label": label,
        "columns__protected": options.names(protected),
        "columns__weight": weight,
        "columns__cluster": cluster,
        "columns__ignore": options.names(ignore),
        "columns__inputs": options.names(inputs),
        "columns__positive": positive,
        "columns__output": model_output,
        "columns__drop_missing": drop_missing,
        "map": map,
        "decide__test": test,
        "decide__loss": loss,
        "decide__interval": interval,
        "map__lam": lam,
        "map__time": time,
        "map__solver": solver,
        "map__steps": steps,
        "map__feasible": feasible,
        "metric__refits": refits,
    }
    if require not in (None, "within-tolerance"):
        raise typer.BadParameter("--require knows one outcome: within-tolerance.")
    job = Job(
        model=model,
        paths=data,
        metric=metric,
        encoder=encoder,
        settings=options.settings_from(settings, choices),
        trust=trust,
        threads=threads,
        quiet=quiet,
        verbose=verbose,
        redact=redact,
        timeout=timeout,
        max_calls=max_calls,
    )
    outputs = {"json": json, "html": html, "junit": junit, "csv": csv, "markdown": markdown}
    pieces = Pieces(workers, ray, max_memory, resume, journal)
    if dry_run:
        print(job.rehearse(outcomes, outputs, pieces))
        return
    record = job.run(outcomes, outputs, pieces)
    if not record.trustworthy:
        say(f"The result is not trustworthy: {'; '.join(record.reasons)}.")
        raise typer.Exit(NOT_TRUSTWORTHY)
    unfair = record.outcome == "evidence_of_unfairness"
    missed = require is not None and record.outcome != "within_tolerance"
    raise typer.Exit(EVIDENCE if unfair or missed else NO_EVIDENCE)
