"""Populations made to break a promise: rare harm, a dominating cluster, heavy weights, groups."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from calibration_lines import ALPHA, CAP, DELTA, Bar, Effort, Row, line
from calibration_lines.designs import outcomes_of
from likewise.inference.by_group import by_group
from likewise.inference.ratio_tests import LossRatioTest
from likewise.outcomes import Outcomes
from likewise.statistics.tally import Tally

Draw = Callable[[np.random.Generator, int], np.ndarray]
DRAWS = 2000


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
            found = np.zeros(2)
            for _ in range(effort.inversions):
                nobody = np.zeros(n, dtype=bool)
                people = outcomes_of(draw(rng, n), nobody, nobody)
                for k, strict in enumerate((False, True)):
                    verdict = LossRatioTest(DELTA, ALPHA, cap=CAP, strict=strict)(people)
                    found[k] += verdict.outcome == "within_tolerance"
            rates = found / effort.inversions
            for k, method in enumerate(("within tolerance", "within tolerance, strict")):
                yield Row(
                    method,
                    population,
                    n,
                    effort.inversions,
                    false_certification=float(rates[k]),
                    bars=bars,
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


UNEQUAL: dict[str, tuple[Callable[[np.random.Generator], Outcomes], bool]] = {
    **{
        f"one cluster of {g} holds 30 %": (
            in_clusters(dominated(g), half_normal, half_normal),
            True,
        )
        for g in (12, 60, 200)
    },
    "weights, Kish 9, exponential": (
        weighing(1000, lambda r, n: r.lognormal(0, 1.48, n), lambda r, n: r.exponential(size=n)),
        True,
    ),
    # Not used to choose the rule; skewed harm shared by few units is more than it promises.
    "two clusters of 40 hold 41 %, exponential": (
        in_clusters(
            [200, 200, *([15] * 38)],
            lambda r, n: r.exponential(0.7, n),
            lambda r, n: r.gamma(0.3, size=n),
        ),
        False,
    ),
    "Pareto weights, gamma harm": (
        weighing(400, lambda r, n: 1 + r.pareto(1.8, n), lambda r, n: r.gamma(0.4, size=n) / 0.4),
        True,
    ),
}


@line
def unequal_designs(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Let few clusters, or few people, hold most of the weight."""
    test = LossRatioTest(DELTA, ALPHA)
    for population, (draw, promised) in UNEQUAL.items():
        verdicts = [test(draw(rng)) for _ in range(effort.inversions)]
        covered = [v.interval[0] <= DELTA <= v.interval[1] for v in verdicts]
        bars = (Bar("size", high=0.065),) + ((Bar("coverage", low=0.93),) if promised else ())
        yield Row(
            "Hall, t and the jackknife",
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
    # Not used to choose the rule.
    "Pareto, index 3": lambda rng, n: 2 * rng.pareto(3.0, n),
    "Weibull, shape .6": lambda rng, n: rng.weibull(0.6, n) / 1.5046,
}


@line
def skewed_groups(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Ask that the intervals of eight groups of 60 people with skewed ratios hold together."""
    trait = np.repeat([f"group {k}" for k in range(8)], 60).astype(object)
    nobody = np.zeros(480, dtype=bool)
    for population, draw in GROUPED.items():
        seen = []
        for _ in range(effort.inversions):
            people = outcomes_of(1 + (DELTA - 1) * draw(rng, 480), nobody, nobody)
            people = dataclasses.replace(people, groups={"trait": trait})
            lines = by_group(Tally.of(people), rng=rng, delta=DELTA, alpha=ALPHA, draws=DRAWS)
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
