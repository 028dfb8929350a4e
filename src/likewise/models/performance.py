"""How good a model is, beside a constant: whoever feeds it the wrong numbers sees it here."""

import dataclasses
import math
import warnings

import numpy as np
from scipy.stats import rankdata

from likewise.errors import StatisticalWarning
from likewise.loss import CLIP, Labels, Outputs, Rows, decide, probabilities, true_probability
from likewise.models.base import Model, ModelCard

SAMPLE = 10_000
"""People whom performance is shown for, at most."""


@dataclasses.dataclass(frozen=True)
class Performance:
    r"""Balanced accuracy, area under the curve and loss of a model, and the loss of a constant.

    The AUC is ``nan`` for more than two classes, and for a regression :math:`(1 + r)/2` with
    Pearson's correlation r; ``noise`` is its standard error if a model knows nothing. The loss is
    the mean log loss (of probabilities clipped to [0.001, 0.999]) or the squared error.
    """

    balanced_accuracy: float
    auc: float
    loss: float
    constant: float
    noise: float

    @classmethod
    def from_outputs(cls, out: Outputs, card: ModelCard, y: Labels) -> "Performance":
        """Judge a model's outputs for people with targets ``y`` (class indices, or numbers)."""
        n = len(y)
        if card.task == "regression":
            varies = np.ptp(out[:, 0]) > 0 and np.ptp(y) > 0
            r = float(np.corrcoef(out[:, 0], y)[0, 1]) if varies else 0.0
            loss = float(np.square(out[:, 0] - y).mean())
            return cls(math.nan, (1 + r) / 2, loss, float(np.var(y)), 0.5 / math.sqrt(n))
        p, decided = probabilities(out, card.output), decide(out, card.output, card.threshold)
        loss = float(-np.log(np.clip(true_probability(p, y), CLIP, 1 - CLIP)).mean())
        shares = np.bincount(y, minlength=p.shape[1]) / n
        there = np.flatnonzero(shares)
        recalls = [float((decided[y == c] == c).mean()) for c in there]
        constant = float(-(shares[there] * np.log(np.clip(shares[there], CLIP, 1 - CLIP))).sum())
        area = noise = math.nan
        ones = int((y == 1).sum())
        if p.shape[1] == 2 and 0 < ones < n:
            ranked = float(rankdata(p[:, 1])[y == 1].sum())
            area = (ranked - ones * (ones + 1) / 2) / (ones * (n - ones))
            noise = math.sqrt((n + 1) / (12 * ones * (n - ones)))
        return cls(float(np.mean(recalls)), area, loss, constant, noise)

    def warn(self) -> None:
        """Warn of a model that beats no constant, in its loss or in its AUC by two errors."""
        useful = self.loss < self.constant * (1 - 1e-9) or self.auc > 0.5 + 2 * self.noise
        if not useful:
            area = "" if math.isnan(self.auc) else f", AUC {self.auc:.2f}"
            warnings.warn(
                f"The model is no better than a constant (loss {self.loss:.3g} against "
                f"{self.constant:.3g}{area}). Does it get the columns, units and encoding that it "
                "was fitted on?",
                StatisticalWarning,
                stacklevel=2,
            )


def performance_of(model: Model, x: Rows, y: Labels) -> Performance:
    """Ask a model about up to ten thousand of the people; warn if it is no better than a constant.

    They are evenly spread over all. Where everyone's label is the same, a constant knows it.
    """
    rows = slice(None, None, max(1, len(x) // SAMPLE))
    found = Performance.from_outputs(model(x[rows]), model.card, y[rows])
    if len(np.unique(y)) > 1:
        found.warn()
    return found
