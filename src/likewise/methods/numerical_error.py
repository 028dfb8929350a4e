r"""Numerical error of the flow: some people are solved again with far shorter, halved steps.

Halving the steps alone does not show the error of a network with kinks. The penalty holds people
near a kink of their loss, where the gradient jumps to and fro faster than a long step can see, and
that biases all solutions alike until the steps resolve the penalty's own rate, :math:`2\lambda`. So
solutions are compared with one that does, and that is itself halved for whoever still changes.
"""

import copy
import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy import special

from likewise.methods.gradient_flow import EXPLICIT, SOLVERS, GradientFlow, Precision, SolverName
from likewise.methods.metric import FairMetric
from likewise.models.base import Model
from likewise.record import NumericalErrorRecord
from likewise.run.executors import block_size, run_blocks

Losses = Float[np.ndarray, " m"]

SHARE, FEWEST, MOST_PEOPLE = 8, 1000, 20_000
DRAWN_SHARE, FEWEST_DRAWN, MOST_DRAWN = 24, 384, 4096
"""Steps are compared on one person in eight, one in 24 is solved far finer, within these limits.
The error must be told from chance at a tenth of everyone's standard error, so the shares do not
shrink as there are more people."""

TARGET, NEGLIGIBLE, MOST = 0.1, 5e-4, 5000
"""The error that is aimed at, in standard errors; the share of the audit value's excess over one
below which it is small enough, however many people there are; and gradients a person, at most."""

ADAMS_STEPS, RK2_STEPS = (16, 24, 32, 48, 64, 96, 128, 192), 128
"""Steps that are tried in turn, of the solver with one gradient a step; then of that with two,
which goes on with ever shorter ones. Short steps cross kinks of the loss with less bias."""

ROUGH, BESIDE = 4, 48
"""Steps of a solution as cheap as can be, since whoever it puts elsewhere may matter, and of a good
one to compare a finer one with."""

FINE, RESOLVING, MOST_FINE, FINEST, WORK = 128, 4.0, 1000, 2**12, 2**20
"""A fine solution has at least 128 steps, none longer than four times the time in which the
penalty pulls people back unless that would be more than a thousand; half of them for whoever is
where another solver puts them, and more, up to 4096, for whoever halved steps still change, as long
as all of these people's steps together do not exceed a million."""

ENOUGH, SAFETY, SURE, FEWEST_WORTH = 0.5, 2.0, 0.995, 1.5
"""Steps are enough at half of what is tolerated, for the other half may stay open of the fine
solution. Differences from it count twice; chance is allowed for at this level on either side; and
an error from fewer people than the last says nothing of others."""

JUMP, UNSEEN = 0.05, 6.0
"""Where halved steps change one person's ratio by more than this share of the spread of all, paths
fork; another may then take another path unseen, and be off by six times the spread."""

HORIZONS = (0.25, 0.5, 0.75, 1.0)  # times at which people's places are kept, as shares of the time

UNBOUNDED = (
    "The error cannot be bounded: some people's paths depend on the steps however short these are, "
    "or it comes from too few of the people on whom it was looked for."
)


