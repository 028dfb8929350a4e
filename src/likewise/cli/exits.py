"""Exit codes, and how errors become one sentence and a code."""

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
    print(text, file=sys.stderr)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what a command raises into one sentence on stderr and the exit code it stands for."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", LikewiseWarning)
            warnings.showwarning = _show
            return _attempt(command, *args, **kwargs)

    return run


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
    except BrokenPipeError:
        # The reader of a pipe left; send what is still buffered nowhere, without a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(NO_EVIDENCE) from None
    except Exception as error:
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
