"""The verdict in words: what each verdict and reason says, and what nobody should read."""

import html
import math
import re
from pathlib import Path

import pytest

import sample_records as samples
from likewise.errors import InvalidSettings
from likewise.record import DecidedBy, DriverRecord, Record
from likewise.redecide import at_limit
from likewise.report.export import WRITERS, to_csv, to_markdown
from likewise.report.formats import Names, interval, listed, number, p_value, percent, wrap
from likewise.report.html import to_card, to_html
from likewise.report.terminal import summary
from likewise.report.text import headline, method_words, next_steps, sentence
from sample_records import changed

BANNED = (Path(__file__).parents[1] / "banned_words.txt").read_text().splitlines()


def test_evidence_says_rates_first_then_the_ratio_then_the_limit():
    assert sentence(samples.evidence()) == (
        "Evidence of unfairness by sex: People with sex = Female get '>50K' 15.9 % of the time; "
        "with the marital-status and relationship of comparable people with sex = Male, 35.1 %. "
        "Ratio 2.21 (95 % CI 2.06–2.36); limit 1.25."
    )
    assert headline(samples.evidence()) == (
        "Evidence of unfairness by sex",
        "the model favours people with sex = Male over comparable people with sex = Female",
    )
    refusals = samples.yes_no()  # they are the rarer decision: the lower limit
    assert headline(refusals)[1] == (
        "the model favours people with black = no over comparable people with black = yes"
    )
    assert sentence(refusals).startswith(
        "Evidence of unfairness by black: People with black = yes get 'deny = 1' 23.3 % of the time"
    )
    assert sentence(refusals).endswith("Ratio 0.519 (95 % CI 0.485–0.556); limit 0.8.")
    less = {"difference": -1.0, "ratio": -0.5, "mirror": False}
    means = [r.model_copy(update=less) for r in samples.regression().matched_pairs.comparisons]
    means[0] = samples.regression().matched_pairs.leading
    assert sentence(changed(samples.regression(), rows=means)) == (
        "Evidence of unfairness by sex: People with sex = Female have a mean prediction of 512; "
        "with the marital-status and relationship of comparable people with sex = Male, 548. "
        "Difference 35.8 (95 % CI 28.2–43.4); limit 25."
    )
    found = ("column added", "relationship", 30.0, (20.0, 50.0), "inconclusive")
    tried = (samples.sensitivity(*found, **samples.SEX),)  # it could be the same
    assert len(next_steps(samples.regression().model_copy(update={"sensitivity": tried}))) == 1


def test_display_names_replace_values_and_columns_everywhere():
    labels = {"black": "race", "black = yes": "Black applicants", "black = no": "other applicants"}
    record = samples.yes_no(labels | {"deny = 1": "denied", "pi_rat": "payment ratio"})
    for said in (summary(record), html.unescape(to_html(record)), to_markdown(record)):
        assert "Black applicants get 'denied' 23.3" in said.replace("\n        ", " ")
        assert "payment ratio" in said or said.startswith("###")
        assert "black = yes" not in re.sub("<pre.*?</pre>", "", said, flags=re.DOTALL)


def test_nobody_is_said_to_benefit_without_a_favourable_decision_or_where_both_gain():
    record = samples.evidence()
    blind = changed(record, {"favourable_own": math.nan, "favourable_swapped": math.nan})
    assert headline(blind)[1] == (
        "people with sex = Female get '>50K' less often than comparable people with sex = Male"
    )
    assert sentence(blind).endswith("This does not say who benefits; add --favourable.")
    assert sentence(samples.three_groups()).endswith(
        "The model reads race: changing it alone changes 2.10 % of decisions (1.80 % to 2.40 %)."
    )
    first, back, *_ = record.matched_pairs.comparisons
    back = back.model_copy(update={"favourable_own": 0.4, "favourable_swapped": 0.6})
    both = changed(record, rows=[first, back])
    assert "would each do better with the other's columns" in headline(both)[1]


