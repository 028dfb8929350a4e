"""A function in a process of its own, within limits of memory and time.

Libraries that read model files are written in C++ and do not check all that they read: a damaged
or forged file can take all memory, never end, or bring the process down. Here that happens to a
process that has nothing to lose. Messages are JSON and arrays of numbers, never pickles, so that
nothing which comes back from there can run here. Arrays travel in shared memory.
"""

import contextlib
import fcntl
import importlib
import json
import math
import os
import queue
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from likewise import errors
from likewise.errors import InvalidFile, InvalidModel, LikewiseError, in_short
from likewise.run.executors import ENVIRONMENT, processors, single_threaded

SECONDS = 60.0
"""Time in which a file must be opened, and in which any question must be answered …"""

PER_ROW = 0.01
"""… with so much more for every row of the question …"""

PER_BYTE = 2e-7
"""… and so much more for every byte of the file."""

MEMORY = 3 * 2**30
"""Address space of the process, libraries included …"""

PER_CHANNEL = 2**28
"""… with so much more for every question that it answers at the same time …"""

TIMES = 40
"""… and so many times as much as the file has."""

ROWS = 2**22
"""Numbers in the rows of one question; of more rows, it is asked several times."""

LONGEST = 2**28
"""Characters of a message, arrays aside."""

LIFTED = "It may be damaged; if you trust where it is from, --trust lifts this limit."
DAMAGED = "It is damaged: save the model again."

OUT_OF_MEMORY = re.compile("bad.?alloc|(failed|unable|cannot) to? ?alloc|out of memory", re.I)

