"""How much memory a run will take, said before it takes it."""

import dataclasses
import re
from pathlib import Path

from likewise.errors import InvalidSettings
from likewise.scale.executors import block_size, peak_memory

MOST_BLOCKS = 16
"""Blocks of rows in a piece of work, if memory allows: a few seconds for a small network."""

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

STAGES = 24
"""Copies of a block that a solver and its gradients hold at the same time."""

EXTRA = 400
"""Bytes a row beside its features: outcomes, text columns, what Arrow and pickle copy."""


@dataclasses.dataclass(frozen=True)
class PiecePlan:
    """How many rows a piece of work has, and how much memory that takes.

    Parameters
    ----------
    rows
        Rows of a piece: a whole number of blocks, so that no result depends on it.
    memory
        Predicted peak over all processes of this machine, in bytes.
    """

    rows: int
    memory: int


def plan_pieces(
    d: int, workers: int, limit: int | None = None, *, rows: int | None = None
) -> PiecePlan:
    """Choose the size of pieces for rows of ``d`` features so that memory stays in its limit.

    Every process holds the libraries and the model (measured: what this one holds now) and one
    block in work; a piece of rows is held by its worker and, until it is done, by this process.

    Parameters
    ----------
    workers
        Processes beside this one; 0 if the work is done here.
    rows
        Rows of a piece, if that is settled already.
    """
    block = block_size(d)
    processes = workers + 1
    fixed = processes * resident_memory() + max(workers, 1) * block * d * 8 * STAGES

    def predicted(blocks: int) -> int:
        piece = blocks * block * (8 * d + EXTRA)
        return fixed + piece * 3 * processes

    blocks = MOST_BLOCKS if rows is None else max(1, rows // block)
    while rows is None and limit is not None and blocks > 1 and predicted(blocks) > limit:
        blocks //= 2
    plan = PiecePlan(rows or blocks * block, predicted(blocks))
    if limit is not None and plan.memory > limit:
        raise InvalidSettings(
            f"{in_words(plan.memory)} are needed for {processes} processes, even in the smallest "
            f"pieces; --run allows {in_words(limit)}. Take fewer workers, or allow more."
        )
    return plan


def parse_memory(text: str) -> int:
    """Return the bytes in ``4GB``, ``500M`` or ``1.5 GiB`` (all in powers of 1024)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if match is None or float(match[1]) == 0:
        raise InvalidSettings(f"{text!r} is no amount of memory. Write 4GB, or 500MB.")
    return int(float(match[1]) * UNITS[match[2]])


def in_words(count: int) -> str:
    """Return an amount of memory for a sentence."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def resident_memory() -> int:
    """Return the memory this process holds now, in bytes."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # no Linux: the peak so far is the next best
        return peak_memory()
    import resource

    return pages * resource.getpagesize()
