"""How often a coin is accused: traits that mean nothing, on real data and real models.

    python benchmarks/placebo.py [--quick] [--json FILE] [--only WORD ...]

Each line throws a coin for every person, calls it a protected trait, and asks whether the model is
unfair. *accused*: by the default verdict; *paper*: by the paper's test under the same metric, with
no placebo and the metric taken as given. Ends with exit code 1 if, pooled over a question, more
coins are accused than 5 % explain (a binomial limit of 99 %). A question is a line in QUESTIONS.
"""

import argparse
import dataclasses
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
from scipy.stats import binom, norm

import likewise
from likewise import data as public

N = 1000
"""People who are audited, and people the metric is learned from."""

LEVEL = 0.05
ACCUSED = "evidence_of_unfairness"
HEADER = f"{'question':<14}{'data':<12}{'model':<10}{'coins':>6}{'accused':>9}{'paper':>8}{'s':>8}"


@dataclasses.dataclass(frozen=True)
class People:
    """Features and labels of a training and a test sample; traits are thrown later."""

    train: likewise.AuditData
    test: likewise.AuditData

    @classmethod
    def of(cls, *samples: likewise.AuditData) -> "People":
        """Return two samples without their traits, labels numbered."""
        return cls(
            *(
                likewise.AuditData.from_arrays(
                    sample.x,
                    np.searchsorted(np.unique(sample.y), sample.y),
                    features=sample.features,
                )
                for sample in samples
            )
        )


@dataclasses.dataclass(frozen=True)
class Answer:
    """Whether one coin was accused, by default and by the paper's test, if that was run."""

    accused: bool
    paper: bool | None


@dataclasses.dataclass(frozen=True)
class Row:
    """What one line showed."""

    question: str
    data: str
    model: str
    coins: int
    accused: int
    paper: int | None
    seconds: float

    def __str__(self) -> str:
        paper = "" if self.paper is None else f"{self.paper / self.coins:.3f}"
        return (
            f"{self.question:<14}{self.data:<12}{self.model:<10}{self.coins:>6}"
            f"{self.accused / self.coins:>9.3f}{paper:>8}{self.seconds:>8.1f}"
        )


def adult() -> People:
    split = public.adult(0)
    return People.of(split.train, split.test)


def compas() -> People:
    split = public.compas(0)
    return People.of(split.train, split.test)


def simulation() -> People:
    return People.of(public.simulation(4000, seed=1), public.simulation(4000, seed=2))


DATA: dict[str, Callable[[], People]] = {
    "adult": adult,
    "compas": compas,
    "simulation": simulation,
}


def logistic(people: likewise.AuditData) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=100.0, solver="newton-cholesky").fit(people.x, people.y)


def network(people: likewise.AuditData) -> Any:
    from sklearn.neural_network import MLPClassifier

    few = people.take(np.arange(min(len(people), 5000)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge to be steep
        return MLPClassifier((50,), max_iter=40, random_state=0).fit(few.x, few.y)


def boosted(people: likewise.AuditData) -> Any:
    from xgboost import XGBClassifier

    model = XGBClassifier(n_estimators=60, n_jobs=1, random_state=0)
    return model.fit(people.x, people.y)


MODELS: dict[str, Callable[[likewise.AuditData], Any]] = {
    "logistic": logistic,
    "network": network,
    "xgboost": boosted,
}


def learned_directions(map: str) -> Callable[..., Answer]:
    """Return the question that a map asks along directions learned from the coin."""

    def ask(model: Any, people: People, rng: np.random.Generator) -> Answer:
        train, test = thrown(people.train, rng), thrown(people.test, rng)
        settings = likewise.Settings(checks="core", map=map).changed(checks__placebo__enough=2)

        def record(**learned: int) -> likewise.Record:
            metric = likewise.sensitive_subspace(train, **learned)
            return likewise.audit(model, test, metric=metric, settings=settings).record

        # Who is accused stays the same with less work: of 39 placebos at most one may do as much,
        # so two are enough to stop; and refits only widen the interval, so they come last.
        found = record(groups=0)
        deciding = found.tests[found.decided_by.test]
        paper = deciding.estimate - norm.ppf(1 - LEVEL) * deciding.std_error > deciding.delta
        accused = found.outcome == ACCUSED and record().outcome == ACCUSED
        return Answer(accused, bool(paper))

    return ask


def counterparts(model: Any, people: People, rng: np.random.Generator) -> Answer:
    """Compare with real people of the coin's other side, alike in all numbers but the last."""
    numbers = [name for name in people.test.features if "=" not in name]
    result = likewise.audit(
        model,
        thrown(people.test, rng),
        map=likewise.Counterparts(may_matter=tuple(numbers[:-1])),
        pool=thrown(people.train, rng),
        checks="core",
    )
    return Answer(result.outcome == ACCUSED, paper=None)


QUESTIONS: dict[str, Callable[..., Answer]] = {
    "flow": learned_directions("flow"),
    "reach": learned_directions("reach"),
    "counterparts": counterparts,
}
"""A question is asked of a model, people and a generator for the coin."""


def thrown(people: likewise.AuditData, rng: np.random.Generator) -> likewise.AuditData:
    """Return some of the people, with a coin as their only trait."""
    some = people.take(np.sort(rng.choice(len(people), N, replace=False)))
    coin = {"coin": rng.integers(0, 2, N)}
    return likewise.AuditData.from_arrays(some.x, some.y, coin, features=some.features)


def line(question: str, data: str, model: str, coins: int) -> Row:
    """Throw coins for one question, population and model."""
    began = time.perf_counter()
    people = DATA[data]()
    fitted = MODELS[model](people.train)
    answers = [
        QUESTIONS[question](fitted, people, np.random.default_rng([seed, len(data)]))
        for seed in range(coins)
    ]
    return Row(
        question,
        data,
        model,
        coins,
        sum(answer.accused for answer in answers),
        None if answers[0].paper is None else sum(bool(answer.paper) for answer in answers),
        time.perf_counter() - began,
    )


def main() -> None:
    """Run the lines, print them, and judge each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few coins; under two minutes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--only", nargs="*", default=[], help="lines that hold one of these words")
    options = parser.parse_args()
    warnings.simplefilter("ignore", likewise.errors.LikewiseWarning)
    print(HEADER)
    rows = []
    for question in QUESTIONS:
        for data in DATA:
            for model in MODELS:
                if question == "flow" and model == "xgboost":
                    continue  # it has no gradient
                if options.only and not {question, data, model} & set(options.only):
                    continue
                linear = model == "logistic"
                coins = (8 if linear else 3) if options.quick else (134 if linear else 40)
                rows.append(line(question, data, model, coins))
                print(rows[-1], flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    failed = [question for question in QUESTIONS if _too_many(question, rows)]
    sys.exit(bool(failed))


def _too_many(question: str, rows: list[Row]) -> bool:
    mine = [row for row in rows if row.question == question]
    coins, accused = sum(row.coins for row in mine), sum(row.accused for row in mine)
    if not coins:
        return False
    limit = int(binom.ppf(0.99, coins, LEVEL))
    paper = sum(row.paper or 0 for row in mine) / coins
    beside = f"; by the paper's test {paper:.1%}" if mine[0].paper is not None else ""
    print(f"{question}: {accused} of {coins} coins accused (at most {limit}){beside}")
    return accused > limit


if __name__ == "__main__":
    main()
