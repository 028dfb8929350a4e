"""How often matched pairs err, and what they find: nulls, attacks and planted unfairness.

    python benchmarks/matched_pairs.py [--quick] [--draws N] [--only WORD ...] [--file FILE]
        [--markdown]

Each line draws people and a pool again and again from a population whose truth is known, and
audits them with the same probes, sums and decisions as an audit does. Shown with Monte-Carlo
errors: how often there is evidence at a tolerance of 1 and of 1.25, how often the 95 % interval of
the difference covers the true one (over the people who have close pairs, at the L of these pairs;
beside it at the people's own L, which has no bar: pairs lie nearer the middle of the overlap), how
often "within tolerance" is wrong, and how often the wrong group is named. A line holds if no
figure is beyond its bar by more than two Monte-Carlo errors. Populations that were not used while
the method was made are marked with a star. Exit code 1 if a line misses.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri

from likewise.methods.matching import Covariates
from likewise.methods.pair_stats import (
    PairDesign,
    PairSums,
    cluster_propensities,
    pair_design,
    random_halves,
)
from likewise.stats.decision import Decision, DecisionRule, assess, decide

Rng = np.random.Generator
Array = np.ndarray
Rate = Callable[["Table", "Table", int], Array]
"""P(decision = 1) of people with remaining columns of a group, as people with L of the second
table have them; one a row."""


# --- An audit in memory, by the code of every audit ---------------------------------------------


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of people or of a pool: columns that may matter, remaining columns, an attribute."""

    numeric: Array
    category: Array
    remaining: Array
    group: Array
    weight: Array | None = None
    cluster: Array | None = None

    def __len__(self) -> int:
        return len(self.group)

    def take(self, rows: Array) -> "Table":
        """Return some of the rows."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Table(*(None if value is None else value[rows] for value in values))


@dataclasses.dataclass(frozen=True)
class Sample:
    """People, a pool (or none) and a model of numeric, category and remaining columns."""

    people: Table
    pool: Table | None
    model: Callable[[Array, Array, Array], Array]


@dataclasses.dataclass(frozen=True)
class Measured:
    """The sums of one pair of groups, and who was compared through which pairs."""

    sums: PairSums
    compared: tuple["Compared", "Compared"]


@dataclasses.dataclass(frozen=True)
class Compared:
    """Comparisons of one direction: people, members of their pairs (rows), shares in the mean."""

    person: Array
    own: Array
    other: Array
    share: Array


def measure(sample: Sample, seed: int = 0, block: int = 4096) -> dict[tuple[int, int], Measured]:
    """Compare all pairs of groups, block by block."""
    people, table = sample.people, sample.pool
    halves = None
    if table is None:
        table, halves = people, random_halves(seed, len(people), people.cluster)
    covariates = Covariates(table.numeric, table.category)
    codes = np.unique(people.group).tolist()
    return {
        (g, h): _measure_pair(
            sample,
            pair_design(
                covariates,
                table.group,
                (g, h),
                (seed, "attribute", str(g), str(h)),
                people=(int((people.group == g).sum()), int((people.group == h).sum())),
                clusters=table.cluster,
                halves=halves,
            ),
            block,
        )
        for at, g in enumerate(codes)
        for h in codes[at + 1 :]
    }


def _measure_pair(sample: Sample, design: PairDesign, block: int) -> Measured:
    people = sample.people
    remaining = (sample.people if sample.pool is None else sample.pool).remaining
    parts = []
    for start in range(0, len(people), block):
        rows = np.arange(start, min(start + block, len(people)))
        some = people.take(rows)
        covariates = Covariates(some.numeric, some.category)
        who = design.locate(rows, covariates, some.group, some.weight, some.cluster)
        ask = functools.partial(_ask, sample.model, some, remaining)
        parts.append((start, ask, who))
    if sample.pool is not None and people.cluster is not None:
        clusters = _total([cluster_propensities(who) for *_, who in parts])
        design = dataclasses.replace(design, people_clusters=clusters)
    sums = _total([design.measure(ask, who) for _, ask, who in parts])
    plans = [(start, design.comparison.plan(who)) for start, _, who in parts]
    compared = [_compared(plans, sums.parts(direction)) for direction in (0, 1)]
    return Measured(sums, (compared[0], compared[1]))


def _compared(plans: list[tuple[int, Any]], wanted: list[int]) -> Compared:
    found = []
    for start, plan in plans:
        rows = np.flatnonzero(plan.each(np.isin(plan.part, wanted)))
        parts = start + plan.person, plan.own, plan.other, plan.share
        found.append([part[rows] for part in parts])
    person, own, other, share = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Compared(person, own, other, share / max(share.sum(), 1e-300))


def _ask(model: Any, some: Table, remaining: Array, i: Array, j: Array) -> Array:
    values = model(some.numeric[i], some.category[i], remaining[j])
    return np.asarray(values, dtype=np.float64).reshape(len(i), -1)


def _total(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def judge(found: dict[tuple[int, int], Measured], delta: float) -> Decision:
    """Decide all ordered pairs of groups together."""
    rows = {}
    for (g, h), pair in found.items():
        for direction, key in enumerate(((g, h), (h, g))):
            rows[key] = assess(pair.sums.compared(direction, 0), DecisionRule(delta=delta))
    return decide(rows)


# --- Populations whose truth is known -----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table: a population, sizes, and what is true of it.

    ``rate`` is the true rate given L and a group; without it nothing differs between groups.
    ``star``: not used while the method was made. ``exempt``: shown, without a bar.
    """

    name: str
    n: int
    pool: int
    draw: Callable[[Rng, int, int], Sample]
    rate: Rate | None = None
    star: bool = False
    exempt: bool = False
    always: bool = False
    power: float | None = None
    slow: bool = False


