"""Populations for the counterpart test whose truth is known."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

Rng = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Sample:
    """People, a pool and a model."""

    people: pa.Table
    pool: pa.Table
    ask: Callable[[pa.Table], Any]
    loss: Callable[[Any, Any], Any]
    label: Any
    columns: tuple[str, ...]
    weight: Any = None
    cluster: Any = None
    pool_clusters: str | None = None


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table: a population, sizes, and whether nothing is wrong in it."""

    name: str
    n: int
    pool: int
    may_matter: tuple[str, ...]
    make: Callable[[Rng, int, int], Sample]
    null: bool = True
    delta: float = 1.0
    swaps: int = 199
    m: int = 20

    def draw(self, rng: Rng) -> Sample:
        """Draw people and a pool."""
        return self.make(rng, self.n, self.pool)


def cross_entropy(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of a logit."""
    return np.logaddexp(0, -(2 * y - 1) * out[:, 0])


def wrong(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return 1 for a wrong decision."""
    return ((out[:, 0] > 0) != (y == 1)).astype(float)


def unfavourable(out: np.ndarray, y: Any) -> np.ndarray:
    """Return 1 for a decision against the person."""
    return (out[:, 0] <= 0).astype(float)


def squared(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the squared error."""
    return (out[:, 0] - y) ** 2


def numbers(table: pa.Table, *names: str) -> list[np.ndarray]:
    """Return columns as arrays."""
    return [table[name].to_numpy().astype(float) for name in names]


def tables(n: int, columns: dict[str, Any], label: np.ndarray) -> tuple[pa.Table, pa.Table, Any]:
    """Cut columns into people, pool and the labels of the people."""
    whole = pa.table(columns)
    return whole.slice(0, n), whole.slice(n), label[:n]


# --- Adult: a logistic model, and traits that mean nothing -------------------------------------

SEVEN = (
    *("age", "education-num", "hours-per-week", "capital-gain", "capital-loss"),
    *("workclass", "occupation"),
)
THREE = SEVEN[:3]


@functools.cache
def _adult() -> tuple[pa.Table, np.ndarray, np.ndarray, Any]:
    from sklearn.linear_model import LogisticRegression

    from likewise.data import Encoder, adult_table
    from likewise.data._adult import INPUTS

    table = adult_table().select([*INPUTS, "sex", "income"])
    encoder = Encoder.fit(table, label="income", protected="sex", inputs=INPUTS)
    y = (np.array(table["income"].to_pylist()) == ">50K").astype(int)
    model = LogisticRegression(max_iter=2000).fit(encoder.encode(table), y)
    weights, bias = model.coef_[0], float(model.intercept_[0])

    def ask(rows: pa.Table) -> np.ndarray:
        return (encoder.encode(rows) @ weights + bias)[:, None]

    return table, y, np.array(table["sex"].to_pylist()), ask


@functools.cache
def _propensity(may_matter: tuple[str, ...]) -> np.ndarray:
    """Return the logit of being a man, given the columns that may matter."""
    from sklearn.linear_model import LogisticRegression

    from likewise.data import Encoder

    table, _, sex, _ = _adult()
    part = table.select([*may_matter, "income", "sex"])
    encoder = Encoder.fit(part, label="income", protected="sex", inputs=may_matter)
    x = encoder.encode(part)
    fitted = LogisticRegression(max_iter=2000).fit(x, sex == "Male")
    return x @ fitted.coef_[0] + fitted.intercept_[0]


def adult(kind: str, may_matter: tuple[str, ...], loss: Any = cross_entropy) -> Any:
    """Return Adult with a trait that is a coin, drawn from P(sex | L), or real."""

    def make(rng: Rng, n: int, pool: int) -> Sample:
        table, y, sex, ask = _adult()
        rows = rng.permutation(len(table))[: n + pool]
        if kind == "coin":
            trait = rng.random(len(rows)) < 0.5
        elif kind == "three":
            trait = rng.integers(0, 3, len(rows))
        elif kind == "real":
            trait = sex[rows]
        else:
            logit = _propensity(may_matter)[rows] * float(kind)
            trait = rng.random(len(rows)) < 1 / (1 + np.exp(-logit))
        some = table.take(pa.array(rows)).append_column("trait", pa.array(trait))
        inputs = tuple(name for name in table.column_names if name not in ("sex", "income"))
        return Sample(some.slice(0, n), some.slice(n), ask, loss, y[rows][:n], inputs)

    return make


# --- Ties: a wavy model on two columns of whole numbers ----------------------------------------


def waves(rng: Rng, n: int, pool: int) -> Sample:
    """L on a grid, the trait goes with L, free columns go with L and nothing else."""
    size = n + pool
    a, b = rng.integers(0, 10, size), rng.integers(0, 5, size)
    trait = rng.random(size) < 1 / (1 + np.exp(-(a - 4.5) / 2 - (b - 2)))
    f, g = a + rng.integers(-3, 4, size), rng.normal(size=size)
    y = (rng.random(size) < 1 / (1 + np.exp(-3 * np.sin(a + f) - g))).astype(int)

    def ask(rows: pa.Table) -> np.ndarray:
        a, b, f, g = numbers(rows, "a", "b", "f", "g")
        return (3 * np.sin(a + f) + g * (b > 2))[:, None]

    people, others, label = tables(n, {"a": a, "b": b, "f": f, "g": g, "trait": trait}, y)
    return Sample(people, others, ask, cross_entropy, label, ("a", "b", "f", "g"))


# --- Heavy tails: squared losses of a regression, with unequal groups ---------------------------


def heavy(share: float, groups: int = 2) -> Any:
    """Return a regression whose free columns have heavy tails, with one rare group."""

    def make(rng: Rng, n: int, pool: int) -> Sample:
        size = n + pool
        a = rng.normal(size=size)
        town = rng.integers(0, 4, size)
        chance = share / (share + (1 - share) * np.exp(-0.5 * a))
        trait = (rng.random(size) < chance).astype(int)
        if groups > 2:
            trait += (rng.random(size) < 0.4) * (trait == 0) * 2
        f = a + rng.standard_t(5, size=size)
        g = np.exp(rng.normal(size=size))
        y = a + 0.5 * f + town + rng.standard_t(5, size=size)

        def ask(rows: pa.Table) -> np.ndarray:
            a, town, f, g = numbers(rows, "a", "town", "f", "g")
            return (a + 0.5 * f + town + 0.1 * g)[:, None]

        columns = {"a": a, "town": pa.array([f"t{t}" for t in town]), "f": f, "g": g}
        columns |= {"trait": trait}
        people, others, label = tables(n, columns, y)

        def ask_text(rows: pa.Table) -> np.ndarray:
            towns = np.array([float(t[1:]) for t in rows["town"].to_pylist()])
            at = rows.column_names.index("town")
            return ask(rows.set_column(at, "town", pa.array(towns)))

        return Sample(people, others, ask_text, squared, label, ("a", "town", "f", "g"))

    return make


# --- Lending: our own, with missing values, a category and planted unfairness -------------------


def lending(
    strength: float = 0.0,
    *,
    loss: Any = cross_entropy,
    groups: int = 2,
    households: int = 0,
    rare: float = 1.0,
    ignored: bool = False,
) -> Any:
    """Return loans: a proxy goes with the trait by ``strength``, and the model leans on it.

    ``households`` gives people and pool clusters of that many; ``rare`` is the share of people
    that the model's use of the proxy concerns; ``ignored``: the model is constant.
    """

    def make(rng: Rng, n: int, pool: int) -> Sample:
        size = n + pool
        each = np.arange(size) // households if households else np.arange(size)
        home = rng.normal(size=size)[each] if households else np.zeros(size)
        income = np.exp(0.5 * rng.normal(size=size))
        income[rng.random(size) < 0.1] = np.nan
        job = rng.integers(0, 6, size)
        known = np.nan_to_num(income, nan=1.0)
        trait = (rng.random((size, groups - 1)) < 1 / (1 + np.exp(1 - known))[:, None]).sum(axis=1)
        gone = np.isnan(income)
        zone = rng.normal(size=size) + 0.3 * job + home + strength * trait
        age = rng.integers(20, 70, size)
        y = (rng.random(size) < 1 / (1 + np.exp(-known - 0.5 * zone + 1 + 0.5 * gone))).astype(int)

        def ask(rows: pa.Table) -> np.ndarray:
            income = rows["income"].to_numpy(zero_copy_only=False).astype(float)
            job, zone, age = numbers(rows, "job", "zone", "age")
            logit = np.nan_to_num(income, nan=1.0) - 1 + 0.02 * (age - 45)
            touched = np.mod(age, 100) < 20 + 50 * rare
            logit = logit - np.where(touched, zone - 0.3 * job, 0.0)
            return (0 * logit if ignored else logit)[:, None]

        columns = {
            "income": pa.array(income, from_pandas=True),
            "job": pa.array(job),
            "zone": zone,
            "age": age,
            "trait": trait,
            "home": each,
        }
        people, others, label = tables(n, columns, y)
        return Sample(
            people,
            others,
            ask,
            loss,
            label,
            ("income", "job", "zone", "age"),
            cluster=people["home"].to_numpy() if households else None,
            pool_clusters="home" if households else None,
        )

    return make


OWN = ("income", "job", "age")

LINES = (
    Line("Adult, coin, L of 7", 1000, 4000, SEVEN, adult("coin", SEVEN)),
    Line("Adult, coin, L of 7, errors", 1000, 4000, SEVEN, adult("coin", SEVEN, wrong)),
    Line(
        "Adult, coin, L of 3, unfavourable", 1000, 4000, THREE, adult("coin", THREE, unfavourable)
    ),
    Line("Adult, P(sex | L), L of 7", 300, 4000, SEVEN, adult("1", SEVEN)),
    Line("Adult, P(sex | L), L of 7", 1000, 4000, SEVEN, adult("1", SEVEN)),
    Line("Adult, P(sex | L), L of 7", 4000, 16000, SEVEN, adult("1", SEVEN)),
    Line("Adult, P(sex | L), L of 3", 300, 1500, THREE, adult("1", THREE)),
    Line("Adult, P(sex | L), L of 3", 1000, 8000, THREE, adult("1", THREE)),
    Line("Adult, P(sex | L), logit x 2.5, L of 7", 600, 3000, SEVEN, adult("2.5", SEVEN)),
    Line("Adult, three coins, L of 7", 1000, 6000, SEVEN, adult("three", SEVEN)),
    Line("Adult, real sex, L of 7", 1000, 4000, SEVEN, adult("real", SEVEN), null=False),
    Line("waves and ties", 300, 1500, ("a", "b"), waves),
    Line("waves and ties", 1000, 4000, ("a", "b"), waves),
    Line("waves and ties", 4000, 16000, ("a", "b"), waves),
    Line("heavy tails, groups 50 %", 1000, 4000, ("a", "town"), heavy(0.5)),
    Line("heavy tails, groups 93 and 7 %", 1000, 4000, ("a", "town"), heavy(0.07)),
    Line("heavy tails, three groups", 1000, 6000, ("a", "town"), heavy(0.3, 3)),
    Line("lending, nothing planted", 30, 2000, OWN, lending()),
    Line("lending, nothing planted", 300, 2000, OWN, lending()),
    Line("lending, nothing planted", 1000, 4000, OWN, lending()),
    Line("lending, nothing planted", 4000, 16000, OWN, lending()),
    Line("lending, nothing planted, errors", 1000, 4000, OWN, lending(loss=wrong)),
    Line("lending, three groups", 1000, 6000, OWN, lending(groups=3)),
    Line("lending, households of five", 1000, 4000, OWN, lending(households=5)),
    Line("lending, planted .1", 1000, 4000, OWN, lending(0.1), null=False),
    Line("lending, planted .2", 1000, 4000, OWN, lending(0.2), null=False),
    Line("lending, planted .4", 1000, 4000, OWN, lending(0.4), null=False),
    Line("lending, planted .4, rare", 1000, 4000, OWN, lending(0.4, rare=0.04), null=False),
)
