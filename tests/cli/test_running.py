"""``--run``: threads, processes or Ray, how many, and within what memory."""

import pytest

from likewise.cli.running import executor
from likewise.errors import InvalidSettings
from likewise.executors import Inline, Processes, Ray, Threads


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("inline", Inline()),
        ("threads:4", Threads(4)),
        ("processes:3,8GB", Processes(3, max_memory=8 * 10**9)),
        ("inline,1.5 GiB", Inline(max_memory=3 * 2**29)),
        ("ray", lambda: Ray()),
        ("ray:4@ray://head:10001", lambda: Ray("ray://head:10001", 4)),
    ],
)
def test_a_place_is_read(text, found):
    if callable(found):
        pytest.importorskip("ray")
        found = found()
    assert executor(text) == found


OTHERS = ["", "cluster", "threads:2@host", "threads:0", "threads:many", "inline:2", "4"]


@pytest.mark.parametrize("text", [*OTHERS, "processes:2,much"])
def test_another_place_or_memory_is_one_sentence(text):
    words = "names no place" if text in OTHERS else "no amount of memory"
    with pytest.raises(InvalidSettings, match=words):
        executor(text)
