"""How far the computed flow can be from the true one: seen on some people, solved far finer."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.engine.certified_people import Drawn, Some
from likewise.maps.flow import EXPLICIT, SOLVERS, GradientFlow, SolverName
from likewise.metrics.base import FairMetric, QuadraticForm
from likewise.models.base import Model
from likewise.record import CertificateRecord

SHARE, FEWEST, MOST_PEOPLE = 5, 1000, 20_000
"""Steps are compared on one person in five, but within these limits.

The numerical error must be told from chance at a tenth of the standard error of everyone, so
the part of the people that is needed does not shrink as there are more of them.
"""

DRAWN_SHARE, FEWEST_DRAWN, MOST_DRAWN = 24, 256, 4096
"""Draws of people who are solved far finer: one for 24 of all people, within these limits."""

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

LONG, SHORT = 32, 128
"""Where 32 steps of order four are not enough, kinks are to blame, and the search goes on with
short steps of order two, from 128 on: they cross a kink with less bias for the same work."""

FINE, FINER, RESOLVING = 160, 8, 3.0
"""A fine solution has at least 160 steps, none longer than three times the time in which the
penalty pulls people back, and at least eight times as many as short steps compared with it. It
begins with two steps that resolve how people settle where gradient and penalty balance."""

SAFETY = 2.0
"""Differences from the fine solution count twice, for it has an error of its own."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A bound on the numerical error of the audit value.

    Parameters
    ----------
    method, steps, evaluations
        The solver, its steps, and the gradients it takes for each person.
    error_bound
        On the audit value: twice the difference from a far finer solution, and two standard errors
        of that difference, since it was seen on some people only. For explicit
        solvers, twice the difference that halving every step makes. For a flow in float32, also
        its difference from float64.
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
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    *,
    n: int | None = None,
    seed: int = 0,
    target: float = TARGET,
    most: int = MOST,
    threads: int = 1,
) -> tuple[GradientFlow, Certificate]:
    r"""Fix the steps of a flow, and bound the error they make.

    Halving the steps does not show the error of a network with kinks. The penalty holds people
    near a kink of their loss, where the gradient jumps to and fro faster than a long step can see,
    and that biases all solutions alike until the steps resolve the penalty's own rate,
    :math:`2\lambda`. So solutions are compared with one that does, on people drawn for it. If the
    flow leaves its steps open, the cheapest are taken whose difference from that solution is at
    most a tenth of a standard error.

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
    people = FEWEST if flow.steps is not None else min(max(total // SHARE, FEWEST), MOST_PEOPLE)
    rows = _some(len(x), people, seed)
    some = Some(model, metric, x[rows], y[rows], total, threads)
    search = _halve if flow.method(metric) in EXPLICIT else _refine
    for candidate, bound, tolerated, std_error, last in search(flow, some, target, most, seed):
        seen = max(bound.change, bound.noise)
        enough = seen <= tolerated
        if not (enough or last or flow.steps is not None):
            continue
        error = bound.safety * bound.change + bound.noise + bound.rounding * (bound.change > 0)
        if flow.precision == "float32":
            here, there = (some.after(candidate, kind) for kind in ("float32", "float64"))
            error += abs(some.mean_change(here, there)[0])
        steps, method = len(candidate.grid(metric)), candidate.method(metric)
        negligible = enough and seen > target * std_error
        return candidate, Certificate(
            method=method,
            steps=steps,
            evaluations=steps * SOLVERS[method].evaluations,
            error_bound=error,
            error_in_se=_in_units(error, std_error),
            subsample=len(rows),
            cap_reached=flow.steps is None and not enough,
            note=_theorem_2_2(flow, metric) + f" {_SMALL_ENOUGH}" * negligible,
        )
    raise AssertionError("a search ends with its last candidate")  # pragma: no cover


@dataclasses.dataclass(frozen=True)
class _Bound:
    """A bound on the error in its parts: as seen, and what chance and rounding may have hidden."""

    change: float
    noise: float
    safety: float = 1.0
    rounding: float = 0.0


_Tried = tuple[GradientFlow, _Bound, float, float, bool]
"""A flow with steps, its bound, what is tolerated, the standard error, and whether it is last."""


def _tolerated(some: Some, after: Float[np.ndarray, " m"], target: float) -> tuple[float, float]:
    value, std_error = some.value(after)
    return max(target * std_error, NEGLIGIBLE * abs(value - 1)), std_error


def _rounding(some: Some, after: Float[np.ndarray, " m"]) -> float:
    """Return what float32, in which solutions are compared, may have hidden."""
    return 10 * float(np.finfo(np.float32).eps) * abs(some.value(after)[0])


def _halve(flow: GradientFlow, some: Some, target: float, most: int, seed: int) -> Iterator[_Tried]:
    """Try an explicit solver with ever shorter steps; it begins where it is stable."""
    per_step = SOLVERS[flow.method(some.metric)].evaluations
    candidate = flow
    if flow.steps is None:
        candidate = dataclasses.replace(flow, steps=len(flow.grid(some.metric)))
    after = some.after(candidate)
    while True:
        finer = (
            dataclasses.replace(candidate, steps=2 * candidate.steps)
            if isinstance(candidate.steps, int)
            else candidate.refined(some.metric)
        )
        finer_after = some.after(finer)
        change, noise = some.mean_change(after, finer_after)
        bound = _Bound(2 * abs(change), 2 * noise, rounding=_rounding(some, finer_after))
        last = 2 * len(candidate.grid(some.metric)) * per_step > most
        yield candidate, bound, *_tolerated(some, finer_after, target), last
        candidate, after = finer, finer_after


def _refine(
    flow: GradientFlow, some: Some, target: float, most: int, seed: int
) -> Iterator[_Tried]:
    """Try an exponential solver, and compare it with a far finer solution."""
    tried = list(_candidates(flow, some.metric, most))
    # Those whose losses depend on the steps: seen from the first two solutions.
    first = tried[0]
    second = tried[1] if len(tried) > 1 else first.refined(some.metric)
    coarse, fine = some.after(first), some.after(second)
    tolerated, std_error = _tolerated(some, fine, target)
    rounding = _rounding(some, fine)
    count = min(max(some.total // DRAWN_SHARE, FEWEST_DRAWN), MOST_DRAWN)
    drawn = Drawn.of(some, coarse, fine, count, np.random.default_rng([seed, 5]))
    solved = {
        (known.method(some.metric), len(known.grid(some.metric))): losses[drawn.rows]
        for known, losses in ((first, coarse), (second, fine))
    }

    def after(solver: SolverName, candidate: GradientFlow) -> Float[np.ndarray, " u"]:
        key = (solver, len(candidate.grid(some.metric)))
        if key not in solved:
            solved[key] = drawn.people.after(dataclasses.replace(candidate, solver=solver))
        return solved[key]

    rate = _fastest(flow, some.metric)
    resolved = min(math.ceil(flow.time * rate / RESOLVING), most)
    for candidate in tried:
        steps = len(candidate.grid(some.metric))
        short = candidate.method(some.metric) == "exponential2"
        fine_steps = max(FINE, resolved, (FINER if short else FINER // 2) * steps)
        reference = after("exponential2", _fine(flow, rate, fine_steps))
        change, noise = drawn.mean_change(
            after(candidate.method(some.metric), candidate), reference
        )
        bound = _Bound(abs(change), 2 * noise, SAFETY, rounding)
        yield candidate, bound, tolerated, std_error, candidate is tried[-1]


def _fine(flow: GradientFlow, rate: float, steps: int) -> GradientFlow:
    """Return the flow with many steps, and two more at the start."""
    settling = (1 / rate, 4 / rate) if rate * flow.time > steps / 2 else ()
    rest = (flow.time - math.fsum(settling)) / steps
    return dataclasses.replace(
        flow, steps=settling + (rest,) * steps, schedule="constant", horizons=()
    )


def _candidates(flow: GradientFlow, metric: FairMetric, most: int) -> Iterator[GradientFlow]:
    """Return flows whose steps are settled, the cheapest first."""
    if flow.steps is not None:
        yield flow
        return
    solver, steps = flow.method(metric), FIRST
    while steps == FIRST or steps * SOLVERS[solver].evaluations <= most:
        yield dataclasses.replace(flow, solver=solver, steps=steps)
        if flow.solver == "auto" and solver == "exponential4" and steps == LONG:
            solver, steps = "exponential2", SHORT
        else:
            steps *= 2


def _fastest(flow: GradientFlow, metric: FairMetric) -> float:
    """Return the fastest rate at which the penalty pulls people back."""
    if flow.free_only or not isinstance(metric, QuadraticForm):
        return 0.0
    return 2 * flow.lam * metric.largest_eigenvalue


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


def _some(n: int, people: int, seed: int) -> Int[np.ndarray, " m"]:
    if n <= people:
        return np.arange(n)
    rng = np.random.default_rng([seed, 4])
    return np.sort(rng.choice(n, people, replace=False))
