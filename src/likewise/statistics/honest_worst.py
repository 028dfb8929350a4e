"""The worst other group, chosen on one half of the visits and judged on the other."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int


@dataclasses.dataclass(frozen=True)
class JudgedLosses:
    r"""Two losses a person, :math:`a_i` and :math:`b_i`, and what each visit adds to them.

    Parameters
    ----------
    after, before
        :math:`a_i` and :math:`b_i`.
    after_part, before_part
        The influence of each visit on them, less the person's mean over the same visits; they sum
        to zero over a person, and hold what is random about the pairs.
    """

    after: Float[np.ndarray, " n"]
    before: Float[np.ndarray, " n"]
    after_part: Float[np.ndarray, "n h m"]
    before_part: Float[np.ndarray, "n h m"]


def honest(after: Float[np.ndarray, "n h m"], before: Float[np.ndarray, "n h m"]) -> JudgedLosses:
    r"""Choose the other group that serves a person worst, and judge it on other visits.

    The visits are halved by alternating ranks. On one half the group with the largest mean of
    :math:`a - b` is chosen, none if that is not positive; on the other half its two means are
    read (if none is chosen, both are the mean own-member loss over all groups); both ways round,
    averaged. Choosing and judging on the same visits would find harm in a coin.
    """
    n, groups, m = after.shape
    total = JudgedLosses(np.zeros(n), np.zeros(n), np.zeros(after.shape), np.zeros(after.shape))
    rows = np.arange(n)
    for half in (0, 1):
        choosing, judging = slice(half, m, 2), slice(1 - half, m, 2)
        gain = (after - before)[:, :, choosing]
        worst = gain.mean(axis=2).argmax(axis=1)
        gain = gain[rows, worst]
        harmed = gain.mean(axis=1) > 0
        share = np.where(harmed[:, None], np.arange(groups) == worst[:, None], 1 / groups)
        read = np.where(harmed[:, None, None], after[:, :, judging], before[:, :, judging])
        swayed = sway(gain)
        none = before[:, :, judging].mean(axis=(1, 2))
        for values, chosen, result, part in (
            (read, after, total.after, total.after_part),
            (before[:, :, judging], before, total.before, total.before_part),
        ):
            mean = values.mean(axis=2)
            result += (share * mean).sum(axis=1) / 2
            spread = share[:, :, None] * (values - mean[:, :, None]) / values.shape[2]
            part[:, :, judging] += spread / 2
            step = chosen[rows, worst, judging].mean(axis=1) - none
            part[rows, worst, choosing] += step[:, None] * swayed / 2
    return total


def sway(gain: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    r"""Return how much each visit sways the choice between the worst group and none.

    With mean :math:`c` and standard error :math:`s` over k visits, the group is chosen with
    probability about :math:`\Phi(c / s)`, of which a visit :math:`d` moves
    :math:`\phi(c / s) (d - c) / (k s)`. Where nobody is near the choice this is nothing; where
    many are, a pair that visits them moves all their choices together.
    """
    k = gain.shape[1]
    mean = gain.mean(axis=1, keepdims=True)
    error = gain.std(axis=1, ddof=1, keepdims=True) / math.sqrt(k)
    error = np.where(error > 0, error, np.inf)
    density = np.exp(-((mean / error) ** 2) / 2) / (math.sqrt(2 * math.pi) * error)
    return density * (gain - mean) / k


def pessimistic(
    after: Float[np.ndarray, "n h m"], before: Float[np.ndarray, "n h m"]
) -> JudgedLosses:
    r"""Choose and judge the worst other group on all visits: too large, so fit for certifying.

    :math:`a_i^+ = b_i + \max(0, \max_h \text{mean}(a - b))`, with :math:`b_i` over all groups.
    """
    n, groups, m = after.shape
    gain = (after - before).mean(axis=2)
    worst = gain.argmax(axis=1)
    largest = np.maximum(gain[np.arange(n), worst], 0)
    chosen = (np.arange(groups) == worst[:, None]) & (largest > 0)[:, None]
    mean = before.mean(axis=(1, 2))
    own = (before - before.mean(axis=2)[:, :, None]) / (groups * m)
    added = (after - before - gain[:, :, None]) / m
    return JudgedLosses(mean + largest, mean, own + np.where(chosen[:, :, None], added, 0.0), own)


def inflation(m: int) -> tuple[float, float]:
    """Return what the centred parts of `honest` and `pessimistic` miss of the variance."""
    half = m // 2
    return half / (half - 1), m / (m - 1)


def most_harmful(
    after: Float[np.ndarray, "n h m"], before: Float[np.ndarray, "n h m"]
) -> Int[np.ndarray, " n"]:
    """Return the visit with the largest difference, as a place among all of a person's visits."""
    return (after - before).reshape(len(after), -1).argmax(axis=1)
