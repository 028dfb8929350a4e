"""``likewise audit``: the whole audit of one model."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import exit_code, say, stopped
from likewise.cli.metric import in_files, open_encoder
from likewise.cli.progress import progress_bar
from likewise.cli.running import executor, store
from likewise.errors import InvalidFile, InvalidSettings, LikewiseError


def audit(
    model: Annotated[
        str | None, options.argument("Model file, package.module:name, or endpoint.", "MODEL")
    ] = None,
    data: options.Table = None,
    label: options.Label = None,
    protected: options.Protected = None,
    weights: options.Weights = None,
    clusters: options.Clusters = None,
    identity: options.Identity = None,
    label_map: options.LabelMap = None,
    bins: options.Bins = None,
    encoder: options.EncoderFile = None,
    scores: options.Scores = None,
    decision: options.Decision = None,
    score: options.Score = None,
    threshold: options.Threshold = None,
    may_matter: options.MayMatter = None,
    favourable: options.Favourable = None,
    pool: options.Pool = None,
    delta: options.Delta = None,
    method: options.MethodName = None,
    metric: options.MetricFile = None,
    loss: options.Loss = None,
    paper: options.Paper = False,
    checks: options.Checks = None,
    settings: options.SettingsFile = None,
    assigned: options.Set = None,
    output: options.Output = None,
    redact: options.Redact = False,
    inconclusive_ok: options.InconclusiveOk = False,
    run: options.Run = None,
    resume: options.Resume = False,
    trust: options.Trust = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Audit MODEL on the people in DATA: whether comparable people are treated alike.

    Exit codes: 0 within tolerance, 1 evidence of unfairness, 2 bad input, 3 inconclusive or
    invalid, 4 internal error.

    Example: likewise audit model.onnx test.csv --label deny --protected race
    --may-matter ltv,income --favourable no --pool reference.csv -o report.html
    """
    given = locals()
    from likewise.files import check_outputs
    from likewise.settings.settings_file import settings_and_files

    default = Path("likewise.toml")
    if model is None and scores is None and settings is None and default.exists():
        settings = default
    base, files = settings_and_files(settings)
    model = model or files.get("model")
    paths = [str(path) for path in data or files.get("data", ())]
    if scores is not None and model is not None:
        raise InvalidSettings("--scores takes the place of MODEL and DATA: name only one of them.")
    if scores is not None:
        paths = [str(scores)]
    elif model is None or not paths:
        raise InvalidSettings("Name a model and a table (MODEL DATA), or a scored one (--scores).")
    pools = list(options.names(pool) or files.get("pool", ()))
    metric, encoder = (in_files(given[n], files, n) for n in ("metric", "encoder"))
    if identity is not None:
        base = base.changed(columns__id=identity)
    chosen = base.with_set(assigned or ())
    if metric is not None and re.fullmatch(r"[\w.]+:\w+", str(metric)) and not metric.exists():
        chosen, metric = chosen.changed(metric__name=str(metric)), None
    written = options.outputs(output, redact=redact)
    check_outputs(written.values(), [model, *paths, *pools, metric, encoder, settings])
    fair_metric = None
    if metric is not None:
        from likewise.methods.metric_file import load_metric

        fair_metric = load_metric(metric)
    arguments = options.arguments(given) | {
        "model": _model(model, chosen),
        "people": paths,
        "pool": pools or None,
        "paper": paper,
        "metric": fair_metric,
        "encoder": open_encoder(encoder, fair_metric),
        "settings": chosen,
    }
    if dry_run:
        from likewise._audit import dry_run as check_all

        print(check_all(**arguments))
        return
    from likewise._audit import audit as run_audit
    from likewise.report.redact import redact as redacted
    from likewise.report.terminal import show

    where = executor(run or "threads")
    kept = store(where, list(written.values()), resume=resume)
    kept.check()
    record: Any = None

    def finish(result: Any) -> None:
        nonlocal record
        record = redacted(result.record) if redact else result.record
        show(record, quiet=quiet, verbose=verbose, written=list(map(str, written.values())))
        _write(record, {kind: path for kind, path in written.items() if kind != "rows"})

    try:
        with progress_bar(quiet) as progress:
            run_audit(
                executor=where,
                store=kept,
                outcomes=written.get("rows"),
                progress=progress,
                command=options.typed_command(),
                finish=finish,
                **arguments,
            )
    except KeyboardInterrupt as error:
        if not kept.begun():  # nothing is finished
            raise
        more = f" What is done is in {str(kept.path)!r}: continue with --resume."
        raise stopped(error, more) from None
    raise typer.Exit(exit_code(record, inconclusive_ok=inconclusive_ok))


def _model(model: str | None, settings: Any) -> Any:
    """Return the model by its name, or the endpoint with the patience that was asked for."""
    timeout = settings.model.timeout
    if model is None or not model.startswith(("http://", "https://")):
        if timeout is not None:
            raise InvalidSettings("The setting model.timeout is for models at an address.")
        return model
    from likewise.models.endpoint import TIMEOUT, Endpoint

    # Not an option, since commands are printed, kept in histories, and written to results.
    secret = os.environ.get("LIKEWISE_AUTHORIZATION", "").strip()
    headers = {"Authorization": secret} if secret else {}
    return Endpoint(model, timeout=timeout or TIMEOUT, headers=headers)


def _write(record: Any, files: dict[str, Path]) -> None:
    """Write every file; if one cannot be written, keep the result elsewhere and say where."""
    from likewise.files import keep_elsewhere
    from likewise.report.export import write_outputs

    failed: list[Exception] = []
    for kind, path in files.items():
        try:
            write_outputs(record, {kind: path})
        except Exception as error:  # whatever it is, the other files are still written
            failed.append(error)
    if failed:
        kept = keep_elsewhere(record.to_json().encode(errors="replace"), "result.json")
        where = f"The result is kept in {kept!r}: render it with `likewise report`."
        if isinstance(failed[0], LikewiseError):
            raise InvalidFile(f"{failed[0]} {where}") from None
        say(where)
        raise failed[0]
