"""Progress: nothing for quick work, a bar on a terminal, a line now and then elsewhere."""

import io

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


def test_speed_and_time_left_are_those_of_this_run():
    # Four of ten million were done by an earlier run.
    told = [
        (0.0, "moving people", 4_000_000, 10_000_000),
        (20.0, "moving people", 4_200_000, 10_000_000),
        (100.0, "moving people", 5_000_000, 10_000_000),
    ]
    line = "moving people: 5,000,000 of 10,000,000, 8 min left\n"
    assert shown(told, terminal=False) == line


def test_before_anything_is_done_nothing_is_promised():
    told = [(0.0, "moving people", 0, 100), (BETWEEN, "moving people", 0, 100)]
    assert shown(told, terminal=False) == "moving people: 0 of 100\n"


def test_what_comes_in_blocks_says_of_whom_and_in_which_unit():
    told = [(0.0, "measuring", 0, 12), (BETWEEN, "measuring", 3, 12)]
    assert shown(told, terminal=False).startswith("measuring people: 3 of 12 blocks")


def test_lines_are_half_a_minute_apart_and_none_is_for_what_is_done():
    told = [(float(second), "moving people", second, 100) for second in range(101)]
    assert shown(told, terminal=False).count("\n") == 3


def test_a_terminal_has_a_bar_for_what_takes_long():
    quick = [(0.0, "moving people", 0, 10), (PATIENCE / 2, "moving people", 5, 10)]
    assert "moving people" not in shown(quick, terminal=True)
    slow = [*quick, (2 * PATIENCE, "moving people", 6, 10)]
    assert "6 of 10" in shown(slow, terminal=True)


def test_quiet_is_quiet():
    told = [(0.0, "moving people", 0, 10), (100.0, "moving people", 5, 10)]
    assert shown(told, terminal=True, quiet=True) == ""


def test_work_that_begins_anew_promises_nothing_from_its_last_time():
    first = [(float(k), "trying other choices", 200 * k, 2000) for k in range(11)]
    told = [*first, (10.0 + BETWEEN, "trying other choices", 0, 2000)]
    assert shown(told, terminal=False) == "trying other choices: 0 of 2,000\n"
