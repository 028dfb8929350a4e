"""Matched pairs written a second time, as a plain loop: every number has to be the same."""

import dataclasses
import functools
import math
import operator

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, t
from sklearn.ensemble import HistGradientBoostingClassifier

from likewise.methods.matching import Covariates, uniforms
from likewise.methods.pair_stats import cluster_propensities, pair_design, random_halves
from likewise.methods.redraws import stratified_folds
from likewise.stats.decision import DecisionRule, assess

KEY = (7, "sex", "f", "m")


def model(numeric, category, remaining):
    score = numeric[0] + 0.5 * remaining[0] + 0.3 * (category[0] == 1)
    return float(score > 0.8) if score == score else 0.0


def population(seed, n, offset=0):
    rng = np.random.default_rng(seed)
    numeric = np.column_stack([rng.normal(size=n), rng.integers(0, 8, n).astype(float)])
    numeric[rng.random(n) < 0.1, 1] = np.nan
    category = rng.integers(0, 2, (n, 1))
    cluster = offset + np.arange(n) // 3
    chance = 1 / (1 + np.exp(-numeric[:, 0]))
    group = (rng.random(n) < chance).astype(int)
    remaining = numeric[:, :1] + rng.normal(size=(n, 1)) + 0.8 * group[:, None]
    return numeric, category, remaining, group, cluster


