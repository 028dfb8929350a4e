"""People who could exist: categories and whole numbers keep to values that were observed."""

import dataclasses
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidData

FEW = 32
"""Combinations up to which comparing them one by one is the fastest."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Levels:
    """The values that some columns can take together: the levels of a one-hot group, say.

    Parameters
    ----------
    columns
        Places of the columns.
    values
        One row a possible combination.
    """

    columns: tuple[int, ...]
    values: Float[np.ndarray, "m c"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"], columns: Sequence[int]) -> "Levels":
        """Return the combinations that occur in a sample, sorted."""
        values = np.unique(x[:, list(columns)], axis=0)
        return cls(tuple(columns), values)

    def nearest(self, x: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Return the combination nearest to each row; of two equally near, the first."""
        values = self.values
        if values.shape[1] == 1:
            middles = (values[1:, 0] + values[:-1, 0]) / 2
            return values[np.searchsorted(middles, x[:, 0])]
        # |x − v|² without |x|², which is the same for all combinations.
        far = np.square(values).sum(axis=1)[:, None] - 2 * values @ x.T
        if len(far) > FEW:
            return values[far.argmin(axis=0)]
        first, least = np.zeros(len(x), dtype=np.intp), far[0].copy()
        for number, this in enumerate(far[1:], start=1):
            np.putmask(first, this < least, number)
            np.minimum(least, this, out=least)
        return values.T.take(first, axis=1).T


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Feasible:
    """What can be observed: one choice for every group of columns that is not continuous."""

    choices: tuple[Levels, ...]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"], features: Sequence[str] = ()) -> "Feasible":
        """Learn from a sample what values occur.

        Features called ``column=level`` form a group, whose combinations are those observed; so
        do neighbouring indicators of which nobody has two, which is how pipelines spell categories.
        Another column keeps to its observed values unless most of them occur only once: then it
        is continuous.

        Parameters
        ----------
        x
            The features of a sample, best the one that the metric was learned from.
        features
            Names of its columns.
        """
        if not len(x):
            raise InvalidData("What is feasible cannot be learned from an empty sample.")
        groups = column_groups(x, features or [f"x{j}" for j in range(x.shape[1])])
        return cls.keeping([Levels.of(x, columns) for columns in groups], len(x))

    @classmethod
    def keeping(cls, choices: Sequence[Levels], n: int) -> "Feasible":
        """Keep to the choices found among ``n`` people, but for columns that are continuous."""
        return cls(tuple(c for c in choices if len(c.columns) > 1 or 2 * len(c.values) <= n))

    def knows(self, x0: Float[np.ndarray, "n d"]) -> bool:
        """Tell whether everything that these people have was observed."""
        own = ((choice, x0[:, list(choice.columns)]) for choice in self.choices)
        return all((choice.nearest(part) == part).all() for choice, part in own)

    def nearest(
        self,
        x: Float[np.ndarray, "n m d"],
        x0: Float[np.ndarray, "n d"],
        *,
        known: bool = False,
    ) -> Float[np.ndarray, "n m d"]:
        """Move places to the nearest feasible ones; what a person has now is feasible too.

        Parameters
        ----------
        known
            Whether `knows` has said that nobody has what was not observed.
        """
        n, m, d = x.shape
        # Feature by feature, since columns are chosen one after the other.
        found = x.reshape(n * m, d).T.copy()
        own = None if known else np.repeat(x0.T, m, axis=1)
        for choice in self.choices:
            first, last = choice.columns[0], choice.columns[-1]
            whole = last - first + 1 == len(choice.columns)
            columns = slice(first, last + 1) if whole else list(choice.columns)
            part = found[columns]
            near = choice.nearest(part.T).T
            if own is not None:
                from_own = np.square(part - own[columns]).sum(axis=0)
                stay = from_own <= np.square(part - near).sum(axis=0)
                near = np.where(stay, own[columns], near)
            found[columns] = near
        return found.reshape(d, n, m).transpose(1, 2, 0)


def column_groups(x: Float[np.ndarray, "n d"], names: Sequence[str]) -> list[list[int]]:
    """Put columns that stand for one category together."""
    named: dict[str, list[int]] = {}
    groups: list[list[int]] = []
    taken = None  # who has one of the indicators of the last group
    for j, name in enumerate(names):
        column, mark, _ = name.partition("=")
        if mark:
            named.setdefault(column, []).append(j)
            taken = None
            continue
        on = x[:, j] == x[:, j].max() if len(np.unique(x[:, j])) == 2 else None
        if on is not None and taken is not None and not (on & taken).any():
            groups[-1].append(j)
            taken = on | taken
        else:
            groups.append([j])
            taken = on
    return sorted([*groups, *named.values()])
