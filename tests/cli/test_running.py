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
        ("processes:3,8GB", Processes(3, max_memory=8 * 2**30)),
        ("ray", lambda: Ray()),
        ("ray:4@ray://head:10001,1GB", lambda: Ray("ray://head:10001", 4, max_memory=2**30)),
    ],
)
def test_a_place_is_read(text, found):
    if callable(found):
        pytest.importorskip("ray")
        found = found()
    assert executor(text) == found


@pytest.mark.parametrize(
    "text", ["", "cluster", "threads:2@host", "threads:0", "threads:many", "inline:2", "4GB"]
)
def test_another_place_is_one_sentence(text):
    with pytest.raises(InvalidSettings, match="names no place"):
        executor(text)
