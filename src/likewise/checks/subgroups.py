"""Subgroups that nobody named: found on some people, judged on others, with error control."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.checks.column_choice import judged_again, leading_rows
from likewise.method import Check, Finding, Sums
from likewise.methods.matched_pairs import (
    AskedBlock,
    BoundMatchedPairs,
    PairsProbe,
    PersonRows,
    find_pairs,
)
from likewise.methods.matching import Covariates
from likewise.methods.pair_stats import PairDesign, PairSums, answered
from likewise.methods.reference_sample import CovariateCoding
from likewise.record import RateComparison, SubgroupRecord
from likewise.verdict import Verdict

MIN_PEOPLE = 200
"""People among whom subgroups are looked for, at least."""

DEPTH, MIN_LEAF = 3, 50
"""Depth of the tree, and fewest people of a leaf."""

PEOPLE, POOL = 4_000, 4_000
"""About how many people of each group are looked at, and judged, and their reference samples."""

NEIGHBOURS, REDRAWS = 10, 10
FOUND, JUDGED = "subgroups: found", "subgroups: judged"


def leaf_words(tree: Any, coding: CovariateCoding) -> dict[int, str]:
    """Return the leaves of a tree, by their number among its nodes, and who is in them."""
    grown, found, names = tree.tree_, {}, coding.indicator_names

    def words(k: int, sign: str, limit: float) -> str:
        name, value = names[k]
        if value:
            return f"{name} {'' if sign == '>' else 'not '}{value}"
        return f"{name} {sign} {limit:.4g}"

    def descend(node: int, ends: dict[tuple[int, str], float]) -> None:
        k, limit = int(grown.feature[node]), float(grown.threshold[node])
        if k < 0:
            found[node] = ", ".join(words(*at, ends[at]) for at in sorted(ends)) or "everyone"
            return
        descend(int(grown.children_left[node]), {**ends, (k, "≤"): limit})
        descend(int(grown.children_right[node]), {**ends, (k, ">"): limit})

    descend(0, {})
    return found


def features(coding: CovariateCoding, people: Covariates) -> Float[np.ndarray, "n k"]:
    """Return what a tree splits people by; a missing number is below all others."""
    return np.nan_to_num(coding.indicators(people), nan=-1e30)


def found_changes(asked: AskedBlock, design: PairDesign) -> PersonRows:
    """Return the changes of one half of the people, by one half of the reference sample.

    Columns: direction, weight, numbers and categories that may matter, changes of the measures.
    """
    (plan,) = answered([asked.plan(design)], asked.ask, design.measures)
    people = asked.covariates.take(plan.people)
    known = (plan.part // 2, plan.weight, people.numeric, people.category)
    return PersonRows(np.column_stack([*known, plan.mean(plan.values[1] - plan.values[0])]))


def judged_sums(
    asked: AskedBlock, design: PairDesign, trees: Mapping[str, tuple[Any, int]]
) -> dict[int, PairSums]:
    """Compare the other half of the people, leaf by leaf, through pairs of their own."""
    tree, direction = trees[design.attribute]
    people, coding = asked.located(design), asked.context.coding
    leaf = np.zeros(0)
    if len(people.rows):
        leaf = tree.apply(features(coding, asked.covariates.take(people.rows)))
    return {
        node: design.measure(asked.ask, people.take(leaf == node), direction)
        for node in leaf_words(tree, coding)
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
    def follow_up(
        self, stats: Sums, method: BoundMatchedPairs, verdict: Verdict
    ) -> Iterator[PairsProbe]:
        if JUDGED in stats:
            return
        rows = leading_rows(verdict)
        first = FOUND not in stats
        trees = {} if first else grown_trees(method, stats, rows)
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
        rows = leading_rows(verdict)
        trees = grown_trees(method, stats, rows)
        found: list[SubgroupRecord] = []
        for row in rows:
            if row.attribute in trees:
                found += judged_leaves(method, row, trees[row.attribute], stats[JUDGED].pairings)
        few = [row.attribute for row in rows if row.attribute not in trees]
        skipped = (f"subgroups by {', '.join(few)} (too few people)",) if few else ()
        return Finding({"subgroups": tuple(found)}, skipped=skipped)


def grown_trees(
    method: BoundMatchedPairs, stats: Sums, rows: Sequence[RateComparison]
) -> dict[str, Any]:
    """Return the tree of each attribute's leading comparison, unless people are too few."""
    from sklearn.tree import DecisionTreeRegressor

    coding, found = method.context.coding, {}
    width = len(coding.numeric) + len(coding.levels)
    for row in rows:
        design, direction, measure = method.located(row)
        known: Float[np.ndarray, "n k"] = stats[FOUND].pairings[design.name].rows
        some = known[known[:, 0] == direction]
        if len(some) >= MIN_PEOPLE:
            least, seed = max(MIN_LEAF, len(some) // 20), method.settings.seed
            tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=least, random_state=seed)
            x = features(coding, coding.covariates_of(some[:, 2 : 2 + width]))
            tree.fit(x, some[:, 2 + width + measure], sample_weight=some[:, 1])
            found[row.attribute] = tree
    return found


def judged_leaves(
    method: BoundMatchedPairs, row: RateComparison, tree: Any, stats: Sums
) -> list[SubgroupRecord]:
    """Judge every leaf by the outcome that was tested; the clearest differences come first."""
    design, leaves = method.located(row)[0], leaf_words(tree, method.context.coding)
    found = []
    for node, words in leaves.items():
        again, value, ends = judged_again(method, row, stats[design.name][node], len(leaves))
        found.append(
            SubgroupRecord(
                attribute=row.attribute,
                words=words,
                n=again.compared.kept,
                estimate=value,
                lower_bound=ends[0],
                upper_bound=ends[1],
                p_adjusted=min(1.0, len(leaves) * again.p_value),
                found=again.outside and again.undecided is None,
            )
        )
    return sorted(found, key=lambda one: (not one.found, one.p_adjusted, one.words))
