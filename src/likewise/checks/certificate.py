"""How far the computed flow can be from the true one: found by cutting every step in two."""

import dataclasses
import math

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from likewise.maps.flow import EXPLICIT, SOLVERS, GradientFlow
from likewise.maps.observe import observe
from likewise.metrics.base import FairMetric
from likewise.models.base import Model
from likewise.record import CertificateRecord
from likewise.scale.blocks import run_blocks

PEOPLE = 512
"""People on whom steps are compared with half-steps."""

TARGET = 0.1
"""The error that is aimed at, in standard errors of the audit value."""

MOST = 2000
"""Gradient evaluations a person, at most."""

FIRST = 2
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
        errors of that difference where it was seen on some of the people only.
    error_in_se
        The same in standard errors of the audit value.
    subsample
        People it was found on.
    cap_reached
        Whether more evaluations than allowed would have been needed.
    """

    method: str
    steps: int
    evaluations: int
    error_bound: float
    error_in_se: float
    subsample: int
    cap_reached: bool

    def record(self) -> CertificateRecord:
        """Return the certificate as it stands in the result file."""
        note = "Theorem 2.2's own bound has the factor exp(LT) and says nothing at this horizon."
        return CertificateRecord(**dataclasses.asdict(self), note=note)


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
    converges, twice their difference bounds the error of the first. If the flow leaves its steps
    open, their number is doubled until that is at most a tenth of a standard error. ReLU networks
    have gradients that jump, where control of local errors may stall: hence this global one.

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
    rows = _some(len(x), seed)
    sample = _Sample(model, metric, x[rows], y[rows], total, threads)
    per_step = SOLVERS[flow.method(metric)].evaluations
    if flow.steps is not None:
        cost = len(flow.grid(metric)) * per_step
        return flow, sample.compare(flow, sample.ratios(flow), cost)[0]
    # An explicit solver begins where it is stable.
    first = len(flow.grid(metric)) if flow.method(metric) in EXPLICIT else FIRST
    candidate = dataclasses.replace(flow, steps=first)
    ratios = sample.ratios(candidate)
    while True:
        cost = len(candidate.grid(metric)) * per_step
        certificate, finer, finer_ratios = sample.compare(candidate, ratios, cost)
        if certificate.error_in_se <= target:
            return candidate, certificate
        if 2 * cost > most:
            return candidate, dataclasses.replace(certificate, cap_reached=True)
        candidate, ratios = finer, finer_ratios


@dataclasses.dataclass(frozen=True, eq=False)
class _Sample:
    model: Model
    metric: FairMetric
    x: Tensor
    y: Tensor
    total: int
    threads: int

    def ratios(self, flow: GradientFlow) -> Float[np.ndarray, " m"]:
        bound = flow.bind(self.model, self.metric)

        def block(rows: slice) -> np.ndarray:
            seen = observe(self.model, bound, self.metric, self.x[rows], self.y[rows]).outcomes
            if self.model.card.task == "regression":
                return seen.loss_after / seen.loss_before.mean()
            return seen.ratio

        size = max(1, math.ceil(len(self.x) / self.threads))
        parts = run_blocks(block, len(self.x), size=size, threads=self.threads)
        return np.concatenate(parts)

    def compare(
        self, flow: GradientFlow, ratios: Float[np.ndarray, " m"], cost: int
    ) -> tuple[Certificate, GradientFlow, Float[np.ndarray, " m"]]:
        """Cut every step in two, and see what that changes."""
        halved = dataclasses.replace(flow, steps=2 * len(flow.grid(self.metric)))
        finer = flow.refined(self.metric) if isinstance(flow.steps, tuple) else halved
        finer_ratios = self.ratios(finer)
        change = finer_ratios - ratios
        m = len(change)
        unseen = math.sqrt(max(0.0, 1 - m / self.total))
        noise = 2 * unseen * float(change.std(ddof=1)) / math.sqrt(m) if m > 1 else math.inf
        bound = 2 * abs(float(change.mean())) + noise
        std_error = float(finer_ratios.std(ddof=1)) / math.sqrt(self.total) if m > 1 else 0.0
        certificate = Certificate(
            method=flow.method(self.metric),
            steps=len(flow.grid(self.metric)),
            evaluations=cost,
            error_bound=bound,
            error_in_se=bound / std_error if std_error > 0 else (0.0 if bound == 0 else math.inf),
            subsample=m,
            cap_reached=False,
        )
        return certificate, finer, finer_ratios


def _some(n: int, seed: int) -> Int[Tensor, " m"]:
    if n <= PEOPLE:
        return torch.arange(n)
    rng = np.random.default_rng([seed, 4])
    return torch.from_numpy(np.sort(rng.choice(n, PEOPLE, replace=False)))
