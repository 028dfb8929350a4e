"""Subgroups that nobody named: the leaves of a shallow tree, in words."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from likewise.data.arrow import without_dictionary

DEPTH, LEAST, LEVELS = 3, 50, 20
"""Depth of the tree, fewest people of a leaf, and categories of a column that are told apart."""


@dataclasses.dataclass(frozen=True)
class Question:
    """A feature of the tree: a number, or whether a column has a value."""

    column: str
    value: Any = None

    def answers(self, table: pa.Table) -> Float[np.ndarray, " n"]:
        """Return the feature for everyone; a missing number is below all others."""
        column = without_dictionary(table[self.column])
        if self.value is not None:
            return np.array([str(v) == self.value for v in column.to_pylist()], dtype=np.float64)
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.nan_to_num(numbers, nan=-1e30)

    def words(self, low: float, high: float) -> str:
        """Say which people lie above ``low`` and at most at ``high``."""
        if self.value is not None:
            return f"{self.column} {self.value}" if low > 0 else f"{self.column} not {self.value}"
        parts = [f"{self.column} > {low:.4g}"] if low > -np.inf else []
        return " and ".join([*parts, *([f"{self.column} ≤ {high:.4g}"] if high < np.inf else [])])


@dataclasses.dataclass(frozen=True, eq=False)
class SubgroupTree:
    """A tree that was grown on some people, to be judged on others.

    Parameters
    ----------
    questions
        What the tree may ask.
    tree
        The fitted tree.
    """

    questions: tuple[Question, ...]
    tree: Any

    @classmethod
    def grow(
        cls,
        table: pa.Table,
        target: Float[np.ndarray, " n"],
        weight: Float[np.ndarray, " n"],
        seed: int,
    ) -> "SubgroupTree":
        """Grow a tree whose leaves differ in ``target``."""
        from sklearn.tree import DecisionTreeRegressor

        questions = questions_about(table)
        least = max(LEAST, len(table) // 20)
        tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=least, random_state=seed)
        x = np.column_stack([question.answers(table) for question in questions])
        return cls(questions, tree.fit(x, target, sample_weight=weight))

    def leaves(self, table: pa.Table) -> Int[np.ndarray, " n"]:
        """Return the number of everyone's leaf."""
        x = np.column_stack([question.answers(table) for question in self.questions])
        return np.asarray(self.tree.apply(x), dtype=np.int64)

    def words(self, leaf: int) -> str:
        """Say who is in a leaf."""
        grown = self.tree.tree_
        low: dict[int, float] = {}
        high: dict[int, float] = {}
        for node, below in self._path(leaf):
            feature, limit = int(grown.feature[node]), float(grown.threshold[node])
            if below:
                high[feature] = min(high.get(feature, np.inf), limit)
            else:
                low[feature] = max(low.get(feature, -np.inf), limit)
        said = [
            self.questions[k].words(low.get(k, -np.inf), high.get(k, np.inf))
            for k in sorted({*low, *high})
        ]
        return ", ".join(said) or "everyone"

    def _path(self, leaf: int) -> list[tuple[int, bool]]:
        """Return the nodes above a leaf, and whether it is on their lower side."""
        grown = self.tree.tree_
        steps: list[tuple[int, bool]] = []
        node = leaf
        while node:
            left = np.flatnonzero(grown.children_left == node)
            above = (
                int(left[0]) if len(left) else int(np.flatnonzero(grown.children_right == node)[0])
            )
            steps.append((above, bool(len(left))))
            node = above
        return steps[::-1]


def questions_about(table: pa.Table) -> tuple[Question, ...]:
    """Return what can be asked about people: numbers, and the commonest values of categories."""
    found: list[Question] = []
    for name in table.column_names:
        column = without_dictionary(table[name])
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            found.append(Question(name))
            continue
        counts: dict[str, int] = {}
        for value in column.to_pylist():
            counts[str(value)] = counts.get(str(value), 0) + 1
        common: Sequence[str] = sorted(counts, key=lambda value: (-counts[value], value))[:LEVELS]
        found += [Question(name, value) for value in common]
    return tuple(found)
