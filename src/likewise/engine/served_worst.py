"""Where it is worst by counterparts: other people and other pairs judge the subgroups."""

import dataclasses

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from likewise.data.pairs import Pairs
from likewise.engine.counterpart_audit import CounterpartPlan
from likewise.engine.pool import plain
from likewise.engine.subgroups import FEWEST, JudgedLeaf, SubgroupTree, halves, joint, judged_leaves
from likewise.engine.visiting import cluster_numbers
from likewise.inference.counterpart_evidence import counterpart_evidence
from likewise.inference.counterpart_test import LEAST_PAIRS
from likewise.models.base import targets
from likewise.record import SubgroupRecord
from likewise.statistics.donors import Donors
from likewise.statistics.honest_worst import honest
from likewise.statistics.visit_losses import VisitLosses

MOST = 8000
"""People among whom subgroups are looked for."""


def served_worst(plan: CounterpartPlan, trait: str) -> tuple[SubgroupRecord, ...]:
    r"""Look for subgroups that are served worst with what counterparts bring along.

    One half of the people, visited by one half of the pairs, grows a tree on
    :math:`(a_i - b_i)/\bar b`; the other half, visited by the other pairs, says how its leaves
    fare. A leaf that was chosen for its luck has none of it left: neither people nor pairs are
    seen twice.
    """
    people = plan.people
    if len(people) < FEWEST:
        return ()
    rng = np.random.default_rng([plan.settings.seed, 17])
    people = people.take(np.sort(rng.permutation(len(people))[:MOST]))
    cluster = cluster_numbers(people.cluster)
    pairs = plan.pairs[trait]
    unit = pairs.cluster[:, 0] if plan.pool.cluster is not None else None
    found = []
    for rows, some in zip(
        halves(cluster, len(people), rng), halves(unit, len(pairs), rng), strict=True
    ):
        part = people.take(rows)
        assert part.table is not None
        table = plain(part.table)
        visitors = _some(pairs, some)
        bound = plan.question.bind(
            plan.ask, plan.loss.of_person, visitors, plan.pool.table, table.schema, plan.ask.columns
        )
        losses = bound(
            table,
            label=targets(part.y, plan.classes) if plan.loss.labelled else None,
            weight=part.weight,
            cluster=cluster_numbers(part.cluster),
        )
        found.append((table, visitors, losses))
    (table, _, losses), (others, visitors, judged) = found
    known = np.flatnonzero((losses.own >= 0) & (losses.pair[:, 0, 0] >= 0))
    if len(known) < FEWEST // 2:
        return ()
    fair = honest(losses.after[known], losses.before[known])
    level = float(np.average(fair.before, weights=losses.weight[known]))
    if level <= 0:
        return ()
    tree = SubgroupTree.grow(
        table.take(pa.array(known)),
        (fair.after - fair.before) / level,
        losses.weight[known],
        plan.settings.seed,
    )
    leaves = judged_leaves(
        tree, others, lambda words, who: _leaf(plan, visitors, judged, words, who)
    )
    return joint(list(leaves), trait, plan.settings.alpha)


def _leaf(
    plan: CounterpartPlan,
    pairs: Pairs,
    losses: VisitLosses,
    words: str,
    who: Int[np.ndarray, " m"],
) -> JudgedLeaf | None:
    donors = Donors.of(losses.take(who), plan.question.design(pairs))
    clusters = pairs.cluster if plan.pool.cluster is not None else None
    found = counterpart_evidence(donors, None, 0, plan.test.cap, clusters)
    if not found.estimate > 0:
        return None
    enough = found.effective_pairs >= LEAST_PAIRS
    p_value = found.p_value(plan.test.delta) if enough else 1.0
    return JudgedLeaf(words, found.n, found.estimate, found.bounds, p_value)


def _some(pairs: Pairs, some: Int[np.ndarray, " s"]) -> Pairs:
    return dataclasses.replace(
        pairs,
        rows=pairs.rows[some],
        between=pairs.between[some],
        distance=pairs.distance[some],
        cluster=pairs.cluster[some],
    )
