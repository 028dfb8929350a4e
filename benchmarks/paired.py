"""How often the interval of a paired comparison covers the truth.

Run with ``python benchmarks/paired.py`` (five minutes), or with ``--quick`` for 60 draws each.
The truth is the mean over all draws for counterparts, and known for moves and accuracy.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    mean = math.exp((0.7**2 + 0.4**2) / 2)
    tilted = math.exp((0.3**2 + 0.4**2 - 1) / 2)
    known = [0.2 * mean, 0.2 * tilted, -0.02, -0.02]
    names = ["mean ratio", "ratio of sums", "accuracy", "balanced accuracy"]
    print(f"{'':40}{'truth':>9}{'sd':>9}{'half':>9}{'covered':>9}")
    for label, clustered, n in (
        ("n = 60", False, 60),
        ("n = 400", False, 400),
        ("n = 300 in clusters of three", True, 300),
    ):
        rng = np.random.default_rng(1)
        draws = [moves(rng, n, clustered) for _ in range(200 if quick else 2000)]
        show(label, names, draws, known)
    for n, pool in ((150, 1000), (400, 1500)):
        rng = np.random.default_rng(2)
        draws = [counterparts(rng, n, pool) for _ in range(60 if quick else 300)]
        names = ["counterparts", "loss", "accuracy", "balanced accuracy"]
        show(f"n = {n}, pool {pool}", names, draws, None)


def show(label: str, names: list[str], draws: list, known: list[float] | None) -> None:
    values = np.array(draws)
    for k, name in enumerate(names):
        found, low, high = values[:, k].T
        truth = float(found.mean()) if known is None else known[k]
        covered = float(((low <= truth) & (truth <= high)).mean())
        half = float(np.mean(high - low) / 2 / 1.96)
        print(f"{label + ', ' + name:40}{truth:9.4f}{found.std():9.4f}{half:9.4f}{covered:9.3f}")


if __name__ == "__main__":
    main()