def test_within_tolerance_never_calls_a_model_fair():
    record = samples.within()
    assert sentence(record) == (
        "No difference above 1.25 on average, by sex. Largest: Female → Male, 1.03 (CI "
        "0.963–1.10). The decision differs in 5.10 % of comparisons, by chance too; net of both "
        "directions, the rates differ by 0.9 points. This does not show that the model is fair."
    )
    first, back = record.matched_pairs.comparisons
    back = back.model_copy(update={"ratio": 0.92, "difference": -1e-9})
    said = sentence(changed(record, rows=[first, back]))
    assert "Largest: Male → Female, 0.920" in said  # further from 1, whichever is the mirror
    assert "differ by 0.0 points" in said
    back = back.model_copy(update={"verdict": "inconclusive", "reason": "too_few"})
    assert changed(record, rows=[first, back]).matched_pairs.leading.reason == "too_few"
    none = changed(record, {"changed_up": 0.0, "changed_down": 0.0})
    assert " No comparison changes the decision. This does" in sentence(none)


WHY = {
    "too_few": "CI 1.08–1.39 includes 1.25.",
    "events": "Fewer than 10 people with '>50K' are expected",
    "people": "fewer than 20 people with race = non-White are compared.",
    "holm": ", not after correction for 1 comparisons.",
    "pairs": "fewer than 20 pairs of comparable people with race = non-White and people with",
    "overlap": "only 95.4 % of people with race = non-White have comparable people with race = W",
    "kappa": "nearly determines race",
    "redraws": "fewer than 10 redraws of race",
    "degrees": "too few independent people among people with race = non-White",
    "limit": "and no limit is given",
    "group": "3 people with race = non-White are too few to compare.",
    "matching": "people compared still differ in what may matter",
    "pattern": "follows what may matter in a pattern too fine",
}


@pytest.mark.parametrize(("reason", "why"), WHY.items())
def test_every_reason_is_said_and_has_a_next_step(reason, why):
    record = samples.inconclusive(reason)
    assert sentence(record).startswith("Inconclusive: ")
    assert why in sentence(record)
    assert next_steps(record)
    assert "Race" not in to_html(record)


ROWS = {"n": 486, "people": 1_247, "people_needed": 3_200}
ALL = {**ROWS, "n": 1_247}
POOL = {"people_needed": None, "pool_needed": 90_000}
SAME = {"ratio": 1.0, "interval": (0.99, 1.01)}
FAR = {"people": 181, "n": 181, "people_needed": 6_800, "pool_needed": 600_000}
FEW = {"people": 8, "n": 8, "people_needed": 150}
MANY = {"people_needed": 2_600_000}
NEVER = {"own": 0.0, "swapped": 0.0, "ratio": math.nan}
HALVES = {"pool_given": False}
GROUP = "people with race = non-White"


@pytest.mark.parametrize(
    ("reason", "row", "part", "said", "step"),
    [
        ("too_few", ROWS, {}, "", f"audit about 3,200 {GROUP} (now 1,247, 486 of them compared)"),
        ("too_few", POOL, {}, "", "use a reference sample of about 90,000 people (--pool, now 36,"),
        ("holm", ALL, HALVES, "", f"audit about 3,200 {GROUP} (now 1,247), or give a reference"),
        (
            *("degrees", SAME, HALVES),
            "White 1.00, CI 0.990–1.01, but hardly any comparison changes the decision, so",
            "give a reference sample (--pool)",
        ),
        (
            *("events", NEVER, {"favourable": ""}),
            "with people with race = White gives '>50K', so it has no ratio.",
            "name the decision that people want (--favourable), to compare its rates alone",
        ),
        ("events", MANY, {}, "", "report the ratio as it is: only millions of people would settle"),
        ("too_few", FAR, {}, "", f"audit about 6,800 {GROUP} (now 181) and use a reference sample"),
        ("people", FEW, {}, "fewer than 20", f"audit about 150 {GROUP} (now 8)"),
        ("pairs", FEW, {"may_matter": ()}, "", f"audit more {GROUP} (now 8); then use a larger"),
        ("events", NEVER, {}, "so it has no ratio.", "check the model's threshold"),
        ("pairs", {}, {"may_matter": ("age",)}, "", "use a larger reference sample (--pool, now"),
    ],
)
def test_the_next_step_is_one_that_helps(reason, row, part, said, step):
    record = changed(samples.inconclusive(reason), row, **part)
    assert said in sentence(record)
    assert next_steps(record)[0].startswith(step)
    assert "fewer" not in next_steps(record)[0]


