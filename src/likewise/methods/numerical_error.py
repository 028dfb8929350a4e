r"""Numerical error of the flow: some people are solved again with shorter and with halved steps.

Halving the steps alone does not show the error of a network with kinks. The penalty holds people
near a kink of their loss, where the gradient jumps to and fro faster than a long step can see, and
that biases all solutions alike until the steps resolve the penalty's own rate, :math:`2\lambda`. So
solutions are compared with one that does, and that is itself halved until little changes.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Shaped
from scipy import special

from likewise.methods.gradient_flow import EXPLICIT, GradientFlow, SolverName
from likewise.methods.metric import FairMetric
from likewise.methods.solvers import SOLVERS
from likewise.models.base import Model
from likewise.record import NumericalErrorRecord
from likewise.run.executors import block_size, run_blocks

Losses = Float[np.ndarray, " m"]

Errors = dict[tuple[str, int], float]
"""Mean differences from the fine solution, by solver and number of steps."""

SMALL_N, SAMPLE_PART, MAX_SAMPLE = 1000, 16, 4096
"""So many people are all solved again; of more one in 16, and no more than the last. The error must
be told from chance at a share of everyone's standard error, so the share does not shrink."""

TARGET, NEGLIGIBLE = 0.075, 4e-4
"""The mean difference that is aimed at, in standard errors; and the share of the audit value's
excess over one below which it is small enough, however many people there are."""

MIN_STEPS, KINKED, FINE_STEPS, RESOLVING, MAX_STEPS = 24, 64, 64, 8.0, 2048
"""Steps that are tried first, half as many again next, and so on; those above which a solver for
kinks is tried, too; those of a fine solution before they are halved, none of them longer than eight
times the time in which the penalty pulls people back, unless that would be more than a quarter of
the last; and the most that steps are halved to."""

ROUNDING_PART = 4  # one person in so many is solved again in float64

FACTOR, CONFIDENCE, UNSEEN_SPREADS = 2.0, 0.995, 6.0
"""Differences count twice, chance is allowed for at this level on either side, and so is one person
who is not solved again, and is off by six times the spread of all."""

UNBOUNDED = (
    "The error cannot be bounded: some people's paths depend on the steps however short these are."
)


