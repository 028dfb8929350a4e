"""Populations made to break a promise: rare harm, a dominating cluster, heavy weights, groups."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from calibration_lines import ALPHA, CAP, DELTA, Bar, Effort, Row, line
from calibration_lines.designs import outcomes_of
from likewise.checks.robust import robust_fairness
from likewise.methods.decide import by_group
from likewise.outcomes import Outcomes
from likewise.settings import Settings
from likewise.stats.groups import group_metrics
from likewise.stats.loss_ratio import LossRatioTest
from likewise.stats.tally import Tally

Draw = Callable[[np.random.Generator, int], np.ndarray]


def harmed(base: float, harm: float) -> Draw:
    """Most people at ``base``, and just enough harmed that the capped mean is the tolerance."""
    share = (DELTA - base) / (min(harm, CAP) - base)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < share, harm, base + 0.01 * rng.normal(size=n))

    return draw


RARE: dict[str, tuple[Draw, tuple[int, ...]]] = {
    "base 1.22, .34 % harmed to the cap": (harmed(1.22, CAP), (300, 1000)),
    "base 1.24, .11 % harmed to the cap": (harmed(1.24, CAP), (108, 1000)),
    "base 1.20, .57 % harmed ×94": (harmed(1.2, 94.0), (300, 1000)),
    # Not used to choose the rule.
    "base 1.15, 3.5 % harmed ×4": (harmed(1.15, 4.0), (150, 1000)),
    "base 1.235, .17 % harmed ×30": (harmed(1.235, 30.0), (300, 4000)),
}


@line
def rare_harm(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Certify models whose harm is rare, beside a base that is harmed a little, too."""
    bars = (Bar("false_certification", high=0.06),)
    for population, (draw, sizes) in RARE.items():
        for n in sizes:
            test, nobody = LossRatioTest(DELTA, ALPHA, cap=CAP), np.zeros(n, dtype=bool)
            found = [
                test(outcomes_of(draw(rng, n), nobody, nobody)).outcome == "within_tolerance"
                for _ in range(effort.inversions)
            ]
            rate = float(np.mean(found))
            yield Row(
                "within tolerance", population, n, len(found), false_certification=rate, bars=bars
            )


def in_clusters(
    sizes: list[int], shared: Callable, own: Callable
) -> Callable[[np.random.Generator], Outcomes]:
    """Draw people in clusters of these sizes, with a part of their harm in common."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)

    def draw(rng: np.random.Generator) -> Outcomes:
        harm = shared(rng, len(sizes))[cluster] + own(rng, len(cluster))
        nobody = np.zeros(len(cluster), dtype=bool)
        return outcomes_of(1 + (DELTA - 1) * harm, nobody, nobody, cluster=cluster)

    return draw


def weighing(
    n: int, weights: Callable, harm: Callable
) -> Callable[[np.random.Generator], Outcomes]:
    """Draw people with weights that say nothing about their harm."""

    def draw(rng: np.random.Generator) -> Outcomes:
        nobody = np.zeros(n, dtype=bool)
        ratio = 1 + (DELTA - 1) * harm(rng, n)
        return outcomes_of(ratio, nobody, nobody, weight=weights(rng, n))

    return draw


def half_normal(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw normal harm with mean and standard deviation one half."""
    return rng.normal(0.5, 0.5, n)


def half_gamma(rng: np.random.Generator, n: int) -> np.ndarray:
    """Gamma of shape one half."""
    return rng.gamma(0.5, size=n)


def dominated(clusters: int) -> list[int]:
    """Sizes of clusters of which the first has 30 % of the people."""
    each = max(1, round(700 / (clusters - 1)))
    return [round(each * (clusters - 1) * 3 / 7), *([each] * (clusters - 1))]


UNEQUAL: dict[str, Callable[[np.random.Generator], Outcomes]] = {
    **{
        f"one cluster of {g} holds 30 %": in_clusters(dominated(g), half_normal, half_normal)
        for g in (12, 60, 200)
    },
    "weights, Kish 9, exponential": weighing(
        1000, lambda r, n: r.lognormal(0, 1.48, n), lambda r, n: r.exponential(size=n)
    ),
    "weights, Kish 9, lognormal": weighing(
        1000, lambda r, n: r.lognormal(0, 1.48, n), lambda r, n: r.lognormal(-0.5, 1.0, n)
    ),
    "two clusters of 40 hold 41 %, exponential": in_clusters(
        [200, 200, *([15] * 38)],
        lambda r, n: r.exponential(0.7, n),
        lambda r, n: r.gamma(0.3, size=n),
    ),
    "20 clusters of 50, gamma, ICC .5": in_clusters([50] * 20, half_gamma, half_gamma),
    "Pareto weights, gamma harm": weighing(
        400, lambda r, n: 1 + r.pareto(1.8, n), lambda r, n: r.gamma(0.4, size=n) / 0.4
    ),
    # Not used to choose the rule.
    "25 clusters from 4 to 100, Weibull": in_clusters(
        [4 * k for k in range(1, 26)],
        lambda r, n: 0.6 * r.weibull(0.7, n) / 1.2658,
        lambda r, n: 0.4 * r.exponential(size=n),
    ),
    "weights, Kish 5, Pareto 3 harm": weighing(
        600, lambda r, n: r.lognormal(0, 1.27, n), lambda r, n: 2 * r.pareto(3.0, n)
    ),
}