def test_an_invalid_result_says_what_is_wrong_and_what_to_do():
    assert sentence(samples.invalid()) == (
        "Do not use this result: the model gave two answers to the same row. Fix: switch off its "
        "randomness."
    )
    for record in (samples.invalid(), samples.flow(verdict="invalid")):
        assert "evidence" not in (summary(record) + to_csv(record)).lower()


def test_another_limit_keeps_no_verdict_that_was_not_read_again():
    for delta in (1.1, 6.0):
        again = at_limit(samples.evidence(), delta)
        assert {row.outcome for row in again.sensitivity} == {""}
        assert not any("may matter" in step for step in next_steps(again))
    assert [g.rejected for g in at_limit(samples.flow(), 1.2).groups].count(True) == 3
    again = at_limit(samples.flow(), 1.8)
    assert (again.verdict, again.reason) == ("inconclusive", "groups")
    assert not any(group.rejected for group in again.groups)
    assert at_limit(samples.flow(), 2.0).verdict == "within_tolerance"
    with pytest.raises(InvalidSettings, match=r"limit on ratios \(got 4\)"):
        at_limit(samples.regression(), 4.0)


@pytest.mark.parametrize(
    ("lower", "p", "group", "verdict"),
    [(1.1, 0.2, (1.6, 1e-9), "evidence"), (1.26, 0.04, (1.1, 0.9), "inconclusive")],
)
def test_at_another_limit_everyone_and_the_groups_decide_as_in_the_audit(lower, p, group, verdict):
    known = {"lower": group[0], "p_value": group[1]}
    groups = [g.model_copy(update=known) for g in samples.flow().groups]
    curve = {"evidence_below": lower, "within_from": 1.71}
    everyone = {"loss_ratio": samples.one_test(lower=lower, p_value=p)}
    record = samples.flow(tests=everyone, groups=groups, delta_curve=curve)
    assert at_limit(record, 1.25) is record
    assert at_limit(record, 1.2).verdict == verdict
    with pytest.raises(InvalidSettings, match="needs the full result"):
        at_limit(record.model_copy(update={"redacted": True}), 1.2)


SCORED = samples.fill(Record.model_fields["model"].annotation, kind="scored table")


@pytest.mark.parametrize(
    ("record", "words", "others"),
    [
        (
            samples.evidence(model=SCORED, sensitivity=()),
            ["the decisions favour people", "review how these decisions are"],
            "the model",
        ),
        (
            samples.regression(),
            ["Difference", "review how the model is made", "limit 25 in the target's units"],
            "δ = ",
        ),
        (samples.flow(method="flip", metric=None), ["another value of sex and race"], "metric"),
    ],
)
def test_what_was_not_used_is_not_named(record, words, others):
    said = [sentence(record), headline(record)[1], *method_words(record)]
    said += next_steps(record)
    assert [one for one in words if one not in " ".join(said)] == []
    assert others not in " ".join(said)


def test_ratios_of_groups_are_named_beside_error_rates():
    errors = samples.one_test("error_rate_ratio", 1.4, 1.1, 1.5)
    decided = DecidedBy(test="error_rate_ratio", interval="mid-P", metric="fixed")
    record = samples.flow(tests={"error_rate_ratio": errors}, decided_by=decided)
    assert "Female, loss ratio" in summary(record)
    assert '"loss_ratio"' in to_csv(record)
    amounts = record.model_copy(update={"model": samples.regression().model})
    assert "raises the mean loss 1.70-fold for people with sex = Female" in sentence(amounts)
    assert "raises the loss 1.70-fold on average for people with sex = Female" in sentence(record)
    control = record.control["loss_ratio"].model_copy(update={"p_value": 0.4})
    held = {"control": {"error_rate_ratio": control}, "verdict": "inconclusive"}
    said = sentence(record.model_copy(update=held))
    assert "attributes give ratios as large (1.05 to 1.28; as they are 1.62, of 2,000" in said


