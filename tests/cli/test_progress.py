"""Progress: nothing for quick work, a bar on a terminal, a line now and then elsewhere."""

import io

import pytest
from rich.console import Console

from likewise.cli.progress import BETWEEN, PATIENCE, progress_bar


def shown(told, *, terminal, quiet=False):
    """Return what is printed when told ``(moment, what, done, total)`` again and again."""
    clock = [0.0]
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress_bar(quiet, console, lambda: clock[0]) as tell:
        for moment, *what in told:
            clock[0] = moment
            if tell is not None:
                tell(*what)
    return console.file.getvalue()


RESUMED = [(0, 4_000_000, 10_000_000), (20, 4_200_000, 10_000_000), (100, 5_000_000, 10_000_000)]
ANEW = [*((k, 200 * k, 2000) for k in range(11)), (10 + BETWEEN, 0, 2000)]


@pytest.mark.parametrize(
    ("what", "told", "line"),
    [
        # Four of ten million were done by an earlier run.
        ("moving people", RESUMED, "moving people: 5,000,000 of 10,000,000, 8 min left\n"),
        ("moving people", [(0, 0, 100), (BETWEEN, 0, 100)], "moving people: 0 of 100\n"),
        ("measuring", [(0, 0, 12), (BETWEEN, 0, 12)], "measuring people: 0 of 12 blocks\n"),
        ("trying other choices", ANEW, "trying other choices: 0 of 2,000\n"),
    ],
    ids=["resumed", "nothing done", "blocks", "begun anew"],
)
def test_a_line_says_how_far_this_run_is_and_how_long_it_takes(what, told, line):
    told = [(float(moment), what, done, total) for moment, done, total in told]
    assert shown(told, terminal=False) == line


def test_lines_are_half_a_minute_apart_and_none_is_for_what_is_done():
    told = [(float(second), "moving people", second, 100) for second in range(101)]
    assert shown(told, terminal=False).count("\n") == 3


def test_a_terminal_has_a_bar_for_what_takes_long_unless_quiet_was_asked_for():
    quick = [(0.0, "moving people", 0, 10), (PATIENCE / 2, "moving people", 5, 10)]
    assert "moving people" not in shown(quick, terminal=True)
    slow = [*quick, (2 * PATIENCE, "moving people", 6, 10)]
    assert "6 of 10" in shown(slow, terminal=True)
    assert shown(slow, terminal=True, quiet=True) == ""
