"""How often the interval of a paired comparison covers the truth.

Run with ``python benchmarks/paired.py`` (ten minutes), or with ``--quick`` for 60 draws each.
The truth is the mean over all draws for audit values by counterparts. It is known for moves; for
losses and accuracies it is that of a million people.
"""

import argparse
import math

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.engine.paired_audits import compare
from likewise.inference.paired import balanced_of, mean_of, measured, ratio_of

ALPHA = 0.05


def scored(*weights: float) -> LogisticRegression:
    """Return a model with these weights."""
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = np.array([weights]), np.zeros(1), np.arange(2)
    return model


def lending(rng: np.random.Generator, n: int) -> pa.Table:
    sex = rng.integers(0, 2, n)
    age, school = rng.normal(size=n), rng.normal(size=n)
    zone = rng.normal(size=n) + 0.8 * sex
    y = rng.random(n) < 1 / (1 + np.exp(-(0.8 * age + 0.6 * school - zone)))
    names = {"age": age, "school": school, "zone": zone}
    return pa.table({**names, "sex": np.where(sex == 1, "f", "m"), "y": y.astype(int)})


def counterparts(rng: np.random.Generator, n: int, pool: int) -> list[tuple[float, float, float]]:
    """Audit two models by counterparts; return difference and interval of each measure."""
    table = lending(rng, n + pool)
    settings = likewise.Settings(checks="core").changed(
        columns__label="y", columns__protected=("sex",)
    )
    audits = {
        name: likewise.audit(
            scored(*weights),
            table.slice(0, n),
            pool=table.slice(n),
            map=likewise.Counterparts(may_matter=("age", "school"), swaps=199),
            settings=settings,
            run=likewise.Inline(),
        )
        for name, weights in (("old", (0.8, 0.6, -1.0)), ("new", (0.8, 0.6, -0.5)))
    }
    pair = compare(audits).paired[0]
    kept = [m for m in pair.measures if m.claimed]
    return [(m.difference, *m.interval) for m in kept]