@np.errstate(over="ignore", invalid="ignore")  # people who diverge are counted by the audit
def choose_steps(
    flow: GradientFlow,
    model: Model,
    metric: FairMetric,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    *,
    weight: Float[np.ndarray, " n"] | None = None,
    n: int | None = None,
    threads: int = 1,
) -> tuple[GradientFlow, NumericalErrorRecord]:
    r"""Fix the steps of a flow, and bound the error they make.

    If the flow leaves its steps open, the cheapest are taken whose mean difference from the fine
    solution is well below a tenth of a standard error. The bound is twice that difference, what
    chance may have hidden of it, what halving the fine steps changes, and what float32 changes. It
    is infinite if halving them still changes much.

    Parameters
    ----------
    weight
        What people count for; alike by default.
    n
        People in the whole audit, if ``x`` is only some of them: the standard error is theirs.
    """
    total, rows = n or len(x), np.arange(len(x))
    if total > SMALL_N:
        wanted = min(max(total // SAMPLE_PART, 400), MAX_SAMPLE, len(x))
        rows = np.sort(np.random.default_rng([0, 4]).choice(len(x), wanted, replace=False))
    own = None if weight is None else weight[rows]
    some = FlowSample(model, metric, x[rows], y[rows], own, threads)
    # Differences between steps are far above the rounding of float32, which takes half as long.
    quick = GradientFlow.single if model.network else dataclasses.replace
    steps = fine_steps(flow, metric)
    solved = {n: some.after(quick(fine_flow(flow, metric, n))) for n in (steps // 2, steps)}
    value, spread = some.value(solved[steps])
    std_error = spread / math.sqrt(total)
    tolerated = max(TARGET * std_error, NEGLIGIBLE * abs(value - 1))
    while (still := sum(some.change(solved[steps // 2], solved[steps]))) > 2 * tolerated:
        if 2 * steps > MAX_STEPS:
            break
        steps *= 2
        solved[steps] = some.after(quick(fine_flow(flow, metric, steps)))
    fine = solved[steps]
    known: str = fine_flow(flow, metric, steps).method(metric)
    errors = {(known, n): some.change(after, fine)[0] for n, after in solved.items()}
    unseen = UNSEEN_SPREADS * spread / total if len(rows) < total else 0.0
    for candidate in _candidates(flow, metric, steps, errors, tolerated):
        after = some.after(quick(candidate))
        change, chance = some.change(after, fine)
        errors[candidate.method(metric), len(candidate.grid(metric))] = change
        if still > 2 * tolerated or (change <= tolerated and chance <= 2 * tolerated):
            break
    # Steps that somebody chose are computed in float64, and so are models not computed here.
    rounding = math.inf if model.network else 0.0
    if model.network and flow.steps is None:
        part = slice(None, None, ROUNDING_PART)
        few = FlowSample(model, metric, some.x[part], some.y[part], some.share[part], threads)
        rounding = sum(few.change(after[part], few.after(candidate)))
    if rounding > tolerated:
        (change, chance), rounding = some.change(some.after(candidate), fine), 0.0
    elif model.network:
        candidate = candidate.single()
    # If the finest steps are taken, what halving them changed is all that is known of their error.
    error = FACTOR * change + chance + (still if change else FACTOR * still) + unseen + rounding
    # The penalty alone has this Lipschitz constant.
    power = flow.rate(metric) * flow.time / math.log(10) if metric.quadratic else 0.0
    factor = f"exp(LT) > 10^{power:.0f}" if power else "exp(LT)"
    note = f"Theorem 2.2's own bound has the factor {factor} and says nothing."
    if still > 2 * tolerated:
        error, note = math.inf, f"{note} {UNBOUNDED}"
    taken, method = len(candidate.grid(metric)), candidate.method(metric)
    return flow if flow.steps is not None else candidate, NumericalErrorRecord(
        method=method,
        steps=taken,
        evaluations=taken * SOLVERS[method].evaluations + SOLVERS[method].at_start,
        error_bound=error,
        error_in_se=error and (error / std_error if 0 < std_error < math.inf else math.inf),
        subsample=len(rows),
        precision=str(candidate.dtype),
        note=note,
    )


def _candidates(
    flow: GradientFlow, metric: FairMetric, most: int, errors: Errors, tolerated: float
) -> Iterator[GradientFlow]:
    """Yield flows whose steps are settled, the cheapest first, but those known not to be enough."""
    if flow.steps is not None:
        yield flow
        return
    # Explicit solvers begin where they are stable.
    steps = len(flow.grid(metric)) if flow.method(metric) in EXPLICIT else MIN_STEPS
    while steps <= most // 2:
        solvers = [flow.method(metric)]
        if flow.solver == "auto" and solvers == ["exponential"] and steps > KINKED:
            solvers.append("exponential_euler")
        for solver in solvers:
            own = {n: e for (name, n), e in errors.items() if name == solver}
            others = [(n, e) for (name, n), e in errors.items() if name != "exponential"]
            too_few = any(n >= steps and e > tolerated for n, e in own.items())
            worse = any(n <= m and e < own[m] for m in own for n, e in others)
            if not (too_few or (worse and solver == "exponential")):
                yield dataclasses.replace(flow, solver=solver, steps=steps)
        steps = (3 * steps + 1) // 2
    if flow.solver == "auto":
        flow = dataclasses.replace(flow, solver=fine_flow(flow, metric, most).solver)
    yield dataclasses.replace(flow, steps=max(steps, most))


def fine_steps(flow: GradientFlow, metric: FairMetric) -> int:
    """Return steps that resolve the penalty."""
    if not metric.quadratic:
        stable = dataclasses.replace(flow, steps=None)
        return 4 * max(len(flow.grid(metric)), len(stable.grid(metric)))
    resolving = math.ceil(flow.time * flow.rate(metric) / RESOLVING)
    return 2 * max(FINE_STEPS, min(resolving, MAX_STEPS // 4))


def fine_flow(flow: GradientFlow, metric: FairMetric, steps: int) -> GradientFlow:
    """Return the flow with so many steps, of a solver that bears them."""
    solver: SolverName = "exponential_euler" if metric.quadratic else flow.method(metric)
    grid = (flow.time / steps,) * steps
    return dataclasses.replace(flow, solver=solver, steps=grid, unstable=False)


class FlowSample:
    """Some of the audited people, on whom solutions of the flow are compared.

    ``before`` and ``share`` are everyone's loss where they are, and what they count for, one on
    average; changes of the loss are divided by ``scale``: everyone's own loss, or the mean for a
    regression.
    """

    def __init__(
        self,
        model: Model,
        metric: FairMetric,
        x: Float[np.ndarray, "m d"],
        y: Shaped[np.ndarray, " m"],
        weight: Losses | None,
        threads: int = 1,
    ) -> None:
        self.model, self.metric, self.x, self.y, self.threads = model, metric, x, y, threads
        self.share = np.ones(len(x)) if weight is None else weight / weight.mean()
        self.before = self.scale = model.loss(model(x), y)
        if model.card.task == "regression":
            self.scale = np.full(len(x), float((self.share * self.before).mean()))

    def after(self, flow: GradientFlow) -> Losses:
        """Return everyone's loss after a flow."""
        bound = flow.bind(self.model, self.metric)

        def block(rows: slice) -> Float[np.ndarray, " b"]:
            x, y = self.x[rows], self.y[rows]
            return self.model.loss(self.model(bound(x, y).x), y)

        # Twice as large as those of the audit, since float32 takes half the memory.
        size = 2 * block_size(self.x.shape[1])
        parts = run_blocks(block, len(self.x), size=size, threads=self.threads)
        return np.maximum(np.concatenate(parts), self.before if flow.keeps_start else -np.inf)

    def changes(self, after: Losses, finer: Losses) -> Losses:
        """Return what each person adds to the change of the audit value, times their number.

        People without finite losses or ratios are left to the statuses of the audit itself.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            change = self.share * (finer - after) / self.scale
        return np.where(np.isfinite(change), change, 0.0)

    def change(self, after: Losses, finer: Losses) -> tuple[float, float]:
        """Return the size of the mean change, and what chance may add to it."""
        change, m = self.changes(after, finer), len(after)
        spread = float(change.std(ddof=1)) if m > 1 else 0.0
        likely = float(special.stdtrit(max(m - 1, 1), CONFIDENCE))
        return abs(float(change.mean())), likely * spread / math.sqrt(m)

    def value(self, after: Losses) -> tuple[float, float]:
        """Return the audit value, and the spread of what people add to it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms, own = after / self.scale, self.before / self.scale
        known = np.isfinite(terms)
        if known.sum() < 2:
            return 1.0, 0.0
        share = self.share[known] / self.share[known].mean()
        value = float((share * terms[known]).mean())
        away = share * (terms[known] - value * own[known])
        return value, math.sqrt(float(np.square(away).mean()))