def with_horizons(flow: GradientFlow) -> GradientFlow:
    """Return the flow with earlier times kept, which costs nothing, unless it names its own."""
    times = flow.horizons or {share * flow.time for share in HORIZONS}
    if isinstance(flow.steps, tuple) and not flow.horizons:
        reached = list(itertools.accumulate(flow.steps))
        times = {min(reached, key=lambda t: abs(t - time)) for time in times}
    return dataclasses.replace(flow, horizons=tuple(sorted(times)))


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

    If the flow leaves its steps open, the cheapest are taken whose difference from the fine
    solution is at most a tenth of a standard error. The bound is twice that difference; what chance
    may have hidden of it, since it was seen on some people only; what another halving of the fine
    steps would change, with one person in reserve; and what float32 changes. It is infinite if the
    error cannot be bounded.

    Parameters
    ----------
    weight
        What people count for; alike by default.
    n
        People in the whole audit, if ``x`` is only some of them: the standard error is theirs.
    """
    total = n or len(x)
    rows, wanted = np.arange(len(x)), min(max(total // SHARE, FEWEST), MOST_PEOPLE)
    if len(x) > wanted:
        rows = np.sort(np.random.default_rng([0, 4]).choice(len(x), wanted, replace=False))
    own = None if weight is None else weight[rows]
    some = FlowSample(model, metric, x[rows], y[rows], own, total, threads)
    tried = list(_candidates(flow, metric))
    first, rough = some.after(tried[0]), some.after(_beside(tried[0], metric, ROUGH))
    value, std_error = some.value(first)
    drawn, places = some.drawn(
        rough, first, min(max(total // DRAWN_SHARE, FEWEST_DRAWN), MOST_DRAWN)
    )
    negligible = NEGLIGIBLE * abs(value - 1)
    beside = drawn.after(_beside(tried[0], metric, BESIDE))
    limit = ENOUGH * max(TARGET * std_error, negligible)
    true, halved, jump = _fine_losses(flow, drawn, limit, beside)
    # A coarse solution may have been taken in about chance, too.
    std_error = min(std_error, drawn.value(true)[1])
    tolerated = max(TARGET * std_error, negligible)
    for candidate in tried:
        after = first[places] if candidate is tried[0] else drawn.after(candidate)
        change, chance, _ = drawn.mean_change(after, true)
        if max(abs(change), chance) <= ENOUGH * tolerated:
            break
    # Steps that somebody chose are computed in float64, and so are models not computed here.
    precision, rounding, auto = flow.precision, 0.0, flow.precision == "auto"
    if precision == "float32" or (auto and flow.steps is None and model.network is not None):
        # Rounding is seen on half of those drawn.
        half = drawn.take(np.arange(0, len(drawn.x), 2))
        part = half.parts(after[::2], half.after(candidate, "float64"))
        rounding = 2 * _together(part)
        precision = "float64" if auto and rounding > ENOUGH * tolerated else "float32"
    if precision != "float32":
        precision, rounding, after = "float64", 0.0, drawn.after(candidate, "float64")
    change, chance, worth = drawn.mean_change(after, true)
    still = _together(drawn.parts(halved, true))
    noise = chance * float(special.stdtrit(max(worth, 3.0), SURE))  # more, the fewer it comes from
    error = SAFETY * abs(change) + noise + still
    spread = std_error * math.sqrt(total)
    forks, at_least = jump > JUMP * spread, 0.0
    if not np.array_equal(first[places], beside):
        # Somebody at a fork takes the other path at steps that nobody tried. Where halved steps
        # sent nobody another way, that is unlikely, and one person's spread is enough.
        error += (UNSEEN if forks else 1.0) * spread / total
        rounding += 10 * float(np.finfo(np.float32).eps) * abs(value)  # they are in float32
        at_least = TARGET * std_error  # nobody needs to know less
    error = max(error + rounding, at_least)
    enough = max(abs(change), chance) <= tolerated
    cap_reached = flow.steps is None and not enough
    # The penalty alone has this Lipschitz constant.
    power = _fastest(flow, metric) * flow.time / math.log(10)
    factor = f"exp(LT) > 10^{power:.0f}" if power else "exp(LT)"
    note = f"Theorem 2.2's own bound has the factor {factor} and says nothing."
    unresolved = still > tolerated or (cap_reached and forks)
    if unresolved or (worth < FEWEST_WORTH and noise > tolerated):
        error, note = math.inf, f"{note} {UNBOUNDED}"
    steps, method = len(candidate.grid(metric)), candidate.method(metric)
    chosen = flow if flow.steps is not None else dataclasses.replace(candidate, precision=precision)
    return chosen, NumericalErrorRecord(
        method=method,
        steps=steps,
        evaluations=steps * SOLVERS[method].evaluations + SOLVERS[method].at_start,
        error_bound=error,
        error_in_se=error and (error / std_error if 0 < std_error < math.inf else math.inf),
        subsample=len(rows),
        cap_reached=cap_reached,
        precision=precision,
        note=note,
    )


def _candidates(flow: GradientFlow, metric: FairMetric) -> Iterator[GradientFlow]:
    """Yield flows whose steps are settled, the cheapest first."""
    if flow.steps is not None:
        yield flow
        return
    solver, steps = flow.method(metric), 4
    if solver in EXPLICIT:  # which begin where they are stable
        steps = len(flow.grid(metric))
    elif flow.solver == "auto":
        for steps in ADAMS_STEPS:
            yield dataclasses.replace(flow, solver=solver, steps=steps)
        solver, steps = "exponential_rk2", RK2_STEPS
    while steps * SOLVERS[solver].evaluations <= MOST:
        yield dataclasses.replace(flow, solver=solver, steps=steps)
        steps = (3 * steps + 1) // 2


def _beside(flow: GradientFlow, metric: FairMetric, steps: int) -> GradientFlow:
    """Return the flow with so many steps of one gradient, or halved ones of an explicit solver."""
    solver: SolverName = flow.method(metric)
    if metric.quadratic and solver not in EXPLICIT:
        return dataclasses.replace(flow, solver="exponential", steps=steps)
    # Half of such a step may still be too long for Euler's method.
    solver = "exponential" if flow.unstable else solver
    grid = tuple(h / 2 for h in flow.grid(metric) for _ in range(2))
    return dataclasses.replace(flow, solver=solver, steps=grid, unstable=False)


def _fine_losses(
    flow: GradientFlow, drawn: "FlowSample", limit: float, known: Losses
) -> tuple[Losses, Losses, float]:
    """Return losses after the true flow, those with halved steps, and the largest jump of one.

    Steps are halved for whoever changes by that, until all changes are below ``limit``. The first
    change is that from a solution that is known already.
    """
    steps = fine_steps(flow, drawn.metric) // 2
    before, after = known.copy(), drawn.after(fine_flow(flow, drawn.metric, steps))
    spent, jump = 0, 0.0
    while True:
        jump = max(jump, float(np.abs(drawn.changes(before, after)).max(initial=0.0)))
        part = drawn.parts(before, after)
        # All at once, and a few more than must be: a round costs the same for few as for many.
        order = np.argsort(-np.abs(part), kind="stable")
        rest = part[order][::-1]
        left = np.maximum(np.abs(rest.cumsum()), 2 * np.sqrt(np.square(rest).cumsum()))
        rows, steps = np.sort(order[: int((left > limit / 2).sum())]), 2 * steps
        spent += steps * len(rows)
        if _together(part) <= limit or not len(rows) or steps > FINEST or spent > WORK:
            return after, before, jump
        before[rows] = after[rows]
        after[rows] = drawn.take(rows).after(fine_flow(flow, drawn.metric, steps))


def fine_steps(flow: GradientFlow, metric: FairMetric) -> int:
    """Return steps that resolve the penalty."""
    if not metric.quadratic:
        stable = dataclasses.replace(flow, steps=None, horizons=())
        return 4 * max(len(flow.grid(metric)), len(stable.grid(metric)))
    resolving = min(math.ceil(flow.time * _fastest(flow, metric) / RESOLVING), MOST_FINE)
    return 2 * math.ceil(max(FINE, resolving) / 2)


def fine_flow(flow: GradientFlow, metric: FairMetric, steps: int) -> GradientFlow:
    """Return the flow with so many steps, and two more while gradient and penalty balance."""
    rate = _fastest(flow, metric)
    settling = (1 / rate, 4 / rate) if rate * flow.time > steps / 2 else ()
    rest = (flow.time - math.fsum(settling)) / steps
    solver = "exponential_rk2" if metric.quadratic else flow.method(metric)
    grid = settling + (rest,) * steps
    return dataclasses.replace(flow, solver=solver, steps=grid, unstable=False, horizons=())


def _fastest(flow: GradientFlow, metric: FairMetric) -> float:
    """Return the fastest rate at which the penalty pulls people back."""
    if flow.free_only or not metric.quadratic:
        return 0.0
    return 2 * flow.lam * metric.largest_eigenvalue


class FlowSample:
    """Some of the audited people, on whom solutions of the flow are compared.

    ``before`` and ``share`` are everyone's loss where they are, and what they count for, one on
    average; changes of the loss are divided by ``scale`` (everyone's own loss, or the mean for a
    regression), and count by ``factor`` in the mean over all.

    Parameters
    ----------
    total
        People in the whole audit.
    """

    def __init__(
        self,
        model: Model,
        metric: FairMetric,
        x: Float[np.ndarray, "m d"],
        y: Shaped[np.ndarray, " m"],
        weight: Losses | None,
        total: int,
        threads: int = 1,
    ) -> None:
        self.model, self.metric, self.x, self.y = model, metric, x, y
        self.total, self.threads, self.pool, self.draws = total, threads, len(x), len(x)
        self.share = np.ones(len(x)) if weight is None else weight / weight.mean()
        self.before = self.scale = model.loss(model(x), y)
        if model.card.task == "regression":
            self.scale = np.full(len(x), float((self.share * self.before).mean()))
        self.factor = np.full(len(x), 1 / len(x))

    def take(self, rows: Int[np.ndarray, " u"]) -> "FlowSample":
        """Return some of them; what is divided by stays that of all."""
        some = copy.copy(self)
        for name in ("x", "y", "before", "share", "scale", "factor"):
            setattr(some, name, getattr(self, name)[rows])
        return some

    def drawn(
        self, rough: Losses, after: Losses, count: int
    ) -> "tuple[FlowSample, Int[np.ndarray, ' u']]":
        """Draw people by importance, given two solutions for all; return them and their places.

        Half of the chance is alike for all, the other half goes by what may matter: the difference
        between the solutions, and the loss, in equal parts. Where a network has kinks, a few
        people's paths depend on the steps, and most people's do not.
        """
        m = len(after)
        if m <= count:
            return self, np.arange(m)
        chance = np.full(m, 2.0)
        for start in (rough, np.zeros(m)):
            size = np.abs(self.changes(start, after))
            chance += size / max(size.mean(), np.finfo(float).tiny)
        chance /= chance.sum()
        # At equal distances along the chances, in their order: less is left to chance than in
        # independent draws, whose standard errors are thus not too small.
        order = np.argsort(chance, kind="stable")
        marks = (np.arange(count) + np.random.default_rng([0, 5]).random()) / count
        places = np.minimum(np.searchsorted(chance[order].cumsum(), marks), m - 1)
        rows, times = np.unique(order[places], return_counts=True)
        some = self.take(rows)
        some.factor, some.draws = times / (m * count * chance[rows]), count
        return some, rows

    def after(self, flow: GradientFlow, precision: Precision = "float32") -> Losses:
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

    def parts(self, after: Losses, finer: Losses) -> Losses:
        """Return the change of the audit value, person by person."""
        return self.factor * self.changes(after, finer)

    def mean_change(self, after: Losses, finer: Losses) -> tuple[float, float, float]:
        """Return the mean change, its standard error, and how many people it comes from."""
        change = self.changes(after, finer)
        part = self.factor * change
        mean, squares = float(part.sum()), np.square(part)
        if not squares.any():
            return mean, 0.0, math.inf
        if np.abs(part).max() > 1e100:  # of people who diverge
            return math.inf, math.inf, 1.0
        draws = 0.0 if self.draws == self.pool else float(squares.sum()) - mean**2 / self.draws
        spread = float((self.factor * np.square(change)).sum()) - mean**2
        rest = max(0.0, 1 - self.pool / self.total)
        error = math.sqrt(max(0.0, draws) + rest * max(0.0, spread) / self.pool)
        return mean, error, float(squares.sum() ** 2 / np.square(squares).sum())

    def value(self, after: Losses) -> tuple[float, float]:
        """Return the audit value, and the standard error it has with all people."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms, own = after / self.scale, self.before / self.scale
        known = np.isfinite(terms)
        if known.sum() < 2:
            return 1.0, 0.0
        factor = self.factor[known] / self.factor[known].sum()
        share = self.share[known] / float((factor * self.share[known]).sum())
        value = float((factor * share * terms[known]).sum())
        away = share * (terms[known] - value * own[known])
        return value, math.sqrt(float((factor * np.square(away)).sum()) / self.total)


def _together(part: Losses) -> float:
    """Return how much changes of either sign may come to: their sum, or twice its spread."""
    return max(abs(float(part.sum())), 2 * math.sqrt(float(np.square(part).sum())))
