"""Sampling designs: the sums of everyone or of one group, with their weights and clusters."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from likewise.errors import InvalidSample
from likewise.stats.estimate import (
    Estimate,
    mean_of_moments,
    ratio_of_sums,
    ratio_of_totals,
    weighted_jackknife,
    with_one_more,
    with_one_more_cluster,
)
from likewise.stats.frame import check_clusters, checked_weights
from likewise.stats.sums import ErrorTable, UnitSums
from likewise.stats.tally import Group, Tally, cell_of, decisions_of, numbered

FEW = 50
"""With fewer degrees of freedom than this it is said that Student's t is used."""

VERY_FEW = 12
"""With fewer degrees of freedom than this intervals may hold a little less often than they say:
.928 instead of .95 was seen with 10 clusters."""

DOMINATING = 0.1
"""A cluster with a larger share of the weight is named."""


@dataclasses.dataclass(frozen=True)
class Sample:
    r"""Some people of a tally (everyone, or one group): their sums, and how they were sampled.

    Parameters
    ----------
    tally
        The sums of everyone.
    group
        Which of its cells the people are in; everyone without one.
    """

    tally: Tally
    group: Group | None = None

    @property
    def members(self) -> Any:
        """Which cells of the tally they are in."""
        return slice(None) if self.group is None else self.group.members

    @functools.cached_property
    def n(self) -> int:
        """Number of people."""
        return int(self.tally.groups.count[self.members].sum())

    @property
    def undefined(self) -> int:
        """How many of them have no finite ratio (or loss)."""
        return int(self.tally.groups.undefined[self.members].sum())

    @functools.cached_property
    def clusters(self) -> int | None:
        """Number of clusters; ``None`` if people are independent."""
        if not self.tally.clustered:
            return None
        units = int(self._present.sum())
        return None if units == self.n else units

    @property
    def units(self) -> int:
        """Number of independent units."""
        return self.n if self.clusters is None else self.clusters

    @functools.cached_property
    def _lines(self) -> Any:
        if self.group is None:
            return None
        kinds, cells = self.tally.clusters.table.kind, self.tally.groups.cells[self.members]
        return np.isin(cell_of(kinds, self.tally.frame), cells)

    @functools.cached_property
    def _present(self) -> Any:
        return self.tally.by_cluster("count", self._lines) > 0

    def totals(self, column: str, *, everywhere: bool = False) -> Float[np.ndarray, " g"]:
        """Return the totals of its people in every cluster that has some, or in all clusters."""
        found = self.tally.by_cluster(column, self._lines)
        return found if everywhere else found[self._present]

    @functools.cached_property
    def _decisions(self) -> tuple[Any, Float[np.ndarray, "k 4"]]:
        """Kinds of its people; and numbers, weights, squared and cubed weights of each."""
        groups = self.tally.groups
        if self.group is None:
            return groups.kinds, groups.decisions
        among = np.isin(cell_of(groups.kinds, self.tally.frame), groups.cells[self.members])
        return groups.kinds[among], groups.decisions[among]

    @property
    def kish(self) -> float | None:
        r"""Kish's design effect, :math:`n \sum w^2 / (\sum w)^2`; ``None`` if all count alike."""
        n, total, squared, _ = self._decisions[1].sum(axis=0).tolist()
        return n / (total**2 / squared) if self.tally.frame.weighted else None

    @functools.cached_property
    def effective_n(self) -> float:
        r"""Kish's effective number of units, :math:`(\sum W)^2/\sum W^2`."""
        if self.clusters is not None:
            return effective_units(self.totals("weight"))
        _, total, squared, _ = self._decisions[1].sum(axis=0).tolist()
        return float(total**2 / squared)

    @property
    def simple(self) -> bool:
        """Whether people are independent and count alike, as in the paper."""
        return not self.tally.frame.weighted and self.clusters is None

    @property
    def degrees(self) -> float:
        r"""Degrees of freedom of a standard error, :math:`G_\text{eff} - 1` on a design."""
        return math.inf if self.simple else max(1.0, self.effective_n - 1)

    @property
    def details(self) -> dict[str, float]:
        """The design effect of the weights, for the record; nothing if there is no design."""
        return {} if self.simple else {"kish": 1.0 if self.kish is None else self.kish}

    def named(self, method: str) -> str:
        """Return the name of a method on this design."""
        return (
            method
            + ("" if self.kish is None else ", weighted")
            + ("" if self.clusters is None else f", {self.clusters} clusters")
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about weights and clusters, in sentences."""
        notes: tuple[str, ...] = ()
        if self.kish is not None:
            notes += (f"People count by their weights (Kish's design effect {self.kish:.2f}).",)
        if self.clusters is None:
            return notes
        few = self.degrees < FEW
        law = f"; Student's t with {self.degrees:.3g} degrees of freedom" if few else ""
        notes += (f"Standard errors allow for {self.clusters} clusters of people alike{law}.",)
        if self.degrees < VERY_FEW:
            notes += (
                "So few clusters say little of their own spread: intervals may hold a little "
                "less often than they promise.",
            )
        weights = self.totals("weight")
        name = self.tally.clusters.table.names[self._present][int(weights.argmax())]
        share = float(weights.max() / weights.sum())
        if share > DOMINATING and share > 2 / self.clusters:
            notes += (
                f"Cluster {str(name)!r} holds {share:.0%} of the weight: the "
                f"{self.clusters} clusters are worth {self.effective_n:.3g} of equal weight.",
            )
        return notes

    def estimate(self, *, held: bool = False) -> Estimate:
        """Return the audit value: the mean loss ratio, or a regression's ratio of mean losses.

        Parameters
        ----------
        held
            Whether ratios (or losses after) are capped.
        """
        frame, groups = self.tally.frame, self.tally.groups
        if self.undefined:
            return Estimate(math.nan, math.nan, self.n)
        if self.units < 2:
            value = groups.moments("ratio", self.members).plain.mean if groups.ratio else None
            return Estimate(self.loss_sums().ratio if value is None else value, math.nan, self.n)
        if self.clusters is not None:
            after, before = ("after", "before") if frame.regression else ("ratio", "weight")
            totals = self.totals("held" if held else after), self.totals(before)
            return ratio_of_totals(*totals, self.n, self.effective_n)
        if frame.regression:
            sums = self.loss_sums(held=held)
            return self._ratio(sums) if self.group is None else ratio_of_sums(sums, self.n)
        moments = groups.moments("held" if held else "ratio", self.members)
        return mean_of_moments(moments, weighted=frame.weighted)

    def _ratio(self, sums: UnitSums) -> Estimate:
        """Return a ratio of totals over independent people: (22), or the jackknife's."""
        if self.simple:
            return ratio_of_sums(sums, self.n, printed=True)
        _, total, squared, cubed = self._decisions[1].sum(axis=0).tolist()
        estimate = ratio_of_sums(sums, self.n, effective_n=self.effective_n)
        return weighted_jackknife(estimate, cubed / (total * squared))

    def with_one_more(self) -> Estimate | None:
        """Return the mean loss ratio with one more unit that is harmed more than any seen."""
        groups, frame = self.tally.groups, self.tally.frame
        if frame.regression or self.undefined or self.units < 2:
            return None
        if self.clusters is not None:
            totals = self.totals("ratio"), self.totals("weight")
            return with_one_more_cluster(*totals, self.n, self.effective_n)
        largest = float(groups.largest[self.members].max())
        moments = groups.moments("ratio", self.members)
        return with_one_more(moments, largest, weighted=frame.weighted)

    def loss_sums(self, *, held: bool = False) -> UnitSums:
        """Return power sums of losses after (capped or not) and before, over independent units."""
        if self.clusters is not None:
            return UnitSums.of(self.totals("held" if held else "after"), self.totals("before"))
        column = "held_losses" if held else "losses"
        return self.tally.groups.loss_sums(column, self.members)

    def terms(self, value: float) -> Float[np.ndarray, " g"]:
        """Return the linearised estimate, cluster by cluster of everyone."""
        after, before = ("after", "before") if self.tally.frame.regression else ("ratio", "weight")
        first = self.totals(after, everywhere=True)
        return first - value * self.totals(before, everywhere=True)

    @functools.cached_property
    def _wrong(self) -> tuple[Any, Any]:
        y, before, after = decisions_of(self._decisions[0], self.tally.frame)
        return before != y, after != y

    def _by_error(self, column: int) -> list[float]:
        before, after = self._wrong
        sums = self._decisions[1][:, column]
        cells = (before & after, after & ~before, before & ~after, ~before & ~after)
        return [float(sums[cell].sum()) for cell in cells]

    @property
    def errors(self) -> ErrorTable:
        """Numbers of people wrong both times, newly wrong, newly right and never."""
        return ErrorTable(*(int(count) for count in self._by_error(0)))

    @property
    def error_weights(self) -> Float[np.ndarray, "4"]:
        """Weights of the same."""
        return np.array(self._by_error(1))

    @property
    def error_sums(self) -> UnitSums:
        """Power sums of weighted errors after and before, over independent units."""
        if self.clusters is not None:
            return UnitSums.of(self.totals("wrong_after"), self.totals("wrong_before"))
        base, weights = self._wrong[0].astype(np.float64), self._decisions[1].T
        change = self._wrong[1] - base
        sums = np.zeros((4, 4))
        for i, j in itertools.product(range(4), range(4)):
            if i + j <= 3:
                sums[i, j] = float((weights[i + j] * change**i * base**j).sum())
        return UnitSums(sums)

    def error_ratio(self) -> Estimate:
        """Return the ratio of error rates with the standard error of (22), or the jackknife's."""
        if self.clusters is not None:
            totals = self.totals("wrong_after"), self.totals("wrong_before")
            return ratio_of_totals(*totals, self.n, self.effective_n)
        return self._ratio(self.error_sums)


@dataclasses.dataclass(frozen=True)
class Design:
    """The independent units of people in memory, for methods that need every row.

    Parameters
    ----------
    n
        Number of people.
    weight
        Sampling weight of each person; ``None`` if all count alike.
    unit
        Number of the cluster each person is in, 0, 1, …; ``None`` if people are independent.
    """

    n: int
    weight: Float[np.ndarray, " n"] | None = None
    unit: Int[np.ndarray, " n"] | None = None

    @classmethod
    def make(
        cls,
        n: int,
        weight: Float[np.ndarray, " n"] | None = None,
        cluster: Shaped[np.ndarray, " n"] | None = None,
    ) -> "Design":
        """Return the design of ``n`` people; equal weights and clusters of one count as none."""
        weight = checked_weights(n, weight)
        check_clusters(cluster)
        unit = None if cluster is None else numbered(cluster)[1]
        if unit is not None and unit.max() == 0:
            raise InvalidSample("All people are in one cluster; a standard error needs two.")
        if unit is not None and unit.max() == n - 1:
            unit = None
        return cls(n, weight, unit)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a standard error, infinite for independent people alike."""
        if self.weight is None and self.unit is None:
            return math.inf
        return max(1.0, effective_units(self.total_weights) - 1)

    def totals(self, values: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " g"]:
        r"""Return :math:`\sum_{i \in g} w_i v_i` for every unit g."""
        weighted = values * self.weight if self.weight is not None else values.astype(np.float64)
        return weighted if self.unit is None else np.bincount(self.unit, weights=weighted)

    @functools.cached_property
    def total_weights(self) -> Float[np.ndarray, " g"]:
        """The weight of every unit."""
        return self.totals(np.ones(self.n))


def effective_units(weights: Float[np.ndarray, " g"]) -> float:
    r"""Return how many units of equal weight are worth as much, :math:`(\sum W)^2/\sum W^2`."""
    return float(weights.sum() ** 2 / np.square(weights).sum())