def none(size: int) -> Array:
    """Return no category columns."""
    return np.zeros((size, 0), dtype=np.int64)


@dataclasses.dataclass(frozen=True)
class Smooth:
    """Normal columns that may matter, one remaining column around a function of them.

    F = shape(L) + effect · S + noise; decision 1 if slope · L₂ + F > threshold; P(S = 1 | L) =
    propensity(L).
    """

    propensity: Callable[[Array], Array]
    shape: Callable[[Array], Array]
    effect: float = 0.0
    noise: float = 0.5
    slope: float = 0.5
    threshold: float = 1.0
    columns: Callable[[Rng, int], Array] = lambda rng, n: rng.normal(size=(n, 3))
    weights: bool = False

    def table(self, rng: Rng, n: int) -> Table:
        """Draw rows."""
        x = self.columns(rng, n)
        group = (rng.random(n) < self.propensity(x)).astype(np.int64)
        f = self.shape(x) + self.effect * group + self.noise * rng.normal(size=n)
        weight = rng.pareto(3, n) + 0.5 if self.weights else None
        return Table(x, none(n), f[:, None], group, weight)

    def draw(self, rng: Rng, n: int, pool: int) -> Sample:
        """Draw people and a pool."""
        people = self.table(rng, n)
        reference = dataclasses.replace(self.table(rng, pool), weight=None) if pool else None
        return Sample(people, reference, self.model)

    def model(self, numeric: Array, category: Array, remaining: Array) -> Array:
        """Decide."""
        return self.slope * numeric[:, 1] + remaining[:, 0] > self.threshold

    def rate(self, people: Table, like: Table, group: int) -> Array:
        """Return the true rate."""
        given = self.slope * people.numeric[:, 1] - self.threshold
        return ndtr((given + self.shape(like.numeric) + self.effect * group) / self.noise)

    def with_ratio(self, ratio: float) -> "Smooth":
        """Return the population whose effect gives people of group 0 a true ratio."""
        rows = self.table(np.random.default_rng(0), 200_000)
        rows = rows.take(rows.group == 0)
        own = self.rate(rows, rows, 0).mean()

        def excess(effect: float) -> float:
            other = dataclasses.replace(self, effect=effect).rate(rows, rows, 1).mean()
            return float(other / own - ratio)

        return dataclasses.replace(self, effect=float(brentq(excess, 0, 6)))


def _line(name: str, n: int, pool: int, of: Smooth, **more: Any) -> Line:
    return Line(name, n, pool, of.draw, of.rate if of.effect else None, **more)


def hump(x: Array) -> Array:
    return 1 - x[:, 0] ** 2


