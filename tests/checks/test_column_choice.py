"""Each legitimate factor left out, and each other column added: what the finding hangs on."""

import likewise
from checks.planted import audited, linear, population
from likewise.checks.column_choice import ADDED, LEFT_OUT
from likewise.report.html import to_html


def rows(result):
    return {(s.what, s.change): s for s in result.record.sensitivity}


def test_a_proxy_among_the_factors_takes_the_finding_away():
    people, pool = population(1200, 1), population(3000, 2)
    result = audited(linear(zone=1.0), people, pool, "column_choice", may_matter=("skill", "size"))
    found = rows(result)
    assert result.verdict == "evidence"
    assert set(found) == {
        ("as chosen", "all of them"),
        (LEFT_OUT, "skill"),
        (LEFT_OUT, "size"),
        (ADDED, "zone"),
        (ADDED, "car"),
    }
    leading = result.record.matched_pairs.leading
    chosen = found["as chosen", "all of them"]
    # Of the same sample as the others, which is smaller than that of the verdict.
    assert chosen.lower_bound < leading.ratio < chosen.upper_bound
    assert {s.n for s in found.values()} == {chosen.n}
    assert chosen.n < leading.n
    assert f"all of them <small>{chosen.n} people</small>" in to_html(result.record)
    assert {(s.group, s.other) for s in found.values()} == {(leading.group, leading.other)}
    # Nothing that the model reads is left to differ.
    assert found[ADDED, "zone"].outcome == "within_tolerance"
    assert found[ADDED, "car"].outcome == "evidence"
    assert found[LEFT_OUT, "size"].outcome == "evidence"
    assert found[LEFT_OUT, "size"].lower_bound < leading.ratio < found[LEFT_OUT, "size"].upper_bound


def test_a_factor_that_goes_with_the_group_makes_a_difference_when_left_out():
    """Of equal skill and zone, nobody is treated otherwise."""
    people, pool = population(1200, 3, car=0.0), population(4000, 4, car=0.0)
    result = audited(
        linear(zone=1.2, size=0.5), people, pool, "column_choice", may_matter=("skill", "zone")
    )
    found = rows(result)
    assert found["as chosen", "all of them"].outcome == "within_tolerance"
    assert found[LEFT_OUT, "zone"].outcome == "evidence"


def test_halves_and_clusters_are_sampled_whole():
    people = population(3000, 5)
    people["home"] = people.index // 2
    choices = {"may_matter": ("skill", "size"), "clusters": "home"}
    settings = likewise.Settings(seed=1)
    result = audited(linear(zone=1.0), people, None, "column_choice", settings=settings, **choices)
    found = rows(result)
    assert found[LEFT_OUT, "size"].estimate > 1.25 or found[LEFT_OUT, "size"].estimate < 0.8
    assert found[ADDED, "zone"].lower_bound <= 1 <= found[ADDED, "zone"].upper_bound
