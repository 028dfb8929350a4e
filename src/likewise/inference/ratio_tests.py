"""The tests of this room, by name."""

from likewise.inference.error_rate_ratio import ErrorRateRatioTest
from likewise.inference.loss_ratio import LossRatioTest
from likewise.inference.mean_loss_ratio import MeanLossRatioTest
from likewise.inference.ratio_test import RatioTest
from likewise.inference.verdict import Outcome, Verdict

__all__ = [
    "ErrorRateRatioTest",
    "LossRatioTest",
    "MeanLossRatioTest",
    "Outcome",
    "RatioTest",
    "Verdict",
]
