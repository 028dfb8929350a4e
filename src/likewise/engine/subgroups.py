"""Where it is worst: leaves of a tree, grown on one half of the people, judged on the other."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from likewise.data.arrow import without_dictionary
from likewise.inference.estimate import Bounds
from likewise.inference.paired import Swayed, difference, ratio_of
from likewise.inference.simultaneous import holm
from likewise.record import SubgroupRecord

FEWEST = 400
"""People below whom no subgroups are looked for: two halves, and leaves of fifty."""

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


@dataclasses.dataclass(frozen=True)
class JudgedLeaf:
    """One subgroup on the people it was not found on.

    Parameters
    ----------
    words
        Who they are.
    n, estimate, bounds
        How many of the judging half, their audit value, and its bounds.
    p_value
        Of "at most the tolerance"; one where too little is known.
    """

    words: str
    n: int
    estimate: float
    bounds: Bounds
    p_value: float


def halves(
    cluster: Int[np.ndarray, " n"] | None, n: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]:
    """Divide people at random; whole clusters are on one side."""
    place = (
        np.arange(n) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)
    )
    first = rng.random(int(place.max()) + 1) < 0.5
    return np.flatnonzero(first[place]), np.flatnonzero(~first[place])


def joint(leaves: Sequence[JudgedLeaf], trait: str, alpha: float) -> tuple[SubgroupRecord, ...]:
    """Return subgroups with bounds that hold together, the worst first."""
    if not leaves:
        return ()
    adjusted = holm({str(k): leaf.p_value for k, leaf in enumerate(leaves)}, alpha).adjusted
    each = alpha / len(leaves)
    found = [
        SubgroupRecord(
            trait=trait,
            words=leaf.words,
            n=leaf.n,
            estimate=leaf.estimate,
            lower_bound=leaf.bounds.lower_bound(each),
            upper_bound=leaf.bounds.upper_bound(each),
            p_adjusted=adjusted[str(k)],
            found=adjusted[str(k)] <= alpha,
        )
        for k, leaf in enumerate(leaves)
    ]
    return tuple(sorted(found, key=lambda one: (-one.lower_bound, one.words)))


def judged_leaves(
    tree: SubgroupTree,
    table: pa.Table,
    judge: Callable[[str, Int[np.ndarray, " m"]], JudgedLeaf | None],
) -> Iterator[JudgedLeaf]:
    """Judge every leaf that has people."""
    leaf = tree.leaves(table)
    for number in np.unique(leaf).tolist():
        found = judge(tree.words(number), np.flatnonzero(leaf == number))
        if found is not None:
            yield found


def moved_worst(
    table: pa.Table,
    after: Float[np.ndarray, " n"],
    before: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    cluster: Int[np.ndarray, " n"] | None,
    *,
    delta: float,
    alpha: float,
    seed: int,
) -> tuple[SubgroupRecord, ...]:
    r"""Look for subgroups whose audit value :math:`\sum w a / \sum w b` is largest.

    For a mean of ratios, a is the ratio and b is one.
    """
    if len(table) < FEWEST:
        return ()
    one, other = halves(cluster, len(table), np.random.default_rng([seed, 17]))
    level = float(np.average(before[one], weights=weight[one]))
    if level <= 0:
        return ()
    target = (after[one] - before[one]) / level
    tree = SubgroupTree.grow(table.take(pa.array(one)), target, weight[one], seed)

    def judge(words: str, who: Int[np.ndarray, " m"]) -> JudgedLeaf | None:
        rows = other[who]
        found = ratio_of(after[rows], before[rows], weight[rows])
        if len(rows) < 2 or not found.value > 0:
            return None
        known = None if cluster is None else cluster[rows]
        estimate, bounds = difference(found, Swayed(0.0, np.zeros(len(rows))), known)
        return JudgedLeaf(words, len(rows), estimate.value, bounds, bounds.p_value(delta))

    return joint(list(judged_leaves(tree, table.take(pa.array(other)), judge)), "", alpha)
