"""``likewise metric``: learn a fair metric from training data and save it."""

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any

from likewise.cli import options
from likewise.cli.exits import say
from likewise.cli.options import argument, option
from likewise.cli.progress import progress_bar
from likewise.errors import InvalidFile, InvalidSettings


def metric(
    train: Annotated[list[Path], argument("Parquet or CSV files, or folders of them.", "DATA")],
    output: Annotated[
        Path, option("Where to save the metric.", "FILE", "-o", "--output", under=options.OUTPUT)
    ],
    label: options.Label = None,
    protected: options.Protected = None,
    weights: options.Weights = None,
    clusters: options.Clusters = None,
    bins: options.Bins = None,
    may_matter: options.MayMatter = None,
    encoder: options.EncoderFile = None,
    model: Annotated[
        str | None,
        option("Learn in the space where this pipeline is audited.", "MODEL", under=options.METHOD),
    ] = None,
    settings: options.SettingsFile = None,
    assigned: options.Set = None,
    trust: options.Trust = False,
) -> None:
    """Learn from DATA which directions predict the protected attributes, and save them as free.

    --label and --protected are required. An encoder (one-hot, standardise) is fitted too, and
    saved in the metric file. `likewise audit --metric FILE` then encodes the audited people in the
    same way. The file also holds a jackknife, for the metric's uncertainty. Its negative control is
    metrics learned from permuted attributes: evidence needs a model less sensitive to these.

    Example: likewise metric train.csv --label income --protected sex --protected race
    -o metric.safetensors
    """
    given = locals()
    if encoder is not None and model is not None:
        raise InvalidSettings("Choose one of --encoder and --model.")
    from likewise.settings.arguments import resolve_settings
    from likewise.settings.settings_file import settings_and_files

    base, files = settings_and_files(settings)
    encoder = encoder if model else in_files(encoder, files, "encoder")
    chosen, _ = resolve_settings(base.with_set(assigned or ()), **options.arguments(given))
    if chosen.columns.label is None:
        raise InvalidSettings("Which column is the label? Name it with --label.")
    if not chosen.columns.protected:
        raise InvalidSettings("Which columns are protected? Name them with --protected.")
    from likewise.files import check_outputs
    from likewise.methods.learn_metric import sensitive_subspace
    from likewise.methods.metric_file import save_metric

    check_outputs([output], [*train, encoder, model, settings])
    paths = [str(path) for path in train]
    people, attached = _people(paths, chosen, open_encoder(encoder, None), model, trust)
    with progress_bar() as tell:
        progress = None if tell is None else functools.partial(tell, "learning the metric")
        learned = sensitive_subspace(people, progress=progress, **chosen.learning)
    save_metric(dataclasses.replace(learned, attached=attached), output)
    print(learned)
    say(f"Saved to {output}.")


def in_files(path: Path | None, files: dict[str, Any], name: str) -> Path | None:
    """Return the path of an option, or else what ``[files]`` of the settings file names."""
    return path or (Path(files[name]) if name in files else None)


def open_encoder(path: Path | None, metric: Any) -> Any:
    """Return the encoder named, or the one that the metric file carries, or none."""
    from likewise.data.encoder import Encoder
    from likewise.methods.metric_file import load_metric

    if path is not None and path.suffix != ".safetensors":
        return Encoder.load(path)
    text = getattr(metric if path is None else load_metric(path), "attached", {}).get("encoder")
    if path is not None and text is None:
        raise InvalidFile(f"The metric file {str(path)!r} carries no encoder.")
    return None if text is None else Encoder.from_json(text)


def _people(
    paths: list[str], settings: Any, encoder: Any, spec: str | None, trust: bool
) -> tuple[Any, dict[str, str]]:
    """Read the training data in the space of the audit, with the encoder that leads there."""
    from likewise.data.encoder import Encoder
    from likewise.data.source import read
    from likewise.handle import adapt, as_seen
    from likewise.models import open_model, wants_columns

    columns = settings.columns
    reading = columns.reading
    if spec is not None:
        opened = open_model(spec, trust=trust)
        raw = bool(settings.model.columns) or wants_columns(opened, columns.output)
        people = read(paths, raw=raw, **reading)
        attributes = tuple(people.protected)
        adapted, *_ = adapt(opened, people, attributes=attributes, columns=settings.model.columns)
        seen = as_seen(adapted, people)
        own = seen.originals  # others must see people by it, too
        return seen, {} if own is None else {"encoder": own.to_json()}
    encoder = encoder or Encoder.fit(paths, inputs=settings.model.columns or None, **reading)
    return read(paths, encoder=encoder, **reading), {"encoder": encoder.to_json()}
