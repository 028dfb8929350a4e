"""What a study shows beside the paper's test: permuted attributes, and matched pairs."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from likewise import GradientFlow, audit
from likewise.executors import Threads
from likewise.methods.observe import observe
from likewise.metrics import sensitive_subspace
from likewise.models import as_model
from likewise.outcomes import Outcomes
from likewise.stats.loss_ratio import LossRatioTest
from likewise.training.networks import NetworkClassifier
from likewise_studies.datasets import Split

PEOPLE = 1000
"""Moved under every metric; of Adult the first of 9045, of COMPAS those the paper tested."""


@dataclasses.dataclass(frozen=True)
class PermutationTest:
    r"""The paper's loss-ratio test with its attributes, and with these permuted.

    The same ``n`` people are moved each time; ``shuffled`` are the statistics of metrics learned
    again by the same rule, of which so many are ``rejected`` at :math:`\delta` = 1.25. The p-value
    is :math:`(1 + \#\{T_b \ge T_n\}) / (B + 1)`.
    """

    n: int
    T_n: float
    shuffled: Sequence[float]
    rejected: int
    p_value: float


def shuffled_test(
    model: NetworkClassifier, people: Split, flow: GradientFlow, real: Outcomes, count: int
) -> PermutationTest:
    """Make the paper's test again under metrics learned from attributes permuted ``count`` times.

    ``real`` are everyone's outcomes under the metric of the attributes as they are.
    """
    few = np.arange(min(PEOPLE, len(people.test)))
    test, moving = LossRatioTest(interval="paper"), as_model(model)
    x, y = people.test.x[few], np.searchsorted(np.unique(people.train.y), people.test.y[few])
    learned = sensitive_subspace(people.test, C=1.0, groups=0, controls=count)
    found = [
        test(observe(moving, flow.bind(moving, metric), metric, x, y).outcomes)
        for metric in learned.controls
    ]
    real_value = test(real.take(few)).statistic
    as_large = sum(not one.statistic < real_value for one in found)
    return PermutationTest(
        n=len(few),
        T_n=real_value,
        shuffled=tuple(one.statistic for one in found),
        rejected=sum(one.rejected for one in found),
        p_value=(1 + as_large) / (len(found) + 1),
    )


@dataclasses.dataclass(frozen=True)
class PairedAudit:
    """Matched pairs for one model: by attribute, the ratio that is furthest from 1.

    ``group`` to ``upper`` are the furthest of all, with its 95 % interval; the verdict is over all
    comparisons, for the limit 1.25.
    """

    ratios: Mapping[str, float]
    group: str
    ratio: float
    lower: float
    upper: float
    verdict: str


def compare_pairs(model: Any, people: Split, may_matter: Sequence[str]) -> PairedAudit:
    """Audit a model by matched pairs that are alike in the columns that may matter.

    Each half of the test split is the other's reference sample: the model knows training people.
    """
    result = audit(model, people.test, may_matter=may_matter, checks="core", executor=Threads(1))
    found = result.record.matched_pairs
    assert found is not None
    rows = [row for row in found.comparisons if row.ratio > 0]
    far = sorted(rows, key=lambda row: -abs(math.log(row.ratio)))
    ratios: dict[str, float] = {}
    for row in far:
        ratios.setdefault(row.attribute, row.ratio)
    first = far[0]
    groups = f"{first.group} → {first.other}"
    return PairedAudit(ratios, groups, first.ratio, *first.interval, result.verdict)
