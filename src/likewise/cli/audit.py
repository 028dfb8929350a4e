"""``likewise audit``: the whole audit of one model."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import exit_code, say, stopped
from likewise.cli.progress import progress_bar
from likewise.cli.running import RunOptions
from likewise.errors import InvalidFile, InvalidSettings, LikewiseError


def audit(
    model: Annotated[
        str | None,
        typer.Argument(help="Model file, package.module:name, or endpoint.", metavar="MODEL"),
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
    from likewise.files import check_outputs
    from likewise.settings.settings_file import settings_and_files

    default = Path("likewise.toml")
    if model is None and scores is None and settings is None and default.exists():
        settings = default
    base, files = settings_and_files(settings)
    model, paths = model or files.get("model"), data or [Path(p) for p in files.get("data", ())]
    pool_files = options.names(pool) or tuple(files.get("pool", ())) or None
    metric = metric or (Path(files["metric"]) if "metric" in files else None)
    encoder = encoder or (Path(files["encoder"]) if "encoder" in files else None)
    if scores is not None:
        if model is not None:
            raise InvalidSettings(
                "--scores takes the place of MODEL and DATA: leave them out, or leave it out."
            )
        paths = [scores]
    elif model is None or not paths:
        raise InvalidSettings(
            "Name a model and a table: likewise audit MODEL DATA (or a scored table, --scores)."
        )
    chosen = base.changed(**({"columns__id": identity} if identity is not None else {})).with_set(
        assigned or ()
    )
    if metric is not None and re.fullmatch(r"[\w.]+:\w+", str(metric)) and not metric.exists():
        chosen, metric = chosen.changed(metric__name=str(metric)), None
    written = options.outputs(output, redact=redact)
    inputs = [p for p in (model, *map(str, paths), *(pool_files or ())) if p is not None]
    check_outputs(
        written.values(), [*inputs, *(p for p in (metric, encoder, settings) if p is not None)]
    )
    arguments: dict[str, Any] = {
        "label": label,
        "protected": options.names(protected) or (),
        "may_matter": options.names(may_matter),
        "favourable": favourable,
        "decision": decision,
        "score": score,
        "threshold": threshold,
        "label_map": options.mapping(label_map, "--label-map"),
        "bins": options.cuts(bins),
        "weights": weights,
        "clusters": clusters,
        "method": method,
        "loss": loss,
        "paper": paper,
        "delta": delta,
        "checks": _checks(checks),
    }
    given = _given(model, chosen, metric, encoder, trust=trust)
    arguments |= {"settings": chosen, "metric": given.metric, "encoder": given.encoder}
    people = [str(path) for path in paths]
    pool_given = None if pool_files is None else list(pool_files)
    if dry_run:
        from likewise._audit import dry_run as check_all

        print(check_all(given.model, people, pool=pool_given, trust=trust, **arguments))
        return
    where = RunOptions.parse(run, resume=resume).settled(people, chosen.columns.csv)
    folder = where.folder(list(written.values()))
    store = where.store(folder)
    store.check()
    rows = written.pop("rows", None)
    show = _Shown(written, redact=redact, quiet=quiet, verbose=verbose)
    from likewise._audit import audit as run_audit

    try:
        with progress_bar(quiet) as progress:
            run_audit(
                given.model,
                people,
                pool=pool_given,
                executor=where.executor(),
                store=store,
                outcomes=rows,
                trust=trust,
                progress=progress,
                command=options.typed_command(),
                finish=show.finish,
                **arguments,
            )
    except KeyboardInterrupt as error:
        if folder is None or not store.begun():  # nothing is finished
            raise
        more = f" What is done is in {str(folder)!r}: continue with --resume."
        raise stopped(error, more) from None
    raise typer.Exit(exit_code(show.record, inconclusive_ok=inconclusive_ok))


class _Given:
    """Model, metric and encoder as the command line names them."""

    def __init__(self, model: Any, metric: Any, encoder: Any) -> None:
        self.model, self.metric, self.encoder = model, metric, encoder


def _given(
    model: str | None, settings: Any, metric: Path | None, encoder: Path | None, *, trust: bool
) -> _Given:
    """Open what is named in files; a model is opened by every worker for itself."""
    found = None
    if metric is not None:
        from likewise.methods.metric_file import load_metric

        found = load_metric(metric)
    coding = None
    if encoder is not None or found is not None:
        from likewise.cli.inputs import open_encoder

        coding = open_encoder(encoder, found)
    return _Given(_model(model, settings), found, coding)


def _model(model: str | None, settings: Any) -> Any:
    """Return the model by its name, or the endpoint with the patience that was asked for."""
    if model is None:
        return None
    patience = settings.model.model_dump(exclude_none=True, include={"timeout", "max_calls"})
    if not model.startswith(("http://", "https://")):
        if patience:
            raise InvalidSettings(
                "Settings model.timeout and model.max_calls are for models at an address."
            )
        return model
    from likewise.models import Endpoint

    # Not an option, since commands are printed, kept in histories, and written to results.
    secret = os.environ.get("LIKEWISE_AUTHORIZATION", "").strip()
    headers = {"Authorization": secret} if secret else {}
    return Endpoint(model, headers=headers, **patience)


def _checks(text: str | None) -> str | tuple[str, ...] | None:
    if text is None or text in ("full", "core"):
        return text
    return options.names([text])


class _Shown:
    """Prints the verdict, then writes the files; what cannot be written is kept elsewhere."""

    def __init__(self, files: dict[str, Path], *, redact: bool, quiet: bool, verbose: bool) -> None:
        self.files, self.redact, self.quiet, self.verbose = files, redact, quiet, verbose
        self.record: Any = None

    def finish(self, result: Any) -> None:
        """Show and write a finished audit."""
        from likewise.files import keep_elsewhere
        from likewise.report.export import write_outputs
        from likewise.report.redact import redact
        from likewise.report.terminal import show

        self.record = redact(result.record) if self.redact else result.record
        written = [str(path) for path in self.files.values()]
        show(self.record, quiet=self.quiet, verbose=self.verbose, written=written)
        failed: list[Exception] = []
        for kind, path in self.files.items():
            try:
                write_outputs(self.record, {kind: path})
            except Exception as error:  # whatever it is, the other files are still written
                failed.append(error)
        if failed:
            kept = keep_elsewhere(self.record.to_json().encode(errors="replace"), "result.json")
            where = f"The result is kept in {kept!r}: render it with `likewise report`."
            if isinstance(failed[0], LikewiseError):
                raise InvalidFile(f"{failed[0]} {where}") from None
            say(where)
            raise failed[0]
