"""The test of the ICLR 2021 paper in one call: Algorithm 1 and its two statistics."""

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from likewise.errors import InvalidData, InvalidSettings, StatisticalWarning
from likewise.loss import CustomLoss, Output
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import FairMetric, as_metric
from likewise.methods.observe import observe
from likewise.models import as_model, check
from likewise.models.base import label_classes, targets
from likewise.outcomes import troubles
from likewise.stats.error_rate_ratio import ErrorRateRatioTest
from likewise.stats.loss_ratio import LossRatioTest, MeanLossRatioTest


@dataclasses.dataclass(frozen=True, eq=False)
class PaperTest:
    r"""What the paper's test finds: equations (13)–(15), (19) and (20)–(22).

    Parameters
    ----------
    S_n, V_n, T_n
        Mean loss ratio, its standard deviation (n − 1), and
        :math:`T_n = S_n - z_{1-\alpha} V_n/\sqrt n`, rejected if above δ. Of a regression, where
        one prediction can be right by chance, the ratio of mean losses by (20)–(22).
    p_value, interval, rejected
        Of H0: the mean ratio is at most δ; two-sided interval (15).
    error_S_n, error_V_n, error_T_n, error_p_value, error_interval, error_rejected
        The same for the ratio of error rates; not numbers for a regression.
    ratios
        Loss after over loss before, one a row.
    perturbed
        :math:`\Phi(x, y)`, one row a person.
    """

    S_n: float
    V_n: float
    T_n: float
    p_value: float
    interval: tuple[float, float]
    rejected: bool
    ratios: Float[np.ndarray, " n"] = dataclasses.field(repr=False)
    perturbed: Float[np.ndarray, "n d"] = dataclasses.field(repr=False)
    n: int
    delta: float
    alpha: float
    error_S_n: float = math.nan
    error_V_n: float = math.nan
    error_T_n: float = math.nan
    error_p_value: float = math.nan
    error_interval: tuple[float, float] = (math.nan, math.nan)
    error_rejected: bool = False

    def __str__(self) -> str:
        verdict = "rejected" if self.rejected else "not rejected"
        lines = []
        for words, prefix in (("loss ratio      ", ""), ("error-rate ratio", "error_")):
            s, v, t, p = (getattr(self, prefix + name) for name in ("S_n", "V_n", "T_n", "p_value"))
            if not math.isnan(s):
                lines.append(f"{words}  S_n {s:.4f}   V_n {v:.4f}   T_n {t:.4f}   p {p:.2g}")
        lines.append(f"H0: the ratio is at most {self.delta:g}: {verdict} ({self.n:,} people)")
        return "\n".join(lines)


def paper_test(
    model: Any,
    x: Any,
    y: Any,
    *,
    metric: Any,
    loss: Any = None,
    lam: float = 50.0,
    steps: int | Sequence[float] = 500,
    step: float = 0.01,
    delta: float = 1.25,
    alpha: float = 0.05,
    output: Output | None = None,
) -> PaperTest:
    r"""Test individual fairness as the ICLR 2021 paper does, with a metric that is given.

    Each person follows :math:`\dot x = \nabla\ell(f(x), y) - \lambda\nabla d^2(x, x_0)` by Euler's
    method; the mean of the loss ratios has a normal limit.

    Parameters
    ----------
    model
        A torch module or function, a scikit-learn estimator, or anything `likewise.audit` takes
        that has gradients.
    x, y
        Features and labels: NumPy arrays, torch tensors or data frames, one row a person.
    metric
        Who counts as similar (`likewise.metrics`): a metric, a function, a matrix, directions that
        cost nothing, or names of columns that cost nothing.
    loss
        A loss of your own: a torch function of outputs and labels, or a pair of NumPy functions
        (value, gradient). By default the cross-entropy, or squared errors.
    lam, steps, step
        Penalty λ, number of steps and their length; or the steps themselves, as
        ``[0.02 / k ** (2 / 3) for k in range(1, 401)]`` in the paper's simulation.
    delta, alpha
        Limit on the ratio, and level of the test.
    output
        What the model returns, if it does not say: logits, probabilities or values.

    Examples
    --------
    >>> import likewise, numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2)); y = (x[:, 1] + rng.normal(size=400) > 0).astype(int)
    >>> model = LogisticRegression().fit(x, y)
    >>> found = likewise.paper_test(model, x, y, metric=likewise.metrics.ignoring([[1.0, 0.0]]))
    >>> bool(found.rejected)
    False
    """
    features, labels = _array(x), _array(y).reshape(-1)
    if features.ndim != 2 or len(features) != len(labels):
        raise InvalidData(
            f"x has shape {features.shape} and y has {len(labels)} values: give one row of "
            "features and one label a person."
        )
    features = np.ascontiguousarray(features, dtype=np.float64)
    chosen = as_model(model, output=output, loss=loss)
    if not chosen.card.differentiable:
        raise InvalidSettings(
            f"The {chosen.card.kind} has no gradients to follow. Audit it by matched pairs "
            "(may_matter=…) or by reach."
        )
    classes = label_classes(labels, chosen.card, {})
    y_places = targets(labels, classes)
    check(chosen, features, features=(), classes=classes)
    if isinstance(chosen.loss, CustomLoss):
        chosen.loss.check(chosen(features), y_places)
    alike = as_metric(metric, features, [str(name) for name in getattr(x, "columns", ())])
    bound = _flow(lam, steps, step, alike).bind(chosen, alike)
    seen = observe(chosen, bound, alike, features, y_places)
    outcomes = dataclasses.replace(seen.outcomes, about={"task": chosen.card.task})
    if stuck := troubles(outcomes.counts()):
        raise InvalidData(f"The flow failed for some people: {stuck[0]}. Shorten the steps.")
    about: dict[str, Any] = {"delta": delta, "alpha": alpha}
    labelled = chosen.card.task == "classification"
    main = LossRatioTest if labelled else MeanLossRatioTest
    tests = {"": main(interval="paper", **about)(outcomes)}
    if labelled:
        tests["error_"] = ErrorRateRatioTest(interval="paper", **about)(outcomes)
    for prefix, test in tests.items():
        for name in ("S_n", "V_n", "T_n", "p_value", "interval", "rejected"):
            about[prefix + name] = getattr(test, name)
    return PaperTest(ratios=outcomes.ratio, perturbed=seen.x, n=len(labels), **about)


def _flow(
    lam: float, steps: int | Sequence[float], step: float, metric: FairMetric
) -> GradientFlow:
    """Return Euler's method with these steps; warn where they are unstable."""
    if isinstance(steps, int | np.integer):
        return GradientFlow.paper(lam=lam, step=step, n_steps=int(steps))
    flow = GradientFlow(lam=lam, solver="euler", steps=tuple(steps), unstable=True)
    stiffness = flow.rate(metric) * max(flow.grid(metric))
    if stiffness >= 2:
        said = (
            f"The longest step gives 2λη = {stiffness:.3g}, and Euler's method is unstable from 2 "
            "on. The paper's simulation begins so; its later steps damp what that leaves."
        )
        warnings.warn(said, StatisticalWarning, stacklevel=3)
    return flow


def _array(values: Any) -> Shaped[np.ndarray, "..."]:
    """Return arrays, tensors and data frames as NumPy arrays."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise InvalidData("x and y are arrays, tensors or data frames, one row a person.") from None
