"""Distributionally robust fairness within reach: one budget of fair distance for everybody."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.checks.reach_crosscheck import ReachCrosscheck, search_beside
from likewise.engine.decide import Judgement
from likewise.engine.move_stats import MoveStats
from likewise.engine.plan import Check, Finding, Plan
from likewise.inference.robust_fairness import RobustValue, robust_fairness, tabulate
from likewise.inference.sampling import Design
from likewise.maps.candidates import NUMBERS, candidate_losses
from likewise.maps.search import BoundReach, uphill
from likewise.maps.surroundings import Surroundings
from likewise.metrics.fair_metric import QuadraticForm
from likewise.models.recalled import Recalled
from likewise.record import Measure

MEASURE = "distributionally_robust_fairness"

SAMPLE = (1000, 3)
"""People on whom the value is computed."""

COARSE = np.geomspace(1 / 30, 30, 25)
"""How far people are first sent off the free directions, in units of what the budget allows."""

FINE = np.geomspace(0.8, 1.25, 9)
"""And how far after that, in units of what suited each of them best."""


@final
@dataclasses.dataclass(frozen=True)
class Robust(Check):
    r"""How far the mean loss can rise if people move by little.

    Parameters
    ----------
    epsilon
        The mean :math:`d_x^2` that people may be moved by, besides what is free.
    """

    name: ClassVar[str] = "robust"

    epsilon: float = 0.01

    @override
    def read(self, stats: Mapping[str, MoveStats], plan: Plan, judgement: Judgement) -> Finding:
        if self.name not in plan.asked:
            return Finding(skipped=("distributionally robust fairness",))
        if not plan.metric.quadratic:
            return Finding()
        rows = plan.drawn(*SAMPLE)
        search = search_beside(plan, **plan.settings.checks.params(ReachCrosscheck.name))
        model = plan.model if plan.model.card.differentiable else Recalled(plan.model)
        found = robust_value(
            search.bind(model, plan.metric),
            plan.people.take(rows),
            plan.x[rows],
            plan.y[rows],
            self.epsilon,
            plan.settings.alpha,
        )
        lower, upper = found.interval
        measure = Measure(name=MEASURE, value=found.value, lower=lower, upper=upper, n=found.n)
        return Finding({"measures": (measure,)})


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    r"""Places that each person could be moved to: how far on the way, the loss, and its cost.

    One table serves every price: :math:`\ell^c_\lambda` is the largest
    :math:`\ell - \lambda d_x^2` of a person.
    """

    far: Float[np.ndarray, "n m"]
    loss: Float[np.ndarray, "n m"]
    cost: Float[np.ndarray, "n m"]

    def transform(self, lam: float) -> Float[np.ndarray, " n"]:
        r"""Return :math:`\ell^c_\lambda` of each person."""
        return (self.loss - lam * self.cost).max(axis=1)

    def beside(self, other: "Candidates") -> "Candidates":
        """Return the same people with more places."""
        return Candidates(
            far=np.hstack([self.far, other.far]),
            loss=np.hstack([self.loss, other.loss]),
            cost=np.hstack([self.cost, other.cost]),
        )

    def farthest(self, lam: float) -> Float[np.ndarray, "n 1"]:
        """Return how far on their way people go at a price."""
        best = (self.loss - lam * self.cost).argmax(axis=1)
        return np.take_along_axis(self.far, best[:, None], axis=1)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Ways:
    """Where the search within reach takes people, and the way on from there.

    Parameters
    ----------
    units
        Directions off the free ones, of fair length one; zero where the loss does not change.
    """

    around: Surroundings
    metric: QuadraticForm
    best: Float[np.ndarray, "n d"]
    units: Float[np.ndarray, "n d"]

    @classmethod
    def find(
        cls, bound: BoundReach, x: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]
    ) -> "Ways":
        """Search within reach, and see where the loss rises from there."""
        around = bound.surroundings(x, y)
        best = bound.search(around)
        way = uphill(around, best, bound.metric, bound.budget)
        length = np.sqrt(bound.metric.squared_distance(way, np.zeros_like(way)))[:, None]
        units = np.where(length > 0, way / np.maximum(length, 1e-300), 0.0)
        return cls(around, bound.metric, best.x, units)

    def look(self, far: Float[np.ndarray, "n m"]) -> Candidates:
        """Return what happens at some distances along the way, and at home."""
        x0 = self.around.x0
        x = self.best[:, None] + far[:, :, None] * self.units[:, None]
        x = x if self.around.snap is None else self.around.snap(x, x0)
        x = np.concatenate([x0[:, None], x], axis=1)
        n, m, d = x.shape
        loss = candidate_losses(self.around.model, x, self.around.y)
        cost = self.metric.squared_distance(x.reshape(n * m, d), np.repeat(x0, m, axis=0))
        home = np.zeros((n, 1))
        return Candidates(np.hstack([home, far]), loss, cost.reshape(n, m))


def robust_value(
    bound: BoundReach, people: AuditData, x: np.ndarray, y: np.ndarray, epsilon: float, alpha: float
) -> RobustValue:
    r"""Return the distributionally robust fairness value (Definition 2.1), within the reach.

    The mean loss can rise by this much if people move by a mean squared fair distance of
    :math:`\epsilon`, and along free directions anywhere within reach. Everyone's worst place
    within reach is searched for, and steps of many lengths lead on from there; what the search
    misses makes the value smaller.
    """
    n, d = x.shape
    size = max(1, NUMBERS // (d * max(bound.budget, len(COARSE))))
    blocks = np.split(np.arange(n), np.arange(size, n, size))
    ways = [Ways.find(bound, x[rows], y[rows]) for rows in blocks]

    def look(far: Float[np.ndarray, "n m"]) -> Candidates:
        return joined([way.look(far[rows]) for way, rows in zip(ways, blocks, strict=True)])

    design = Design.make(n, people.weight, people.cluster)
    coarse = look(np.tile(np.sqrt(epsilon) * np.array([0.0, *COARSE]), (n, 1)))
    first = value_of(coarse, epsilon, design, alpha)
    return value_of(coarse.beside(look(coarse.farthest(first.lam) * FINE)), epsilon, design, alpha)


def value_of(
    candidates: Candidates, epsilon: float, design: Design, alpha: float = 0.05
) -> RobustValue:
    """Return the value for people who can go to these places only."""
    home = candidates.loss[:, 0]
    table = tabulate(candidates.transform, home, epsilon, design=design)
    return robust_fairness(home, table, epsilon, design=design, alpha=alpha)


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Return the candidates of several blocks of people."""
    return Candidates(
        far=np.concatenate([part.far for part in parts]),
        loss=np.concatenate([part.loss for part in parts]),
        cost=np.concatenate([part.cost for part in parts]),
    )
