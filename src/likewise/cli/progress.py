"""A progress bar on stderr, for anything that takes more than two seconds."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 2.0


@contextlib.contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a function to be told ``(what, done, total)``; it shows a bar once that takes long."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}
    began = time.monotonic()

    def tell(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
        bar.update(tasks[what], completed=done, visible=done < total)
        if time.monotonic() - began > PATIENCE and not bar.live.is_started:
            bar.start()

    try:
        yield tell
    finally:
        bar.stop()