HUMP = Smooth(lambda x: expit(4 * hump(x)), lambda x: 1.5 * hump(x), threshold=0.5)
ALONE = dataclasses.replace(HUMP, shape=lambda x: 0 * x[:, 0], effect=0.5)
SINE = Smooth(lambda x: expit(3 * np.sin(2 * x[:, 0])), lambda x: 2 * np.sin(2 * x[:, 0]))
STEP = Smooth(lambda x: np.where(x[:, 0] > 0, 0.9, 0.1), lambda x: 2.0 * (x[:, 0] > 0))
CROSS = Smooth(lambda x: expit(2 * x[:, 0] * x[:, 1]), lambda x: 1.5 * x[:, 0] * x[:, 1])
STEEP = Smooth(lambda x: expit(2.5 * x[:, 0]), lambda x: x[:, 0], noise=1.0)
PLAIN = Smooth(lambda x: expit(x[:, 0]), lambda x: x[:, 0], noise=1.0)
RANDOM = Smooth(lambda x: np.full(len(x), 0.5), lambda x: x[:, 0], noise=1.0)
RARE = Smooth(lambda x: expit(0.5 * x[:, 0] - 3), lambda x: x[:, 0], noise=1.0)
CERTAIN = Smooth(lambda x: expit(12 * x[:, 0]), lambda x: x[:, 0], noise=1.0)
INCOME = Smooth(
    lambda x: expit(1.5 * np.log(x[:, 0])),
    lambda x: np.log(x[:, 0]),
    noise=1.0,
    columns=lambda rng, n: np.column_stack(
        [np.exp(1.2 * rng.normal(size=n)), rng.normal(size=(n, 2))]
    ),
)
HEAVY = Smooth(
    lambda x: expit(1.5 * np.tanh(x[:, 0])),
    lambda x: 1.5 * np.tanh(x[:, 0] + 0.5 * x[:, 2]),
    noise=0.7,
    columns=lambda rng, n: rng.standard_t(2, size=(n, 3)),
)
ALIKE = Smooth(
    lambda x: expit(1.5 * x[:, :4].mean(axis=1)),
    lambda x: x[:, :4].mean(axis=1),
    noise=1.0,
    columns=lambda rng, n: (
        math.sqrt(0.9) * rng.normal(size=(n, 1)) + math.sqrt(0.1) * rng.normal(size=(n, 5))
    ),
)
BOARD = Smooth(
    lambda x: np.where(np.floor(x[:, :2]).sum(axis=1) % 2 == 0, 0.85, 0.15),
    lambda x: 1.5 * (np.floor(x[:, :2]).sum(axis=1) % 2 == 0),
)


def wide(columns: int) -> Smooth:
    return Smooth(
        lambda x: expit(x[:, 0] + 0.5 * x[:, 2]),
        lambda x: x[:, 0] + 0.5 * x[:, 2],
        noise=1.0,
        columns=lambda rng, n: rng.normal(size=(n, columns)),
    )


def hundred(rng: Rng, n: int, pool: int) -> Sample:
    """Rates .25 and .6 by the remaining column alone, equal groups."""

    def table(size: int) -> Table:
        group = rng.permutation(np.arange(size) % 2)
        f = rng.normal(size=size) + np.where(group == 1, ndtri(0.6), ndtri(0.25))
        return Table(rng.normal(size=(size, 3)), none(size), f[:, None], group)

    return Sample(table(n), table(pool), lambda x, c, f: f[:, 0] > 0)


def hundred_rate(people: Table, like: Table, group: int) -> Array:
    return np.full(len(people), 0.6 if group else 0.25)


def by_group(rates: Callable[[Array], Array]) -> tuple[Any, Rate]:
    """Return populations whose model reads the attribute, given thresholds by L and group.

    The remaining columns are the attribute and noise; decision 1 if the noise is below the rate.
    """

    def draw(rng: Rng, n: int, pool: int) -> Sample:
        def table(size: int) -> Table:
            x = rng.normal(size=(size, 3))
            group = (rng.random(size) < expit(0.5 * x[:, 0])).astype(np.int64)
            f = np.column_stack([group, rng.random(size)])
            return Table(x, none(size), f, group)

        def model(x: Array, c: Array, f: Array) -> Array:
            level = rates(x)[np.arange(len(x)), f[:, 0].astype(np.int64)]
            return f[:, 1] < level

        return Sample(table(n), table(pool) if pool else None, model)

    def rate(people: Table, like: Table, group: int) -> Array:
        return rates(people.numeric)[:, group]

    return draw, rate


def constant_rates(first: float, second: float) -> Callable[[Array], Array]:
    def rates(x: Array) -> Array:
        # The rate leans on L as well, around its mean.
        lean = 1 + 0.5 * np.tanh(x[:, 1])
        return np.column_stack([first * lean, second * lean])

    return rates