def test_shares_below_zero_are_shown():
    shares = {"hhi": 1.05, "kids": 0.002, "husby": -0.04, "region": -0.02, "edu": 0.01}
    drivers = tuple(DriverRecord(attribute="sex", column=c, share=s) for c, s in shares.items())
    said = summary(samples.evidence(drivers=drivers))
    assert "Driven by     hhi 105 %, husby −4 %, region −2 %, other columns 1 %" in said


def test_the_gradient_flow_says_what_the_model_is_sensitive_to():
    assert sentence(samples.flow()) == (
        "Sensitive to sex and race: a perturbation along the directions that go with sex and race "
        "raises the loss 1.62-fold on average (95 % lower bound 1.55); limit 1.25."
    )
    held = sentence(samples.flow_held_back())
    assert held.startswith("Inconclusive: permuted attributes give ratios as large")
    assert "T_n 1.13 is not above 1.25" in sentence(samples.paper(rejected=False))
    assert "--may-matter" in next_steps(samples.flow())[0]
    assert "lam = 50 and time = 5" in " ".join(method_words(samples.flow()))
    group = "1.70-fold on average for people with sex = Female (95 % simultaneous CI 1.60–1.80)"
    assert group in sentence(samples.flow(tests={"loss_ratio": samples.one_test(lower=1.1)}))


@pytest.mark.parametrize(
    ("swapped", "ratio", "words"),
    [(0.28, "∞", "White ∞, CI 0.00–∞"), (0.0, "—", "has no ratio, CI 0.00–∞")],
)
def test_a_rate_of_zero_has_an_infinite_ratio_or_none(swapped, ratio, words):
    rates = {"own": 0.0, "swapped": swapped, "ratio": math.nan, "interval": (0.0, math.inf)}
    odd = changed(samples.inconclusive(), {"people_needed": None, **rates})
    assert words in sentence(odd)
    assert f" {ratio} " in summary(odd)
    assert f"{ratio} (0.00 – ∞)" in to_html(odd)


def test_no_output_has_a_banned_word_and_the_sentence_survives_the_file(sample):
    outputs = [write(sample) for write in WRITERS.values()]
    for said in [*outputs, summary(sample, verbose=True), to_card(sample)]:
        plain = html.unescape(re.sub(r"<style>.*?</style>", "", said, flags=re.DOTALL)).lower()
        assert [word for word in BANNED if word in plain] == []
    again = Record.from_json(sample.to_json())
    assert sentence(again) == sentence(sample) == again.sentence


def test_numbers_have_three_digits_separators_and_minus_signs():
    values = [2.2136, 0.5, 9.996, 99.96, 12345.6, -0.034567, -0.0, 1e-7, math.nan, math.inf]
    assert " ".join(map(number, values)) == ("2.21 0.500 10.0 100 12,346 −0.0346 0.00 1.00e−7 — ∞")
    shares = map(percent, (0.159, 0.0456, 0.00123, 1.0, 0.0, -0.5))
    assert ", ".join(shares) == "15.9 %, 4.56 %, 0.12 %, 100 %, 0 %, −50.0 %"
    assert " ".join(map(p_value, (0.034567, 0.00001, 1.0, math.nan))) == "0.035 <0.0001 1.0 —"
    assert interval((1.0, math.inf)) == "1.00 – ∞"
    assert interval((1.0, 2.0), "–") == "1.00–2.00"
    assert interval((-1.0, 2.0), "–") == "−1.00 to 2.00"
    assert listed(["a", "b", "c"], most=2) == "a, b and 1 more"
    assert all(len(line) <= 60 for line in wrap("word 15.9 % " * 40, "  ", 60))


def test_values_that_say_nothing_alone_are_written_with_their_column():
    names = Names({}, "deny")
    groups = [("black", "yes"), ("age", "25–45"), ("sex", "F"), ("sex", "Female")]
    said = [names.group(*one) for one in groups]
    assert said == ["black = yes", "age = 25–45", "sex = F", "Female"]
    assert (names.decision("0"), names.decision(">50K")) == ("'deny = 0'", "'>50K'")
