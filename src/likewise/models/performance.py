"""How good a model is, beside a constant: whoever feeds it the wrong numbers sees it here."""

import dataclasses
import warnings

import numpy as np
from jaxtyping import Float, Shaped

from likewise.errors import StatisticalWarning
from likewise.losses import CLIP, decide, probabilities, true_probability
from likewise.models.base import Model

SAMPLE = 10_000
"""People whom performance is shown for, at most."""


@dataclasses.dataclass(frozen=True)
class Performance:
    r"""Balanced accuracy, area under the curve and loss of a model, and the loss of a constant.

    Parameters
    ----------
    balanced_accuracy
        Mean over the classes of the share that is decided rightly; ``nan`` for a regression.
    auc
        For two classes the probability that someone of class 1 is ranked above someone of class
        0. For more classes ``nan``; for a regression the same of pairs with different labels,
        by Pearson's correlation: :math:`(1 + r)/2`.
    loss, constant
        Mean log loss (of probabilities clipped to [0.001, 0.999]) or squared error, and that of
        the best constant.
    noise
        The standard error of the AUC of a model that knows nothing.
    losses
        The loss of each person.
    """

    balanced_accuracy: float
    auc: float
    loss: float
    constant: float
    noise: float
    losses: Float[np.ndarray, " n"] = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(
        cls, model: Model, x: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
    ) -> "Performance":
        """Ask a model about people with targets ``y`` (class indices, or numbers)."""
        out = model(x)
        return (
            _of_numbers(out[:, 0], y)
            if model.card.task == "regression"
            else _of_classes(
                probabilities(out, model.card.output),
                y,
                decide(out, model.card.output, model.card.threshold),
            )
        )

    @property
    def better_loss(self) -> bool:
        """Whether the loss is below that of a constant."""
        return self.loss < self.constant * (1 - 1e-9)

    @property
    def ranks(self) -> bool:
        """Whether the AUC is above one half by more than chance (two standard errors)."""
        return bool(self.auc > 0.5 + 2 * self.noise)

    @property
    def useful(self) -> bool:
        """Whether the model beats a constant in any way."""
        return self.better_loss or self.ranks

    def warn(self) -> None:
        """Warn of a model that is no better than a constant."""
        if not self.useful:
            area = "" if np.isnan(self.auc) else f", AUC {self.auc:.2f}"
            warnings.warn(
                f"The model is no better than a constant (loss {self.loss:.3g} against "
                f"{self.constant:.3g}{area}). Does it get the columns, units and encoding that it "
                "was fitted on?",
                StatisticalWarning,
                stacklevel=2,
            )


def performance_of(
    model: Model, x: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
) -> Performance:
    """Ask a model about up to ten thousand of the people; warn if it is no better than a constant.

    They are evenly spread over all. Where everyone's label is the same, a constant knows it.
    """
    rows = slice(None, None, max(1, len(x) // SAMPLE))
    found = Performance.of(model, x[rows], y[rows])
    if len(np.unique(y)) > 1:
        found.warn()
    return found


def _of_classes(
    p: Float[np.ndarray, "n k"], y: Shaped[np.ndarray, " n"], decided: Shaped[np.ndarray, " n"]
) -> Performance:
    losses = -np.log(np.clip(true_probability(p, y), CLIP, 1 - CLIP))
    shares = np.bincount(y, minlength=p.shape[1]) / len(y)
    there = np.flatnonzero(shares)
    recalls = [float((decided[y == c] == c).mean()) for c in there]
    constant = float(-(shares[there] * np.log(np.clip(shares[there], CLIP, 1 - CLIP))).sum())
    area, noise = _auc(p[:, 1], y) if p.shape[1] == 2 else (np.nan, np.nan)
    return Performance(float(np.mean(recalls)), area, float(losses.mean()), constant, noise, losses)


def _of_numbers(predicted: Float[np.ndarray, " n"], y: Shaped[np.ndarray, " n"]) -> Performance:
    losses = (predicted - y) ** 2
    spread = float(np.std(predicted) * np.std(y))
    r = float(np.mean((predicted - predicted.mean()) * (y - y.mean()))) / spread if spread else 0.0
    noise = 0.5 / np.sqrt(len(y))
    return Performance(
        np.nan, (1 + r) / 2, float(losses.mean()), float(np.var(y)), float(noise), losses
    )


def _auc(score: Float[np.ndarray, " n"], y: Shaped[np.ndarray, " n"]) -> tuple[float, float]:
    """Return the area under the curve, ties counting half, and its standard error under chance."""
    ones, zeros = int((y == 1).sum()), int((y != 1).sum())
    if not ones or not zeros:
        return np.nan, np.nan
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    area = (ranks[y == 1].sum() - ones * (ones + 1) / 2) / (ones * zeros)
    return float(area), float(np.sqrt((ones + zeros + 1) / (12 * ones * zeros)))
