"""Subgroups that nobody named: found on some people, judged on others, with error control."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from likewise.checks.column_choice import compared_again, leading_rows, variant_sums
from likewise.checks.overlap import indicator_names, indicators
from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import AskedBlock, BoundMatchedPairs, PairsProbe, find_pairs
from likewise.methods.matching import Covariates
from likewise.methods.pair_stats import PairDesign, PairSums
from likewise.methods.reference_sample import CovariateCoding
from likewise.record import RateComparison, SubgroupRecord
from likewise.stats.decision import assess
from likewise.verdict import Verdict

FEWEST = 200
"""People among whom subgroups are looked for, at least."""

DEPTH, LEAST = 3, 50
"""Depth of the tree, and fewest people of a leaf."""

PEOPLE, POOL = 4_000, 4_000
"""About how many people of each group are looked at, and judged, and their reference samples."""

NEIGHBOURS, REDRAWS = 10, 10
FOUND, JUDGED = "subgroups: found", "subgroups: judged"


@dataclasses.dataclass(frozen=True, eq=False)
class SubgroupTree:
    """A shallow regression tree that was grown on some people, to be judged on others."""

    coding: CovariateCoding
    tree: Any

    @classmethod
    def grow(
        cls,
        coding: CovariateCoding,
        people: Covariates,
        target: Float[np.ndarray, " n"],
        weight: Float[np.ndarray, " n"],
        seed: int,
    ) -> "SubgroupTree":
        """Grow a tree whose leaves differ in ``target``."""
        from sklearn.tree import DecisionTreeRegressor

        least = max(LEAST, len(people) // 20)
        tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=least, random_state=seed)
        return cls(coding, tree.fit(_features(coding, people), target, sample_weight=weight))

    def leaf(self, people: Covariates) -> Int[np.ndarray, " n"]:
        """Return everyone's leaf, by its number among the nodes."""
        if not len(people):
            return np.zeros(0, dtype=np.int64)
        return self.tree.apply(_features(self.coding, people))

    def leaves(self) -> dict[int, str]:
        """Return the leaves, and who is in them."""
        grown, found, names = self.tree.tree_, {}, indicator_names(self.coding)

        def words(k: int, low: float, high: float) -> str:
            name, value = names[k]
            if value:
                return f"{name} {'' if low > 0 else 'not '}{value}"
            ends = [f"{name} > {low:.4g}"] * (low > -np.inf)
            return " and ".join([*ends, *[f"{name} ≤ {high:.4g}"] * (high < np.inf)])

        def descend(node: int, ends: dict[int, tuple[float, float]]) -> None:
            k, limit = int(grown.feature[node]), float(grown.threshold[node])
            if k < 0:
                said = [words(j, *ends[j]) for j in sorted(ends)]
                found[node] = ", ".join(said) or "everyone"
                return
            low, high = ends.get(k, (-np.inf, np.inf))
            descend(int(grown.children_left[node]), {**ends, k: (low, min(high, limit))})
            descend(int(grown.children_right[node]), {**ends, k: (max(low, limit), high)})

        descend(0, {})
        return found


def _features(coding: CovariateCoding, people: Covariates) -> Float[np.ndarray, "n k"]:
    # A missing number is below all others.
    return np.nan_to_num(indicators(coding, people), nan=-1e30)


@dataclasses.dataclass(frozen=True, eq=False)
class Changes:
    """What a tree is grown from, one row a person.

    Columns: direction, weight, numbers and categories that may matter, changes of the measures.
    """

    rows: Float[np.ndarray, "n k"]

    def __add__(self, other: "Changes") -> "Changes":
        return Changes(np.vstack([self.rows, other.rows]))


