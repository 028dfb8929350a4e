"""Progress: nothing for quick work and where there is no terminal, else a bar."""

import io

import pytest
from rich.console import Console

from likewise.cli.progress import PATIENCE, progress_bar


@pytest.mark.parametrize(
    ("last", "terminal", "quiet", "said"),
    [
        (PATIENCE / 2, True, False, ""),
        (2 * PATIENCE, True, False, "6 of 10 blocks"),
        (2 * PATIENCE, False, False, ""),
        (2 * PATIENCE, True, True, ""),
    ],
)
def test_a_terminal_has_a_bar_for_what_takes_long_unless_quiet_was_asked_for(
    last, terminal, quiet, said
):
    moment = 0.0
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress_bar(quiet, console, lambda: moment) as tell:
        if tell is not None:
            tell("measuring", 4, 10)
            moment = last
            tell("measuring", 6, 10)
    shown = console.file.getvalue()
    assert said in shown
    assert bool(shown) == bool(said)
