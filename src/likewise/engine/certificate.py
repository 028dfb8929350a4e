"""How far the computed flow can be from the true one: seen on some people, solved far finer."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Float, Shaped

from likewise.engine.certified_people import Drawn, Some, together
from likewise.engine.fine_solution import FineSolution, fastest
from likewise.maps.flow import EXPLICIT, SETTLED, SOLVERS, GradientFlow, Precision, SolverName
from likewise.metrics.fair_metric import FairMetric
from likewise.models.base import Model
from likewise.record import CertificateRecord

SHARE, FEWEST, MOST_PEOPLE = 6, 1000, 20_000
"""Steps are compared on one person in six, but within these limits.

The numerical error must be told from chance at a tenth of the standard error of everyone, so
the part of the people that is needed does not shrink as there are more of them.
"""

DRAWN_SHARE, FEWEST_DRAWN, MOST_DRAWN = 24, 384, 4096
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

_UNRESOLVED = (
    "Some people's paths depend on the steps however short these are, so that the error cannot be "
    "bounded."
)

_HEAVY = (
    "The error comes from so few of the people on whom it was looked for that it cannot be bounded "
    "for all."
)

_FEW = "The people harmed most, solved finely, change the value by more than was seen before."

MOST = 5000
"""Gradient evaluations a person, at most."""

ADAMS: Final = "exponential_adams"

LADDER: tuple[tuple[SolverName, int], ...] = (
    *((SETTLED, 16), (SETTLED, 24), (ADAMS, 24), (ADAMS, 48), ("exponential4", 8)),
    *((SETTLED, 48), (SETTLED, 64), (ADAMS, 64), (SETTLED, 96), ("exponential4", 16)),
    *((ADAMS, 96), (SETTLED, 128), (ADAMS, 128), (SETTLED, 192), ("exponential2", 128)),
)
"""Solvers and their steps, about in the order of their cost. One gradient a step takes short steps,
which cross kinks of the loss with less bias, and less still where kinks can be followed; where they
go wrong by themselves, order four in one step may not. The last solver goes on with ever shorter
ones."""

ROUGH, BESIDE = 4, 48
"""Steps of a solution as cheap as can be, since whoever it puts elsewhere may matter, and of a good
one to compare a finer one with."""

FIRST = 4
"""Steps that the search for enough of them begins with, where the solver was chosen."""

SAFETY = 2.0
"""Differences from the fine solution count twice."""

JUMP, AT_CROSSROADS, UNSEEN = 0.05, 3.0, 6.0
"""Where halved steps change one person's ratio by more than this share of the spread of all, there
are crossroads; another may then go another way unseen, and be off by three times the spread, or by
six times among people who were not looked at."""

FEWEST_WORTH = 1.5
"""An error that comes from fewer people than this, of those drawn, says nothing of the others."""

FINER = 0.5
"""Share of what is tolerated that may stay open of the fine solution."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A bound on the numerical error of the audit value.

    Parameters
    ----------
    method, steps, evaluations
        The solver, its steps, and the gradients it takes for each person.
    error_bound
        On the audit value: twice the difference from a far finer solution; what chance may have
        hidden of it, since it was seen on some people only; and what another halving of the fine
        steps would change, judged person by person, with one person in reserve. For a flow in
        float32, also its difference from float64. Not below the error that is aimed at, unless
        nothing depends on steps; infinite if the error cannot be bounded.
    error_in_se
        The same in standard errors of the audit value.
    subsample
        People it was found on.
    cap_reached
        Whether more evaluations than allowed would have been needed.
    precision
        What the flow is computed in.
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
    precision: str = "float64"
    note: str = ""

    @property
    def certified(self) -> bool:
        """Whether the error can be bounded."""
        return math.isfinite(self.error_bound)

    def less_sure(self, change: float) -> "Certificate":
        """Return the certificate when a few people, solved finely, change the value by so much."""
        if change <= self.error_bound:
            return self
        more = 1 + change / self.error_bound if self.error_bound else math.inf
        return dataclasses.replace(
            self,
            error_bound=self.error_bound + change,
            error_in_se=self.error_in_se * more,
            note=f"{self.note} {_FEW}",
        )

    def record(self) -> CertificateRecord:
        """Return the certificate as it stands in the result file."""
        return CertificateRecord(**dataclasses.asdict(self))