@line
def unequal_designs(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Let few clusters, or few people, hold most of the weight."""
    test = LossRatioTest(DELTA, ALPHA)
    bars = (Bar("size", high=0.065), Bar("coverage", low=0.93))
    for population, draw in UNEQUAL.items():
        verdicts = [test(draw(rng)) for _ in range(effort.inversions)]
        covered = [v.interval[0] <= DELTA <= v.interval[1] for v in verdicts]
        yield Row(
            "Hall, t",
            population,
            verdicts[0].n,
            len(verdicts),
            size=float(np.mean([v.rejected for v in verdicts])),
            upper_miss=float(np.mean([v.upper_bound < DELTA for v in verdicts])),
            coverage=float(np.mean(covered)),
            bars=bars,
        )


GROUPED: dict[str, Draw] = {
    "lognormal, σ = 1": lambda rng, n: rng.lognormal(-0.5, 1.0, n),
    "lognormal, σ = 1.5": lambda rng, n: rng.lognormal(-1.125, 1.5, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "10 % harmed": lambda rng, n: 10.0 * (rng.random(n) < 0.1),
    # Not used to choose the rule.
    "Pareto, index 3": lambda rng, n: 2 * rng.pareto(3.0, n),
    "Weibull, shape .6": lambda rng, n: rng.weibull(0.6, n) / 1.5046,
}


@line
def skewed_groups(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Ask that the intervals of eight groups of 60 people with skewed ratios hold together."""
    attribute = np.repeat([f"group {k}" for k in range(8)], 60).astype(object)
    nobody = np.zeros(480, dtype=bool)
    for population, draw in GROUPED.items():
        seen = []
        for _ in range(effort.inversions):
            people = outcomes_of(1 + (DELTA - 1) * draw(rng, 480), nobody, nobody)
            people = dataclasses.replace(people, groups={"attribute": attribute})
            lines = by_group(Tally.from_outcomes(people), Settings(delta=DELTA, alpha=ALPHA))
            seen.append(
                (any(g.rejected for g in lines), all(g.lower <= DELTA <= g.upper for g in lines))
            )
        size, coverage = np.mean(seen, axis=0).tolist()
        yield Row(
            "groups, with one more person",
            population,
            480,
            len(seen),
            size=size,
            coverage=coverage,
            bars=(Bar("size", high=0.065), Bar("coverage", low=0.93)),
        )


def flips_in(
    sizes: list[int], share: float, icc: float
) -> Callable[[np.random.Generator], Outcomes]:
    """Draw decisions that change in a share of people, which differs between clusters."""
    cluster, k = np.repeat(np.arange(len(sizes)), sizes), 1 / icc - 1

    def draw(rng: np.random.Generator) -> Outcomes:
        chance = rng.beta(share * k, (1 - share) * k, len(sizes))[cluster]
        nobody = np.zeros(len(cluster), dtype=bool)
        changed = rng.random(len(cluster)) < chance
        return outcomes_of(np.ones(len(cluster)), nobody, changed, cluster=cluster)

    return draw


def flips_weighing(
    n: int, share: float, weights: Callable
) -> Callable[[np.random.Generator], Outcomes]:
    """Draw decisions that change in a share of people with weights."""

    def draw(rng: np.random.Generator) -> Outcomes:
        changed = rng.random(n) < share
        return outcomes_of(np.ones(n), np.zeros(n, dtype=bool), changed, weight=weights(rng, n))

    return draw


FLIPS: dict[str, tuple[float, Callable[[np.random.Generator], Outcomes]]] = {
    "10 clusters of 50, ICC .1": (0.1, flips_in([50] * 10, 0.1, 0.1)),
    "20 clusters of 25, ICC .3": (0.1, flips_in([25] * 20, 0.1, 0.3)),
    "one cluster of 12 holds 30 %, ICC .1": (0.1, flips_in([300, *([64] * 11)], 0.1, 0.1)),
    "weights, Kish 9": (0.1, flips_weighing(1000, 0.1, lambda r, n: r.lognormal(0, 1.48, n))),
    # Not used to choose the rule.
    "15 clusters from 8 to 120, ICC .15": (
        0.15,
        flips_in([8 * k for k in range(1, 16)], 0.15, 0.15),
    ),
    "Pareto weights": (0.08, flips_weighing(500, 0.08, lambda r, n: 1 + r.pareto(1.8, n))),
}


@line
def flips(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Ask that the interval of the share of changed decisions holds on designs."""
    for population, (share, draw) in FLIPS.items():
        seen = []
        for _ in range(effort.inversions):
            people = draw(rng)
            seen.append(
                group_metrics(Tally.from_outcomes(people), alpha=ALPHA)["decisions_changed", "", ""]
            )
        yield Row(
            "share of changed decisions",
            f"{population}, {100 * share:g} %",
            seen[0].n,
            len(seen),
            upper_miss=float(np.mean([q.upper < share for q in seen])),
            coverage=float(np.mean([q.lower <= share <= q.upper for q in seen])),
            bars=(Bar("coverage", low=0.93),),
        )


OFF = 0.3
"""Numerical error of the estimate, in standard errors: the most that goes unsaid elsewhere."""

STEPPED: dict[str, Draw] = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    # Not used to choose the rule.
    "lognormal, σ = .5": lambda rng, n: rng.lognormal(-0.125, 0.5, n),
    "uniform": lambda rng, n: 2 * rng.random(n),
}


@line
def numerical_error(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Let the computed ratios be off by .3 standard errors, as a certificate says they may."""
    test, n = LossRatioTest(DELTA, ALPHA), 400
    nobody = np.zeros(n, dtype=bool)
    for population, draw in STEPPED.items():
        rejected = np.zeros(2)
        for _ in range(effort.inversions):
            ratio = 1 + (DELTA - 1) * draw(rng, n)
            off = OFF * float(ratio.std()) / np.sqrt(n)
            evidence = test.evidence_of(outcomes_of(ratio + off, nobody, nobody))
            rejected += [
                e.result(DELTA, ALPHA).rejected for e in (evidence.allowing(off), evidence)
            ]
        for name, rate, bars in zip(
            ("added to the bounds", "left out"),
            (rejected / effort.inversions).tolist(),
            ((Bar("size", high=0.065),), ()),
            strict=True,
        ):
            yield Row(
                f"numerical error {name}", population, n, effort.inversions, size=rate, bars=bars
            )


TAILS: dict[str, Draw] = {
    "Pareto excess, index 2.2": lambda rng, n: rng.pareto(2.2, n),
    # Not used to choose the rule.
    "half Student, 2 degrees": lambda rng, n: np.abs(rng.standard_t(2, n)),
    "Fréchet, index 2": lambda rng, n: rng.weibull(2.0, n) ** -1.0,
}


@line
def heavy_tails(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Ask that tails too heavy for three moments are noticed (as power)."""
    test = LossRatioTest(DELTA, ALPHA)
    for population, draw in TAILS.items():
        for n in (1000, 4000):
            nobody, seen = np.zeros(n, dtype=bool), []
            for _ in range(max(20, effort.inversions // 4)):
                evidence = test.evidence_of(outcomes_of(1 + draw(rng, n), nobody, nobody))
                seen.append(evidence.details["hill_index"] < 3)
            power = float(np.mean(seen))
            bars = (Bar("power", low=0.93),) if n == 4000 else ()
            yield Row("tail diagnostic", population, n, len(seen), power=power, bars=bars)


MARGINS: dict[str, Draw] = {
    "margins N(4, 2)": lambda rng, n: rng.normal(4.0, 2.0, n),
    "one in ten unsure": lambda rng, n: (
        np.where(rng.random(n) < 0.1, -1.0, 6.0) + 0.3 * rng.normal(size=n)
    ),
    # Not used to choose the rule.
    "margins exponential": lambda rng, n: 3 * rng.exponential(size=n) - 1,
    "margins logistic": lambda rng, n: 2 + rng.logistic(size=n),
}
PUSHES = np.linspace(0, 4, 41)


def pushed(margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return losses when margins are pushed down, and what that costs."""
    moved = np.logaddexp(0, -(margins[:, None] - PUSHES))
    return moved, np.tile(PUSHES**2, (len(margins), 1))


@line
def robust_fairness_interval(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Cover the distributionally robust value of a logistic model, with a budget of .5."""
    for population, draw in MARGINS.items():
        truth = robust_fairness(*pushed(draw(rng, 100_000)), 0.5).value
        for n in (100, 400):
            seen = [
                robust_fairness(*pushed(draw(rng, n)), 0.5).interval
                for _ in range(max(20, effort.inversions // 4))
            ]
            yield Row(
                "robust fairness",
                population,
                n,
                len(seen),
                upper_miss=float(np.mean([high < truth for _, high in seen])),
                coverage=float(np.mean([low <= truth <= high for low, high in seen])),
                bars=(Bar("coverage", low=0.93),),
            )
