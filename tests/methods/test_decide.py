"""The verdict over everyone and every protected group together."""

import math

import pytest

from likewise.errors import InvalidSample
from likewise.methods.decide import decide_with_groups
from likewise.record import GroupRecord
from likewise.stats.decision import holm_adjusted
from sample_records import one_test


def decided(outcome, p_value, *groups, **how):
    """Decide over everyone and groups, each an estimate, a p-value and what else is known."""
    known = {"p_value": p_value, "rejected": outcome == "evidence", "outcome": outcome}
    everyone = one_test(estimate=1.2, lower=1.18, upper=1.22, **known)
    records = []
    for estimate, p, more in groups:
        known = {"attribute": "sex", "upper": estimate + 0.05, **more}
        numbers = {"std_error": 0.02, "lower": estimate - 0.05, "p_value": p}
        records.append(GroupRecord(group="F", n=500, estimate=estimate, **numbers, **known))
    return decide_with_groups(everyone, records, **how)


def test_a_group_above_the_limit_is_evidence_though_everyone_is_within():
    outcome, _, (group,) = decided("within_tolerance", 1.0, (1.35, 1.6e-8, {}))
    assert (outcome, group.rejected) == ("evidence", True)
    assert group.p_adjusted == pytest.approx(2 * 1.6e-8)


def test_holm_runs_over_everyone_and_the_groups():
    tied = (1.2, 0.1, {})
    outcome, _, groups = decided("inconclusive", 0.2, (1.3, 0.02, {}), tied, tied)
    assert outcome == "inconclusive"
    assert [g.p_adjusted for g in groups] == pytest.approx([0.08, 0.3, 0.3])
    with pytest.raises(InvalidSample, match=r"'race' is nan.*counts as p = 1"):
        holm_adjusted({"sex": 0.01, "race": math.nan})
    assert not any(g.rejected for g in groups)


WITHIN, ABOVE = (1.1, 1.0, {"upper": 1.2}), (1.32, 0.001, {})


@pytest.mark.parametrize(
    ("everyone", "groups", "how", "expected"),
    [
        # A small group counts in the correction and decides nothing.
        (("inconclusive", 0.2), [(2.0, 1e-9, {"small": True})], {}, ("inconclusive", "")),
        # Within tolerance needs every group within.
        (("within_tolerance", 1.0), [WITHIN], {}, ("within_tolerance", "")),
        (("within_tolerance", 1.0), [WITHIN, (1.2, 1.0, {"upper": 1.3})], {}, None),
        # The metric's uncertainty widens groups and never narrows them.
        (("inconclusive", 0.4), [ABOVE], {}, ("evidence", "")),
        (("inconclusive", 0.4), [ABOVE], {"wider": 4.0}, ("inconclusive", "")),
        (("inconclusive", 0.4), [ABOVE], {"wider": 1.2}, ("evidence", "")),
        (("inconclusive", 0.4), [ABOVE], {"wider": 1.2, "degrees": 2.0}, ("inconclusive", "")),
        (("within_tolerance", 1.0), [WITHIN], {"wider": 0.1}, ("within_tolerance", "")),
        (("within_tolerance", 1.0), [WITHIN], {"wider": 2.0}, None),
        # What the negative control holds back is held back for groups too.
        (("inconclusive", 0.4), [ABOVE], {"held_back": "as much"}, ("inconclusive", "as much")),
    ],
)
def test_everyone_and_every_group_decide_together(everyone, groups, how, expected):
    outcome, reason, found = decided(*everyone, *groups, **how)
    assert (outcome, reason) == (expected or ("inconclusive", "groups"))
    assert any(group.rejected for group in found) == (outcome == "evidence")
