"""Runs the pieces of a study in worker processes, each on one thread.

Finished pieces are kept on disk, so that an interrupted run continues where it stopped.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from likewise.errors import InvalidFile
from likewise.executors import Inline, Processes
from likewise.method import Progress


@dataclasses.dataclass(frozen=True)
class FinishedJobs:
    """A file with one line for each finished piece; it need not exist yet.

    ``key`` stands for all choices of the run. Lines with another key are left alone.
    """

    path: Path
    key: str

    def read(self) -> dict[str, Any]:
        """Return the finished pieces by name."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFile(f"The journal {str(self.path)!r} cannot be read: {error}.") from None
        found = {}
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # half a line, or none
                entry = json.loads(line)
                if entry["key"] == self.key:
                    found[entry["piece"]] = entry["result"]
        return found

    def add(self, piece: str, result: Any) -> None:
        """Write down a finished piece, and see to it that a power cut does not lose it."""
        line = json.dumps({"key": self.key, "piece": piece, "result": result})
        with self.path.open("a", encoding="utf-8") as file:
            # After a kill the last line may be half a line: begin a new one in any case.
            file.write(f"\n{line}\n")
            file.flush()
            os.fsync(file.fileno())


def run_jobs(
    jobs: Mapping[str, Callable[[], Any]],
    journal: FinishedJobs,
    *,
    workers: int,
    words: str,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return the result of every job by name; those in the journal are not run again.

    Parameters
    ----------
    jobs
        Functions (with their arguments, by `functools.partial`) that a new process can import, with
        results that JSON can hold.
    workers
        Processes to run in, each on one thread; with 1 everything runs here.
    words
        What the progress is called.
    """
    finished = {name: result for name, result in journal.read().items() if name in jobs}
    waiting = {name: job for name, job in jobs.items() if name not in finished}
    tell = progress or (lambda *_: None)
    tell(words, len(finished), len(jobs))
    executor = Processes(workers) if workers > 1 and len(waiting) > 1 else Inline()
    for name, result in executor.map(NamedJobs(waiting), waiting):
        journal.add(name, result)
        finished[name] = result
        tell(words, len(finished), len(jobs))
    return {name: finished[name] for name in jobs}


@dataclasses.dataclass(frozen=True)
class NamedJobs:
    """Jobs that are asked for by their names."""

    jobs: Mapping[str, Callable[[], Any]]

    def begin(self) -> Callable[[str], Any]:
        """Return what runs a job."""
        return lambda name: self.jobs[name]()
