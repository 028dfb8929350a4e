"""The statistic with the members of pairs exchanged at random, many times over."""

import numpy as np
from jaxtyping import Float, Int, UInt64

WORDS = 2
"""Swaps are computed 128 at a time: two words of random bits for each pair."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def swapped_sums(
    after: Float[np.ndarray, "n h m"],
    before: Float[np.ndarray, "n h m"],
    pair: Int[np.ndarray, "n h m"],
    weight: Float[np.ndarray, " n"],
    swaps: int,
    seed: int,
) -> Float[np.ndarray, "b 2"]:
    r"""Return :math:`\sum w a` and :math:`\sum w b` after each random exchange of members.

    Exchanging the members of a pair turns :math:`a - b` round and keeps :math:`a + b`, so every
    exchange needs signs only, no model. A pair's sign in each swap is a hash of its number: the
    sums of blocks of people add up to those of all.
    """
    from scipy.sparse import csr_array

    n, groups, m = after.shape
    known, place = np.unique(pair, return_inverse=True)
    place = place.reshape(pair.shape).astype(np.int32)
    difference = (after - before) / (m // 2)
    sums = np.zeros((swaps, 2))
    matrices = [
        [
            csr_array(
                (
                    np.ascontiguousarray(difference[:, h, half::2]).reshape(-1).astype(np.float32),
                    np.ascontiguousarray(place[:, h, half::2]).reshape(-1),
                    np.arange(n + 1, dtype=np.int32) * (m // 2),
                ),
                shape=(n, len(known)),
            )
            for half in (0, 1)
        ]
        for h in range(groups)
    ]
    level = (after + before).reshape(n, groups, m // 2, 2).mean(axis=2)
    for start in range(0, swaps, 64 * WORDS):
        signs = _signs(known, start // 64, seed)[:, : swaps - start]
        gaps = [[matrix @ signs for matrix in halves] for halves in matrices]
        part = sums[start : start + signs.shape[1]]
        if groups == 1:
            part += _two_groups(gaps[0], level[:, 0], weight)
            continue
        for half in (0, 1):
            judged = [
                (halves[1 - half], level[:, h, 1 - half, None]) for h, halves in enumerate(gaps)
            ]
            best, gap, total = gaps[0][half], *judged[0]
            none = (judged[0][1] - judged[0][0]) / (2 * groups)
            for h in range(1, groups):
                better = gaps[h][half] > best
                best = np.where(better, gaps[h][half], best)
                gap = np.where(better, judged[h][0], gap)
                total = np.where(better, judged[h][1], total)
                none = none + (judged[h][1] - judged[h][0]) / (2 * groups)
            harmed = best > 0
            own = np.where(harmed, (total - gap) / 2, none)
            part[:, 1] += weight @ own / 2
            part[:, 0] += weight @ (own + np.where(harmed, gap, 0)) / 2
    return sums


def _two_groups(
    gaps: list[Float[np.ndarray, "n b"]],
    level: Float[np.ndarray, "n 2"],
    weight: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "b 2"]:
    """Return both sums where there is one other group to choose, or none."""
    own = harm = 0.0
    for half in (0, 1):
        chosen, judged = gaps[half], gaps[1 - half]
        own = own + (weight @ level[:, 1 - half] - weight @ judged) / 4
        harm = harm + weight @ (judged * (chosen > 0)) / 2
    return np.column_stack([own + harm, own])


def _signs(pairs: Int[np.ndarray, " q"], word: int, seed: int) -> Float[np.ndarray, "q b"]:
    """Return 128 random signs for each pair."""
    number = pairs.astype(np.uint64)[:, None] * np.uint64(1 << 20)
    words = number + np.arange(word, word + WORDS, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = _mixed(words ^ _mixed(np.array([seed], dtype=np.uint64) + _ODD))
    raw = np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=1)
    return raw.astype(np.float32) * 2 - 1


def _mixed(bits: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
