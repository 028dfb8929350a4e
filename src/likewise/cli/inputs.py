"""Opens what a command line names, and writes what it asks for."""

from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile


def open_encoder(path: Path | None, metric: Any) -> Any:
    """Return the encoder named, or the one that the metric file carries, or none."""
    from likewise.data.encoder import Encoder
    from likewise.methods.metric_file import load_metric

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
    from likewise.models import wants_columns

    return bool(settings.model.columns) or wants_columns(model, settings.columns.output)


def read_people(paths: list[Path], settings: Any, encoder: Any, *, raw: bool) -> Any:
    """Read people as the settings say."""
    from likewise.data.source import read

    return read(
        [str(path) for path in paths],
        label=settings.columns.label,
        encoder=encoder,
        raw=raw,
        **settings.columns.reading,
    )
