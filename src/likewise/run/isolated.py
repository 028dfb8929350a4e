"""A function in a process of its own, within limits of memory and time.

Libraries that read model files are written in C++ and do not check all that they read: a damaged
or forged file can take all memory, never end, or bring the process down. Here that happens to a
process that has nothing to lose. Messages are JSON and arrays of numbers, never pickles, so that
nothing which comes back from there can run here. Arrays travel in shared memory.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import queue
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from likewise.errors import InvalidFile, InvalidModel, LikewiseError, in_short
from likewise.run.executors import ENVIRONMENT, processors, single_threaded
from likewise.run.lifeline import end_with

SECONDS, PER_ROW, PER_BYTE = 60.0, 0.01, 2e-7
"""Time to open a file, or to answer; more for every row of a question, every byte of a file."""

MEMORY, PER_CHANNEL, TIMES = 3 * 2**30, 2**28, 40
"""Address space, libraries included; more for each question at a time, and times the file."""

LONGEST = 2**28
"""Characters of a message, arrays aside."""

LIFTED = "It may be damaged; if you trust where it is from, --trust lifts this limit."
DAMAGED = "It is damaged: save the model again."

OUT_OF_MEMORY = re.compile("bad.?alloc|(failed|unable|cannot) to? ?alloc|out of memory", re.I)

About = dict[str, Any]
Message = tuple[About, list[np.ndarray]]
Answer = Callable[[About, list[np.ndarray]], np.ndarray]


class IsolatedProcess:
    """A process that opens a file and answers questions about rows.

    It starts with the first question. It ends with this object, and with the process that it
    belongs to, however that ends. The ``target`` opens the file, ``package.module:name``: from its
    content and ``about``, which JSON can hold, it returns a message that describes it, and what
    answers questions.
    """

    def __init__(self, target: str, content: bytes, source: str, about: About) -> None:
        self._given = target, content, source, about
        self._most = MEMORY + PER_CHANNEL * processors() + TIMES * len(content)
        self._lock = threading.Lock()
        self._owner = 0  # the process that has started it, if it runs
        self._error = ""  # why it ended: whoever asks later hears the same

    def __reduce__(self) -> tuple[Any, ...]:
        return IsolatedProcess, self._given  # elsewhere it starts one of its own

    def open(self) -> Message:
        """Open the file, unless it is open, and return what the target says of it."""
        with self._lock:
            if self._error:
                raise InvalidFile(self._error)
            if self._owner != os.getpid():
                self._start()
                self._owner = os.getpid()
            return self._opened

    def ask(self, about: About, arrays: Sequence[np.ndarray], rows: int) -> np.ndarray:
        """Return the answer for rows, an array with as many: the target's, to these arguments."""
        self.open()
        try:
            _, found = self._answer(about, arrays, SECONDS + PER_ROW * rows, "answer")
        except LikewiseError:
            raise
        except BaseException:  # Ctrl-C, say: the answer to come would be taken for another's
            self._end()
            self._owner = 0
            raise
        if len(found) != 1 or found[0].ndim < 1 or len(found[0]) != rows:
            raise InvalidModel(f"{self._given[2]!r} does not give {rows} answers for {rows} rows.")
        return found[0]

    def _start(self) -> None:
        """Start the process, with as many channels to it as there are processors."""
        target, content, _, about = self._given
        size = processors()
        # The first pair carries nothing: it tells the process that this one is gone.
        own, theirs = zip(*(multiprocessing.Pipe() for _ in range(size + 1)), strict=True)
        shared = [_shared_memory() for _ in range(size)]
        numbers = [end.fileno() for end in theirs], [file.fileno() for file in shared]
        job = {"target": target, "memory": self._most, "numbers": numbers}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "likewise.run.isolated", json.dumps(job)],
                pass_fds=[*numbers[0], *numbers[1]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ENVIRONMENT},
            )
        finally:
            for end in theirs:
                end.close()
        self._end = weakref.finalize(self, _end, self._process, [*own, *shared])
        self._channels: queue.SimpleQueue[_Channel] = queue.SimpleQueue()
        for both in zip(own[1:], shared, strict=True):
            self._channels.put(_Channel(*both))
        seconds = SECONDS + PER_BYTE * len(content)
        try:
            self._opened = self._answer(about, [np.frombuffer(content, np.uint8)], seconds, "open")
        except BaseException:
            self._end()
            raise

    def _answer(
        self, about: About, arrays: Sequence[np.ndarray], seconds: float, what: str
    ) -> Message:
        """Ask through a channel that is free, and return the answer; the first opens the file."""
        channel = self._channels.get()
        try:
            channel.send(about, arrays)
            if in_time := channel.end.poll(seconds):
                about, arrays = channel.receive()
        except (OSError, EOFError, ValueError, TypeError):  # it is gone, or another thread ended it
            raise self._gone() from None
        finally:
            self._channels.put(channel)
        if not in_time:
            raise self._ended(f"takes more than {seconds:.0f} seconds to {what}. {LIFTED}")
        if "refused" in about:
            raise (InvalidFile if what == "open" else InvalidModel)(str(about["refused"]))
        if "memory" in about:
            most = f"{self._most / 2**30:.1f} GB"
            raise self._ended(f"takes more than {most} of memory to {what}. {LIFTED}")
        return about, list(arrays)

    def _gone(self) -> InvalidFile:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        if code is None:
            return self._ended(f"makes the library that reads it answer nonsense. {DAMAGED}")
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return self._ended(
            f"brings down the library that reads it ({why}), or takes more than "
            f"{self._most / 2**30:.1f} GB of memory. {DAMAGED}"
        )

    def _ended(self, why: str) -> InvalidFile:
        """End the process; whoever waits for another answer hears the same reason."""
        self._error = self._error or f"{self._given[2]!r} {why}"
        self._end()
        return InvalidFile(self._error)


