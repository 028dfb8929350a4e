"""Hands pieces of work to workers, retries what fails, and loses nothing."""

import abc
import collections
import dataclasses
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, final, runtime_checkable

from typing_extensions import override

from likewise.errors import LikewiseError, Untrustworthy, in_short

ATTEMPTS = 3
"""How often a piece of work is tried before the run gives up."""


@runtime_checkable
class Job(Protocol):
    """What every worker does. It travels to the worker, so it must be picklable."""

    def begin(self) -> Callable[[Any], bytes]:
        """Prepare once a worker (load a model, say), and return what turns content into bytes."""
        ...


@dataclasses.dataclass(frozen=True)
class Task:
    """One piece of work.

    Parameters
    ----------
    number
        Its place among all pieces.
    first, last
        The rows it covers, for messages.
    content
        What the job is given.
    """

    number: int
    first: int
    last: int
    content: Any


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a worker sent back.

    Parameters
    ----------
    result
        The job's bytes, if it succeeded.
    error
        What was raised on purpose: it would be raised again, so nobody retries it.
    failure
        Why the attempt failed otherwise, in words; worth another attempt.
    memory
        Most bytes the worker has held so far.
    """

    number: int
    result: bytes | None = None
    error: LikewiseError | None = None
    failure: str = ""
    memory: int = 0


class Crew(abc.ABC):
    """Workers that each take one piece of work at a time."""

    size: int

    @abc.abstractmethod
    def submit(self, number: int, content: Any) -> None:
        """Give a piece of work to an idle worker."""

    @abc.abstractmethod
    def wait(self) -> list[Answer]:
        """Return the answers that have come, at least one; a lost worker is replaced."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all workers, whatever they are doing."""


@final
class Inline(Crew):
    """No workers at all: the work is done here, one piece after another."""

    def __init__(self, job: Job) -> None:
        self.size = 1
        self._work = job.begin()
        self._waiting: list[tuple[int, Any]] = []

    @override
    def submit(self, number: int, content: Any) -> None:
        self._waiting.append((number, content))

    @override
    def wait(self) -> list[Answer]:
        number, content = self._waiting.pop()
        return [attempt(self._work, number, content)]

    @override
    def close(self) -> None:
        self._waiting.clear()


def attempt(work: Callable[[Any], bytes], number: int, content: Any) -> Answer:
    """Do one piece of work; whatever goes wrong is an answer, not an exception."""
    try:
        return Answer(number, work(content), memory=peak_memory())
    except LikewiseError as error:
        return Answer(number, error=error)
    except Exception as error:
        return Answer(number, failure=in_short(error))


def work_through(
    tasks: Iterable[Task], crew: Crew, *, attempts: int = ATTEMPTS
) -> Iterator[tuple[Task, Answer]]:
    """Yield every task with its answer, in the order in which they are done.

    A task whose worker failed or was lost is given out again. At the third failure the run ends:
    a smaller sample in silence would be worse. The next task is made ready while workers are
    busy, so at most ``crew.size + 1`` tasks exist at a time.
    """
    waiting = iter(tasks)
    under_way: dict[int, Task] = {}
    failures: collections.Counter[int] = collections.Counter()
    following = next(waiting, None)
    while following is not None or under_way:
        while following is not None and len(under_way) < crew.size:
            under_way[following.number] = following
            crew.submit(following.number, following.content)
            following = next(waiting, None)
        for answer in crew.wait():
            if answer.error is not None:
                raise answer.error
            task = under_way[answer.number]
            if answer.result is not None:
                del under_way[answer.number]
                yield task, answer
                continue
            failures[task.number] += 1
            if failures[task.number] >= attempts:
                raise Untrustworthy(
                    f"Rows {task.first + 1} to {task.last + 1} failed {attempts} times (last: "
                    f"{answer.failure}). Nobody is left out in silence, so there is no result; "
                    "what is done so far is kept."
                )
            crew.submit(task.number, task.content)


def peak_memory() -> int:
    """Return the most memory this process has held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