@np.errstate(over="ignore", invalid="ignore")  # people who diverge are counted by the audit
def certify(
    flow: GradientFlow,
    model: Model,
    metric: FairMetric,
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, " n"],
    *,
    weight: Float[np.ndarray, " n"] | None = None,
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
    :math:`2\lambda`. So solutions are compared with one that does, and that is itself halved for
    whoever still changes, on people drawn for it. If the flow leaves its steps open, the cheapest
    are taken whose difference from that solution is at most a tenth of a standard error.

    Parameters
    ----------
    weight
        What people count for; alike by default.
    n
        People in the whole audit, if ``x`` is only some of them: the standard error is theirs.
    target
        Error to aim at, in standard errors.
    most
        Evaluations a person, at most; if that binds, the certificate says so.
    """
    total = n or len(x)
    rows, wanted = np.arange(len(x)), min(max(total // SHARE, FEWEST), MOST_PEOPLE)
    if len(x) > wanted:
        rows = np.sort(np.random.default_rng([seed, 4]).choice(len(x), wanted, replace=False))
    own = None if weight is None else weight[rows]
    some = Some.of(model, metric, x[rows], y[rows], own, total, threads)
    tried = list(_candidates(flow, model, metric, most))
    cheap, good = _by_adams(tried[0], metric, ROUGH), _by_adams(tried[0], metric, BESIDE)
    first, rough = some.after(tried[0]), some.after(cheap)
    value, std_error = some.value(first)
    tolerated = max(target * std_error, NEGLIGIBLE * abs(value - 1))
    count = min(max(total // DRAWN_SHARE, FEWEST_DRAWN), MOST_DRAWN)
    drawn = Drawn.of(some, rough, first, count, np.random.default_rng([seed, 5]))
    beside = rough[drawn.rows] if cheap == good else drawn.people.after(good)
    true = FineSolution.of(flow, drawn, FINER * tolerated, beside)
    # A coarse solution may have been taken in about chance, too.
    std_error = min(std_error, drawn.std_error(true.after))
    tolerated = max(target * std_error, NEGLIGIBLE * abs(value - 1))
    for candidate in tried:
        again = candidate is not tried[0]
        after = drawn.people.after(candidate) if again else first[drawn.rows]
        seen = drawn.seen(after, true.after)
        if seen.size <= tolerated or candidate is tried[-1]:
            precision, after, rounding = _precision(flow, candidate, drawn, after, tolerated)
            seen = drawn.seen(after, true.after)
        if enough := seen.size <= tolerated:
            break
    # Somebody at a crossroads takes the other way at steps that nobody tried. Where halved steps
    # sent nobody another way, that is unlikely, and one person's spread is enough.
    one_person, spread = 0.0, std_error * math.sqrt(total)
    crossroads = true.jump > JUMP * spread
    if not np.array_equal(first[drawn.rows], beside):
        astray = AT_CROSSROADS if drawn.draws == total else UNSEEN
        one_person = (astray if crossroads else 1.0) * spread / total
        rounding += 10 * float(np.finfo(np.float32).eps) * abs(value)  # they are in float32
    still = together(drawn.parts(true.before, true.after))
    error = SAFETY * abs(seen.change) + seen.noise + still + one_person + rounding
    if one_person:  # nobody needs to know less, and a few people may have gone unseen
        error = max(error, target * std_error)
    why = [_theorem_2_2(flow, metric)]
    cap_reached = flow.steps is None and not enough
    unresolved = still > tolerated or (cap_reached and crossroads)
    heavy = seen.worth < FEWEST_WORTH and seen.noise > tolerated
    if unresolved or heavy:
        error = math.inf
        why.append(_UNRESOLVED if unresolved else _HEAVY)
    elif enough and abs(seen.change) > target * std_error:
        why.append(_SMALL_ENOUGH)
    steps, method = len(candidate.grid(metric)), candidate.method(metric)
    chosen = flow if flow.steps is not None else dataclasses.replace(candidate, precision=precision)
    return chosen, Certificate(
        method=method,
        steps=steps,
        evaluations=steps * SOLVERS[method].evaluations + SOLVERS[method].at_start,
        error_bound=error,
        error_in_se=error and (error / std_error if 0 < std_error < math.inf else math.inf),
        subsample=len(rows),
        cap_reached=cap_reached,
        precision=precision,
        note=" ".join(why),
    )


def _precision(
    flow: GradientFlow,
    settled: GradientFlow,
    drawn: Drawn,
    single: Float[np.ndarray, " u"],
    tolerated: float,
) -> tuple[Precision, Float[np.ndarray, " u"], float]:
    """Return what to compute in, people's losses then, and what float32 changes if that is it.

    Steps that somebody chose are computed in float64 unless that was chosen, too; and so are
    models that are not computed here, which would take as long. Rounding is seen on half of those
    drawn.
    """
    here = drawn.people.model.network is not None
    if flow.precision == "float32" or (flow.precision == "auto" and flow.steps is None and here):
        few = drawn.one_in(2)
        change = together(few.parts(single[::2], few.people.after(settled, "float64")))
        if flow.precision == "float32" or change <= FINER * tolerated:
            return "float32", single, change
    return "float64", drawn.people.after(settled, "float64"), 0.0


def _candidates(
    flow: GradientFlow, model: Model, metric: FairMetric, most: int
) -> Iterator[GradientFlow]:
    """Return flows whose steps are settled, the cheapest first."""
    if flow.steps is not None:
        yield flow
        return
    solver = flow.method(metric)
    ladder: tuple[tuple[SolverName, int], ...] = ((solver, FIRST),)
    if solver in EXPLICIT:  # which begin where they are stable
        ladder = ((solver, len(flow.grid(metric))),)
    elif flow.solver == "auto":
        follows = flow.can_settle(model, metric)
        ladder = tuple(rung for rung in LADDER if follows or rung[0] != SETTLED)
    for solver, steps in ladder:
        if (solver, steps) == ladder[0] or steps * SOLVERS[solver].evaluations <= most:
            yield dataclasses.replace(flow, solver=solver, steps=steps)
    while (steps := (3 * steps + 1) // 2) * SOLVERS[solver].evaluations <= most:
        yield dataclasses.replace(flow, solver=solver, steps=steps)


def _by_adams(flow: GradientFlow, metric: FairMetric, steps: int) -> GradientFlow:
    """Return the flow with so many steps of one gradient, or halved ones of an explicit solver."""
    if not metric.quadratic or flow.method(metric) in EXPLICIT:
        return flow.refined(metric)
    return dataclasses.replace(flow, solver=ADAMS, steps=steps, horizons=())


def _theorem_2_2(flow: GradientFlow, metric: FairMetric) -> str:
    # The penalty alone has this Lipschitz constant.
    power = fastest(flow, metric) * flow.time / math.log(10)
    if not power:
        return "Theorem 2.2's own bound has the factor exp(LT) and says nothing at this horizon."
    return f"Theorem 2.2's own bound has the factor exp(LT) > 10^{power:.0f} and says nothing."
