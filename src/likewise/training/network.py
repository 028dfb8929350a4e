"""The paper's network, one hidden ReLU layer, and the plain way to train it."""

import contextlib
import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

CHUNK = 256
"""Steps whose batches are drawn at once: one call of the generator instead of many."""


def new_network(
    d: int, hidden: int, k: int, rng: np.random.Generator, *, bias: float = 0.0
) -> nn.Sequential:
    r"""Return ``d → hidden → k``, weights uniform on :math:`\pm\sqrt{6/(in + out)}` (Glorot)."""
    first, last = nn.Linear(d, hidden), nn.Linear(hidden, k)
    with torch.no_grad():
        for layer in (first, last):
            rows, columns = layer.weight.shape
            limit = math.sqrt(6 / (rows + columns))
            layer.weight.copy_(torch.from_numpy(rng.uniform(-limit, limit, (rows, columns))))
            layer.bias.fill_(bias)
    return nn.Sequential(first, nn.ReLU(), last)


def batches(
    y: Int[np.ndarray, " n"],
    size: int,
    steps: int,
    rng: np.random.Generator,
    *,
    balanced: bool,
) -> Iterator[Int[Tensor, " b"]]:
    """Draw ``steps`` batches of row numbers, with replacement.

    Parameters
    ----------
    y
        Class indices.
    size
        Rows a batch. A balanced batch holds equally many of each class, class after class.
    """
    if balanced:
        pools = [np.flatnonzero(y == code) for code in range(y.max() + 1)]
    else:
        pools = [np.arange(len(y))]
    each = max(1, size // len(pools))
    for start in range(0, steps, CHUNK):
        shape = (min(CHUNK, steps - start), each)
        drawn = [pool[rng.integers(0, len(pool), shape)] for pool in pools]
        yield from torch.from_numpy(np.concatenate(drawn, axis=1))


def train(
    network: nn.Sequential,
    stream: Iterable[tuple[Float[Tensor, "b d"], Int[Tensor, " b"]]],
    *,
    learning_rate: float,
) -> None:
    """Make one Adam step on the cross-entropy of each batch of people and their classes."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
    for x, y in stream:
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(network(x), y))
        optimizer.step()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: batches this small lose more time to others than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
