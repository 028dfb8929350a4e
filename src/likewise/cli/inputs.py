"""Opens what a command line names, and writes what it asks for."""

from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile


def open_encoder(path: Path | None, metric: Any) -> Any:
    """Return the encoder named, or the one that the metric file carries, or none."""
    from likewise.data.encode import Encoder
    from likewise.metrics.metric_file import load_metric

    if path is not None and path.suffix == ".safetensors":
        metric = load_metric(path)
        if "encoder" not in metric.attached:
            raise InvalidFile(f"The metric file {str(path)!r} carries no encoder.")
    elif path is not None:
        return Encoder.load(path)
    text = None if metric is None else getattr(metric, "attached", {}).get("encoder")
    return None if text is None else Encoder.from_json(text)


def reads_columns(model: Any, settings: Any) -> bool:
    """Tell whether an opened model is a pipeline, which reads original columns."""
    from likewise.models import as_model

    return as_model(model, output=settings.columns.output).front is not None


def read_people(paths: list[Path], settings: Any, encoder: Any, *, raw: bool) -> Any:
    """Read the audited people as the settings say."""
    from likewise.cli.options import require_label
    from likewise.data.table import read

    return read(
        [str(path) for path in paths],
        label=require_label(settings),
        encoder=encoder,
        raw=raw,
        **settings.columns.reading,
    )


def check_writable(*paths: Path | None) -> None:
    """Refuse, before a long run, to write into a folder that is not there."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise InvalidFile(f"There is no folder {str(path.parent)!r} to write {path.name!r} in.")
        if path is not None and path.is_dir():
            raise InvalidFile(f"{str(path)!r} is a folder; name a file.")
