"""All that the counterpart test needs of any number of people: sums by person and by pair."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.statistics.honest_worst import honest, most_harmful, pessimistic
from likewise.statistics.swaps import swapped_sums
from likewise.statistics.visit_losses import VisitLosses


@dataclasses.dataclass(frozen=True)
class DonorDesign:
    """What the sums of all blocks of one audit have in common.

    Parameters
    ----------
    groups
        Number of groups of the trait.
    pairs
        Number of pairs.
    m
        How many pairs visit each person, for each other group.
    swaps, seed
        How many random exchanges of members, and their seed.
    """

    groups: int
    pairs: int
    m: int
    swaps: int = 999
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Donors:
    """Sums over people that were visited; those of blocks add up to those of all.

    Parameters
    ----------
    person
        A column each, one row a person: ``row``, ``own``, ``weight``, ``cluster``, ``far``,
        ``visited``, ``loss``, the honest ``after`` and ``before``, the pessimistic
        ``worst_after`` and ``worst_before``, and the most harmful visit: ``pair``, ``other``,
        ``pair_after``, ``pair_before``.
    pair
        For each own group and pair, weighted sums of what its visits add to the four losses, in
        that order.
    swapped
        For each own group and random exchange, the weighted sums of both honest losses.
    """

    design: DonorDesign
    person: dict[str, Any]
    pair: Float[np.ndarray, "g 4 q"]
    swapped: Float[np.ndarray, "g b 2"]

    @classmethod
    def of(cls, losses: VisitLosses, design: DonorDesign) -> "Donors":
        """Sum up a block of people."""
        n = len(losses)
        unvisited = losses.loss.copy()
        person: dict[str, Any] = {
            **{name: getattr(losses, name) for name in ("row", "own", "weight", "cluster", "far")},
            "visited": np.zeros(n, dtype=bool),
            "loss": losses.loss,
            # Without a counterpart nothing is compared: both losses are the person's own.
            **{name: unvisited.copy() for name in LOSSES},
            "pair": np.full(n, -1),
            "other": np.full(n, -1),
            "pair_after": unvisited.copy(),
            "pair_before": unvisited.copy(),
        }
        sums = np.zeros((design.groups, 4, design.pairs))
        swapped = np.zeros((design.groups, design.swaps, 2))
        for own in range(design.groups):
            mine = np.flatnonzero(losses.own == own)
            if not len(mine):
                continue
            there = np.flatnonzero(losses.pair[mine[0], :, 0] >= 0)
            if not len(there):
                swapped[own] += (losses.weight[mine] @ losses.loss[mine])[None]
                continue
            part = losses.take(mine)
            after, before, pair = (x[:, there] for x in (part.after, part.before, part.pair))
            fair, worst = honest(after, before), pessimistic(after, before)
            weight = part.weight
            for j, visit in enumerate(
                (fair.after_part, fair.before_part, worst.after_part, worst.before_part)
            ):
                added = (weight[:, None, None] * visit).reshape(-1)
                sums[own, j] = np.bincount(pair.reshape(-1), added, design.pairs)
            swapped[own] = swapped_sums(after, before, pair, weight, design.swaps, design.seed)
            place = most_harmful(after, before)
            rows = np.arange(len(mine))
            person["visited"][mine] = True
            for name, values in zip(
                LOSSES, (fair.after, fair.before, worst.after, worst.before), strict=True
            ):
                person[name][mine] = values
            for name, visits in (("pair", pair), ("pair_after", after), ("pair_before", before)):
                person[name][mine] = visits.reshape(len(mine), -1)[rows, place]
            person["other"][mine] = part.other[:, there][rows, place // design.m]
        return cls(design, person, sums, swapped)

    def __add__(self, other: "Donors") -> "Donors":
        person = {
            name: np.concatenate([column, other.person[name]])
            for name, column in self.person.items()
        }
        return Donors(self.design, person, self.pair + other.pair, self.swapped + other.swapped)

    def of_group(self, own: int) -> "Donors":
        """Return the people of one group, and what the pool did to them."""
        keep = self.person["own"] == own
        only = np.arange(self.design.groups) == own
        return Donors(
            self.design,
            {name: column[keep] for name, column in self.person.items()},
            np.where(only[:, None, None], self.pair, 0.0),
            np.where(only[:, None, None], self.swapped, 0.0),
        )

    @property
    def grouped(self) -> Bool[np.ndarray, " n"]:
        """Who is in one of the groups."""
        return self.person["own"] >= 0

    def cluster_totals(self, *values: Float[np.ndarray, " n"]) -> list[Float[np.ndarray, " c"]]:
        """Return weighted totals over clusters, of people who are in one of the groups."""
        keep = self.grouped
        place: Int[np.ndarray, " n"] = np.unique(self.person["cluster"][keep], return_inverse=True)[
            1
        ].reshape(-1)
        weight = self.person["weight"][keep]
        # Of nobody, bincount makes integers.
        return [np.bincount(place, weight * value[keep]).astype(np.float64) for value in values]


LOSSES = ("after", "before", "worst_after", "worst_before")
