"""The verdict over everyone and every protected group together."""

import pytest

from likewise.methods.decide import decide_with_groups
from likewise.record import GroupRecord, TestRecord


def everyone(outcome, p_value):
    return TestRecord(
        test="loss_ratio",
        method="gradient_flow",
        interval_method="hall",
        estimate=1.2,
        std_error=0.01,
        statistic=1.18,
        p_value=p_value,
        rejected=outcome == "evidence",
        interval=(1.18, 1.22),
        lower_bound=1.18,
        upper_bound=1.22,
        delta=1.25,
        alpha=0.05,
        n=1000,
        outcome=outcome,
    )


def group(estimate, p_value, *, upper=None, small=False, attribute="sex"):
    return GroupRecord(
        attribute=attribute,
        group="F",
        n=500,
        estimate=estimate,
        std_error=0.02,
        lower=estimate - 0.05,
        upper=estimate + 0.05 if upper is None else upper,
        p_value=p_value,
        small=small,
    )


def test_a_group_above_the_limit_is_evidence_though_everyone_is_within():
    found = decide_with_groups(everyone("within_tolerance", 1.0), [group(1.35, 1.6e-8)])
    assert found.outcome == "evidence"
    assert found.groups[0].rejected
    assert found.groups[0].p_adjusted == pytest.approx(2 * 1.6e-8)


def test_holm_runs_over_everyone_and_the_groups_of_single_attributes():
    crossed = group(1.4, 1e-9, attribute="sex × race")
    found = decide_with_groups(
        everyone("inconclusive", 0.2), [group(1.3, 0.02), group(1.2, 0.5), crossed]
    )
    assert found.outcome == "inconclusive"
    assert [g.p_adjusted for g in found.groups[:2]] == pytest.approx([0.06, 0.5])
    assert not any(g.rejected for g in found.groups)


def test_a_small_group_counts_in_the_correction_and_decides_nothing():
    found = decide_with_groups(everyone("inconclusive", 0.2), [group(2.0, 1e-9, small=True)])
    assert found.outcome == "inconclusive"


def test_within_tolerance_needs_every_group_within():
    within = everyone("within_tolerance", 1.0)
    assert decide_with_groups(within, [group(1.1, 1.0)]).outcome == "within_tolerance"
    found = decide_with_groups(within, [group(1.1, 1.0), group(1.2, 1.0, upper=1.3)])
    assert (found.outcome, found.reason) == ("inconclusive", "groups")


def test_the_metrics_uncertainty_widens_groups_and_never_narrows_them():
    within, above = group(1.1, 1.0, upper=1.2), group(1.32, 0.001)
    assert decide_with_groups(everyone("inconclusive", 0.4), [above]).outcome == "evidence"
    wide = decide_with_groups(everyone("inconclusive", 0.4), [above], wider=4.0)
    assert wide.outcome == "inconclusive"
    for wider, outcome in ((0.1, "within_tolerance"), (2.0, "inconclusive")):
        found = decide_with_groups(everyone("within_tolerance", 1.0), [within], wider=wider)
        assert found.outcome == outcome


def test_what_the_negative_control_holds_back_is_held_back_for_groups_too():
    found = decide_with_groups(
        everyone("inconclusive", 0.4), [group(1.35, 1e-8)], held_back="permuted do as much"
    )
    assert (found.outcome, found.reason) == ("inconclusive", "permuted do as much")
    assert not found.groups[0].rejected
