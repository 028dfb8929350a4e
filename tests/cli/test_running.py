"""``--run``: threads, processes or Ray, how many, and within what memory."""

import pytest

from likewise.cli.running import RunOptions
from likewise.errors import InvalidSettings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, RunOptions()),
        ("inline", RunOptions("inline")),
        ("threads:4", RunOptions("threads", 4)),
        ("processes:3,8GB", RunOptions("processes", 3, memory="8GB")),
        ("ray", RunOptions("ray")),
        ("ray:4", RunOptions("ray", 4)),
        ("ray:4@ray://head:10001,1GB", RunOptions("ray", 4, "ray://head:10001", "1GB")),
    ],
)
def test_a_place_is_read(text, found):
    assert RunOptions.parse(text) == found
    assert RunOptions.parse(text, resume=True).resume


@pytest.mark.parametrize(
    "text", ["", "cluster", "threads:2@host", "threads:0", "threads:many", "inline:2", "4GB"]
)
def test_another_place_is_one_sentence(text):
    with pytest.raises(InvalidSettings, match="names no place"):
        RunOptions.parse(text)