def four_groups(rng: Rng, n: int, pool: int) -> Sample:
    """Four groups by L, no effect."""

    def table(size: int) -> Table:
        x = rng.normal(size=(size, 3))
        logits = np.column_stack([np.zeros(size), x[:, 0], 0.7 * x[:, 1] - 0.5, -0.8 * x[:, 0]])
        group = (logits + rng.gumbel(size=(size, 4))).argmax(axis=1)
        f = x[:, 0] + rng.normal(size=size)
        return Table(x, none(size), f[:, None], group)

    return Sample(table(n), table(pool), lambda x, c, f: 0.5 * x[:, 1] + f[:, 0] > 1)


def panel(declared: bool, effect: float = 0.0) -> tuple[Any, Rate]:
    """One to ten rows a person, who keep their attribute and much of their other columns."""

    def draw(rng: Rng, n: int, pool: int) -> Sample:
        def table(size: int, first: int) -> Table:
            repeats = rng.integers(1, 11, size)
            person = np.repeat(np.arange(size), repeats)[:size]
            base, own = rng.normal(size=(size, 3)), rng.normal(size=size)
            x = (base[person] + 0.3 * rng.normal(size=(size, 3))) / math.sqrt(1.09)
            group = (rng.random(size) < expit(base[:, 0])).astype(np.int64)[person]
            f = x[:, 0] + 0.9 * own[person] + math.sqrt(0.19) * rng.normal(size=size)
            f = f + effect * group
            cluster = first + person if declared else None
            return Table(x, none(size), f[:, None], group, None, cluster)

        return Sample(table(n, 0), table(pool, 10**6) if pool else None, PLAIN.model)

    def rate(people: Table, like: Table, group: int) -> Array:
        return dataclasses.replace(PLAIN, effect=effect).rate(people, like, group)

    return draw, rate


