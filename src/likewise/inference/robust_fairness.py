"""Distributionally robust fairness: how much the mean loss can rise if everybody moves a little.

Definition 2.1 of the paper. Where the audit gives each person the same price for moving, this
gives the whole population one budget, and spends it where it hurts most.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.estimate import Estimate, check_alpha
from likewise.inference.estimators import ONE_MORE, from_terms
from likewise.inference.hall import hall
from likewise.inference.sampling import Design

Table = Mapping[float, Float[np.ndarray, " n"]]
"""By λ, the c-transform of each person's loss."""

LADDER = (0.0, *(float(v) for v in np.geomspace(1e-3, 1e3, 13)))
"""Values of λ to begin with: none, and two to a decade."""


@dataclasses.dataclass(frozen=True)
class RobustValue:
    r"""The largest rise of the mean loss within a budget of fair distance.

    Parameters
    ----------
    value
        :math:`\min_\lambda \{\lambda \epsilon + \text{mean } \ell^c_\lambda\} - \text{mean } \ell`;
        infinite if somebody's loss has no limit.
    std_error, interval
        From the influence function :math:`\ell^c_{\lambda^*} - \ell`, corrected for skewness.
    lam
        The minimising :math:`\lambda^*`, which is the price of distance; 0 if the budget is more
        than anybody can use.
    gap
        The value at the best λ of all is smaller than ``value`` by at most this.
    epsilon
        The budget: mean :math:`d_x^2` that people may be moved by.
    notes
        What a reader should know, in sentences.
    """

    value: float
    std_error: float
    interval: tuple[float, float]
    lam: float
    gap: float
    epsilon: float
    n: int
    notes: tuple[str, ...]


