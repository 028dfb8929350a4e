"""Run the command line, with ``python -m likewise`` or as ``likewise``."""

import os
import signal
from typing import NoReturn


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line and code 130 from the first moment."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from likewise.cli import main as run

    run()


def _leave(*_: object) -> NoReturn:
    """End at once: half-imported libraries answer an exception with tracebacks of their own."""
    os.write(2, b"Interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