TYPES = frozenset({"<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "|b1"})

About = dict[str, Any]
Message = tuple[About, list[np.ndarray]]
Answer = Callable[[About, list[np.ndarray]], np.ndarray]


class Opener(Protocol):
    """What a target is: it opens a file, and returns what it is and what answers for it."""

    def __call__(self, content: bytes, **about: Any) -> tuple[Message, Answer]:
        """Open a file, in the process that has nothing to lose."""
        ...


class IsolatedProcess:
    """A process that opens a file and answers questions about rows.

    It starts with the first question. It ends with this object, and with the process that it
    belongs to, however that ends.

    Parameters
    ----------
    target
        The function that opens the file, as ``package.module:name``; an `Opener`.
    content
        The file.
    source
        What the file is called.
    about
        Further arguments of the target, as JSON can hold them.
    """

    def __init__(self, target: str, content: bytes, source: str, about: About) -> None:
        self._given = target, content, source, about
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._error: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return IsolatedProcess, self._given  # elsewhere it starts one of its own

    def open(self) -> Message:
        """Open the file, unless it is open, and return what the target says of it."""
        return self._started().opened

    def ask(self, about: About, arrays: Sequence[np.ndarray], rows: int) -> np.ndarray:
        """Return the answer for rows: an array with as many rows.

        Parameters
        ----------
        about, arrays
            What the target's answer is called with.
        rows
            How many rows are asked about.
        """
        running = self._started()
        try:
            _, found = running.ask(about, arrays, SECONDS + PER_ROW * rows)
        except _Ended as error:
            self._error = str(error)
            raise InvalidFile(self._error) from None
        except LikewiseError:
            raise
        except BaseException:  # Ctrl-C, say: the answer to come would be taken for another's
            self._forget()
            raise
        if len(found) != 1 or found[0].ndim < 1 or len(found[0]) != rows:
            raise InvalidModel(f"{self._given[2]!r} does not give {rows} answers for {rows} rows.")
        return found[0]

    def _started(self) -> "_Running":
        with self._lock:
            if self._error is not None:
                raise InvalidFile(self._error)
            if self._running is None or self._running.owner != os.getpid():
                try:
                    self._running = _Running(*self._given)
                except _Ended as error:
                    self._error = str(error)
                    raise InvalidFile(self._error) from None
            return self._running

    def _forget(self) -> None:
        with self._lock:
            if self._running is not None:
                self._running.end()
            self._running = None


class _Ended(Exception):
    """The process is gone, or had to be ended; says why in a sentence."""


class _Running:
    """A process that runs, and the channels to it: as many as there are processors."""

    def __init__(self, target: str, content: bytes, source: str, about: About) -> None:
        self.owner, self._source = os.getpid(), source
        self._why = ""
        self._channels: queue.SimpleQueue[_Channel] = queue.SimpleQueue()
        size = processors()
        self._most = MEMORY + PER_CHANNEL * size + TIMES * len(content)
        own, theirs = zip(*(socket.socketpair() for _ in range(size + 1)), strict=True)
        shared = [_shared_memory() for _ in range(size)]
        file = _shared_memory()
        _write(file, memoryview(content), 0)
        # The first pair carries nothing: it tells the process that this one is gone.
        job = {
            "target": target,
            "about": about,
            "file": [file, len(content)],
            "alive": theirs[0].fileno(),
            "channels": [[end.fileno(), m] for end, m in zip(theirs[1:], shared, strict=True)],
            "memory": self._most,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "likewise.run.isolated", json.dumps(job)],
                pass_fds=[file, *shared, *(end.fileno() for end in theirs)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ENVIRONMENT},
            )
        finally:
            os.close(file)
            for end in theirs:
                end.close()
        self.end = weakref.finalize(self, _end, self._process, own, shared)
        channels = [_Channel(end, m) for end, m in zip(own[1:], shared, strict=True)]
        seconds = SECONDS + PER_BYTE * len(content)
        self.opened = self._answered(channels[0], seconds, "open")
        for channel in channels:
            self._channels.put(channel)

    def ask(self, about: About, arrays: Sequence[np.ndarray], seconds: float) -> Message:
        """Ask through a channel that is free, and return the answer."""
        channel = self._channels.get()
        try:
            try:
                channel.send(about, arrays)
            except OSError:
                raise self._gone() from None
            return self._answered(channel, seconds, "answer")
        finally:
            self._channels.put(channel)

    def _answered(self, channel: "_Channel", seconds: float, what: str) -> Message:
        try:
            about, arrays = channel.receive(seconds)
        except TimeoutError:
            took = f"takes more than {seconds:.0f} seconds to {what}"
            raise self._ended(f"{took}. {LIFTED}") from None
        except (OSError, EOFError, ValueError, TypeError):
            raise self._gone() from None
        if "refused" in about:
            raise _refusal(about)
        if "memory" in about:
            most = f"{self._most / 2**30:.1f} GB"
            raise self._ended(f"takes more than {most} of memory to {what}. {LIFTED}")
        return about, arrays

    def _gone(self) -> _Ended:
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

    def _ended(self, why: str) -> _Ended:
        """End the process; whoever waits for another answer hears the same reason."""
        self._why = self._why or f"{self._source!r} {why}"
        self.end()
        return _Ended(self._why)


def _refusal(about: About) -> LikewiseError:
    kind = getattr(errors, str(about.get("kind")), None)
    if not (isinstance(kind, type) and issubclass(kind, LikewiseError)):
        kind = InvalidFile
    return kind(str(about["refused"]))


def _end(process: "subprocess.Popen[bytes]", sockets: Sequence[Any], shared: Sequence[int]) -> None:
    process.kill()
    process.wait()
    for end in sockets:
        end.close()
    for memory in shared:
        os.close(memory)


class _Channel:
    """Messages in both directions: words through a socket, arrays through shared memory."""

    def __init__(self, end: socket.socket, memory: int) -> None:
        self._end, self._memory = end, memory

    def send(self, about: About, arrays: Sequence[np.ndarray]) -> None:
        start, heads = 0, []
        for array in arrays:
            plain = np.ascontiguousarray(array)
            _write(self._memory, plain.reshape(-1).view(np.uint8).data, start)
            heads.append([plain.dtype.str, plain.shape, start])
            start += plain.nbytes
        text = json.dumps([about, heads]).encode()
        self._end.settimeout(None)
        self._end.sendall(struct.pack("<Q", len(text)) + text)

    def receive(self, seconds: float | None = None) -> Message:
        deadline = None if seconds is None else time.monotonic() + seconds
        (length,) = struct.unpack("<Q", self._bytes(8, deadline))
        if length > LONGEST:
            raise ValueError("the message is too long")
        about, heads = json.loads(self._bytes(length, deadline))
        if not isinstance(about, dict):
            raise TypeError("the message is no object")
        return about, [self._array(*head) for head in heads]

    def _bytes(self, count: int, deadline: float | None) -> bytes:
        parts = []
        while count:
            if deadline is not None:
                self._end.settimeout(max(deadline - time.monotonic(), 1e-3))
            part = self._end.recv(min(count, 2**20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _array(self, kind: str, shape: Sequence[int], start: int) -> np.ndarray:
        if kind not in TYPES or any(type(k) is not int or k < 0 for k in (*shape, start)):
            raise ValueError("the message describes no array")
        size = math.prod(shape) * np.dtype(kind).itemsize
        if start + size > os.fstat(self._memory).st_size:
            raise ValueError("the array is not there")
        found = np.empty(shape, dtype=kind)
        into = found.reshape(-1).view(np.uint8).data
        while into:
            read = os.preadv(self._memory, [into], start)
            into, start = into[read:], start + read
        return found


def _shared_memory() -> int:
    """Return a file without a name, in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("likewise")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(memory: int, content: memoryview, start: int) -> None:
    while content:
        written = os.pwrite(memory, content, start)
        content, start = content[written:], start + written


def serve(job: Mapping[str, Any]) -> None:
    """Open a file and answer questions about it; this is the process that has nothing to lose."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    alive = socket.socket(fileno=job["alive"])
    # The kernel ends this process when the other end closes, whatever a library is doing.
    fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(alive, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        alive.recv(1)
        return  # it had closed before
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channels = [_Channel(socket.socket(fileno=end), memory) for end, memory in job["channels"]]
    try:
        file, size = job["file"]
        with open(file, "rb") as opened:
            content = opened.read(size)
        module, _, name = job["target"].partition(":")
        target: Opener = getattr(importlib.import_module(module), name)
        message, answer = target(content, **job["about"])
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
    if isinstance(error, LikewiseError):
        return {"refused": str(error), "kind": type(error).__name__}
    return {"refused": f"The model cannot be run: {in_short(error)}.", "kind": "InvalidModel"}


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
