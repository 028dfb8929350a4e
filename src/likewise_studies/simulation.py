r"""The simulation of Section 4.1: 441 logistic models on a grid, audited under four metrics.

One computation moves the people of all models of a grid at once. It is the paper's schedule of
`likewise.methods.gradient_flow.GradientFlow.paper_simulation`, and is tested against it.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import expit, ndtri

from likewise.audit_data import AuditData
from likewise_studies.datasets import simulated_people
from likewise_studies.published import SIMULATION_REJECTED, published_grid
from likewise_studies.text_tables import Table

LAM = 100.0
STEPS = tuple(0.02 / k ** (2 / 3) for k in range(1, 401))
DELTA = 1.25
ALPHA = 0.05
ANGLES = (0, 5, 10, 20)

THETA = np.linspace(-4, 4, 21)
r"""Coefficients :math:`\theta_1` (rows) and :math:`\theta_2` (columns) of the models."""

Grid = Float[np.ndarray, "t t"]


@dataclasses.dataclass(frozen=True)
class MetricVariant:
    r"""One way to compute the heat maps of Figure 1.

    The fitted bias is added to a model's score ``bias_times``. The metric is ``rotated``,
    :math:`(-\sin\beta\,\Delta_1 + \cos\beta\,\Delta_2)^2`, of rank one, or ``diagonal``,
    :math:`\sin^2\!\beta\,\Delta_1^2 + \cos^2\!\beta\,\Delta_2^2`. ``ddof`` is taken off the
    variance, ``z`` is the test's quantile, and ``floor`` is added to a probability before its
    logarithm is taken.
    """

    words: str
    bias_times: int
    metric: Literal["rotated", "diagonal"]
    ddof: int = 1
    z: float = float(ndtri(1 - ALPHA))
    floor: float = 0.0


VARIANTS = {
    "published": MetricVariant(
        "as published: bias added twice", 2, "rotated", ddof=0, z=1.645, floor=1e-16
    ),
    "corrected": MetricVariant("corrected: bias added once", 1, "rotated"),
    "as_printed": MetricVariant("as printed: diagonal metric", 1, "diagonal"),
}


def metric_matrix(metric: Literal["rotated", "diagonal"], angle: float) -> Float[np.ndarray, "2 2"]:
    r"""Return :math:`\Sigma` of the metric whose free direction is turned by ``angle`` degrees."""
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    if metric == "diagonal":
        return np.diag([sine**2, cosine**2])
    normal = np.array([-sine, cosine])
    return np.outer(normal, normal)


def fitted_bias(
    x: Float[np.ndarray, "n 2"], y: Float[np.ndarray, " n"], theta: Float[np.ndarray, "m 2"]
) -> Float[np.ndarray, " m"]:
    """Return the bias with the least mean logistic loss, for each row of coefficients.

    Its derivative, the mean of probability minus label, rises with the bias; it is zero where
    the mean probability is the share of ones. Bisection finds that to the last digit.
    """
    scores = theta @ x.T
    low, high = -scores.max(axis=1) - 40, -scores.min(axis=1) + 40
    for _ in range(70):
        middle = (low + high) / 2
        above = expit(scores + middle[:, None]).mean(axis=1) > y.mean()
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2


def statistic_grid(data: AuditData, angle: float, variant: MetricVariant) -> Grid:
    r"""Return :math:`T_n` (19) of every model of the grid, under a metric turned by ``angle``."""
    theta = np.stack(np.meshgrid(THETA, THETA, indexing="ij"), axis=-1).reshape(-1, 2)
    bias = variant.bias_times * fitted_bias(data.x, data.y.astype(np.float64), theta)
    margin = (2.0 * data.y - 1) * (theta @ data.x.T + bias[:, None])
    moved = _moved(margin, theta, metric_matrix(variant.metric, angle))
    ratio = _loss(moved, variant.floor) / _loss(margin, variant.floor)
    spread = ratio.std(axis=1, ddof=variant.ddof) / math.sqrt(len(data))
    return (ratio.mean(axis=1) - variant.z * spread).reshape(len(THETA), len(THETA))


def _moved(
    margin: Float[np.ndarray, "m n"],
    theta: Float[np.ndarray, "m 2"],
    sigma: Float[np.ndarray, "2 2"],
) -> Float[np.ndarray, "m n"]:
    r"""Return the margins of the true class after all Euler steps (8), for all models at once.

    Along an eigenvector :math:`u` of :math:`\Sigma` with eigenvalue :math:`e`, a person's share
    :math:`c` in the change of the margin obeys an equation of its own:
    :math:`\dot c = -\sigma(-m) (\theta^\top u)^2 - 2\lambda e c`.
    """
    values, vectors = np.linalg.eigh(sigma)
    pushes = (theta @ vectors) ** 2
    shares = [np.zeros_like(margin) for _ in values]
    wrong, room = np.empty_like(margin), np.empty_like(margin)
    for step in STEPS:
        np.add(margin, shares[0], out=wrong)
        wrong += shares[1]
        # σ(-m) = (1 - tanh(m/2)) / 2: tanh is several times faster than expit.
        wrong *= 0.5
        np.tanh(wrong, out=wrong)
        np.subtract(1, wrong, out=wrong)
        for share, push, value in zip(shares, pushes.T[:, :, None], values, strict=True):
            share *= 1 - 2 * LAM * step * value
            share -= np.multiply(wrong, 0.5 * step * push, out=room)
    return margin + shares[0] + shares[1]


def _loss(margin: Float[np.ndarray, "m n"], floor: float) -> Float[np.ndarray, "m n"]:
    if floor:
        return -np.log(expit(margin) + floor)
    return np.logaddexp(0, -margin)


Grids = Mapping[str, Mapping[int, Grid]]
"""Heat maps by variant and angle."""


def all_grids(progress: Callable[[str, int, int], None] | None = None) -> Grids:
    """Compute every variant at every angle."""
    data = simulated_people()
    grids: dict[str, dict[int, Grid]] = {name: {} for name in VARIANTS}
    wanted = [(name, angle) for name in VARIANTS for angle in ANGLES]
    tell = progress or (lambda *_: None)
    tell("heat maps", 0, len(wanted))
    for done, (name, angle) in enumerate(wanted, 1):
        grids[name][angle] = statistic_grid(data, angle, VARIANTS[name])
        tell("heat maps", done, len(wanted))
    return grids


def deviation(grids: Grids, variant: str, angle: int) -> float | None:
    """Return the largest difference from the published heat map, where that is known."""
    known = published_grid(angle) if variant == "published" else None
    return None if known is None else float(np.abs(grids[variant][angle] - known).max())


def counts_table(grids: Grids) -> Table:
    """Return how many models are rejected, beside the known counts."""
    lines = []
    for name, by_angle in grids.items():
        for angle, grid in by_angle.items():
            off = deviation(grids, name, angle)
            lines.append(
                (
                    name.replace("_", " ") if angle == ANGLES[0] else "",
                    f"{angle}°",
                    str(int((grid > DELTA).sum())),
                    str(SIMULATION_REJECTED[name][angle]),
                    f"{grid.min():.3f} – {grid.max():.3f}",
                    "–" if off is None else f"{off:.1e}",
                )
            )
    return Table(
        "Simulation: models of 441 with T_n > 1.25, by angle of the metric",
        ("variant", "angle", "rejected", "known", "T_n from – to", "max. deviation"),
        tuple(lines),
        frozenset(range(len(ANGLES), len(lines), len(ANGLES))),
    )


def to_json(grids: Grids) -> dict[str, object]:
    """Return heat maps, counts and settings as plain values."""
    return {
        "settings": {"lam": LAM, "steps": len(STEPS), "delta": DELTA, "alpha": ALPHA},
        "theta": THETA.tolist(),
        "variants": {name: variant.words for name, variant in VARIANTS.items()},
        "grids": {
            name: {str(angle): grid.tolist() for angle, grid in by_angle.items()}
            for name, by_angle in grids.items()
        },
        "rejected": {
            name: {str(angle): int((grid > DELTA).sum()) for angle, grid in by_angle.items()}
            for name, by_angle in grids.items()
        },
        "deviation": {str(angle): deviation(grids, "published", angle) for angle in ANGLES},
    }