def found_changes(asked: AskedBlock, design: PairDesign) -> Changes:
    """Return the changes of one half of the people, by one half of the reference sample."""
    plan = asked.plan(design).answers(asked.ask, design.measures)
    people = asked.covariates.take(plan.people)
    known = (plan.part // 2, plan.weight, people.numeric, people.category)
    return Changes(np.column_stack([*known, plan.mean(plan.other_values - plan.own_values)]))


def judged_sums(
    asked: AskedBlock, design: PairDesign, trees: Mapping[str, tuple[SubgroupTree, int]]
) -> dict[int, PairSums]:
    """Compare the other half of the people, leaf by leaf, through pairs of their own."""
    tree, direction = trees[design.attribute]
    people = asked.located(design)
    leaf = tree.leaf(asked.covariates.take(people.rows))
    return {
        node: variant_sums(asked, design, people.take(leaf == node), direction)
        for node in tree.leaves()
    }


@final
@dataclasses.dataclass(frozen=True)
class Subgroups(Check):
    """A shallow tree on the changes of one half of the people, and its leaves on the other half.

    Leaves are described by the columns that may matter, and judged as the verdict is, by pairs
    that the tree has not seen, all of them together (Bonferroni).
    """

    name: ClassVar[str] = "subgroups"
    methods: ClassVar[tuple[str, ...]] = ("matched_pairs",)

    @override
    def follow_up(self, stats: Sums, method: BoundMatchedPairs) -> Iterator[PairsProbe]:
        if JUDGED in stats:
            return
        rows = leading_rows(method.judge(stats).record["matched_pairs"])
        first = FOUND not in stats
        trees = {} if first else _trees(method, stats, rows)
        located = {row.attribute: method.located(row) for row in rows}
        wanted = {located[name][0].name for name in (located if first else trees)}
        if not wanted:
            return
        half = method.sampled(
            FOUND if first else JUDGED,
            people=PEOPLE,
            pool=POOL,
            half=0 if first else 1,
            redraw_count=0 if first else REDRAWS,
            most_neighbours=NEIGHBOURS,
        )
        (bound,) = find_pairs([half], wanted)
        if first:
            yield bound.probe(FOUND, found_changes)
        else:
            judged = {name: (tree, located[name][1]) for name, tree in trees.items()}
            yield bound.probe(JUDGED, functools.partial(judged_sums, trees=judged))

    @override
    def read(self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict) -> Finding:
        rows = leading_rows(verdict.record["matched_pairs"])
        trees = _trees(method, stats, rows)
        found: list[SubgroupRecord] = []
        few = []
        for row in rows:
            if row.attribute in trees:
                found += judged_leaves(method, row, trees[row.attribute], stats[JUDGED].sums)
            else:
                few.append(row.attribute)
        skipped = (f"subgroups by {', '.join(few)} (too few people)",) if few else ()
        return Finding({"subgroups": tuple(found)}, skipped=skipped)


def _trees(
    method: BoundMatchedPairs, stats: Sums, rows: Sequence[RateComparison]
) -> dict[str, SubgroupTree]:
    """Return the tree of each attribute's leading comparison, unless people are too few."""
    coding, found = method.context.coding, {}
    ends = np.cumsum([2, len(coding.numeric), len(coding.levels)])
    for row in rows:
        design, direction, measure = method.located(row)
        known: Float[np.ndarray, "n k"] = stats[FOUND].sums[design.name].rows
        some = known[known[:, 0] == direction]
        if len(some) >= FEWEST:
            role, numeric, category, change = np.split(some, ends, axis=1)
            people = Covariates(numeric, category.astype(np.int64))
            target, seed = change[:, measure], method.settings.seed
            found[row.attribute] = SubgroupTree.grow(coding, people, target, role[:, 1], seed)
    return found


def judged_leaves(
    method: BoundMatchedPairs, row: RateComparison, tree: SubgroupTree, stats: Sums
) -> list[SubgroupRecord]:
    """Judge every leaf by the outcome that was tested; all of them together by Bonferroni."""
    design, _, measure = method.located(row)
    rule, leaves = method.rule(measure), tree.leaves()
    kind = "ratio" if rule.kind == "rate" else rule.kind
    rule = dataclasses.replace(rule, kind=kind, alpha=rule.alpha / len(leaves))
    found = []
    for node, words in leaves.items():
        compared = compared_again(method, row, stats[design.name][node])
        assessed = assess(compared, rule)
        value, ends, beyond = math.nan, (math.nan, math.nan), -math.inf
        if assessed.shown is not None:
            estimate, ends = assessed.shown.estimate, assessed.shown.interval
            value, beyond = estimate.difference, max(ends[0], -ends[1])
            if kind == "ratio":
                value = max(estimate.ratio, 0.0)
                beyond = max(ends[0], 1 / ends[1] if ends[1] else math.inf)
        record = SubgroupRecord(
            attribute=row.attribute,
            words=words,
            n=compared.kept,
            estimate=value,
            lower_bound=ends[0],
            upper_bound=ends[1],
            p_adjusted=min(1.0, len(leaves) * assessed.p_value),
            found=assessed.outside and assessed.undecided is None,
        )
        found.append((not record.found, -beyond, words, record))
    return [record for *_, record in sorted(found, key=lambda one: one[:3])]
