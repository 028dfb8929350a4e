"""What every training method needs: a bar that shows its steps, and scikit-learn's constructors."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def counted(steps: Iterable[T], total: int, words: str, *, show: bool) -> Iterator[T]:
    """Pass ``steps`` on; if ``show``, a bar with the time left appears after two seconds."""
    if not show:
        yield from steps
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(words, total=total)
    begin = time.monotonic()
    try:
        for done, step in enumerate(steps):
            bar.update(task, completed=done)
            if not bar.live.is_started and time.monotonic() - begin > 2:
                bar.start()
            yield step
    finally:
        if bar.live.is_started:
            bar.stop()


def unchecked(constructor: F) -> F:
    """Keep run-time type checks off a constructor: scikit-learn wants `fit` to complain."""
    constructor.__no_type_check__ = True  # type: ignore[attr-defined]
    return constructor
