"""Run the command line, with ``python -m likewise`` or as ``likewise``."""

# The module behind `signal`, which is there already: importing `signal` itself takes a moment in
# which Ctrl-C would show a traceback.
import _signal  # type: ignore[import-not-found]
import os
import sys
from typing import NoReturn

BAD_INPUT, INTERNAL = 2, 4
STOPPING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def main() -> None:
    """Run the command line, and end with the code that it ends with.

    The command runs in a process of its own, which hands its exit code over. A model that calls
    ``os._exit(0)``, or a library that ends the process with 1, hands over nothing: that is bad
    input, never a verdict.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _leave)
    _ignore_current_folder()
    result, told = os.pipe()
    alive, held = os.pipe()
    child = os.fork()
    if not child:
        os.close(result)
        os.close(held)
        from likewise.run.lifeline import end_with

        end_with(alive)
        _work(told)
    os.close(told)
    os.close(alive)
    os._exit(_wait(child, result))


def _work(told: int) -> NoReturn:
    """Run the command line in the process of its own, and hand over its exit code."""
    own, code = os.getpid(), 0
    try:
        from likewise.cli import main as run

        run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else BAD_INPUT if error.code else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = INTERNAL
    if os.getpid() == own:  # not in what a model has forked
        os.write(told, bytes([code]))
    sys.exit(code)


def _wait(child: int, result: int) -> int:
    """Wait for the process that does the work, and return the code to end with."""

    def forward(number: int, _: object) -> None:
        try:  # noqa: SIM105 - contextlib is not imported yet
            os.kill(child, number)
        except ProcessLookupError:
            pass  # it has ended by itself

    for number in STOPPING:
        if _signal.getsignal(number) is not _signal.SIG_IGN:  # as under nohup
            _signal.signal(number, forward)
    _, status = os.waitpid(child, 0)
    os.set_blocking(result, False)
    try:
        code = os.read(result, 1)
    except BlockingIOError:  # what a model has started lives on
        code = b""
    if code:
        return code[0]
    ended = os.waitstatus_to_exitcode(status)
    if -ended in STOPPING:
        return 128 - ended
    import signal

    how = f"with code {ended}" if ended >= 0 else f"by {signal.Signals(-ended).name}"
    how += ", perhaps for want of memory" if -ended == _signal.SIGKILL else ""
    said = f"Error: The model, or a library, ended the process before there was a result ({how}).\n"
    os.write(2, said.encode())
    return BAD_INPUT


def _ignore_current_folder() -> None:
    """Import nothing from the current folder, here or in any process started from here.

    Whoever audits a file somebody sent does so in the folder with what else was sent: a
    ``hashlib.py`` there must not run.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    # ``python -m`` puts the current folder first, unless it is told not to.
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()] != [home]:
        del sys.path[0]


def _leave(*_: object) -> None:
    """End at once: half-imported libraries answer an exception with tracebacks of their own."""
    os.write(2, b"Interrupted.\n")
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    os.kill(os.getpid(), _signal.SIGINT)


if __name__ == "__main__":
    main()
