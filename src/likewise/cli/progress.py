"""Progress on stderr: a bar on a terminal, for what takes long, and nothing elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0  # seconds before a bar is shown

SAID = {"measuring": "measuring people", "checking": "checking the result"}
"""What is being done in plain words, of what comes in blocks of people."""

Tell = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@contextlib.contextmanager
def progress_bar(
    quiet: bool = False,
    console: "Console | None" = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Tell | None]:
    """Yield a function to be told ``(what, done, total)``; it shows how far that is.

    The time that is left is that of this run, whatever an earlier one had done.
    """
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    bar = Progress(
        "{task.description}",
        BarColumn(bar_width=24),
        "{task.fields[words]}",
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
        get_time=now,
        speed_estimate_period=600,
    )
    tasks: dict[str, Any] = {}
    begun = now()

    def tell(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(SAID.get(what, what), total=total, completed=done, words="")
        words = f"{done:,} of {total:,}{' blocks' * (what in SAID)}"
        bar.update(tasks[what], completed=done, total=total, visible=done < total, words=words)
        if bar.console.is_terminal and now() - begun > PATIENCE and not bar.live.is_started:
            bar.start()

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()