def robust_fairness(
    loss: Float[np.ndarray, " n"],
    table: Table,
    epsilon: float,
    *,
    design: Design | None = None,
    alpha: float = 0.05,
) -> RobustValue:
    r"""Return the distributionally robust fairness value of a model (Definition 2.1).

    By duality (Blanchet and Murthy 2019) the supremum over all populations within ε of the
    sample is :math:`\min_{\lambda \ge 0} \{\lambda\epsilon + \text{mean }\ell^c_\lambda\}` with
    :math:`\ell^c_\lambda(x_i, y_i) = \max_x \{\ell(f(x), y_i) - \lambda d_x^2(x, x_i)\}`.

    Parameters
    ----------
    loss
        :math:`\ell(f(x_i), y_i)`, for each person.
    table
        :math:`\ell^c_\lambda` of each person, for some values of λ (see `tabulate`). With free
        directions it is infinite unless a reach bounds them.
    epsilon
        Budget, in units of :math:`d_x^2`; chosen by the auditor beforehand.
    design
        Weights and clusters, if there are any.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InvalidSettings(f"epsilon must be a positive number (got {epsilon:g}).")
    check_alpha(alpha)
    _check(loss, table)
    design = design or Design.make(len(loss))
    lams = sorted(float(lam) for lam in table)
    total = design.total_weights.sum()
    heights = [
        lam * epsilon + float(design.totals(table[lam] - loss).sum() / total) for lam in lams
    ]
    best = int(np.argmin(heights))
    value, lam = heights[best], lams[best]
    if math.isinf(value):
        return RobustValue(
            math.inf,
            math.nan,
            (math.nan, math.inf),
            math.nan,
            0.0,
            epsilon,
            len(loss),
            (
                "Somebody's loss grows without limit at every λ tried, so the value is infinite. "
                "Give the metric a reach, or try a larger λ.",
            ),
        )
    rises, weights = design.totals(table[lam] - loss), design.total_weights
    degrees = design.sampling.degrees
    estimate = _mean(rises, weights, value, design.n, degrees)
    # One more unit that is moved up more than any seen: the few who are decide the upper end.
    one, usual = ONE_MORE * float((rises / weights).max()), float(weights.mean())
    rises, weights = np.append(rises, one * usual), np.append(weights, usual)
    mean = float(rises.sum() / weights.sum())
    more = _mean(rises, weights, lam * epsilon + mean, design.n, degrees)
    lower, upper = hall(estimate).interval(alpha)
    gap = _gap(lams, heights, epsilon)
    return RobustValue(
        value,
        estimate.std_error,
        (lower, max(upper, hall(more).interval(alpha)[1])),
        lam,
        gap,
        epsilon,
        len(loss),
        _notes(lams, best, gap, estimate.std_error),
    )


def _mean(
    rises: Float[np.ndarray, " g"],
    weights: Float[np.ndarray, " g"],
    value: float,
    n: int,
    degrees: float,
) -> Estimate:
    total = float(weights.sum())
    mean = float(rises.sum()) / total
    return from_terms(value, (rises - mean * weights) * (len(rises) / total), n, degrees)


def tabulate(
    transform: Callable[[float], Float[np.ndarray, " n"]],
    loss: Float[np.ndarray, " n"],
    epsilon: float,
    *,
    lams: Iterable[float] = LADDER,
    tolerance: float = 1e-3,
    calls: int = 40,
    design: Design | None = None,
) -> dict[float, Float[np.ndarray, " n"]]:
    r"""Evaluate the c-transform where it matters, until the best λ is pinned down.

    The function to be minimised is convex in λ, so the two sides of the best λ so far are halved
    until no λ between can lower the value by more than ``tolerance`` times itself.

    Parameters
    ----------
    transform
        Returns :math:`\ell^c_\lambda` of each person for one λ.
    calls
        Evaluations at most, besides those of ``lams``.
    """
    table = {float(lam): transform(float(lam)) for lam in lams}
    for _ in range(calls):
        now = robust_fairness(loss, table, epsilon, design=design)
        if not math.isfinite(now.value) or now.gap <= tolerance * abs(now.value):
            break
        known = sorted(table)
        at = known.index(now.lam)
        left = known[at - 1] if at else 0.0
        right = known[at + 1] if at + 1 < len(known) else 4 * now.lam or 1.0
        # The wider side first; a grid that ends at the best λ is made longer.
        lam = (now.lam + right) / 2 if right - now.lam >= now.lam - left else (now.lam + left) / 2
        table[lam] = transform(lam)
    return table


def _check(loss: Float[np.ndarray, " n"], table: Table) -> None:
    if not table:
        raise InvalidSample("There is no λ in the table of c-transforms.")
    for lam, values in table.items():
        if not 0 <= lam < math.inf:
            raise InvalidSample(f"λ must be a number of at least 0, and {lam:g} is not.")
        bad = int((~(values >= loss - 1e-9 * np.maximum(1, np.abs(loss)))).sum())
        if bad:
            raise InvalidSample(
                f"At λ = {lam:g} the c-transform of {bad} of {len(loss)} people is below their own "
                "loss or not a number; it is a maximum over places that include their own."
            )


def _notes(lams: list[float], best: int, gap: float, std_error: float) -> tuple[str, ...]:
    notes = []
    if lams[best] == 0:
        notes.append(
            "The budget is more than anybody can use (λ* = 0): the value is the rise to the worst "
            "loss within reach, whatever the distance."
        )
    elif best in (0, len(lams) - 1):
        end = "smallest" if best == 0 else "largest"
        notes.append(f"The best λ is the {end} one tried; the value may be smaller beyond it.")
    if gap > 0.1 * std_error:
        notes.append(f"Between the λ tried, the value may be smaller by up to {gap:.2g}.")
    return tuple(notes)


def _gap(lams: list[float], heights: list[float], epsilon: float) -> float:
    """Return by how much a convex function may fall below the smallest height known of it.

    Outside the two points that it joins, a chord lies below a convex function; and no height is
    below λε, since nobody's loss falls.
    """
    points: list[tuple[float, float]] = []
    for x, y in zip(lams, heights, strict=True):
        # A chord between points that almost meet would be one of rounding errors.
        if math.isfinite(y) and (not points or x - points[-1][0] > 1e-8 * lams[-1]):
            points.append((x, y))
    chords = [
        ((y1 - y0) / (x1 - x0), y0 - x0 * (y1 - y0) / (x1 - x0))
        for (x0, y0), (x1, y1) in itertools.pairwise(points)
    ]
    edges = [0.0, *(x for x, _ in points), math.inf]
    lowest = math.inf
    for k, (start, end) in enumerate(itertools.pairwise(edges)):
        lines = [(epsilon, 0.0), *chords[max(k - 2, 0) : max(k - 1, 0)], *chords[k : k + 1]]
        if start < end:
            lowest = min(lowest, _lowest(lines, start, end))
    return max(0.0, min(heights) - lowest)


def _lowest(lines: list[tuple[float, float]], start: float, end: float) -> float:
    """Return the minimum of the largest of some lines (slope, intercept) over an interval."""
    crossings = [
        (b1 - b0) / (a0 - a1) for (a0, b0), (a1, b1) in itertools.combinations(lines, 2) if a0 != a1
    ]
    places = [start, *(x for x in (*crossings, end) if start <= x <= end and x < math.inf)]
    return min(max(a * x + b for a, b in lines) for x in places)
