"""A learned metric: how often the interval holds the value under the population's own metric.

Adult's 45222 people are the population. A linear model moved along free directions only has a
closed form, so that a repetition costs little more than learning the metric 21 times.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.special import wrightomega
from sklearn.linear_model import LogisticRegression

from calibration_lines import ALPHA, DELTA, Bar, Effort, Row, line
from likewise.audit_data import AuditData
from likewise.methods.jackknife import JackknifeBounds, groups_between, unit_hashes
from likewise.methods.learn_metric import sensitive_subspace
from likewise.stats.estimate import Bounds, hall, ratio_of_sums, wider
from likewise.stats.sums import RatioSums
from likewise_studies.datasets import adult

TIME = 5.0
VALUES = (1.08, 2.0)
"""Audit values of the two models under the population's metric."""

N = 1000


@dataclasses.dataclass(frozen=True)
class Linear:
    """A logistic model: the weights, the intercept, and its value under the population's metric."""

    weights: np.ndarray
    intercept: float
    value: float

    def ratios(self, x: np.ndarray, y: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the loss ratios when people move along the free directions for the time."""
        before = (2 * y - 1) * (x @ self.weights + self.intercept)
        after = moved_margin(before, TIME * float(np.square(free @ self.weights).sum()))
        return np.logaddexp(0, -after) / np.logaddexp(0, -before)


def moved_margin(before: np.ndarray, speed_times_time: float) -> np.ndarray:
    r"""Return the margin m(T) of a logistic model, for which m + exp(m) + cT is conserved.

    With k = m0 + exp(m0) - cT it is log ω(k), or k - ω(k), ω being Wright's omega function.
    """
    sure = before > 30  # where exp(m) would swallow everything else
    m = np.where(sure, 0.0, before)
    k = m + np.exp(m) - speed_times_time
    omega = wrightomega(k)
    with np.errstate(divide="ignore"):
        after = np.where(k > 1, np.log(omega), k - omega)
    return np.where(sure, before - speed_times_time * np.exp(-before), after)


@functools.cache
def population() -> tuple[AuditData, np.ndarray, np.ndarray]:
    """Return Adult's people, their labels as 0 and 1, and the free directions of their metric."""
    split = adult()
    parts = (split.train, split.test)
    people = AuditData.from_arrays(
        np.vstack([p.x for p in parts]),
        np.concatenate([p.y for p in parts]),
        {t: np.concatenate([p.protected[t] for p in parts]) for t in ("sex", "race")},
        features=parts[0].features,
    )
    y = (people.y == ">50K").astype(np.int64)
    return people, y, sensitive_subspace(people, groups=0, controls=0).free


@functools.cache
def models() -> tuple[Linear, ...]:
    """Return linear models whose audit values under the population's metric are known."""
    people, y, free = population()
    fitted = LogisticRegression(class_weight="balanced", solver="newton-cholesky").fit(people.x, y)
    weights, intercept = fitted.coef_[0], float(fitted.intercept_[0])
    within = free.T @ (free @ weights)

    def model(share: float, value: float) -> Linear:
        """Keep the model outside the free directions, and this much of it within."""
        return Linear(weights - (1 - share) * within, intercept, value)

    def mean(share: float) -> float:
        return float(model(share, 0.0).ratios(people.x, y, free).mean())

    def found(value: float) -> Linear:
        return model(brentq(lambda share: mean(share) - value, 1e-6, 10.0), value)

    return tuple(found(value) for value in VALUES)


@line
def learned_metric(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Learn the metric from each sample, and take it as given, or refit it."""
    seen = {model.value: [] for model in models()}
    for _ in range(effort.refits):
        for model, bounds in one_sample(rng):
            seen[model.value].append(bounds)
    for value, samples in seen.items():
        for position, (name, bars) in enumerate(
            (
                ("paper's z, metric taken as given", ()),
                ("Hall, metric taken as given", ()),
                ("jackknife of 20 groups (default)", (Bar("coverage", low=0.93),)),
            )
        ):
            yield _row(name, value, [bounds[position] for bounds in samples], bars)


def one_sample(
    rng: np.random.Generator,
) -> Iterator[tuple[Linear, tuple[Bounds, Bounds, Bounds]]]:
    """Draw people, learn the metric from them, and yield each model's bounds."""
    people, labels, _ = population()
    rows = rng.choice(len(people), N, replace=False)
    x, y = people.x[rows], labels[rows]
    sample = people.take(rows)
    metric = sensitive_subspace(sample, controls=0)
    groups = groups_between(unit_hashes([sample]), metric.cuts)
    for model in models():
        sums = RatioSums.from_units(model.ratios(x, y, metric.free), np.ones(len(x)))
        estimate = ratio_of_sums(sums, len(x))
        kept = [groups != g for g in range(len(metric.refits))]
        replicates = [
            model.ratios(x[k], y[k], refit.free).mean()
            for k, refit in zip(kept, metric.refits, strict=True)
        ]
        given = hall(estimate)
        bounds = JackknifeBounds(estimate.value, np.array(replicates), directions=2)
        yield model, (estimate, given, wider(bounds, given))


def _row(method: str, value: float, bounds: list[Bounds], bars: tuple[Bar, ...]) -> Row:
    lower = np.array([b.lower_bound(ALPHA) for b in bounds])
    upper = np.array([b.upper_bound(ALPHA) for b in bounds])
    intervals = np.array([b.interval(ALPHA) for b in bounds])
    covered = (intervals[:, 0] <= value) & (value <= intervals[:, 1])
    return Row(
        method,
        f"Adult, linear model, value {value:g}",
        N,
        len(bounds),
        size=float((lower > value).mean()),
        upper_miss=float((upper < value).mean()),
        coverage=float(covered.mean()),
        note=f"rejects δ = {DELTA:g} in {(lower > DELTA).mean():.2f}",
        bars=bars,
    )
