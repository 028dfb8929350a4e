"""What an audit in pieces may use: processes, Ray, threads and memory."""

import dataclasses
from typing import Any

from likewise.checks.pieces import MoveJob
from likewise.errors import InvalidSettings
from likewise.models import Endpoint
from likewise.scale.crew import Crew, Inline, peak_memory
from likewise.scale.memory import in_words
from likewise.scale.processes import Processes


@dataclasses.dataclass(frozen=True)
class Means:
    """What an audit may use: none of it changes a number.

    Parameters
    ----------
    workers
        Processes that move people, one thread each; 0 moves them in this process.
    ray
        Run on Ray instead: ``local``, ``auto`` (the cluster that is there), or an address.
    threads
        Blocks moved at a time in this process, if there are no workers.
    max_memory
        Bytes that all processes of this machine together may take.
    piece_rows
        Rows of a piece of work; by default 16 blocks, fewer if memory is short.
    """

    workers: int = 0
    ray: str | None = None
    threads: int = 1
    max_memory: int | None = None
    piece_rows: int | None = None

    def share(self, model: Any) -> Any:
        """Divide the calls that an endpoint allows between this process and the workers."""
        if isinstance(model, str) and model.startswith(("http://", "https://")):
            model = Endpoint(model)
        if not isinstance(model, Endpoint):
            return model
        if self.ray is not None and not self.workers:
            raise InvalidSettings(
                "How many Ray actors share the calls to the endpoint? Say it with --run ray:4, say."
            )
        return dataclasses.replace(model, processes=self.workers + 1)

    def crew(self, job: MoveJob) -> Crew:
        """Return the workers."""
        if self.ray is not None:
            from likewise.scale.ray_crew import RayCrew

            return RayCrew(job, self.workers or None, self.ray)
        return Processes(job, self.workers) if self.workers else Inline(job)

    def check_memory(self, worker: int) -> None:
        """Stop if this process and the workers together have taken more than they may."""
        taken = peak_memory() + self.workers * worker
        if self.max_memory is not None and taken > self.max_memory:
            raise InvalidSettings(
                f"The audit took {in_words(taken)}, more than --run allows "
                f"({in_words(self.max_memory)}). What is done is kept: continue with --resume and "
                "fewer workers, or allow more."
            )
