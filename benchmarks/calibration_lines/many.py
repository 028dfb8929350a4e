"""Many questions and many looks: groups, and the monitor."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import norm

from calibration_lines import ALPHA, DELTA, Bar, Effort, Row, line
from calibration_lines.adult_networks import network_ratios
from calibration_lines.designs import outcomes_of
from likewise.methods.decide import by_group
from likewise.outcomes import Outcomes
from likewise.record import GroupRecord
from likewise.settings import Settings
from likewise.stats.monitor import BettingTest, WealthState, play
from likewise.stats.tally import Tally

ROWS, EVERY = 9000, 100


Draw = Callable[[np.random.Generator, int], np.ndarray]


def excesses() -> dict[str, Draw]:
    """Return how excess ratios R - 1 with mean one are drawn, by population."""
    adult = network_ratios("overfitted") - 1
    return {
        "Adult, overfitted": lambda rng, n: rng.choice(adult, n) / adult.mean(),
        "lognormal, σ = 1.5": lambda rng, n: rng.lognormal(-(1.5**2) / 2, 1.5, n),
        "1 % harmed": lambda rng, n: 100.0 * (rng.random(n) < 0.01),
        # Ratios, not excesses, lognormal with σ = .4: at mean 1.35, found after some 240 rows.
        "lognormal ratios, σ = .4": lambda rng, n: 5 * rng.lognormal(-0.08, 0.4, n) - 4,
    }


@line
def monitor(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Look again and again, up to 9000 rows: betting, and z."""
    betting = BettingTest(DELTA, ALPHA, lo=0.0)
    at = np.arange(EVERY, ROWS + 1, EVERY)
    for population, draw in excesses().items():
        alarms, waits = [], []
        for _ in range(effort.inversions):
            ratio = 1 + (DELTA - 1) * draw(rng, ROWS)
            state = play(betting, WealthState(), ratio)
            means = np.cumsum(ratio)[at - 1] / at
            spreads = np.sqrt((np.cumsum(ratio**2)[at - 1] - at * means**2) / (at - 1))
            z = (means - norm.ppf(1 - ALPHA) * spreads / np.sqrt(at) > DELTA).any()
            alarms.append([state.rejected_at, z or None])
        for _ in range(effort.bootstrap):
            state = play(betting, WealthState(), 1.35 / DELTA * (1 + (DELTA - 1) * draw(rng, ROWS)))
            waits.append(state.rejected_at or ROWS)
        names = ("betting, at every row", "z, every 100 rows")
        for k, name in enumerate(names):
            rows = f"mean 1.35 found after {np.mean(waits):.0f} rows" if k < 1 else ""
            yield Row(
                name,
                population,
                ROWS,
                len(alarms),
                size=float(np.mean([alarm[k] is not None for alarm in alarms])),
                note=rows,
                bars=(Bar("size", high=0.05),) if k < 1 else (),
            )


LATE: dict[str, tuple[float, float, int, Draw]] = {
    "1.15, then 1.35 after 4500, exponential": (
        0.15,
        0.35,
        4500,
        lambda rng, n: rng.exponential(size=n),
    ),
    "1.15, then 1.35 after 4500, gamma": (
        0.15,
        0.35,
        4500,
        lambda rng, n: rng.gamma(2.0, 0.5, n),
    ),
    # Drifts that were not used to choose the weights.
    "1.20, then 1.50 after 20 000, lognormal": (
        0.2,
        0.5,
        20_000,
        lambda rng, n: rng.lognormal(-0.5, 1.0, n),
    ),
    "1.10, then 1.40 after 2000, Weibull": (
        0.1,
        0.4,
        2000,
        lambda rng, n: rng.weibull(0.7, n) / 1.2658,
    ),
}


@line
def late_drift(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Let a model get worse late (found within 4500 rows is power); and from the start."""
    for population, (before, after, drift, draw) in LATE.items():
        late, start = [], []
        for _ in range(effort.bootstrap):
            rows = np.concatenate([before * draw(rng, drift), after * draw(rng, 4500)])
            betting = BettingTest(DELTA, ALPHA, lo=0.0)
            state = play(betting, WealthState(), 1 + rows)
            late.append(np.inf if state.rejected_at is None else state.rejected_at - drift)
            state = play(betting, WealthState(), 1 + rows[drift:])
            start.append(state.rejected_at or len(rows))
        waits = np.array(late)
        found = np.isfinite(waits) & (waits > 0)
        median = f"half of them within {np.median(waits):.0f} rows" if found.mean() > 0.5 else ""
        yield Row(
            "betting",
            population,
            drift + 4500,
            len(waits),
            power=float(found.mean()),
            note=f"{median}; bad from the start: {np.mean(start):.0f} rows".lstrip("; "),
            bars=(Bar("power", low=0.95),),
        )


@line
def groups(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Audit five overlapping groups of 1000 people at once, or each as if it were alone."""
    chosen = {"Adult, overfitted": excesses()["Adult, overfitted"]}
    chosen["exponential"] = lambda rng, n: rng.exponential(size=n)
    for population, draw in chosen.items():
        together, alone = [], []
        for _ in range(effort.inversions):
            people = _people(1 + (DELTA - 1) * draw(rng, 1000), rng)
            lines = by_group(Tally.from_outcomes(people), Settings(delta=DELTA, alpha=ALPHA))
            together.append(
                (any(g.rejected for g in lines), all(g.lower <= DELTA <= g.upper for g in lines))
            )
            alone.append((any(g.p_value <= ALPHA for g in lines), all(_within(g) for g in lines)))
        for name, seen, bars in (
            ("groups, Bonferroni and Holm", together, (Bar("size", high=0.065),)),
            ("groups, each as if alone", alone, ()),
        ):
            size, coverage = np.mean(seen, axis=0).tolist()
            yield Row(name, population, 1000, len(seen), size=size, coverage=coverage, bars=bars)


def _people(ratio: np.ndarray, rng: np.random.Generator) -> Outcomes:
    n, nobody = len(ratio), np.zeros(len(ratio), dtype=bool)
    attributes = {
        "sex": rng.choice(["F", "M"], n, p=[0.4, 0.6]).astype(object),
        "race": rng.choice(["A", "B", "W"], n, p=[0.05, 0.2, 0.75]).astype(object),
    }
    # As a regression with all losses before equal to one: the same means, and no error rates.
    about = {"task": "regression"}
    return dataclasses.replace(outcomes_of(ratio, nobody, nobody), groups=attributes, about=about)


def _within(group: GroupRecord) -> bool:
    return abs(group.estimate - DELTA) <= norm.ppf(1 - ALPHA / 2) * group.std_error