class Plain:
    """The whole method in loops over people and pairs, given the random numbers."""

    def __init__(self, people, pool, halves, weight=None, clusters=False):
        self.people, self.pool, self.halves, self.clusters = people, pool, halves, clusters
        self.weight = np.ones(len(people[3])) if weight is None else weight
        self.x, self.y = (self.coordinates(table, pool) for table in (people, pool))
        jitter = lambda rows, who: np.array(  # noqa: E731
            [[z((*KEY, f"jitter {who}"), 2 * row + k) for k in (0, 1)] for row in range(rows)]
        )
        self.y = self.y + 1e-3 * jitter(len(self.y), "pool")
        self.x = self.y if halves is not None else self.x + 1e-3 * jitter(len(self.x), "people")
        self.e_pool, self.e_people = self.propensities()

    def coordinates(self, table, pool):
        columns = []
        for values, known in zip(table[0].T, pool[0].T, strict=True):
            known = known[~np.isnan(known)]
            rank = [
                0.5
                if math.isnan(v)
                else ((known < v).sum() + 0.5 * (known == v).sum()) / len(known)
                for v in values
            ]
            columns.append(math.sqrt(12) * np.array(rank) / math.sqrt(2))
        return np.column_stack(columns)

    def propensities(self):
        x, s, cluster = np.hstack(self.pool[:2]), self.pool[3], self.pool[4]
        fold = stratified_folds(s == 1, KEY, cluster if self.clusters else None)
        options = {"max_iter": 60, "learning_rate": 0.1, "max_leaf_nodes": 8, "random_state": 0}
        options |= {"early_stopping": False, "categorical_features": [2]}
        e = np.zeros(len(s))
        for number in range(5):
            fit = HistGradientBoostingClassifier(**options).fit(
                x[fold != number], s[fold != number]
            )
            e[fold == number] = fit.predict_proba(x[fold == number])[:, 1]
        whole = HistGradientBoostingClassifier(**options).fit(x, s)
        people = (
            e if self.halves is not None else whole.predict_proba(np.hstack(self.people[:2]))[:, 1]
        )
        return np.clip(e, 0.01, 0.99), np.clip(people, 0.01, 0.99)

    def same_cell(self, one, i, two, j):
        equal = one[1][i] == two[1][j]
        return equal.all() and (np.isnan(one[0][i]) == np.isnan(two[0][j])).all()

    def pairs(self, rows, s):
        found = [
            (math.dist(self.y[i], self.y[j]), i, j)
            for i in rows
            for j in rows
            if s[i] == 0 and s[j] == 1 and self.same_cell(self.pool, i, self.pool, j)
        ]
        taken, kept = set(), []
        for d, i, j in sorted(found):
            if d <= 0.5 and i not in taken and j not in taken:
                taken |= {i, j}
                kept.append((i, j))
        return kept

    def compare(self, direction, s_people, s_pool):
        """Return (person, pairs, own, other) of everyone kept, and the pairs."""
        if self.halves is None:
            pairs = [self.pairs(range(len(s_pool)), s_pool)]
        else:
            pairs = [self.pairs(np.flatnonzero(self.halves == half), s_pool) for half in (0, 1)]
        m = min(max(min(map(len, pairs)) // 10, 4), 20)
        kept = []
        for i in np.flatnonzero(s_people == direction):
            near = []
            for q in pairs[0 if self.halves is None else 1 - int(self.halves[i])]:
                if self.same_cell(self.people, i, self.pool, q[0]):
                    near.append((math.dist(self.x[i], (self.y[q[0]] + self.y[q[1]]) / 2), q))
            near = sorted(near)[:m]
            if len(near) < 4 or np.median([d for d, _ in near]) > 0.8:
                continue
            who = self.people[0][i], self.people[1][i]
            own, other = (
                np.array([model(*who, self.pool[2][q[side]]) for _, q in near])
                for side in (direction, 1 - direction)
            )
            kept.append((i, [q for _, q in near], own, other))
        return kept, pairs

    def rates(self, kept):
        w = np.array([self.weight[i] for i, *_ in kept])
        w = w / w.sum()
        own, other = [own.mean() for *_, own, _ in kept], [other.mean() for *_, other in kept]
        return w, sum(w * own), sum(w * other)

    def redraw(self, number, direction):
        draw = []
        for role, e, table in (
            ("pool", self.e_pool, self.pool),
            ("people", self.e_people, self.people),
        ):
            unit, c = np.arange(len(e)), table[4]
            if self.clusters:
                e = np.array([e[c == k].mean() for k in c])
                unit = np.unique(c, return_inverse=True)[1] if role == "pool" else c
            draw.append(uniforms((*KEY, f"redraw {role}", number), unit) < e)
        pool, people = draw
        people = pool if self.halves is not None else people
        _, own, other = self.rates(self.compare(direction, people.astype(int), pool.astype(int))[0])
        return other - own

    def estimate(self, direction, redrawn):
        """Return T_c, se, degrees of freedom and half-width as functions of d."""
        kept, pairs = self.compare(direction, self.people[3], self.pool[3])
        w, own, other = self.rates(kept)
        e = self.e_pool
        kappa = sum(
            wi * np.mean([e[q[1]] - e[q[0]] for q in near])
            for wi, (_, near, *_) in zip(w, kept, strict=True)
        )
        c, b = 1 / (1 - kappa), np.mean(redrawn)
        v_b = np.var(redrawn, ddof=1) / len(redrawn) * c**2

        def at(d):
            t_i = np.array([np.mean(c * (o - p) - (d - 1) * p) for *_, p, o in kept])
            t_bar = w @ t_i
            e_i = w * (t_i - t_bar)
            by_pair, by_cluster = {}, {}
            spread = []
            for wi, (_, near, p, o) in zip(w, kept, strict=True):
                m = len(near)
                v = c * (o - p) - (d - 1) * p
                for q, value in zip(near, v, strict=True):
                    by_pair[q] = by_pair.get(q, 0) + wi * (value - v.mean()) / (m - 1)
                if not self.clusters:
                    continue
                members = []
                for k, q in enumerate(near):
                    mine, theirs = (self.pool[4][q[side]] for side in (direction, 1 - direction))
                    members += [mine, theirs]
                    by_cluster[theirs] = by_cluster.get(theirs, 0) + wi / m * c * (o[k] - o.mean())
                    step = -(c + d - 1) * (p[k] - p.mean())
                    by_cluster[mine] = by_cluster.get(mine, 0) + wi / m * step
                counts = np.unique(members, return_counts=True)[1] / len(members)
                spread.append(1 / (counts**2).sum())
            if self.clusters:
                m_e = float(w @ spread)
                units = {k: v * m_e / (m_e - 1) for k, v in by_cluster.items()}
            else:
                units = by_pair
            t_c = t_bar - b * c
            if self.halves is not None:
                total = dict(units)
                unit = {row: q for half in pairs for q in half for row in q}
                for ei, (i, *_) in zip(e_i, kept, strict=True):
                    k = self.people[4][i] if self.clusters else unit.get(i, i)
                    total[k] = total.get(k, 0) + ei
                values = np.array([v for v in total.values() if v != 0])
                v = len(values) / (len(values) - 1) * (values**2).sum()
                df_v = 2 * (values**2).sum() ** 2 / (values**4).sum()
                below = v**2 / df_v + v_b**2 / (len(redrawn) - 1)
                return t_c, math.sqrt(v + v_b), (v + v_b) ** 2 / below
            n = len(kept)
            grouped = e_i
            if self.clusters:
                names = [self.people[4][i] for i, *_ in kept]
                grouped = np.array([e_i[[k == name for k in names]].sum() for name in set(names)])
                n = len(grouped)
            v_people = n / (n - 1) * (grouped**2).sum()
            df_people = n - 1
            if self.clusters or self.weight.std() > 0:
                df_people = min(n - 1, 2 * (grouped**2).sum() ** 2 / (grouped**4).sum())
            u = np.array(list(units.values()))
            v_pairs = (u**2).sum()
            j = v_pairs**2 / (u**4).sum()
            total = v_people + v_pairs + v_b
            below = v_people**2 / df_people + v_pairs**2 / (2 * j) + v_b**2 / (len(redrawn) - 1)
            return t_c, math.sqrt(total), total**2 / below

        allowance = abs(b) * c / 2

        def margin(d, sign):
            t_c, se, df = at(d)
            return sign * t_c - allowance - t.ppf(0.975, df) * se

        ratio = 1 + (other - own - b) * c / own
        low = brentq(lambda d: margin(d, 1), ratio * 1e-3, ratio, xtol=1e-14)
        high = brentq(lambda d: margin(d, -1), ratio, ratio * 20, xtol=1e-14)
        return own, other, kappa, b, ratio, low, high, at


def z(key, position):
    return norm.ppf(uniforms(key, np.array([position]))[0])


CASES = {
    "pool": {},
    "weights": {"weights": True},
    "clusters": {"clusters": True},
    "halves": {"halves": True},
    "halves of clusters": {"halves": True, "clusters": True},
}


@pytest.mark.parametrize("case", CASES)
def test_a_plain_loop_gives_the_same_numbers(case):
    options = CASES[case]
    clusters, count = options.get("clusters", False), 4
    people, pool = population(1, 200), population(2, 300, offset=1000)
    if clusters:
        # An attribute that is constant in clusters is redrawn for whole clusters.
        for table in (people, pool):
            first = np.unique(table[4], return_index=True)[1]
            table[3][:] = table[3][first][np.unique(table[4], return_inverse=True)[1]]
    halves = None
    if options.get("halves"):
        people = pool
        halves = random_halves(3, len(pool[3]), pool[4] if clusters else None)
    weight = None
    if options.get("weights"):
        weight = np.random.default_rng(9).pareto(3, len(people[3])) + 0.2

    design = pair_design(
        Covariates(pool[0], pool[1]),
        pool[3],
        (0, 1),
        KEY,
        clusters=pool[4] if clusters else None,
        halves=halves,
        redraw_count=count,
    )
    located, asks = [], []
    for rows in np.array_split(np.arange(len(people[3])), [50, 51, 130]):

        def ask(i, j, rows=rows):
            numbers = zip(rows[i], j, strict=True)
            return np.array([[model(people[0][a], people[1][a], pool[2][b])] for a, b in numbers])

        who = design.locate(
            rows,
            Covariates(people[0][rows], people[1][rows]),
            people[3][rows],
            None if weight is None else weight[rows],
            people[4][rows] if clusters else None,
        )
        located.append(who)
        asks.append(ask)
    if clusters and halves is None:
        together = functools.reduce(operator.add, map(cluster_propensities, located))
        design = dataclasses.replace(design, people_clusters=together)
    parts = (design.measure(ask, who) for ask, who in zip(asks, located, strict=True))
    found = functools.reduce(operator.add, parts)
    assert not found.dropped

    plain = Plain(people, pool, halves, weight, clusters)
    for direction in (0, 1):
        redrawn = [plain.redraw(number, direction) for number in range(count)]
        own, other, kappa, b, ratio, low, high, at = plain.estimate(direction, redrawn)
        row = found.compared(direction, 0)
        estimate = row.estimate
        assert estimate.redrawn == pytest.approx(redrawn, abs=1e-10)
        assert (estimate.own, estimate.other) == pytest.approx((own, other), abs=1e-10)
        assert (estimate.kappa, estimate.bias) == pytest.approx((kappa, b), abs=1e-10)
        assert estimate.ratio == pytest.approx(ratio, abs=1e-10)
        for d in (0.8, 1.0, 1.25):
            t_c, se, df = at(d)
            spread = estimate.spread(np.array([d]))
            assert estimate.statistic(np.array([d]), "up")[0] == pytest.approx(t_c, abs=1e-10)
            assert spread.std_error[0] == pytest.approx(se, abs=1e-10)
            assert spread.degrees[0] == pytest.approx(df, rel=1e-9)
        assert estimate.interval() == pytest.approx((low, high), abs=1e-10)
        assert assess(row, DecisionRule()).undecided == "redraws"
