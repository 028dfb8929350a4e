"""``likewise metric``: learn a fair metric from training data and save it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import say
from likewise.errors import InvalidSettings


def metric(
    train: options.Table,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="Where to save the metric.", rich_help_panel=options.OUTPUT
        ),
    ],
    label: options.Label = None,
    protected: options.Protected = None,
    weight: options.Weight = None,
    cluster: options.Cluster = None,
    ignore: options.Ignore = None,
    may_matter: Annotated[
        list[str] | None,
        typer.Option(
            "--may-matter",
            metavar="COLUMN",
            help="Column that may make a difference: nobody is moved along it.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    drop_missing: options.DropMissing = None,
    csv_separator: options.CsvSeparator = None,
    csv_decimal: options.CsvDecimal = None,
    encoder: options.EncoderFile = None,
    no_encoder: Annotated[
        bool,
        typer.Option(
            "--no-encoder",
            help="Take the numeric columns as they are.",
            rich_help_panel=options.DATA,
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Learn in the space where this pipeline would be audited.",
            rich_help_panel=options.METHOD,
        ),
    ] = None,
    settings: options.SettingsFile = None,
    assigned: options.Set = None,
    trust: options.Trust = False,
) -> None:
    """Learn from DATA which directions predict the protected traits, and save them as free.

    An encoder (one-hot, standardise) is fitted too and saved inside the metric file; `likewise
    audit --metric FILE` then encodes the audited people in the same way. The file also holds what
    the metric's uncertainty is read from, and metrics learned from shuffled traits: a model is
    accused only if it is more sensitive to the traits than to these.

    Example: likewise metric train.csv --label income --protected sex --protected race
    -o metric.safetensors
    """
    options.csv_written(csv_separator, csv_decimal)
    if sum([encoder is not None, no_encoder, model is not None]) > 1:
        raise InvalidSettings("Choose one of --encoder, --no-encoder and --model.")
    choices = {
        "columns__label": label,
        "columns__protected": options.names(protected),
        "columns__weight": weight,
        "columns__cluster": cluster,
        "columns__ignore": options.names(ignore),
        "columns__may_matter": options.names(may_matter),
        "columns__drop_missing": drop_missing,
    }
    chosen = options.settings_from(settings, choices, assigned)
    options.require_label(chosen)
    if not chosen.columns.protected:
        raise InvalidSettings("Which columns are protected? Name them with --protected.")
    from likewise.cli import inputs
    from likewise.metrics.learn import sensitive_subspace
    from likewise.metrics.metric_file import save_metric

    inputs.check_writable(output)
    people, attached = _people(train, chosen, encoder, no_encoder, model, trust)
    learned = sensitive_subspace(people, **chosen.learning)
    save_metric(learned, output, attached=attached)
    print(learned)
    say(f"Saved to {output}.")


def _people(
    paths: list[Path],
    settings: Any,
    encoder_file: Path | None,
    bare: bool,
    spec: str | None,
    trust: bool,
) -> tuple[Any, dict[str, str]]:
    """Read the training data in the space of the audit, with the encoder that leads there."""
    from likewise.cli import inputs
    from likewise.data.encode import Encoder
    from likewise.engine.meeting import as_seen
    from likewise.models import as_model, open_model

    if spec is not None:
        opened = open_model(spec, trust=trust)
        raw = inputs.reads_columns(opened, settings)
        people = inputs.read_people(paths, settings, None, raw=raw)
        known = {"table": people.table, "protected": tuple(people.protected)}
        return as_seen(as_model(opened, **known), people), {}
    if bare:
        return inputs.read_people(paths, settings, None, raw=False), {}
    columns = settings.columns
    encoder = inputs.open_encoder(encoder_file, None) or Encoder.fit(
        [str(path) for path in paths],
        label=columns.label,
        keep_missing=not columns.drop_missing,
        **columns.reading,
    )
    return inputs.read_people(paths, settings, encoder, raw=False), {"encoder": encoder.to_json()}
