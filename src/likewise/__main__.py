"""Run the command line, with ``python -m likewise`` or as ``likewise``."""

# The module behind `signal`, which is there already: importing `signal` itself takes a moment in
# which Ctrl-C would show a traceback.
import _signal  # type: ignore[import-not-found]
import os


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line and code 130 from the first moment."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _leave)
    from likewise.cli import main as run

    run()


def _leave(*_: object) -> None:
    """End at once: half-imported libraries answer an exception with tracebacks of their own."""
    os.write(2, b"Interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
