"""Progress on stderr: a bar on a terminal, and now and then a line where there is none."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0
"""Seconds before a bar is shown."""

BETWEEN = 30.0
"""Seconds between lines where there is no terminal."""

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

    Speed and the time that is left are those of this run, whatever an earlier one had done.
    """
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
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
        elif done < bar.tasks[bar.task_ids.index(tasks[what])].completed:
            bar.reset(tasks[what], completed=done)  # begun anew: its speed is another
        bar.update(tasks[what], completed=done, total=total, visible=done < total)
        task = bar.tasks[bar.task_ids.index(tasks[what])]
        words = _words(task, " blocks" * (what in SAID))
        bar.update(tasks[what], words=words)
        if not bar.console.is_terminal:
            if now() - shown >= BETWEEN and done < total:
                bar.console.print(f"{said}: {words}", highlight=False, soft_wrap=True)
                shown = now()
        elif now() - shown > PATIENCE and not bar.live.is_started:
            bar.start()

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()


def _words(task: Any, unit: str) -> str:
    """Return how many are done, and how long the others will take."""
    share = f"{task.completed:,.0f} of {task.total:,.0f}{unit}"
    if not task.speed or task.time_remaining is None or task.completed >= task.total:
        return share
    return f"{share}, {task.speed:,.0f}/s, {_duration(task.time_remaining)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
