"""One audit as the command line asks for it: open, read, audit, write."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.cli import files, options
from likewise.cli.progress import progress_bar
from likewise.cli.stream import Pieces, require_metric, run_in_pieces
from likewise.errors import InvalidSettings


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be audited, and how.

    Parameters
    ----------
    model, paths, metric, encoder
        As named on the command line; nothing is opened before it is needed.
    settings
        All choices, resolved.
    """

    model: str
    paths: list[Path]
    metric: Path | None
    encoder: Path | None
    settings: Any
    trust: bool = False
    threads: int | None = None
    quiet: bool = False
    verbose: bool = False
    redact: bool = False

    @property
    def source(self) -> Any:
        """The model by its name, or the endpoint with the patience that was asked for."""
        patience = self.settings.model.model_dump(exclude_none=True, exclude={"space"})
        if not self.model.startswith(("http://", "https://")):
            if patience:
                raise InvalidSettings(
                    "Settings model.timeout and model.max_calls are for models at an address."
                )
            return self.model
        from likewise.models import Endpoint

        # Not an option, since commands are printed, kept in histories, and written to results.
        secret = os.environ.get("LIKEWISE_AUTHORIZATION", "").strip()
        headers = {"Authorization": secret} if secret else {}
        return Endpoint(self.model, headers=headers, **patience)

    def open(self) -> tuple[Any, Any, Any]:
        """Return the model, the people and the metric (or none, if it is to be learned)."""
        options.require_label(self.settings)

        from likewise.metrics.saved import load_metric
        from likewise.models import open_model

        metric = None if self.metric is None else load_metric(self.metric)
        encoder = files.open_encoder(self.encoder, metric)
        model = self.source
        model = open_model(model, trust=self.trust) if isinstance(model, str) else model
        raw = encoder is None and files.reads_columns(model, self.settings)
        people = files.read_people(self.paths, self.settings, encoder, raw=raw)
        return model, people, metric

    def rehearse(
        self, outcomes: Path | None, outputs: Mapping[str, Path | None], pieces: Pieces
    ) -> str:
        """Check everything, move nobody, and say what would be done."""
        from likewise.walk import rehearse

        files.check_writable(outcomes, *outputs.values())
        if pieces.wanted(self.paths, self.metric):
            require_metric(self)
        model, people, metric = self.open()
        return rehearse(model, people, metric=metric, settings=self.settings)

    def run(
        self,
        outcomes: Path | None,
        outputs: Mapping[str, Path | None],
        pieces: Pieces | None = None,
    ) -> Any:
        """Audit, write what was asked for, show the summary, and return the record."""
        files.check_writable(outcomes, *outputs.values())
        if pieces is not None and pieces.wanted(self.paths, self.metric):
            return run_in_pieces(self, pieces, outcomes, outputs)
        model, people, metric = self.open()

        from likewise.report.redact import redact_outcomes
        from likewise.walk import audit

        with progress_bar(self.quiet) as progress:
            result = audit(
                model,
                people,
                metric=metric,
                settings=self.settings,
                threads=self.threads,
                progress=progress,
                command=options.typed_command(),
            )
        if outcomes is not None:
            rows = redact_outcomes(result.outcomes) if self.redact else result.outcomes
            rows.save(outcomes)
        return self.finish(result.record, outputs)

    def finish(self, record: Any, outputs: Mapping[str, Path | None]) -> Any:
        """Write the record in every form that was asked for, and show it."""
        from likewise.report.outputs import write_outputs
        from likewise.report.redact import redact
        from likewise.report.terminal import show

        if self.redact:
            record = redact(record)
        write_outputs(record, **outputs)
        show(record, quiet=self.quiet, verbose=self.verbose)
        return record
