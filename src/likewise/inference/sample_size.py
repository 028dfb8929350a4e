"""How many people an audit needs, before anybody is audited."""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from likewise.errors import InvalidSample, InvalidSettings
from likewise.inference.pilot import (
    Pilot,
    check_rise,
    errors_with_effect,
    score_power,
    skewed_people,
)
from likewise.inference.power import (
    check_goal,
    error_rows,
    fewest_rows,
    mid_p_power,
    normal_power,
    normal_rows,
)
from likewise.inference.sampling import Design, ratio_of_means
from likewise.outcomes import Outcomes, troubles
from likewise.statistics.moments import ErrorTable

FEW = 30
"""Fewer people than this say little, in a pilot or in an audit."""

CURVE = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Where the power curve is shown, in parts of the rows needed."""


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """What one test needs.

    Parameters
    ----------
    test
        ``loss_ratio``, ``error_rate_ratio`` or ``mean_loss_ratio``.
    n, power
        People needed, and how often the test then finds the effect.
    effect
        The ratio to be found.
    method
        How the power was computed.
    assumes
        What it rests on, in a sentence.
    curve
        Power at other numbers of people.
    """

    test: str
    n: int
    power: float
    effect: float
    method: str
    assumes: str
    curve: tuple[tuple[int, float], ...]


@dataclasses.dataclass(frozen=True)
class SamplePlan:
    """People needed to find an unfairness, test by test.

    Parameters
    ----------
    rows
        One for each test that enough is known about.
    delta, alpha, power
        Tolerance, rate of false alarms, and how often the audit should find the effect.
    notes
        What a reader should know, in sentences.
    """

    rows: tuple[PlanRow, ...]
    delta: float
    alpha: float
    power: float
    notes: tuple[str, ...] = ()


def plan(
    effect: float | None = None,
    delta: float = 1.25,
    alpha: float = 0.05,
    power: float = 0.8,
    *,
    sd: float | None = None,
    skewness: float | None = None,
    base_error: float | None = None,
    pilot: Outcomes | None = None,
    seed: int = 0,
    repetitions: int = 2000,
) -> SamplePlan:
    """Return how many people it takes to find an unfairness of a given size.

    Parameters
    ----------
    effect
        The ratio worth finding, above ``delta``; with a pilot, its own ratios unless named.
    power
        How often the audit should find it.
    sd
        Standard deviation of one person's loss ratio, for the loss-ratio test.
    skewness
        Skewness of one person's loss ratio, if known: of ratios skewed to the right Hall's test
        needs fewer people than the normal limit says, which is used without it.
    base_error
        Share of wrong decisions before anybody is moved, for the error-rate test.
    pilot
        Outcomes of a small audit, in place of both: samples like it are drawn and tested.
    seed, repetitions
        Of that resampling.

    Examples
    --------
    >>> plan(1.4, sd=0.9, base_error=0.2).rows[0].n
    223
    """
    check_goal(effect, delta, alpha, power)
    if pilot is not None:
        if any(given is not None for given in (sd, skewness, base_error)):
            raise InvalidSettings("Give either a pilot, or sd and base_error, not both.")
        return _from_pilot(SamplePlan((), delta, alpha, power), pilot, effect, seed, repetitions)
    if skewness is not None and sd is None:
        raise InvalidSettings("A skewness (--skewness) is of use with sd (--sd) only.")
    if sd is None and base_error is None:
        raise InvalidSettings(
            "How much do people differ? Give sd (--sd) for the loss ratio, base_error "
            "(--base-error) for the error rates, or a pilot (--pilot)."
        )
    if effect is None:
        raise InvalidSettings("Which ratio should the audit find? Give effect (--effect).")
    goal = SamplePlan((), delta, alpha, power)
    rows = [] if sd is None else [_loss_row(goal, effect, sd, skewness, seed, repetitions)]
    rows += [] if base_error is None else [_error_row(goal, effect, base_error)]
    return dataclasses.replace(goal, rows=tuple(rows))


def _loss_row(
    goal: SamplePlan, effect: float, sd: float, skewness: float | None, seed: int, repetitions: int
) -> PlanRow:
    if not 0 < sd < math.inf:
        raise InvalidSettings(f"sd must be a positive number (got {sd:g}).")
    start = normal_rows(effect, goal.delta, sd, goal.alpha, goal.power)
    if skewness is not None:
        drawn = skewed_people(effect, sd, skewness)
        skewed = functools.partial(
            drawn.power, delta=goal.delta, alpha=goal.alpha, seed=seed, repetitions=repetitions
        )
        n = fewest_rows(skewed, start, goal.power, precision=0.02)
        assumes = (
            f"One person's loss ratio has standard deviation {sd:g} and skewness {skewness:g}, as "
            "of a gamma distribution."
        )
        return _row("loss_ratio", n, skewed, effect, "Hall, resampled", assumes)

    def power_at(n: int) -> float:
        return normal_power(n, effect, goal.delta, sd, goal.alpha)

    assumes = (
        f"One person's loss ratio has standard deviation {sd:g}, and n is large. Ratios skewed to "
        "the right need fewer people (skewness)."
    )
    return _row("loss_ratio", start, power_at, effect, "normal limit", assumes)


def _error_row(goal: SamplePlan, effect: float, base_error: float) -> PlanRow:
    if not 0 < base_error < 1:
        raise InvalidSettings(f"base_error must lie between 0 and 1 (got {base_error:g}).")
    check_rise(effect, base_error)

    def powers(n: Int[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        return mid_p_power(n, effect, goal.delta, base_error, goal.alpha)

    def power_at(n: int) -> float:
        return float(powers(np.array([n]))[0])

    start = error_rows(effect, goal.delta, base_error, goal.alpha, goal.power)
    n = fewest_rows(power_at, start, goal.power)
    # Power rises in a saw-tooth; take the first n from which on it stays up.
    around = np.arange(max(2, n - 100), n + 200)
    while (short := np.flatnonzero(powers(around) < goal.power)).size and short[-1] > 200:
        around = around + 200
    n = int(around[short[-1] + 1]) if short.size else int(around[0])
    assumes = f"{100 * base_error:.3g} % of decisions are wrong before the map; none turns right."
    return _row("error_rate_ratio", n, power_at, effect, "mid-P, enumerated", assumes)


def _row(
    test: str,
    n: int,
    power_at: Callable[[int], float],
    effect: float,
    method: str,
    assumes: str,
) -> PlanRow:
    sizes = sorted({max(2, round(n * part)) for part in CURVE})
    curve = {size: power_at(size) for size in sizes}
    if n < FEW:
        assumes += f" Audit {FEW} people all the same: the theory is poor with fewer."
    return PlanRow(test, n, curve[n], float(effect), method, assumes, tuple(curve.items()))


def _from_pilot(
    goal: SamplePlan, pilot: Outcomes, effect: float | None, seed: int, repetitions: int
) -> SamplePlan:
    if len(pilot) < FEW:
        raise InvalidSample(
            f"The pilot has {len(pilot)} people; fewer than {FEW} say too little. Audit "
            "some more, or give sd and base_error."
        )
    if stuck := troubles(pilot.counts()):
        raise InvalidSample(f"The pilot's audit is not trustworthy: {stuck[0]}.")
    regression = pilot.about.get("task") == "regression"
    tests = {"mean_loss_ratio": (pilot.loss_after, pilot.loss_before)}
    if not regression:
        tests = {"loss_ratio": (pilot.ratio, np.ones(len(pilot)))}
        wrong = pilot.error_after.astype(np.float64), pilot.error_before.astype(np.float64)
        tests["error_rate_ratio"] = wrong
    design, rows, notes = Design.of(pilot), [], []
    for test, columns in tests.items():
        shown = ratio_of_means(columns[1], columns[0], design).value
        wanted = shown if effect is None else effect
        if not math.isfinite(shown):
            notes.append(f"The pilot's {_words(test)} is not defined, so it plans nothing.")
        elif shown <= 1 or wanted <= goal.delta:
            notes.append(
                f"The pilot's {_words(test)} is {shown:.3g}: not an effect that an audit with "
                f"delta = {goal.delta:g} could be planned from."
            )
        else:
            rows.append(_pilot_row(goal, test, pilot, columns, wanted, seed, repetitions))
    if not rows:
        raise InvalidSample(" ".join([*notes, "Give --effect, --sd and --base-error instead."]))
    notes.append(
        f"Planned from a pilot of {len(pilot)} people, and as uncertain as that pilot; resampled "
        f"power is the share of {repetitions} samples."
    )
    return dataclasses.replace(goal, rows=tuple(rows), notes=tuple(notes))


def _pilot_row(
    goal: SamplePlan,
    test: str,
    pilot: Outcomes,
    columns: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    effect: float,
    seed: int,
    repetitions: int,
) -> PlanRow:
    design, rng = Design.of(pilot), np.random.default_rng(seed)
    after, before = columns
    if test == "error_rate_ratio":
        base = float(design.totals(before).sum() / design.total_weights.sum())
        check_rise(effect, base)
        if design.simple and pilot.monotone:
            return _error_row(goal, effect, base)
        wrong = pilot.error_after, pilot.error_before
        after = errors_with_effect(*wrong, design.weight, effect, rng).astype(np.float64)
    scaled = Pilot.of(
        after, before, design, effect, "mean" if test == "loss_ratio" else "total", rng
    )
    if test == "error_rate_ratio" and design.simple:
        table = ErrorTable.of(pilot.error_before, pilot.error_after)
        method = "score, resampled"
        power_at = score_power(table, effect, goal.delta, goal.alpha, seed, repetitions)
    else:
        method = design.sampling.named("Hall, resampled")
        power_at = functools.partial(
            scaled.power, delta=goal.delta, alpha=goal.alpha, seed=seed, repetitions=repetitions
        )
    start = normal_rows(effect, goal.delta, scaled.sd, goal.alpha, goal.power)
    # Resampled power is known to one or two in a hundred; rows need be no closer.
    n = fewest_rows(power_at, start, goal.power, precision=0.02)
    assumes = f"People differ as in the pilot, scaled to a ratio of {effect:.3g}."
    return _row(test, n, power_at, effect, method, assumes)


def _words(test: str) -> str:
    return test.replace("_", "-", 1).replace("_", " ")
