"""Progress on stderr: a bar on a terminal, and now and then a line where there is none."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0  # seconds before a bar is shown
BETWEEN = 30.0  # seconds between lines where there is no terminal

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
    shown = now()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal shown
        said = SAID.get(what, what)
        if what not in tasks:
            tasks[what] = bar.add_task(said, total=total, completed=done, words="")
        task = bar.tasks[bar.task_ids.index(tasks[what])]
        if done < task.completed:
            bar.reset(task.id, completed=done)  # begun anew: its speed is another
        words = f"{done:,} of {total:,}{' blocks' * (what in SAID)}"
        bar.update(task.id, completed=done, total=total, visible=done < total, words=words)
        if not bar.console.is_terminal:
            if now() - shown >= BETWEEN and done < total:
                left = task.time_remaining
                words += "" if left is None else f", {left / 60:.0f} min left"
                bar.console.print(f"{said}: {words}", highlight=False, soft_wrap=True)
                shown = now()
        elif now() - shown > PATIENCE and not bar.live.is_started:
            bar.start()

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()
