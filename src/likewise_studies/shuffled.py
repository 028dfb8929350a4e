"""What the paper's test says of traits that mean nothing: both shuffled among people."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from likewise import GradientFlow, LossRatioTest, Outcomes, as_model, sensitive_subspace
from likewise.data import Split
from likewise.maps.observe import observe
from likewise.training.trained_classifier import TrainedClassifier

PEOPLE = 1000
"""Moved under every metric; of Adult the first of 9045, of COMPAS those the paper tested."""


@dataclasses.dataclass(frozen=True)
class Shuffled:
    r"""The paper's loss-ratio test with its traits, and with these shuffled among people.

    Parameters
    ----------
    n
        People moved, the same each time.
    T_n
        With the traits as they are, on these people.
    shuffled
        With the traits shuffled, the metric learned again by the same rule.
    rejected
        How many of the shuffled are rejected at :math:`\delta` = 1.25.
    p_value
        :math:`(1 + \#\{T_b \ge T_n\}) / (B + 1)`.
    """

    n: int
    T_n: float
    shuffled: Sequence[float]
    rejected: int
    p_value: float


def shuffled_test(
    model: TrainedClassifier, people: Split, flow: GradientFlow, real: Outcomes, count: int
) -> Shuffled:
    """Make the paper's test again under metrics learned from shuffled traits.

    Parameters
    ----------
    real
        Everyone's outcomes under the metric of the traits as they are.
    count
        How often the traits are shuffled.
    """
    few = np.arange(min(PEOPLE, len(people.test)))
    test, moving = LossRatioTest(interval="paper"), as_model(model)
    x, y = people.test.x[few], np.searchsorted(np.unique(people.train.y), people.test.y[few])
    learned = sensitive_subspace(people.test, C=1.0, groups=0, placebos=count)
    found = [
        test(observe(moving, flow.bind(moving, metric), metric, x, y).outcomes)
        for metric in learned.placebos
    ]
    real_value = test(real.take(few)).statistic
    as_large = sum(not one.statistic < real_value for one in found)
    return Shuffled(
        n=len(few),
        T_n=real_value,
        shuffled=tuple(one.statistic for one in found),
        rejected=sum(one.rejected for one in found),
        p_value=(1 + as_large) / (len(found) + 1),
    )