def _end(process: "subprocess.Popen[bytes]", files: Sequence[Any]) -> None:
    process.kill()
    process.wait()
    for file in files:
        file.close()


class _Channel:
    """Messages in both directions: words through a pipe, arrays through shared memory."""

    def __init__(self, end: Connection, memory: Any) -> None:
        self.end, self.memory = end, memory

    def send(self, about: About, arrays: Sequence[np.ndarray]) -> None:
        self.memory.seek(0)
        for array in arrays:
            np.save(self.memory, np.ascontiguousarray(array), allow_pickle=False)
        self.end.send_bytes(json.dumps([about, len(arrays)]).encode())

    def receive(self) -> Message:
        about, count = json.loads(self.end.recv_bytes(LONGEST))
        if not isinstance(about, dict):
            raise TypeError("the message is no object")
        self.memory.seek(0)
        return about, [np.load(self.memory, allow_pickle=False) for _ in range(count)]


def _shared_memory() -> Any:
    """Return a file without a name, in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("likewise"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def serve(job: Mapping[str, Any]) -> None:
    """Open a file and answer questions about it; this is the process that has nothing to lose."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    alive, *numbers = job["numbers"][0]
    ends = [Connection(number) for number in numbers]
    shared = [os.fdopen(number, "r+b", buffering=0) for number in job["numbers"][1]]
    end_with(alive)
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channels = [_Channel(*both) for both in zip(ends, shared, strict=True)]
    try:
        about, (content,) = channels[0].receive()
        channels[0].memory.truncate(0)
        module, _, name = job["target"].partition(":")
        target: Any = getattr(importlib.import_module(module), name)
        message, answer = target(content.tobytes(), **about)
        del content
    except BaseException as error:
        channels[0].send(_complaint(error), [])
        return
    single_threaded().__enter__()  # for as long as the process lives
    channels[0].send(*message)
    for channel in channels[1:]:
        threading.Thread(target=_respond, args=(channel, answer), daemon=True).start()
    _respond(channels[0], answer)


def _respond(channel: _Channel, answer: Answer) -> None:
    while True:
        try:
            question = channel.receive()
        except (EOFError, OSError):
            os._exit(0)
        try:
            found = [np.asarray(answer(*question), dtype=np.float64)]
            about: About = {}
        except BaseException as error:
            about, found = _complaint(error), []
        channel.send(about, found)


def _complaint(error: BaseException) -> About:
    if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(f"{error} {error.__context__}"):
        return {"memory": True}
    known = isinstance(error, LikewiseError)
    return {"refused": str(error) if known else f"The model cannot be run: {in_short(error)}."}


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
