"""What now: every outcome says what to do next, from the record alone."""

import pytest

from likewise.record import ColumnShareRecord, PlaceboRecord
from likewise.report.counterpart_page import counterpart_values
from likewise.report.counterpart_words import claim, findings, near, sentence
from likewise.report.html import to_html
from likewise.report.markdown import to_markdown
from likewise.report.next_steps import next_steps
from likewise.report.words import summary
from likewise.settings import Settings


@pytest.fixture
def record(make):
    def one(outcome, estimate=1.5, lower=1.1, upper=1.9, **more):
        test = make.test(estimate=estimate, lower=lower, upper=upper, p_value=0.2)
        test = test.model_copy(update={"outcome": outcome, "std_error": 0.2, "n": 100})
        made = make.record(tests={"loss_ratio": test})
        return made.model_copy(update={"outcome": outcome, "groups": (), **more})

    return one


def test_evidence_names_the_columns_and_the_command(record):
    share = ColumnShareRecord(column="relationship", share=0.71)
    steps = next_steps(record("evidence_of_unfairness", carried=(share,)))
    assert "relationship carries 71 % of it" in steps[0]
    assert "likewise improve MODEL TRAIN" in steps[-1]
    settings = Settings().changed(columns__ignore=("id", "name"))
    steps = next_steps(record("evidence_of_unfairness", settings=settings))
    assert steps[-1].endswith("--ignore id,name")


def test_within_tolerance_says_what_it_does_not_cover(record):
    steps = next_steps(record("within_tolerance"))
    assert "It does not cover other traits" in steps[0]


def test_inconclusive_says_how_many_people_and_at_which_tolerance_it_turns(record):
    steps = " ".join(next_steps(record("inconclusive")))
    # 2.5 standard errors of 0.2 for a distance of 0.25: four times the 100 people.
    assert "About 400 people in place of 100" in steps
    assert "below 1.100 it would be evidence" in steps
    at_the_tolerance = record("inconclusive", estimate=1.2501)
    assert "no sample would settle it" in next_steps(at_the_tolerance)[0]


def test_more_people_are_no_way_past_a_placebo(record):
    found = record("inconclusive")
    held = found.tests["loss_ratio"].model_copy(update={"held_back": "a coin does as much"})
    steps = " ".join(next_steps(found.model_copy(update={"tests": {"loss_ratio": held}})))
    assert "people in place of" not in steps
    assert "tolerance at which" not in steps
    assert "What stands in the way: a coin does as much." in steps
    assert "--may-matter COLUMNS --pool TRAIN" in steps


def test_a_placebo_that_would_stand_in_the_way_is_named_before_it_does(record):
    tried = PlaceboRecord(estimate=1.5, placebos=(1.6,), p_value=0.5, planned=39, n=100, used=True)
    found = record("inconclusive", placebo={"loss_ratio": tried})
    steps = " ".join(next_steps(found))
    assert "people in place of" not in steps
    assert "tolerance at which" not in steps
    assert "traits that mean nothing (p = 0.5)" in steps
    below = record("inconclusive", estimate=1.2, placebo={"loss_ratio": tried})
    assert "people in place of" in next_steps(below)[0]  # then more may find it within tolerance


def test_too_few_pairs_are_the_reason_and_more_people_no_way_out(make):
    few = {"outcome": "inconclusive", "lower_bound": 4.298, "upper_bound": 11.931, "estimate": 7.1}
    few |= {"reasons": ("the visits rest on 3.2 pairs' worth of evidence",), "doubtful": True}
    few |= {"std_error": 2.0}
    part = make.counterparts(a=few, b=few)
    found = make.record(outcome="inconclusive", counterparts=part)
    steps = " ".join(next_steps(found))
    assert "What stands in the way: the visits rest on 3.2 pairs' worth" in steps
    assert "people in place of" not in steps
    assert "tolerance at which" not in steps
    said = sentence(part, "inconclusive", 1.25, 0.05)
    assert "neither more" not in said
    assert "more than 4.298" in said
    assert said.endswith("but the visits rest on 3.2 pairs' worth of evidence.")
    chance = make.counterparts(a=few | {"doubtful": False, "adjusted_p_value": 0.08})
    assert "may be chance (p = 0.0800)" in sentence(chance, "inconclusive", 1.25, 0.05)


def test_a_result_that_cannot_be_trusted_is_to_be_repaired(record):
    steps = next_steps(record("inconclusive", trustworthy=False, reasons=("the model changed",)))
    assert steps == ("Repair what makes the result not trustworthy, then audit again.",)


def test_every_rendering_shows_the_steps_and_escapes_them(record):
    share = ColumnShareRecord(column="<b>", share=0.5)
    found = record("evidence_of_unfairness", carried=(share,))
    assert "What now" in summary(found)
    assert max(map(len, summary(found).splitlines())) <= 80
    assert "&lt;b&gt; carries 50 %" in to_html(found)
    assert "carries 50 %" in to_markdown(found)
    assert "<b> carries" not in to_markdown(found)


def test_of_three_groups_a_claim_names_the_trait_and_of_one_pair_it_says_pair(make):
    part = make.counterparts(A={}, B={}, C={})
    trait = part.traits[0]
    said = claim(trait.groups[0], trait, part)
    assert "with what a comparable person of another sex brings along" in said
    assert near(trait.model_copy(update={"pairs": 1})).startswith("1 pair, members")


def test_columns_carry_nothing_where_nothing_is_above_one_beyond_chance(make):
    part = make.counterparts(a={}, b={})
    share = (ColumnShareRecord(column="district", share=0.8, interval=(0.4, 1.3)),)
    chance = part.traits[0].overall.model_copy(update={"estimate": 1.008, "lower_bound": 0.99})
    for overall, told in ((part.traits[0].overall, True), (chance, False)):
        trait = part.traits[0].model_copy(update={"carried": share, "overall": overall})
        one = part.model_copy(update={"traits": (trait,)})
        said = [name for name, _ in findings(one)]
        assert ("Carried by" in said) == told
        assert bool(counterpart_values(one, 1.25)["carried"]) == told


def test_a_model_of_columns_has_columns_and_one_of_features_has_features(record):
    found = record("within_tolerance")
    assert "39 features" in summary(found)
    metric = found.metric.model_copy(update={"kind": "columns that may matter"})
    assert "39 columns" in summary(found.model_copy(update={"metric": metric}))