def moves(rng: np.random.Generator, n: int, clustered: bool) -> list[tuple[float, float, float]]:
    """Draw skewed ratios, losses and decisions of two models on the same people."""
    size = 3 if clustered else 1
    shared = np.repeat(rng.normal(size=n // size), size)
    one, two = (np.exp(0.7 * shared + 0.4 * rng.normal(size=len(shared))) for _ in range(2))
    y = (rng.random(len(shared)) < 0.15).astype(int)
    right = [
        (rng.random(len(shared)) < p + 0.1 * (shared > 0) - 0.05).astype(float)
        for p in (0.85, 0.83)
    ]
    weight = rng.uniform(0.5, 1.5, len(shared))
    cluster = np.repeat(np.arange(n // size), size)
    how = {"alpha": ALPHA, "cluster": cluster}
    found = [
        measured("audit value", mean_of(1 + one, weight), mean_of(1 + 0.8 * two, weight), **how),
        measured(
            "audit value",
            *(ratio_of(r * np.exp(-shared), np.exp(-shared), weight) for r in (one, 0.8 * two)),
            **how,
        ),
        measured(
            "accuracy", *(mean_of(r, weight, share=True) for r in right), more_is_better=True, **how
        ),
        measured(
            "balanced accuracy",
            *(balanced_of(r, y, weight) for r in right),
            more_is_better=True,
            **how,
        ),
    ]
    return [(m.difference, *m.interval) for m in found]


def log_odds(kind: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Return log odds of two models, labels, weights and clusters of a population."""
    weight, cluster = np.ones(n), np.arange(n)
    if kind == "too sure of itself":
        x = rng.standard_t(3, n)
        one, two, truth = x, 4 * x + 0.5 * rng.normal(size=n), x
    elif kind == "2.5 % have the label":
        x = rng.normal(size=n)
        one, two, truth = 0.5 * x - 3.5, 1.2 * x - 3.5, x - 4
    elif kind == "clusters up to a sixth, weights":
        size = np.minimum(1 + rng.pareto(1.5, n).astype(int), max(n // 6, 1))
        cluster = np.repeat(np.arange(n), size)[:n]
        x = rng.normal(size=n) + rng.normal(size=n)[cluster]
        one, two, truth = x - 0.5, 0.3 * x, x + rng.normal(size=n)[cluster]
        weight = np.exp(0.7 * rng.normal(size=n))
    elif kind == "three values":
        x = rng.integers(0, 3, n)
        one, two, truth = x - 1.0, 1.5 - x, np.log((0.2 + 0.3 * x) / (0.8 - 0.3 * x))
    else:  # constant models
        one, two, truth = np.full(n, -1.0), np.full(n, -1.6), np.full(n, -math.log(4))
    y = (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(int)
    return one, two, y, weight, cluster


POPULATIONS = (
    "too sure of itself",
    "2.5 % have the label",
    "clusters up to a sixth, weights",
    "three values",
    "constant models",
)


def judged(
    one: np.ndarray, two: np.ndarray, y: np.ndarray, weight: np.ndarray, cluster: np.ndarray
) -> list[tuple[float, float, float]]:
    """Compare losses and accuracies of two models."""
    losses = [np.minimum(np.logaddexp(0, -(2 * y - 1) * z), -math.log(1e-3)) for z in (one, two)]
    right = [((z > 0) == (y == 1)).astype(float) for z in (one, two)]
    how = {"alpha": ALPHA, "cluster": cluster}
    better = {**how, "more_is_better": True}
    found = [
        measured("loss", *(mean_of(v, weight) for v in losses), **how),
        measured("accuracy", *(mean_of(v, weight, share=True) for v in right), **better),
        measured("balanced accuracy", *(balanced_of(v, y, weight) for v in right), **better),
    ]
    return [(m.difference, *m.interval) for m in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    mean = math.exp((0.7**2 + 0.4**2) / 2)
    tilted = math.exp((0.3**2 + 0.4**2 - 1) / 2)
    known = [0.2 * mean, 0.2 * tilted, -0.02, -0.02]
    names = ["mean ratio", "ratio of sums", "accuracy", "balanced accuracy"]
    print(f"{'':58}{'truth':>9}{'sd':>9}{'half':>9}{'covered':>9}")
    for label, clustered, n in (
        ("n = 60", False, 60),
        ("n = 400", False, 400),
        ("n = 300 in clusters of three", True, 300),
    ):
        rng = np.random.default_rng(1)
        draws = [moves(rng, n, clustered) for _ in range(200 if quick else 2000)]
        show(label, names, draws, known)
    names = ["loss", "accuracy", "balanced accuracy"]
    for kind in POPULATIONS:
        # Clusters depend on n, and what a cluster has in common does not change the mean.
        truth = [d[0] for d in judged(*log_odds(kind, np.random.default_rng(9), 1_000_000))]
        for n in (30, 100, 400):
            rng = np.random.default_rng(5)
            people = [log_odds(kind, rng, n) for _ in range(200 if quick else 1500)]
            draws = [judged(*drawn) for drawn in people if len(np.unique(drawn[2])) == 2]
            show(f"{kind}, n = {n}", names, draws, truth)
    truth = [math.nan, -0.0239, -0.0162, -0.0112]  # of two million people
    names = ["counterparts", *names]
    for n, pool in ((30, 1000), (100, 1000), (400, 1500)):
        rng = np.random.default_rng(3)
        draws = [counterparts(rng, n, pool) for _ in range(60 if quick else 400)]
        show(f"n = {n}, pool {pool}", names, draws, truth)


def show(label: str, names: list[str], draws: list, known: list[float]) -> None:
    values = np.array(draws)
    for k, name in enumerate(names):
        found, low, high = values[:, k].T
        truth = float(found.mean()) if math.isnan(known[k]) else known[k]
        covered = float(((low <= truth) & (truth <= high)).mean())
        half = float(np.mean(high - low) / 2 / 1.96)
        print(f"{label + ', ' + name:58}{truth:9.4f}{found.std():9.4f}{half:9.4f}{covered:9.3f}")


if __name__ == "__main__":
    main()
