"""One audit as the command line asks for it: open, read, audit, write."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from likewise.cli import inputs, options
from likewise.cli.exits import INTERRUPTED, say
from likewise.cli.progress import progress_bar
from likewise.cli.stream import Pieces
from likewise.errors import InvalidSettings


@dataclasses.dataclass(frozen=True)
class AuditJob:
    """What is to be audited, and how.

    Parameters
    ----------
    model, paths, metric, encoder
        As named on the command line; nothing is opened before it is needed.
    settings
        All choices, resolved.
    pool
        Files of other people, and of pairs, to find counterparts with.
    """

    model: str
    paths: list[Path]
    metric: Path | None
    encoder: Path | None
    settings: Any
    pool: tuple[str, ...] | None = None
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
        """Return the model, where the people are, and the metric (or none, to be learned)."""
        label = options.label_if_needed(self.settings)

        from likewise.data.sources import as_source
        from likewise.metrics.metric_file import load_metric
        from likewise.models import open_model

        metric = None if self.metric is None else load_metric(self.metric)
        encoder = inputs.open_encoder(self.encoder, metric)
        model = self.source
        opened = open_model(model, trust=self.trust) if isinstance(model, str) else model
        people = as_source(
            [str(path) for path in self.paths],
            label=label,
            encoder=encoder,
            raw=encoder is None and inputs.reads_columns(opened, self.settings),
            unlabelled=label is None,
            **self.settings.columns.reading,
        )
        return model, people, metric

    def rehearse(self, outcomes: Path | None, outputs: Mapping[str, Path | None]) -> str:
        """Check everything, move nobody, and say what would be done."""
        from likewise.walk import rehearse

        inputs.check_writable(outcomes, *outputs.values())
        model, people, metric = self.open()
        return rehearse(
            model,
            people,
            metric=metric,
            pool=None if self.pool is None else list(self.pool),
            settings=self.settings,
            trust=self.trust,
        )

    def run(
        self,
        outcomes: Path | None,
        outputs: Mapping[str, Path | None],
        pieces: Pieces | None = None,
    ) -> Any:
        """Audit, write what was asked for, show the summary, and return the record."""
        inputs.check_writable(outcomes, *outputs.values())
        chosen = None if pieces is None else pieces.chosen(self.paths)
        run = (chosen or Pieces()).executor(self.threads)

        from likewise.engine.outcomes_file import OutcomesFile
        from likewise.scale.store import Memory
        from likewise.walk import audit

        folder = None if chosen is None else chosen.folder(outcomes, *outputs.values())
        store = Memory() if chosen is None or folder is None else chosen.store(folder)
        store.check()
        model, people, metric = self.open()
        try:
            with progress_bar(self.quiet) as progress:
                result = audit(
                    model,
                    people,
                    metric=metric,
                    pool=None if self.pool is None else list(self.pool),
                    settings=self.settings,
                    run=run,
                    store=store,
                    outcomes=None if outcomes is None else OutcomesFile(outcomes, self.redact),
                    trust=self.trust,
                    progress=progress,
                    command=options.typed_command(),
                    finish=lambda result: self.finish(result.record, outputs),
                )
        except KeyboardInterrupt:
            if folder is None:
                raise
            say(f"Interrupted. What is done is in {str(folder)!r}: continue with --resume.")
            raise typer.Exit(INTERRUPTED) from None
        return self.shown(result.record)

    def finish(self, record: Any, outputs: Mapping[str, Path | None]) -> None:
        """Write the record in every form that was asked for, and show it."""
        from likewise.report.outputs import write_outputs
        from likewise.report.terminal import show

        record = self.shown(record)
        write_outputs(record, **outputs)
        show(record, quiet=self.quiet, verbose=self.verbose)

    def shown(self, record: Any) -> Any:
        """Return the record as it may be shown."""
        from likewise.report.redact import redact

        return redact(record) if self.redact else record
