"""How far the computed flow can be from the true one: found by cutting every step in two."""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from likewise.maps.flow import EXPLICIT, SOLVERS, GradientFlow, Precision
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.models.base import Model
from likewise.record import CertificateRecord
from likewise.scale.blocks import block_size, run_blocks

SHARE, FEWEST, MOST_PEOPLE = 5, 1000, 20_000
"""Steps are compared with half-steps on one person in five, but within these limits.

The numerical error must be told from chance at a tenth of the standard error of everyone, so
the part of the people that is needed does not shrink as there are more of them.
"""

TARGET = 0.1
"""The error that is aimed at, in standard errors of the audit value."""

NEGLIGIBLE = 5e-4
"""Errors below this share of the audit value's excess over one are small enough, however many
people there are: with millions, standard errors are smaller than anyone needs to know."""

_SMALL_ENOUGH = (
    f"With so many people standard errors are tiny: steps were enough when the error was below "
    f"{NEGLIGIBLE:.2%} of the value's excess over one."
)

MOST = 5000
"""Gradient evaluations a person, at most."""

FIRST = 4
"""Steps that the search for enough of them begins with."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A bound on the numerical error of the audit value.

    Parameters
    ----------
    method, steps, evaluations
        The solver, its steps, and the gradients it takes for each person.
    error_bound
        On the audit value: twice the difference that halving every step makes, and two standard
        errors of that difference, each at most a tenth of a standard error where steps were
        chosen; for a flow in float32 also its difference from float64.
    error_in_se
        The same in standard errors of the audit value.
    subsample
        People it was found on.
    cap_reached
        Whether more evaluations than allowed would have been needed.
    note
        What Theorem 2.2 says about the error, and if another rule than the target stopped.
    """

    method: str
    steps: int
    evaluations: int
    error_bound: float
    error_in_se: float
    subsample: int
    cap_reached: bool
    note: str = ""

    def record(self) -> CertificateRecord:
        """Return the certificate as it stands in the result file."""
        return CertificateRecord(**dataclasses.asdict(self))


