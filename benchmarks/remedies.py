"""Remedies: SenSR on Adult, and how often `likewise.improve` errs.

    python benchmarks/remedies.py [--splits N] [--people N]
    python benchmarks/remedies.py --draws 12

With ``--draws``: simulated people, of whom nothing is wrong or a proxy decides; how often the given
model, a logistic regression or a forest, is replaced, and by what. Without: Adult in the setting of
the paper that proposed SenSR. Features are the 41 of Yurochkin, Bower and Sun (2020),
with sex and race among them; directions that do not count are sex, race, and what predicts sex.
*spouse*: the share of test people whose decision is the same as a husband and as a wife; *sex,
race*: the same over all four combinations. Strengths are those that the estimators choose on
held-out people: nothing here was tuned.
"""

import argparse
import dataclasses
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import likewise
from likewise.training import BaselineClassifier, SenSRClassifier
from likewise_studies.datasets import ADULT_INPUTS as INPUTS
from likewise_studies.datasets import ADULT_TRAIN as TRAIN
from likewise_studies.datasets import Split, adult_table

TRAITS = {"sex": "Male", "race": "White"}


def people(seed: int) -> Split:
    """Return Adult with sex and race among the 41 features."""
    table = adult_table().select([*INPUTS, *TRAITS, "income"])
    order = np.random.default_rng(seed).permutation(len(table))
    white = np.where(np.asarray(table["race"]) == "White", "White", "non-White")
    table = table.set_column(table.column_names.index("race"), "race", [white])
    return Split.from_table(
        f"Adult, seed {seed}",
        table,
        order[:TRAIN],
        order[TRAIN:],
        label="income",
        protected=tuple(TRAITS),
        inputs=(*INPUTS, *TRAITS),
        indicator=TRAITS,
    )


def directions(split: Split) -> Any:
    """Return what does not count: sex, race, and what predicts sex."""
    learned = likewise.metrics.sensitive_subspace(
        split.train, protected=["sex"], C=1.0, groups=0, controls=0
    ).directions
    race = np.zeros((1, split.train.x.shape[1]))
    race[0, split.train.features.index("race=White")] = 1
    return np.vstack([learned, race])


def fitted(split: Split, seed: int) -> dict[str, Callable[[], Any]]:
    """Return how each model is trained."""
    x, y = frame(split.train), split.train.y == ">50K"
    network = {"hidden": 100, "random_state": seed}
    return {
        "network": lambda: BaselineClassifier(**network).fit(x, y),
        "SenSR": lambda: SenSRClassifier(directions(split), **network).fit(x, y),
    }


def frame(data: Any) -> pd.DataFrame:
    """Return features with their names, by which sex and race are known among them."""
    return pd.DataFrame(data.x, columns=[str(name) for name in data.features])


def measured(model: Any, split: Split) -> tuple[float, float, float]:
    """Return balanced accuracy, and the consistency of decisions for spouses and for attributes."""
    x, y = frame(split.test), split.test.y == ">50K"
    same = []
    for choices in (
        [{"relationship=Husband": 1}, {"relationship=Wife": 1}],
        [{"sex=Male": s, "race=White": r} for s in (0, 1) for r in (0, 1)],
    ):
        decided = []
        for choice in choices:
            other = x.copy()
            if "relationship=Husband" in choices[0]:
                other[[c for c in x if c.startswith("relationship=")]] = 0.0
            other[list(choice)] = [float(value) for value in choice.values()]
            decided.append(model.predict(other))
        same.append(float(np.mean([len(set(row)) == 1 for row in zip(*decided, strict=True)])))
    return float(balanced_accuracy_score(y, model.predict(x))), same[0], same[1]


def population(n: int, rng: np.random.Generator, effect: float) -> pd.DataFrame:
    """Return people whose label depends on age and, with an effect, on a proxy of sex."""
    sex = rng.integers(0, 2, n)
    age, zone = rng.normal(size=n), rng.normal(size=n) + 1.2 * sex
    y = rng.random(n) < 1 / (1 + np.exp(-(1.5 * age - effect * (zone - 0.6))))
    return pd.DataFrame({"age": age, "zone": zone, "sex": np.where(sex, "f", "m"), "paid": y * 1})


def improved(draws: int, n: int) -> None:
    """Print how often `likewise.improve` replaces a model, where nothing is wrong and otherwise."""
    kinds = {
        "logistic": LogisticRegression(),
        "forest": RandomForestClassifier(50, min_samples_leaf=10, random_state=0),
    }
    for effect in (0.0, 0.6):
        for name, kind in kinds.items():
            counts: dict[str, int] = {}
            kept, before, after, lost = 0, [], [], []
            for seed in range(draws):
                rng = np.random.default_rng([seed, int(10 * effect)])
                train = population(2000, rng, effect)
                model = kind.fit(train[["age", "zone"]], train["paid"])
                found = likewise.improve(
                    model,
                    population(n, rng, effect),
                    label="paid",
                    protected="sex",
                    may_matter=["age"],
                    seed=seed,
                )
                counts[found.found.verdict] = counts.get(found.found.verdict, 0) + 1
                kept += not found.better
                if found.chosen is not None and found.comparison is not None:
                    pair = found.comparison.pairs[0]
                    before.append(max(d.first for d in pair.deviations))
                    after.append(max(d.second for d in pair.deviations))
                    lost.append(next(d.value for d in pair.performance if d.what == "error rate"))
            ratios = [float(np.exp(np.mean(d))) if d else float("nan") for d in (before, after)]
            print(
                f"effect {effect:g}, {name}, {n} people: {counts}; unchanged {kept} of {draws}; "
                f"ratio {ratios[0]:.2f} -> {ratios[1]:.2f}, accuracy lost "
                f"{100 * np.mean(lost) if lost else 0:.1f} points",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--people", type=int, default=TRAIN, help="to train on, at most")
    parser.add_argument("--draws", type=int, default=0, help="of likewise.improve, instead")
    parser.add_argument("--n", type=int, default=3000, help="people of each draw")
    options = parser.parse_args()
    warnings.simplefilter("ignore", likewise.LikewiseWarning)
    if options.draws:
        improved(options.draws, options.n)
        return
    rows: dict[str, list[tuple[float, float, float]]] = {}
    print(f"{'mean (sd)':<18}{'bal. acc.':>15}{'spouse':>15}{'sex, race':>15}{'s':>8}")
    for seed in range(options.splits):
        split = people(seed)
        few = split.train.take(np.arange(min(options.people, len(split.train))))
        split = dataclasses.replace(split, train=few)
        for name, fit in fitted(split, seed).items():
            began = time.process_time()
            rows.setdefault(name, []).append(measured(fit(), split))
            used = time.process_time() - began
            found = np.array(rows[name])
            spread = found.std(axis=0, ddof=1) if seed else np.full(3, np.nan)
            shown = "".join(
                f"{f'{m:.3f} ({s:.3f})':>15}"
                for m, s in zip(found.mean(axis=0), spread, strict=True)
            )
            print(f"{name:<18}{shown}{used:>8.1f}  ({seed + 1} splits)", flush=True)


if __name__ == "__main__":
    main()
