"""People who could exist: categories and whole numbers keep to values that were observed."""

import dataclasses
import math
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from likewise.errors import InvalidData

FEW = 32
"""Combinations up to which comparing them one by one is the fastest."""


COMPARED = 64
"""Combinations up to which it is worth finding out which of them can be reached from which."""

NUMBERS = 2**17
"""Numbers that are worked on at once, which the cache should hold."""

Codes = Int[np.ndarray, "g q"]
"""Whoever stands at places: by the number of a combination in every group of columns."""


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
        return values[(np.square(values).sum(axis=1) - 2 * x @ values.T).argmin(axis=1)]


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

    def nearest(
        self, x: Float[np.ndarray, "n m d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n m d"]:
        """Move places to the nearest feasible ones; what a person has now is feasible too."""
        found = x.copy()
        for choice in self.choices:
            columns = list(choice.columns)
            part, own = x[:, :, columns], x0[:, None, columns]
            near = choice.nearest(part.reshape(-1, len(columns))).reshape(part.shape)
            stay = np.square(part - own).sum(axis=2) <= np.square(part - near).sum(axis=2)
            found[:, :, columns] = np.where(stay[:, :, None], own, near)
        return found


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Movable:
    """Columns that keep to combinations which were observed, and who has others.

    Parameters
    ----------
    lines
        Where its numbers are among those of all groups: the column itself if there is one only
        (with ``middles``, half way between values), else one for every combination.
    unseen
        Who has what was not observed, and may keep it; nothing if nobody does.
    """

    levels: Levels
    lines: slice
    middles: Float[np.ndarray, " _"] | None
    unseen: Bool[np.ndarray, " n"] | None


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Nearby:
    r"""Who could exist near places :math:`x_0 + s A`, as `Feasible.nearest` tells.

    Of combinations :math:`v` the nearest to x has the largest :math:`v \cdot x - |v|^2 / 2`. That
    is linear in the step s: what it is at :math:`x_0` is computed once, and a step is as wide as
    there are directions. Columns that nobody can change on the way are left out.

    Parameters
    ----------
    base, slope
        The numbers of all groups where people are, and how they change with a step.
    continuous
        Columns that are kept to no values.
    """

    x0: Float[np.ndarray, "n d"]
    axes: Float[np.ndarray, "r d"]
    groups: tuple[Movable, ...]
    base: Float[np.ndarray, "c n"]
    slope: Float[np.ndarray, "c r"]
    continuous: Int[np.ndarray, " f"]

    @classmethod
    def of(
        cls,
        feasible: Feasible,
        x0: Float[np.ndarray, "n d"],
        axes: Float[np.ndarray, "r d"],
        far: Float[np.ndarray, " n"],
    ) -> "Nearby":
        """Find what can change with steps that are at most ``far`` long."""
        groups: list[Movable] = []
        base, slope = [np.zeros((0, len(x0)))], [np.zeros((0, len(axes)))]
        end = 0
        for levels in feasible.choices:
            columns, values = list(levels.columns), levels.values
            own, towards = x0[:, columns], axes[:, columns].T
            middles = None
            if len(columns) == 1:
                aside = far * np.linalg.norm(towards[0]) + 1e-9 * (1 + np.abs(own[:, 0]))
                middles = (values[1:, 0] + values[:-1, 0]) / 2
                start, code = own.T, np.searchsorted(middles, own[:, 0])
                low, high = np.searchsorted(middles, [start[0] - aside, start[0] + aside])
                moves = bool((low < high).any())
            else:
                start = values @ own.T - (np.square(values).sum(axis=1) / 2)[:, None]
                towards, code = values @ towards, start.argmax(axis=0)
                moves = _moves(values, towards, code, far)
            unseen = (values[code] != own).any(axis=1)
            if moves or unseen.any():
                lines = slice(end, end + len(start))
                groups.append(Movable(levels, lines, middles, unseen if unseen.any() else None))
                base.append(start)
                slope.append(towards)
                end = lines.stop
        kept = np.concatenate([np.zeros(0, np.int64), *(c.columns for c in feasible.choices)])
        free = np.setdiff1d(np.flatnonzero(axes.any(axis=0)), kept)
        return cls(x0, axes, tuple(groups), np.concatenate(base), np.concatenate(slope), free)

    def codes(self, who: Int[np.ndarray, " q"], s: Float[np.ndarray, "q r"]) -> Codes:
        """Return who could exist nearest to places, one each for some people."""
        found = np.empty((len(self.groups), len(who)), dtype=np.int64)
        size = max(1, NUMBERS // max(1, len(self.base)))
        for some in (slice(k, k + size) for k in range(0, len(who), size)):
            self._write(who[some], s[some], found[:, some])
        return found

    def _write(self, who: Int[np.ndarray, " q"], s: Float[np.ndarray, "q r"], codes: Codes) -> None:
        at = self.slope @ s.T
        at += self.base.take(who, axis=1)
        for code, group in zip(codes, self.groups, strict=True):
            lines = at[group.lines]
            if group.middles is not None:
                code[:] = np.searchsorted(group.middles, lines[0])
            elif len(lines) > FEW:
                code[:] = lines.argmax(axis=0)
            else:
                _first_largest(lines, code)
            if group.unseen is not None:
                self._stay(group, who, s, code)

    def distinct(
        self, who: Int[np.ndarray, " q"], codes: Codes
    ) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " q"]]:
        """Return the first places of different people, and where among these everybody is."""
        sizes = [len(group.levels.values) + 1 for group in self.groups]
        if len(self.continuous) or math.prod(sizes, start=len(self.x0)) >= 2**63:
            return np.arange(len(who)), np.arange(len(who))
        key = who.copy()
        for size, code in zip(sizes, codes, strict=True):
            key *= size
            key += code
        return np.unique(key, return_index=True, return_inverse=True)[1:]

    def _stay(self, group: Movable, who: np.ndarray, s: np.ndarray, code: np.ndarray) -> None:
        """Let people keep what was not observed where that is as near; its code is the last."""
        some = np.flatnonzero(group.unseen[who])  # type: ignore[index]
        columns = list(group.levels.columns)
        own, move = self.x0[who[some]][:, columns], s[some] @ self.axes[:, columns]
        near = group.levels.values[code[some]]
        stay = np.square(move).sum(axis=1) <= np.square(own + move - near).sum(axis=1)
        code[some[stay]] = len(group.levels.values)

    def people(
        self, who: Int[np.ndarray, " q"], s: Float[np.ndarray, "q r"], codes: Codes
    ) -> Float[np.ndarray, "q d"]:
        """Return the features of those who could exist, given their codes."""
        x = self.x0[who]
        if len(self.continuous):
            x[:, self.continuous] += s @ self.axes[:, self.continuous]
        for code, group in zip(codes, self.groups, strict=True):
            columns, values = list(group.levels.columns), group.levels.values
            if group.unseen is None:
                x[:, columns] = values[code]
            else:
                seen = code < len(values)
                x[np.ix_(seen, columns)] = values[code[seen]]
        return x


def _moves(
    values: Float[np.ndarray, "m c"],
    towards: Float[np.ndarray, "m r"],
    own: Int[np.ndarray, " n"],
    far: Float[np.ndarray, " n"],
) -> bool:
    """Tell whether a step of length ``far`` can bring anybody nearer to another combination."""
    if len(values) > COMPARED:
        return True
    apart = np.square(values[:, None] - values).sum(axis=2) / 2
    gained = np.linalg.norm(towards[:, None] - towards, axis=2)
    needed = np.where(gained > 0, apart / np.maximum(gained, 1e-300), np.inf)
    np.fill_diagonal(needed, np.inf)
    return bool((far * (1 + 1e-9) >= needed.min(axis=1)[own]).any())


def _first_largest(lines: Float[np.ndarray, "m q"], code: Int[np.ndarray, " q"]) -> None:
    """Write the number of the line with the largest entry; of several, the first."""
    code[:] = 0
    most = lines[0].copy()
    for number, line in enumerate(lines[1:], start=1):
        np.putmask(code, line > most, number)
        np.maximum(most, line, out=most)


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
