"""Audits in pieces from the command line: when, with what, and how far they are."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from likewise.cli import files, options
from likewise.cli.exits import INTERRUPTED, say
from likewise.cli.progress import progress_bar
from likewise.errors import InvalidSettings

if TYPE_CHECKING:
    from likewise.cli.job import Job

MANY = 200_000
"""Above this many rows an audit with a given metric is done in pieces without being asked."""

MOST = 1_000_000
"""Above this many rows every audit is, and the metric must be given."""

LARGE = 4 * 2**20
"""Smaller text files than this (in bytes) cannot hold that many rows worth counting."""


@dataclasses.dataclass(frozen=True)
class Pieces:
    """How an audit in pieces is to be done, as named on the command line.

    Parameters
    ----------
    workers, ray, max_memory
        Processes, the Ray cluster, and the memory that all together may take.
    resume, journal
        Whether to continue an interrupted audit, and the folder it is kept in.
    """

    workers: int | None = None
    ray: str | None = None
    max_memory: str | None = None
    resume: bool = False
    journal: Path | None = None

    def wanted(self, paths: Sequence[str | Path], metric: Path | None) -> bool:
        """Tell whether to work in pieces: if anything here was asked for, or rows are many."""
        asked = self.workers, self.ray, self.max_memory, self.journal
        if self.resume or any(value is not None for value in asked):
            return True
        n = _rows(paths)
        if n > MOST or metric is None:
            return n > MOST
        # A metric learned from these very people is refitted, for which they must be in memory.
        return n > MANY and _learned_from(metric) != n

    def folder(self, *outputs: Path | None) -> Path:
        """Return where the journal is: beside what is written, unless said otherwise."""
        named = self.journal or next((p for p in outputs if p is not None), None)
        if named is None:
            return Path("likewise.journal")
        return named if self.journal is not None else named.with_name(named.name + ".journal")


def require_metric(job: "Job") -> Path:
    """Return the file of the metric, without which no audit in pieces begins."""
    if job.metric is None:
        raise InvalidSettings(
            "An audit in pieces (for more than a million rows, with --resume, or with --run for "
            "processes, Ray or a limit of memory) needs a fair metric that is known beforehand: "
            "learn one with `likewise metric`, and name it with --metric."
        )
    return job.metric


def run_in_pieces(
    job: "Job", pieces: Pieces, outcomes: Path | None, outputs: Mapping[str, Path | None]
) -> Any:
    """Audit in pieces, write what was asked for, and return the record."""
    options.require_label(job.settings)
    named = require_metric(job)
    from likewise.metrics.saved import load_metric
    from likewise.scale.journal import Journal
    from likewise.scale.memory import parse_memory
    from likewise.streaming import Means, audit_stream

    metric = load_metric(named)
    folder = pieces.folder(outcomes, *outputs.values())
    resume = pieces.resume and bool(Journal.begun(folder))
    if pieces.resume and not resume:
        say(f"There is no unfinished audit in {str(folder)!r}: this one begins anew.")
    workers = pieces.workers
    if workers is None and pieces.ray is None:
        workers = os.cpu_count() or 1
    means = Means(
        workers=workers or 0,
        ray=pieces.ray,
        threads=job.threads or 1,
        max_memory=None if pieces.max_memory is None else parse_memory(pieces.max_memory),
    )
    try:
        with progress_bar(job.quiet) as progress:
            return audit_stream(
                job.source,
                list(job.paths),
                metric=metric,
                settings=job.settings,
                encoder=files.open_encoder(job.encoder, metric),
                trust=job.trust,
                outcomes=outcomes,
                redacted=job.redact,
                journal=folder,
                resume=resume,
                means=means,
                progress=progress,
                command=options.typed_command(),
                finish=lambda record: job.finish(record, outputs),
            )
    except KeyboardInterrupt:
        say(f"Interrupted. What is done is in {str(folder)!r}: continue with --resume.")
        raise typer.Exit(INTERRUPTED) from None


def _learned_from(metric: Path) -> int:
    """Return how many people a saved metric was learned from."""
    from likewise.metrics.saved import load_metric

    origin = getattr(load_metric(metric), "origin", None)
    return 0 if origin is None else int(origin.n)


def _rows(paths: Sequence[str | Path]) -> int:
    """Count the rows of files, unless they are too small to matter."""
    from likewise.data.files import open_rows
    from likewise.data.paths import expand, is_parquet, size_of

    found = expand(paths)
    # The footer of a Parquet file knows its rows; text must be read to count them.
    if all(is_parquet(path) for path in found) or sum(map(size_of, found)) > LARGE:
        return open_rows([str(path) for path in paths]).n_rows
    return 0
