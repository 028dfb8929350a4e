"""How often a subgroup that nobody named is accused although all are at the tolerance.

Run with ``python benchmarks/subgroups.py`` (ten minutes), or with ``--quick``. Any of the leaves
counts: the share of draws with a false alarm should be at most .05.
"""

import argparse
import contextlib

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.engine.counterpart_walk import get_counterparts_ready
from likewise.engine.served_worst import served_worst
from likewise.engine.subgroups import moved_worst


def table(rng: np.random.Generator, n: int, coin: bool) -> pa.Table:
    """Return people whose trait is a coin, or goes with the columns that may matter."""
    age, school = rng.integers(20, 65, n).astype(float), rng.normal(size=n)
    chance = 0.5 if coin else 1 / (1 + np.exp(-(age - 42) / 12))
    sex = rng.random(n) < chance
    zone, job = rng.normal(size=n) * (1 + (age > 50)), rng.choice(["a", "b", "c"], n)
    y = rng.random(n) < 1 / (1 + np.exp(-(0.03 * (age - 42) + 0.6 * school - zone)))
    columns = {"age": age, "school": school, "zone": zone, "job": job}
    return pa.table(columns | {"sex": np.where(sex, "f", "m"), "y": y.astype(int)})


class Scores(LogisticRegression):
    """A model with given weights."""

    def __init__(self) -> None:
        super().__init__()
        self.coef_, self.intercept_ = np.array([[0.03, 0.6, -1.0]]), np.array([-1.26])
        self.classes_ = np.arange(2)


def counterparts(rng: np.random.Generator, n: int, pool: int, coin: bool) -> bool:
    """Tell whether any subgroup is accused at the tolerance 1, which nobody exceeds."""
    settings = likewise.Settings(checks="core", delta=1.0).changed(
        columns__label="y",
        columns__protected=("sex",),
        columns__ignore=("job",),
        map={"name": "counterparts", "may_matter": ("age", "school"), "swaps": 99},
    )
    with contextlib.ExitStack() as stack:
        plan = get_counterparts_ready(
            Scores(),
            table(rng, n, coin),
            pool=table(rng, pool, coin),
            settings=settings,
            stack=stack,
            run=likewise.Inline(),
            trust=False,
            progress=None,
        )
        return any(one.found for one in served_worst(plan, "sex"))


def moves(rng: np.random.Generator, n: int) -> bool:
    """Tell whether any subgroup is accused when all have the same, skewed law of ratios."""
    ratio = np.exp(0.8 * rng.normal(size=n))
    found = moved_worst(
        table(rng, n, True),
        ratio,
        np.ones(n),
        rng.uniform(0.5, 1.5, n),
        None,
        delta=float(np.exp(0.32)),
        alpha=0.05,
        seed=int(rng.integers(1e6)),
    )
    return any(one.found for one in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for n in (500, 2000):
        rng = np.random.default_rng(1)
        alarms = [moves(rng, n) for _ in range(200 if quick else 1000)]
        print(f"moves, n = {n}: {np.mean(alarms):.3f}", flush=True)
    for n, pool, coin in ((800, 3000, True), (800, 3000, False)):
        rng = np.random.default_rng(2)
        alarms = [counterparts(rng, n, pool, coin) for _ in range(40 if quick else 200)]
        what = "a coin" if coin else "the trait goes with age"
        print(f"counterparts, n = {n}, pool {pool}, {what}: {np.mean(alarms):.3f}", flush=True)


if __name__ == "__main__":
    main()
