"""Exit codes, and how errors become one sentence and a code."""

import contextlib
import errno
import functools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TextIO, TypeVar, cast

import typer

from likewise.errors import LikewiseError, LikewiseWarning, printable

NO_EVIDENCE = 0
EVIDENCE = 1
BAD_INPUT = 2
NOT_TRUSTWORTHY = 3
INTERNAL = 4

STOPPING = {signal.SIGINT: "Interrupted"}
STOPPING |= dict.fromkeys((signal.SIGTERM, signal.SIGHUP), "Terminated")

SAME_SIGNAL = 1.0
"""Seconds within which a second signal is the same: one may come from a terminal and a parent."""


class Interrupted(KeyboardInterrupt):
    """Somebody asked the command to stop: by the signal of Ctrl-C, by SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def stopped(error: KeyboardInterrupt, more: str = "") -> typer.Exit:
    """Say that a command was stopped, and return how to end."""
    number = error.number if isinstance(error, Interrupted) else signal.SIGINT
    say(f"{STOPPING[number]}.{more}")
    return typer.Exit(128 + number)


def exit_code(record: Any, *, inconclusive_ok: bool = False) -> int:
    """Return the exit code of a verdict.

    0 within tolerance (in the paper's mode: not rejected), 1 evidence, 3 inconclusive or invalid.
    """
    known = {"invalid": NOT_TRUSTWORTHY, "evidence": EVIDENCE, "within_tolerance": NO_EVIDENCE}
    inconclusive = NO_EVIDENCE if record.paper or inconclusive_ok else NOT_TRUSTWORTHY
    return known.get(record.verdict, inconclusive)


P = ParamSpec("P")
R = TypeVar("R")


def say(text: str) -> None:
    """Print a line for the person at the terminal, away from the result."""
    print(printable(text), file=sys.stderr)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what a command raises into one sentence on stderr and the exit code it stands for."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with (
                _interruptible(),
                warnings.catch_warnings(),
                contextlib.redirect_stdout(cast(TextIO, _Heard(sys.stdout))),
                contextlib.redirect_stderr(cast(TextIO, _Heard(sys.stderr))),
            ):
                warnings.simplefilter("ignore")
                warnings.simplefilter("always", LikewiseWarning)
                warnings.showwarning = _show
                try:
                    return command(*args, **kwargs)
                except (typer.Exit, typer.Abort, typer.BadParameter):
                    raise
                except (Exception, SystemExit) as error:
                    raise _explained(error) from None
                except KeyboardInterrupt as error:
                    raise stopped(error) from None
                finally:
                    sys.stdout.flush()
        except KeyboardInterrupt as error:  # while what is above began or ended
            raise stopped(error) from None

    return run


def _explained(error: BaseException) -> typer.Exit:
    """Say what went wrong in one sentence, and return how to end."""
    if why := str(error) if isinstance(error, LikewiseError) else _no_bug(error):
        say(f"Error: {why}")
        return typer.Exit(getattr(error, "exit_code", BAD_INPUT))
    if os.environ.get("LIKEWISE_TRACEBACK"):
        traceback.print_exception(error)
    say(
        f"Internal error: {type(error).__name__}: {error}. This is a bug in likewise; "
        "set LIKEWISE_TRACEBACK=1 to see where."
    )
    return typer.Exit(INTERNAL)


def _no_bug(error: BaseException) -> str:
    """Return a sentence on what the machine refuses; nothing if the error is a bug of ours."""
    if isinstance(error, SystemExit):
        return f"The model, or a library, called sys.exit({error.code!r})."
    if isinstance(error, MemoryError):
        return "There is not enough memory. Audit fewer people, or in pieces (--run processes:1)."
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "The system allows no more threads or processes here (ulimit -u)."
    if not isinstance(error, OSError):
        return ""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "The system allows no more open files here (ulimit -n)."
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return "The system allows no more processes or memory here (ulimit -u, ulimit -v)."
    if error.filename is not None:  # a folder that may not be entered, a name that is too long
        return f"{str(error.filename)!r} cannot be used: {error.strerror}."
    return ""


def _show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, LikewiseWarning):
        say(f"Warning: {message}")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP raise `Interrupted`, so that a command can tidy up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are none of its business
        return
    last = -SAME_SIGNAL

    def stop(number: int, _: object) -> None:
        nonlocal last
        if time.monotonic() - last >= SAME_SIGNAL:
            last = time.monotonic()
            raise Interrupted(number)

    def again(what: Any) -> None:
        """Send the signal once more if it was lost in a destructor, where nothing can be raised."""
        nonlocal last
        if isinstance(what.exc_value, Interrupted):
            last = -SAME_SIGNAL
            threading.Timer(0.01, os.kill, (os.getpid(), what.exc_value.number)).start()
        else:
            unraisable(what)

    unraisable, sys.unraisablehook = sys.unraisablehook, again
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # in the background of a shell, or under nohup
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        sys.unraisablehook = unraisable


class _Heard:
    """A stream whose reader may leave: the rest goes nowhere, the exit code stays the verdict."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._or_nowhere(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._or_nowhere(self._stream.flush)

    def _or_nowhere(self, say: Callable[..., object], *text: str) -> None:
        try:
            say(*text)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