def repeated(declared: bool) -> Any:
    """Return a random attribute, every row of the pool eight times."""

    def draw(rng: Rng, n: int, pool: int) -> Sample:
        people = RANDOM.table(rng, n)
        rows = np.repeat(np.arange(pool // 8), 8)
        reference = RANDOM.table(rng, pool // 8).take(rows)
        cluster = rows if declared else None
        return Sample(people, dataclasses.replace(reference, cluster=cluster), RANDOM.model)

    return draw


def forest(fresh: bool) -> Any:
    """Return an overfitted forest, with its training rows as pool, or with others."""

    def draw(rng: Rng, n: int, pool: int) -> Sample:
        from sklearn.ensemble import RandomForestClassifier

        training, people = PLAIN.table(rng, pool), PLAIN.table(rng, n)
        x = np.column_stack([training.numeric, training.remaining])
        y = rng.random(pool) < expit(2 * (x[:, 1] + x[:, 3] - 1))
        seed = int(rng.integers(2**31))
        grown = RandomForestClassifier(30, min_samples_leaf=1, random_state=seed).fit(x, y)

        def model(numeric: Array, category: Array, remaining: Array) -> Array:
            return grown.predict(np.column_stack([numeric, remaining]))

        return Sample(people, PLAIN.table(rng, pool) if fresh else training, model)

    return draw


def coarse(effect: float) -> tuple[Any, Rate]:
    """Two columns that may matter, with three values each."""
    of = dataclasses.replace(PLAIN, effect=effect)

    def draw(rng: Rng, n: int, pool: int) -> Sample:
        def table(size: int) -> Table:
            x = rng.integers(0, 3, (size, 2)) - 1.0
            group = (rng.random(size) < expit(x[:, 0])).astype(np.int64)
            f = x[:, 0] + effect * group + rng.normal(size=size)
            return Table(x, none(size), f[:, None], group)

        return Sample(table(n), table(pool), of.model)

    return draw, of.rate


def gaps(effect: float) -> tuple[Any, Rate]:
    """Return a column that is missing more often in one group, and a category of six levels."""

    def draw(rng: Rng, n: int, pool: int) -> Sample:
        def table(size: int) -> Table:
            x = rng.normal(size=(size, 3))
            category = rng.choice(6, size=size, p=(0.4, 0.25, 0.15, 0.1, 0.07, 0.03))
            lost = rng.random(size) < 0.2
            logit = 0.8 * x[:, 0] + 0.4 * (category - 2) + 1.0 * lost
            group = (rng.random(size) < expit(logit)).astype(np.int64)
            x[lost, 2] = np.nan
            f = x[:, 0] + 0.3 * category - 0.6 + 0.8 * lost + effect * group + rng.normal(size=size)
            return Table(x, category[:, None], f[:, None], group)

        return Sample(table(n), table(pool), lambda x, c, f: 0.5 * x[:, 1] + f[:, 0] > 1)

    def rate(people: Table, like: Table, group: int) -> Array:
        x, category = like.numeric, like.category[:, 0]
        lost = np.isnan(x[:, 2])
        centre = x[:, 0] + 0.3 * category - 0.6 + 0.8 * lost + effect * group
        return ndtr(0.5 * people.numeric[:, 1] + centre - 1)

    return draw, rate


@functools.cache
def lines() -> tuple[Line, ...]:
    """Return all lines of the table."""
    direct, direct_rate = by_group(
        lambda x: np.column_stack([expit(x[:, 1] - 1), expit(x[:, 1] + 0.5)])
    )
    exclusion, exclusion_rate = by_group(
        lambda x: np.column_stack([np.zeros(len(x)), expit(x[:, 1] - 1.9)])
    )
    acceptances, acceptances_rate = by_group(constant_rates(0.019, 0.15))
    refusals, refusals_rate = by_group(lambda x: 1 - constant_rates(0.06, 0.02)(x))
    ratio = PLAIN.with_ratio(1.25)
    coarse_null, coarse_effect = coarse(0.0), coarse(0.8)
    gap_null, gap_effect = gaps(0.0), gaps(0.8)
    panel_null, panel_effect = panel(True), panel(True, 0.8)
    found = [
        _line("hump, no effect", 400, 2000, HUMP),
        _line("sine, no effect", 400, 2000, SINE),
        _line("step, no effect", 400, 2000, STEP),
        _line("interaction, no effect", 400, 2000, CROSS),
        _line("attribute by L x 2.5, no effect", 400, 2000, STEEP),
        _line("skewed income, no effect", 400, 2000, INCOME),
        _line("random attribute", 400, 2000, RANDOM),
        _line("random attribute, small", 120, 400, RANDOM),
        _line("random attribute, large", 5000, 10_000, RANDOM, slow=True),
        _line("5 % group, no effect", 600, 2000, RARE),
        Line("four groups, no effect", 600, 2400, four_groups, slow=True),
        Line("panel declared, no effect", 400, 2000, panel_null[0]),
        Line("panel not declared, no effect", 400, 2000, panel(False)[0], exempt=True),
        Line("rows x 8 declared, random attribute", 400, 2000, repeated(True)),
        Line("rows x 8 not declared", 400, 2000, repeated(False), exempt=True, slow=True),
        Line("forest, its training set as pool", 300, 1200, forest(False), slow=True),
        Line("forest, another pool", 300, 1200, forest(True), slow=True),
        Line("coarse 3 x 3, no effect", 400, 2000, coarse_null[0]),
        _line("8 columns, no effect", 400, 2000, wide(8)),
        _line("12 columns, no effect", 400, 2000, wide(12), slow=True),
        _line("near-deterministic, no effect", 400, 2000, CERTAIN),
        _line("no pool: hump, no effect", 1000, 0, HUMP),
        _line("no pool: random attribute", 1000, 0, RANDOM),
        _line("no pool: linear, no effect", 1000, 0, PLAIN),
        _line("heavy tails, no effect", 400, 2000, HEAVY, star=True),
        _line("correlated columns, no effect", 400, 2000, ALIKE, star=True),
        _line("chessboard, no effect", 400, 2000, BOARD, star=True, slow=True),
        Line("gaps and levels, no effect", 400, 2000, gap_null[0], star=True),
        _line("Pareto weights, no effect", 400, 2000, dataclasses.replace(PLAIN, weights=True)),
        _line("true ratio 1.25, confounded", 1000, 3000, ratio, slow=True),
        _line("hump in L and F, effect", 400, 2000, dataclasses.replace(HUMP, effect=0.6)),
        _line("hump in L alone, effect", 400, 2000, ALONE, star=True),
        Line("direct use of the attribute", 400, 1000, direct, direct_rate, always=True),
        Line("total exclusion", 400, 1000, exclusion, exclusion_rate, always=True),
        Line("rare acceptances, 15 and 1.9 %", 800, 2000, acceptances, acceptances_rate),
        Line("rare refusals, 6 and 2 %", 2000, 4000, refusals, refusals_rate, slow=True),
        Line("rates .25 and .6, 100 a group", 200, 400, hundred, hundred_rate, power=0.8),
        Line("panel declared, effect", 400, 2000, panel_effect[0], panel_effect[1]),
        Line("coarse 3 x 3, effect", 400, 2000, coarse_effect[0], coarse_effect[1]),
        Line("no pool: panel, effect", 1000, 0, panel_effect[0], panel_effect[1], star=True),
        _line("no pool: linear, effect", 1000, 0, dataclasses.replace(PLAIN, effect=0.8)),
        _line("heavy tails, effect", 400, 2000, dataclasses.replace(HEAVY, effect=0.6), star=True),
        Line("gaps and levels, effect", 400, 2000, gap_effect[0], gap_effect[1], star=True),
        _line("5 % group, effect", 600, 2000, dataclasses.replace(RARE, effect=0.8)),
        _line(
            "Pareto weights, effect",
            *(400, 2000),
            dataclasses.replace(PLAIN, weights=True, effect=0.8),
        ),
    ]
    for wanted in (1.5, 2.0, 3.0):
        of = PLAIN.with_ratio(wanted)
        found += [
            _line(f"ratio {wanted:g}, n = {n}", n, 2 * n, of, slow=n > 500)
            for n in (120, 500, 2000, 5000)
        ]
    return tuple(found)


# --- The table ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """What one line showed. Rates are shares of draws; coverage is over draws and directions."""

    line: str
    star: bool
    n: int
    pool: int
    draws: int
    decided: float
    pattern: float
    ratio: float
    raw: float
    bias: float
    corrected: float
    kappa: float
    truth: float
    truth_at_people: float
    evidence_1: float
    evidence: float
    within: float
    false_within: float
    wrong_name: float
    coverage: float
    coverage_at_people: float
    null: bool
    band: bool
    misses: list[str]
    seconds: float


BARS = {"evidence at 1.25": 0.05, "evidence at 1": 0.08, "within": 0.06, "coverage": 0.91}


def drawn(line: Line, seed: int, draw: int) -> dict[str, Any]:
    """Audit one draw; return what was decided, and for every ordered pair of groups its figures."""
    begun = time.process_time()
    sample = line.draw(np.random.default_rng([seed, draw]), line.n, line.pool)
    found = measure(sample, seed=draw)
    strict, usual = judge(found, 1.0), judge(found, 1.25)
    rows: dict[str, Any] = {}
    wrong = 0
    for (g, h), pair in found.items():
        rises, truths = [], []
        for direction, key in enumerate(((g, h), (h, g))):
            row = usual.rows[key]
            estimate = row.compared.estimate
            truths.append(true_rates(line, sample, pair.compared[direction], *key).tolist())
            rises.append(bool(estimate and estimate.difference > 0))
            figures = None
            if row.undecided is None and estimate is not None:
                raw = estimate.other - estimate.own
                figures = [raw, estimate.bias, estimate.difference, estimate.kappa, estimate.ratio]
                figures += estimate.difference_interval()
            reason = row.reason if row.undecided else None
            rows[f"{g} {h}" if direction == 0 else f"{h} {g}"] = [truths[-1], figures, reason]
        evidence = [usual.rows[key].outcome == "evidence" for key in ((g, h), (h, g))]
        # The first gains from the columns of the second, or the second loses with those of the
        # first; rows that contradict each other name nobody.
        named = {rises[row] == (row == 0) for row in (0, 1) if evidence[row]}
        if len(named) == 1 and line.rate is not None:
            own, other = truths[0][:2]
            wrong += named != {other > own}
    return {
        "line": line.name,
        "draw": draw,
        "one": strict.outcome,
        "band": usual.outcome,
        "wrong": wrong,
        "rows": rows,
        "seconds": time.process_time() - begun,
    }


def summed(line: Line, draws: list[dict[str, Any]]) -> Row:
    """Count over the draws of one line."""
    keys = list(draws[0]["rows"])
    mean = {}
    for key in keys:
        truths = [draw["rows"][key][0] for draw in draws if key in draw["rows"]]
        mean[key] = np.nanmean(np.array(truths, dtype=np.float64), axis=0)
    covered, shown, reasons = [], [], []
    for draw in draws:
        for key, (_, figures, reason) in draw["rows"].items():
            reasons.append(reason)
            if figures is not None:
                low, high = figures[5:]
                true = mean[key]
                covered.append([low <= true[at + 1] - true[at] <= high for at in (0, 2)])
                if key == keys[0]:
                    shown.append(figures[:5])
    count = len(draws)
    coverage = np.mean(covered, axis=0) if covered else np.full(2, math.nan)
    beyond = max(_further_from_one(*rates[2:]) for rates in mean.values())
    average = np.mean(shown, axis=0) if shown else np.full(5, math.nan)
    first = mean[keys[0]]
    within = sum(draw["band"] == "within_tolerance" for draw in draws) / count
    row = Row(
        line=line.name,
        star=line.star,
        n=line.n,
        pool=line.pool,
        draws=count,
        decided=sum(all(r[2] is None for r in d["rows"].values()) for d in draws) / count,
        pattern=sum(reason == "pattern" for reason in reasons) / len(reasons),
        ratio=float(average[4]),
        raw=float(average[0]),
        bias=float(average[1]),
        corrected=float(average[2]),
        kappa=float(average[3]),
        truth=float(first[1] - first[0]),
        truth_at_people=float(first[3] - first[2]),
        evidence_1=sum(draw["one"] == "evidence" for draw in draws) / count,
        evidence=sum(draw["band"] == "evidence" for draw in draws) / count,
        within=within,
        false_within=within if beyond > 1.25 * (1 + 1e-3) else 0.0,
        wrong_name=sum(draw["wrong"] for draw in draws) / count,
        coverage=float(coverage[0]),
        coverage_at_people=float(coverage[1]),
        null=line.rate is None,
        band=bool(beyond <= 1.25 * (1 + 2e-2)),
        misses=[],
        seconds=sum(draw["seconds"] for draw in draws),
    )
    row.misses = [] if line.exempt else misses(line, row, len(covered))
    return row


def run(line: Line, draws: int, seed: int) -> Row:
    """Draw again and again, and count."""
    return summed(line, [drawn(line, seed, number) for number in range(draws)])


def true_rates(line: Line, sample: Sample, of: Compared, g: int, h: int) -> Array:
    """Return the true rates with columns of the own and the other group.

    First those at the L of the pairs used, which is what is estimated; then at the people's own L.
    """
    if line.rate is None:
        return np.zeros(4)
    if not len(of.person):
        return np.full(4, math.nan)
    pool = sample.people if sample.pool is None else sample.pool
    people, first, second = (
        sample.people.take(of.person),
        pool.take(of.own),
        pool.take(of.other),
    )
    middle = dataclasses.replace(first, numeric=(first.numeric + second.numeric) / 2)
    return np.array(
        [of.share @ line.rate(people, like, s) for like in (middle, people) for s in (g, h)]
    )


def _further_from_one(own: float, other: float) -> float:
    """Return the ratio of the rarer outcome, or its inverse, whichever is above 1."""
    if own == other:
        return 1.0
    if own + other > 1:
        own, other = 1 - own, 1 - other
    return max(own, other) / max(min(own, other), 1e-12)


def misses(line: Line, row: Row, covered: int) -> list[str]:
    """Return what is beyond its bar by more than two Monte-Carlo errors."""
    found = []

    def check(name: str, value: float, bar: float, count: int, above: bool = True) -> None:
        error = 2 * math.sqrt(bar * (1 - bar) / max(count, 1))
        if value > bar + error if above else value < bar - error:
            found.append(f"{name} {value:.3f}, bar {bar:g}")

    if row.band:
        check("evidence at 1.25", row.evidence, BARS["evidence at 1.25"], row.draws)
    if row.null and row.n <= 1000:
        check("evidence at 1", row.evidence_1, BARS["evidence at 1"], row.draws)
    check("false within", row.false_within, BARS["within"], row.draws)
    if covered:
        # Both directions of a draw are nearly one observation.
        check("coverage", row.coverage, BARS["coverage"], row.draws, above=False)
    if line.always and row.evidence < 1:
        found.append(f"not found in {1 - row.evidence:.3f}")
    if line.power is not None:
        check("power", row.evidence, line.power, row.draws, above=False)
    if row.wrong_name > 0:
        check("wrong group named", row.wrong_name, 0.025, row.draws)
    return found


HEADER = (
    f"{'line':<38}{'n':>5}{'pool':>6}{'draws':>6}{'decid.':>7}{'patt.':>6}{'raw D':>7}{'b':>7}"
    f"{'D_c':>7}{'true D':>7}{'people':>7}{'kappa':>6}{'at 1':>6}{'at 1.25':>8}{'within':>7}"
    f"{'wrong':>6}{'cover':>6}{'people':>7}{'MC':>6}{'s':>6}  "
)


def text(row: Row) -> str:
    """Return one line of the table."""
    error = math.sqrt(0.05 * 0.95 / row.draws)
    verdict = "misses: " + "; ".join(row.misses) if row.misses else "holds"
    return (
        f"{row.line + (' *' if row.star else ''):<38}{row.n:>5}{row.pool:>6}{row.draws:>6}"
        f"{row.decided:>7.2f}{row.pattern:>6.2f}{row.raw:>7.3f}{row.bias:>7.3f}{row.corrected:>7.3f}"
        f"{row.truth:>7.3f}{row.truth_at_people:>7.3f}{row.kappa:>6.2f}{row.evidence_1:>6.3f}"
        f"{row.evidence:>8.3f}{row.within:>7.3f}{row.wrong_name:>6.3f}{row.coverage:>6.3f}"
        f"{row.coverage_at_people:>7.3f}{error:>6.3f}{row.seconds:>6.0f}  {verdict}"
    )


def markdown(rows: list[Row]) -> str:
    """Return the two tables of the Validation page."""
    parts = []
    for null, title in ((True, "Without an effect"), (False, "With an effect")):
        parts += ["", f"{title}:", "", "| population | people | reference | draws | decided "]
        parts[-1] += "| evidence at 1 | at 1.25 | false within | coverage |"
        parts.append("|---" + "|---:" * 8 + "|")
        for row in rows:
            if row.null == null:
                shares = row.decided, row.evidence_1, row.evidence, row.false_within, row.coverage
                pool = f"{row.pool:,}" if row.pool else "halves"
                name = row.line.removeprefix("no pool: ") + " *" * row.star
                cells = [name, f"{row.n:,}", pool, f"{row.draws:,}", *map(_share, shares)]
                parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts[1:])


def _share(value: float) -> str:
    """Return a share to three digits, without the zero before the point."""
    if value != value:
        return "—"
    return f"{value:.0f}" if value in (0, 1) else f"{value:.3f}".removeprefix("0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--markdown", action="store_true", help="the tables of the docs' page")
    parser.add_argument("--quick", action="store_true", help="20 draws a line, without slow lines")
    parser.add_argument("--draws", type=int, help="draws a line (1,000 of cheap nulls, else 300)")
    parser.add_argument("--only", nargs="+", default=[], help="lines whose name has a word")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", type=Path, help="keep every draw as a line of JSON, and resume")
    options = parser.parse_args()
    chosen = [
        line
        for line in lines()
        if (not options.only or any(word in line.name for word in options.only))
        and not (options.quick and line.slow)
    ]
    draws: dict[str, list[dict[str, Any]]] = {line.name: [] for line in chosen}
    if options.file and options.file.exists():
        for text_line in options.file.read_text().splitlines():
            draw = json.loads(text_line)
            draws.setdefault(draw["line"], []).append(draw)
    wanted = {
        line.name: options.draws
        or (20 if options.quick else 1000 if line.rate is None and not line.slow else 300)
        for line in chosen
    }
    # In turn over all lines, so that a run that is stopped has its share of each.
    most = max(wanted.values())
    for number, line in itertools.product(range(1, most + 1), chosen):
        done = draws[line.name]
        while len(done) < math.ceil(number * wanted[line.name] / most):
            done.append(drawn(line, options.seed, len(done)))
            if options.file:
                with options.file.open("a") as out:
                    out.write(json.dumps(done[-1]) + "\n")
    rows = [summed(line, draws[line.name]) for line in chosen if draws[line.name]]
    print(markdown(rows) if options.markdown else "\n".join([HEADER, *map(text, rows)]))
    low = [row.line for row in rows if row.coverage < 0.93 - 2 * math.sqrt(0.0651 / row.draws)]
    missed = [row.line for row in rows if row.misses]
    print(f"{len(rows) - len(missed)} of {len(rows)} lines hold; coverage below .93: {len(low)}")
    return int(bool(missed) or len(low) > 3)


if __name__ == "__main__":
    sys.exit(main())
