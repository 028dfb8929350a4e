"""Two models judged on the same people: what differs, and how sure we are of it."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.inference.estimate import Bounds, Estimate
from likewise.inference.hall import hall
from likewise.inference.two_way import TwoWay


@dataclasses.dataclass(frozen=True, eq=False)
class Swayed:
    r"""An estimate, and how much each person (and each visiting pair) sways it.

    Parameters
    ----------
    value
        The estimate :math:`\hat\theta`.
    person
        Influences :math:`\psi_i`, which sum to zero.
    pair
        Influences of visiting pairs, if there are any.
    swapped
        The estimate with the members of pairs exchanged at random, many times over.
    least
        Least variance that a *difference* of two such estimates has: that of four more people on
        whom the models differ, so that models which decide alike so far are not found equal (with
        nobody among n, the bound is then 3.3 / n).
    """

    value: float
    person: Float[np.ndarray, " n"]
    pair: Float[np.ndarray, " q"] | None = None
    swapped: Float[np.ndarray, " b"] | None = None
    least: float = 0.0


def mean_of(
    values: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"], *, share: bool = False
) -> Swayed:
    """Return a weighted mean; ``share`` says that the values are zeros and ones."""
    total = float(weight.sum())
    value = float(weight @ values) / total
    least = 4 * float((weight**2).mean()) / total**2 if share else 0.0
    return Swayed(value, weight * (values - value) / total, least=least)


def ratio_of(
    after: Float[np.ndarray, " n"],
    before: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> Swayed:
    r"""Return :math:`\sum w a / \sum w b`."""
    level = float(weight @ before)
    if level <= 0:
        return Swayed(math.nan, np.zeros(len(weight)))
    value = float(weight @ after) / level
    return Swayed(value, weight * (after - value * before) / level)


def balanced_of(
    right: Float[np.ndarray, " n"], y: Shaped[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Swayed:
    """Return the mean over classes of the share decided rightly."""
    classes = np.unique(y)
    value, least, person = 0.0, 0.0, np.zeros(len(right))
    for one in classes:
        rows = y == one
        part = mean_of(right[rows], weight[rows], share=True)
        value += part.value / len(classes)
        least += part.least / len(classes) ** 2
        person[rows] = part.person / len(classes)
    return Swayed(value, person, least=least)


def difference(
    one: Swayed,
    other: Swayed,
    cluster: Int[np.ndarray, " n"] | None = None,
    *,
    inflation: float = 1.0,
    pair_cluster: Int[np.ndarray, "q 2"] | None = None,
) -> tuple[Estimate, Bounds]:
    r"""Return :math:`\hat\theta_1 - \hat\theta_2` on the same people, and bounds for it.

    What a person does to both estimates cancels: the variance is that of
    :math:`\psi_{1i} - \psi_{2i}`, summed over clusters, plus that of the visiting pairs, which the
    two have in common as well. Bounds are Hall's, for the skewness of the differences.

    Parameters
    ----------
    cluster
        Who belongs together.
    inflation, pair_cluster
        See `likewise.inference.two_way.TwoWay`.
    """
    value = one.value - other.value
    d = one.person - other.person
    n = len(d)
    if cluster is not None:
        d = np.bincount(np.unique(cluster, return_inverse=True)[1].reshape(-1), d)
    pairs, least = np.zeros(1), 0.0
    if one.pair is not None and other.pair is not None:
        pairs = one.pair - other.pair
    if one.swapped is not None and other.swapped is not None:
        gaps = one.swapped - other.swapped
        least = float(gaps.var(ddof=1)) if np.isfinite(gaps).all() else 0.0
    ways = TwoWay(
        value / len(d) + d,
        np.full(len(d), 1 / len(d)),
        pairs,
        np.zeros(len(pairs)),
        inflation,
        # Losses have heavy tails, so that degrees of freedom count people of equal influence.
        len(d) < n or not one.least,
        pair_cluster,
        least,
    )
    people, visitors, cubes = ways.variances(value)
    variance = people + visitors + max(one.least, other.least)
    known = math.isfinite(variance) and variance > 0
    estimate = Estimate(
        value,
        math.sqrt(variance) if known else 0.0,
        n,
        skewness=cubes / variance**1.5 if known else 0.0,
        degrees=ways.degrees,
    )
    return estimate, hall(estimate)


@dataclasses.dataclass(frozen=True)
class PairedMeasure:
    r"""One measure of two models on the same people; a positive difference favours the second.

    Parameters
    ----------
    name, of
        ``audit value``, ``loss``, ``accuracy`` or ``balanced accuracy``; whose, if not everyone's.
    first, second
        The measure of either model.
    difference
        How much better the second model is.
    interval, lower_bound, upper_bound
        For the difference: two-sided, and one-sided each.
    margin
        How much worse the second may be and still count as not inferior; 0 for audit values.
    p_value, adjusted
        Of "the second is worse by the margin or more", and after Holm's correction.
    claimed
        Whether it is one of the claims that are corrected together; else it is only shown.
    """

    name: str
    of: str
    first: float
    second: float
    difference: float
    interval: tuple[float, float]
    lower_bound: float
    upper_bound: float
    margin: float
    p_value: float
    adjusted: float = math.nan
    claimed: bool = True

    def shown(self, alpha: float) -> bool:
        """Tell whether it is shown that the second is better, or not worse by the margin."""
        return self.claimed and self.adjusted <= alpha


@dataclasses.dataclass(frozen=True)
class PairedModels:
    """Two models compared on the same people.

    Parameters
    ----------
    first, second
        Names of the models: the one compared with, and the one that should be better.
    n, left_out
        How many people were compared, and how many had no ratio under one of the models.
    measures
        What was compared.
    """

    first: str
    second: str
    n: int
    left_out: int
    measures: tuple[PairedMeasure, ...]


def measured(
    name: str,
    one: Swayed,
    other: Swayed,
    *,
    alpha: float,
    margin: float = 0.0,
    more_is_better: bool = False,
    of: str = "",
    claimed: bool = True,
    **how: Any,
) -> PairedMeasure:
    """Compare one measure; ``how`` is for `difference`."""
    better, worse = (other, one) if more_is_better else (one, other)
    estimate, bounds = difference(better, worse, **how)
    unknown = not estimate.std_error > 0
    low, high = (-math.inf, math.inf) if unknown else bounds.interval(alpha)
    return PairedMeasure(
        name=name,
        of=of,
        first=one.value,
        second=other.value,
        difference=estimate.value,
        interval=(low, high),
        lower_bound=-math.inf if unknown else bounds.lower_bound(alpha),
        upper_bound=math.inf if unknown else bounds.upper_bound(alpha),
        margin=margin,
        p_value=1.0 if unknown else bounds.p_value(-margin),
        claimed=claimed,
    )