def certify(
    flow: GradientFlow,
    model: Model,
    metric: FairMetric,
    x: Float[Tensor, "n d"],
    y: Shaped[Tensor, " n"],
    *,
    n: int | None = None,
    seed: int = 0,
    target: float = TARGET,
    most: int = MOST,
    threads: int = 1,
) -> tuple[GradientFlow, Certificate]:
    r"""Fix the steps of a flow, and bound the error they make.

    On a random part of the people, compare :math:`S_h` with :math:`S_{h/2}`: for a method that
    converges at least like h, twice their difference bounds the error of the first. If the flow
    leaves its steps open, their number is doubled until that is at most a tenth of a standard
    error. ReLU networks have gradients that jump, where control of local errors may stall: hence
    this global one.

    Parameters
    ----------
    n
        People in the whole audit, if ``x`` is only some of them: the standard error is theirs.
    target
        Error to aim at, in standard errors.
    most
        Evaluations a person, at most; if that binds, the certificate says so.
    """
    total = n or len(x)
    method = flow.method(metric)
    per_step = SOLVERS[method].evaluations
    people = FEWEST if flow.steps is not None else min(max(total // SHARE, FEWEST), MOST_PEOPLE)
    rows = _some(len(x), people, seed)
    sample = _Sample(model, metric, x[rows], y[rows], total, threads)
    # An explicit solver begins where it is stable.
    first = FIRST if flow.steps is None and method not in EXPLICIT else len(flow.grid(metric))
    candidate = dataclasses.replace(flow, steps=first) if flow.steps is None else flow
    after = sample.after(candidate)
    while True:
        steps = len(candidate.grid(metric))
        finer = (
            dataclasses.replace(candidate, steps=2 * candidate.steps)
            if isinstance(candidate.steps, int)
            else candidate.refined(metric)
        )
        finer_after = sample.after(finer)
        change, noise, std_error, value = sample.compare(after, finer_after)
        tolerated = max(target * std_error, NEGLIGIBLE * abs(value - 1))
        enough = max(change, noise) <= tolerated
        capped = flow.steps is None and not enough and 2 * steps * per_step > most
        if enough or capped or flow.steps is not None:
            bound = change + noise
            negligible = enough and max(change, noise) > target * std_error
            if flow.precision == "float32":
                bound += sample.compare(after, sample.after(candidate, "float64"))[0]
            return candidate, Certificate(
                method=method,
                steps=steps,
                evaluations=steps * per_step,
                error_bound=bound,
                error_in_se=_in_units(bound, std_error),
                subsample=len(rows),
                cap_reached=capped,
                note=_theorem_2_2(flow, metric) + f" {_SMALL_ENOUGH}" * negligible,
            )
        candidate, after = finer, finer_after


@dataclasses.dataclass(frozen=True, eq=False)
class _Sample:
    """The people on whom steps are compared."""

    model: Model
    metric: FairMetric
    x: Float[Tensor, "m d"]
    y: Shaped[Tensor, " m"]
    total: int
    threads: int

    def after(
        self, flow: GradientFlow, precision: Precision = "float32"
    ) -> Float[np.ndarray, " m"]:
        """Return everyone's loss after a flow.

        Differences between steps are far above the rounding of float32, which takes half as long.
        """
        # Who would be left in place is known from the losses.
        quick = dataclasses.replace(
            flow,
            steps=flow.grid(self.metric),
            precision=precision,
            horizons=(),
            keeps_start=False,
        )
        bound = quick.bind(self.model, self.metric)
        losses = self._losses(lambda x, y: bound(x, y).x)
        return np.maximum(losses, self.before) if flow.keeps_start else losses

    @functools.cached_property
    def before(self) -> Float[np.ndarray, " m"]:
        """Everyone's loss where they are."""
        return self._losses(lambda x, y: x)

    def _losses(self, move: Callable[[Tensor, Tensor], Tensor]) -> Float[np.ndarray, " m"]:
        def block(rows: slice) -> Float[np.ndarray, " b"]:
            x, y = self.x[rows], self.y[rows]
            at = move(x, y)
            with torch.no_grad():
                return self.model.loss(self.model(at), y).numpy()

        # Twice as large as those of the audit, since float32 takes half the room.
        size = 2 * block_size(self.x.shape[1])
        return np.concatenate(run_blocks(block, len(self.x), size=size, threads=self.threads))

    def compare(
        self, after: Float[np.ndarray, " m"], finer: Float[np.ndarray, " m"]
    ) -> tuple[float, float, float, float]:
        """Return twice the change of the audit value, its noise, its standard error, and itself.

        People without finite losses or ratios are left to the statuses of the audit itself.
        """
        if self.model.card.task == "regression":
            mean = self.before.mean()
            value = finer.mean() / mean
            terms = value + (finer - value * self.before) / mean
            change = (finer - after) / mean
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                change, terms = (finer - after) / self.before, finer / self.before
        known = np.isfinite(change) & np.isfinite(terms)
        change, terms, m = change[known], terms[known], int(known.sum())
        if m < 2:
            return math.inf, 0.0, 0.0, 1.0
        noise = float(change.std()) / math.sqrt(m)
        std_error = float(terms.std()) / math.sqrt(self.total)
        return 2 * abs(float(change.mean())), 2 * noise, std_error, float(terms.mean())


def _in_units(error: float, std_error: float) -> float:
    if std_error > 0:
        return error / std_error
    return 0.0 if error == 0 else math.inf


def _theorem_2_2(flow: GradientFlow, metric: FairMetric) -> str:
    if flow.free_only or not isinstance(metric, QuadraticForm):
        return "Theorem 2.2's own bound has the factor exp(LT) and says nothing at this horizon."
    # The penalty alone has this Lipschitz constant.
    power = 2 * flow.lam * metric.largest_eigenvalue * flow.time / math.log(10)
    return f"Theorem 2.2's own bound has the factor exp(LT) > 10^{power:.0f} and says nothing."


def _some(n: int, people: int, seed: int) -> Int[Tensor, " m"]:
    if n <= people:
        return torch.arange(n)
    rng = np.random.default_rng([seed, 4])
    return torch.from_numpy(np.sort(rng.choice(n, people, replace=False)))
