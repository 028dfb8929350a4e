"""``--run``: threads, processes or Ray, how many, and within what memory."""

import os

import pytest

from likewise.cli.stream import Pieces
from likewise.cli.where import Where
from likewise.errors import InvalidSettings

CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("text", "threads", "pieces"),
    [
        (None, None, Pieces()),
        ("inline", 1, Pieces()),
        ("threads:4", 4, Pieces()),
        ("threads", CORES, Pieces()),
        ("threads:2,4GB", 2, Pieces(workers=0, max_memory="4GB")),
        ("processes:3", None, Pieces(workers=3)),
        ("processes", None, Pieces(workers=CORES)),
        ("processes:3,8GB", None, Pieces(workers=3, max_memory="8GB")),
        ("ray", None, Pieces(ray="local")),
        ("ray:4", None, Pieces(workers=4, ray="local")),
        ("ray:auto", None, Pieces(ray="auto")),
        ("ray:ray://head:10001", None, Pieces(ray="ray://head:10001")),
        ("ray:4@ray://head:10001,1GB", None, Pieces(4, "ray://head:10001", "1GB")),
    ],
)
def test_a_place_is_read(text, threads, pieces):
    where = Where.parse(text)
    assert where.threads == threads
    assert where.pieces(resume=False) == pieces


def test_an_audit_that_is_resumed_here_stays_here():
    assert Where.parse("inline").pieces(resume=True) == Pieces(workers=0, resume=True)


@pytest.mark.parametrize(
    "text", ["", "cluster", "threads:0", "threads:many", "inline:2", "processes:-1", "4GB"]
)
def test_another_place_is_one_sentence(text):
    with pytest.raises(InvalidSettings, match="names no place"):
        Where.parse(text)
