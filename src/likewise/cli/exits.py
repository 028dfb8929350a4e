"""Exit codes, and how errors become one sentence and a code."""

import contextlib
import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TextIO, TypeVar, cast

import typer

from likewise.errors import LikewiseError, LikewiseWarning

NO_EVIDENCE = 0
EVIDENCE = 1
BAD_INPUT = 2
NOT_TRUSTWORTHY = 3
INTERNAL = 4
INTERRUPTED = 130

P = ParamSpec("P")
R = TypeVar("R")


def say(text: str) -> None:
    """Print a line for the person at the terminal, away from the result."""
    from likewise.report.escaping import for_terminal

    print(for_terminal(text), file=sys.stderr)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what a command raises into one sentence on stderr and the exit code it stands for."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
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
                return _attempt(command, *args, **kwargs)
            finally:
                sys.stdout.flush()

    return run


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt` while a command runs, so that it can tidy up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are none of its business
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # in the background of a shell, or under nohup
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Heard:
    """A stream whose reader may leave: the rest goes nowhere, the exit code stays the verdict."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._or_nowhere():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._or_nowhere():
            self._stream.flush()

    @contextlib.contextmanager
    def _or_nowhere(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _attempt(command: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return command(*args, **kwargs)
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except LikewiseError as error:
        say(f"Error: {error}")
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        say("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            # A folder that may not be entered, a name that is too long: no bug of ours.
            say(f"Error: {str(error.filename)!r} cannot be used: {error.strerror}.")
            raise typer.Exit(BAD_INPUT) from None
        if os.environ.get("LIKEWISE_TRACEBACK"):
            traceback.print_exc()
        say(
            f"Internal error: {type(error).__name__}: {error}. This is a bug in likewise; "
            "set LIKEWISE_TRACEBACK=1 to see where."
        )
        raise typer.Exit(INTERNAL) from None


def _show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, LikewiseWarning):
        say(f"Warning: {message}")
