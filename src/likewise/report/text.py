"""The verdict in words: headline, sentence, next steps, method and limits.

Every output takes its words from here, so that a claim reads the same everywhere.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from likewise.record import (
    ColumnBalance,
    MatchedPairsRecord,
    Measure,
    RateComparison,
    Record,
    ShownMeasure,
    TestRecord,
)
from likewise.report.escaping import cut
from likewise.report.formats import (
    Names,
    capital,
    interval,
    level,
    limit,
    listed,
    number,
    p_value,
    percent,
    points,
)

HEADLINES = {
    "evidence": "Evidence of unfairness",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "invalid": "Invalid",
}
TESTS = {
    "loss_ratio": ("loss ratio", "raises the loss {}-fold on average"),
    "error_rate_ratio": ("error-rate ratio", "raises the error rate {}-fold"),
    "mean_loss_ratio": ("ratio of mean losses", "raises the mean loss {}-fold"),
}
MEASURES = {
    "decision": "rate",
    "score": "mean probability",
    "prediction": "mean prediction",
    "error": "error rate",
    "loss": "mean loss",
}
GROUP_MEASURES = {
    name: name.replace("_", " ").capitalize()
    for name in (
        *("selection_rate", "impact_ratio", "error_rate"),
        *("false_positive_rate", "false_negative_rate", "true_positive_rate"),
    )
}
LIMITS = (
    "Association, not cause: it does not say why, nor that anyone intended it.",
    "Averages over a group: single people can be treated differently in both directions.",
    "Other columns that may matter ask another question, and can give another answer.",
    "It covers these attributes, people like these, and this model. It is no legal opinion.",
)
LONGEST_IN_TABLES = 28
"""Characters of a group's name where two stand side by side."""
MOST_ASKED, LEAST_PEOPLE = 1_000_000, 20
"""The most people that are asked for, and the fewest of a group that decide anything."""
CHECK_MODEL = "check the model's threshold, and the columns, units and encoding that it gets"
NOT_FAIR = "This does not show that the model is fair."
UNITS = ("prediction", "loss")
"""Measures that are no shares."""

Ends = tuple[float, float]


def test_name(name: str) -> str:
    """Return what a test is called."""
    return TESTS.get(name, (name.replace("_", " "), ""))[0]


def group_test(record: Record) -> str:
    """Return the test whose ratio groups have: of losses, whatever decides for everyone."""
    return "mean_loss_ratio" if record.model.task == "regression" else "loss_ratio"


def result(record: Record, verdict: str) -> str:
    """Return the result of one comparison in words; nothing counts in an invalid record."""
    return (verdict if record.verdict != "invalid" else "invalid").replace("_", " ")


def arrows(row: Any, names: Names) -> str:
    """Return the direction of whatever has an attribute, a group and another: ``A → B``."""
    ends = (names.group(row.attribute, value) for value in (row.group, row.other))
    return " → ".join(cut(end, LONGEST_IN_TABLES) for end in ends)


def rate(value: float, measure: str) -> str:
    """Return a rate in per cent, a mean prediction or loss in its units."""
    if measure in UNITS or math.isnan(value):
        return number(value)
    # A rate corrected for what matching leaves may lie beyond its range.
    return percent(min(max(value, 0.0), 1.0))


def effect(row: RateComparison) -> tuple[str, float, Ends]:
    """Return what the verdict is read from: the ratio of rates, or the difference of means."""
    if row.measure == "prediction":
        return "difference", row.difference, row.difference_interval
    # As rates are shown, from 0 to 1.
    ratio = math.inf if row.own == 0 < row.swapped else max(row.ratio, 0.0)
    return "ratio", ratio, row.interval


def control(row: RateComparison) -> tuple[float, ...]:
    """Return what redrawn attributes gave, as verdicts are read: ratios, or differences."""
    if row.measure == "prediction":
        return tuple((ratio - 1) * row.own for ratio in row.control)
    return tuple(max(ratio, 0.0) for ratio in row.control)


@dataclasses.dataclass(frozen=True)
class Line:
    """One estimate as every output shows it: a comparison, a test, or a group.

    ``facts`` are what stands before it: the two rates, or people and p-value. ``verdict`` is empty
    where nothing is decided.
    """

    attribute: str
    label: str
    facts: tuple[str, str]
    value: float
    ends: Ends
    p_value: float
    verdict: str
    words: str

    def cells(self, between: str = " – ") -> tuple[str, ...]:
        """Return facts, estimate, interval and result, as `head` names them."""
        return *self.facts, number(self.value), interval(self.ends, between), self.words


def estimates(record: Record) -> list[Line]:
    """Return every comparison, or test and group, the deciding one first."""
    names, part = Names.from_record(record), record.matched_pairs
    if part is not None:
        # The decision whose rates are compared is named if it is not always one.
        always = len({row.outcome for row in part.comparisons}) == 1
        said = ["" if always else f"{names.decision(row.outcome)}: " for row in part.comparisons]
        return [
            comparison_line(record, row, decision + arrows(row, names))
            for row, decision in zip(part.comparisons, said, strict=True)
        ]
    found, valid = [], record.verdict != "invalid"
    by_errors = record.deciding is not None and record.deciding.test == "error_rate_ratio"
    for t in sorted(record.tests.values(), key=lambda test: test is not record.deciding):
        deciding = t is record.deciding
        words = result(record, t.outcome) if deciding else "secondary"
        facts, ends = (f"{t.n:,}", p_value(t.p_value)), (max(t.interval[0], 0.0), t.interval[1])
        decided = str(t.outcome) if deciding and valid else ""
        label = test_name(t.test)
        found.append(Line("", label, facts, t.estimate, ends, t.p_value, decided, words))
    for g in record.groups:
        words = result(record, "evidence") if g.rejected else "few people" * g.small
        decided = ("evidence" * g.rejected or "inconclusive" * g.small) if valid else ""
        facts, label = (f"{g.n:,}", p_value(g.p_adjusted)), names.group(g.attribute, g.group)
        label += f", {test_name(group_test(record))}" * by_errors
        at, ends = g.attribute, (g.lower, g.upper)
        found.append(Line(at, label, facts, g.estimate, ends, g.p_adjusted, decided, words))
    return found


def comparison_line(record: Record, row: RateComparison, label: str) -> Line:
    """Return one comparison as every output shows it."""
    facts = rate(row.own, row.measure), rate(row.swapped, row.measure)
    _, value, ends = effect(row)
    words = result(record, row.verdict) + " (mirror)" * (row.mirror and row.verdict == "evidence")
    verdict = row.verdict if record.verdict != "invalid" else ""
    return Line(row.attribute, label, facts, value, ends, row.p_adjusted, verdict, words)


def head(record: Record) -> tuple[str, ...]:
    """Return what the cells of every estimate are: two facts, estimate, interval and result."""
    part, ends = record.matched_pairs, (f"{level(record.alpha)} CI", "result")
    if part is None:
        return "people", "p", "ratio", *ends
    return "own", "other", "difference" if part.measure == "prediction" else "ratio", *ends


def span(values: Sequence[float]) -> str:
    """Return from where to where values lie."""
    return f"{number(min(values))} to {number(max(values))}"


def limits(part: MatchedPairsRecord) -> Ends:
    """Return between which values a comparison is within tolerance."""
    if part.measure == "prediction":
        return -part.limit, part.limit
    return 1 / part.delta, part.delta


def leading(record: Record) -> RateComparison | None:
    """Return the comparison that decided, of matched pairs."""
    return None if record.matched_pairs is None else record.matched_pairs.leading


def attributes(record: Record) -> list[str]:
    """Return the attributes that the verdict is about; with evidence, those it was found by."""
    if record.matched_pairs is None:
        learned = record.metric is not None and record.metric.learned
        return list(record.data.protected) if learned or record.method == "flip" else []
    rows = record.matched_pairs.comparisons
    wanted = ("evidence",) if record.verdict == "evidence" else tuple(HEADLINES)
    return list(dict.fromkeys(row.attribute for row in rows if row.verdict in wanted))


def headline(record: Record) -> tuple[str, str]:
    """Return the verdict and by which attributes, and what it says about whom."""
    names = Names.from_record(record)
    decided = record.matched_pairs is not None and record.verdict != "invalid"
    by = f" by {names.columns(attributes(record), most=2)}" if decided else ""
    about = _who(record, names) if record.verdict == "evidence" else ""
    return HEADLINES[record.verdict] + by, about


def _who(record: Record, names: Names) -> str:
    """Name who is disadvantaged, then compared with whom."""
    part = record.matched_pairs
    if part is None:
        return _sensitive(record, names)
    row, (here, there) = part.leading, names.both(part.leading)
    worse = disadvantaged(row)
    if row.measure == "prediction":
        way = "lower" if row.difference > 0 else "higher"
        return f"predictions for {here} are {way} than for comparable {there}"
    if worse is None:
        less = "less" if row.difference > 0 else "more"
        return f"{here} get {names.decision(row.outcome)} {less} often than comparable {there}"
    back = row.mirrored, row.outcome, "evidence"
    rows = (r for r in part.comparisons if (r.direction, r.outcome, r.verdict) == back)
    if worse and any(map(disadvantaged, rows)):
        return f"{here} and {there} would each do better with the other's columns"
    better, worse_off = (there, here) if worse else (here, there)
    decides = "the decisions favour" if _scored(record) else "the model favours"
    return f"{decides} {better} over comparable {worse_off}"


def _scored(record: Record) -> bool:
    """Tell whether there is no model, but a table that is scored already."""
    return record.model.kind == "scored table"


def disadvantaged(row: RateComparison) -> bool | None:
    """Tell whether the group would do better with the other's columns.

    None if no favourable decision is named.
    """
    gain = row.favourable_swapped - row.favourable_own
    return None if math.isnan(gain) else gain > 0


def _sensitive(record: Record, names: Names) -> str:
    by = names.columns(attributes(record), most=3)
    return f"sensitive to {by}" if by else "sensitive along the metric's free directions"


def sentence(record: Record) -> str:
    """Return the verdict in one to four sentences: rates first, then the ratio, then the limit."""
    return ": ".join(part for part in claim(record) if part)


def claim(record: Record) -> tuple[str, str]:
    """Return the sentence in two parts: the verdict (or nothing), and what it rests on."""
    names, part = Names.from_record(record), record.matched_pairs
    if record.verdict == "invalid":
        # A cause is written "what is wrong; how to fix it".
        cause, _, fix = (record.causes or ("a check failed",))[0].partition("; ")
        action = f" Fix: {fix.rstrip('.')}." if fix else ""
        return "", f"Do not use this result: {cause.rstrip('.')}.{action}"
    if part is None:
        return _of_perturbation(record)
    reads = ""
    for use in part.reads:
        ends = f"({percent(use.lower)} to {percent(use.upper)})"
        changes = f": changing it alone changes {percent(use.changed)} of decisions {ends}"
        reads += f" The model reads {names.column(use.attribute)}{changes if use.n else ''}."
    if record.verdict == "evidence":
        found, said = _evidence(record, part)
        return found, said + reads
    if record.verdict == "inconclusive":
        return "Inconclusive", f"{_settle(record, part)[0]}." + reads
    row, (_, value, both) = part.leading, effect(part.leading)
    by, bound = names.columns(attributes(record), most=2), limit(limits(part)[1])
    share, changed = row.changed_up + row.changed_down, ""
    if share == 0:
        changed = " No comparison changes the decision."
    elif share > 0:
        changed = f" The decision differs in {percent(share)} of comparisons, by chance too; "
        changed += f"net of both directions, the rates differ by {points(row.difference)}."
    largest = f"{arrows(row, names)}, {number(value)} (CI {interval(both, '–')})"
    said = f"No difference above {bound} on average, by {by}. Largest: {largest}.{changed} "
    return "", said + NOT_FAIR + reads


def _evidence(record: Record, part: MatchedPairsRecord) -> tuple[str, str]:
    names, row = Names.from_record(record), part.leading
    here, there = names.both(row)
    columns = f"the {len(part.remaining)} remaining columns"
    if _scored(record):
        columns = "the decisions" if row.measure == "decision" else "the scores"
    elif len(part.remaining) <= 3:
        columns = f"the {names.columns(part.remaining) or 'attribute'}"
    own, other = (rate(value, row.measure) for value in (row.own, row.swapped))
    got = {
        "decision": f"get {names.decision(row.outcome)} {own} of the time",
        "score": f"have a mean probability of {names.decision(row.outcome)} of {own}",
    }.get(row.measure, f"have a {MEASURES.get(row.measure, row.measure)} of {own}")
    name, value, ends = effect(row)
    ratio = f"{name.capitalize()} {number(value)} ({level(part.alpha)} CI {interval(ends, '–')})"
    low, high = limits(part)
    below = value < (0 if name == "difference" else 1)
    said = f"{capital(here)} {got}; with {columns} of comparable {there}, {other}. "
    said += f"{ratio}; limit {limit(low if below else high)}."
    if disadvantaged(row) is None and name == "ratio":
        said += " This does not say who benefits; add --favourable."
    return f"Evidence of unfairness by {names.column(row.attribute)}", said


def _settle(record: Record, part: MatchedPairsRecord) -> tuple[str, str]:
    """Return why the leading comparison decides nothing, and what to do about it."""
    names, row = Names.from_record(record), part.leading
    name, value, ends = effect(row)
    here, there = names.both(row)
    attribute, decision = names.column(row.attribute), names.decision(row.outcome)
    found = f"{arrows(row, names)} {number(value)}, CI {interval(ends, '–')}"
    more = _more(part, row, names)
    match = f"use a larger reference sample (--pool, now {part.pool_size:,} people)"
    if not part.pool_given:
        match = "audit more people, or give a reference sample (--pool)"
    match += ", or name fewer columns that may matter" * (len(part.may_matter) > 1)
    rows = [r for r in part.comparisons if {*r.direction} == {*row.direction}]
    rarest = min(rows, key=lambda r: r.people)
    if rarest.people < LEAST_PEOPLE:  # no reference sample makes up for them
        group = names.people(rarest.attribute, rarest.group)
        match = f"audit more {group} (now {rarest.people:,}); then {match}"
    fewer = "; testing fewer attributes helps" * (len(attributes(record)) > 1)
    worst = names.columns([b.column for b in balance_of(part, row)[:1]]) or "what may matter"
    least = min(rows, key=lambda r: r.pool_rows)
    weighted = ", counted by their weights" * record.data.weighted
    few = "clusters of " * bool(record.data.clusters) + names.people(least.attribute, least.group)
    kept, several = percent(row.n / max(row.people, 1)), len(part.comparisons)
    persons = "name the column of persons (--clusters), or other columns that may matter"
    unit = "set the largest acceptable difference, in the target's units: --set method.limit=500"
    room = f"have at least 20 {few} in data and reference sample (--pool), or merge groups"
    reasons = {
        "events": (f"{found}. Fewer than 10 people with {decision} are expected", more),
        "holm": (f"{found}, not after correction for {several} comparisons", more + fewer),
        "people": (f"fewer than {LEAST_PEOPLE} {here} are compared{weighted}", more),
        "pairs": (f"fewer than 20 pairs of comparable {here} and {there}", match),
        "overlap": (f"only {kept} of {here} have comparable {there}", match),
        "kappa": (f"what may matter nearly determines {attribute}", "leave out a column of it"),
        "redraws": (f"fewer than 10 redraws of {attribute} could be compared", match),
        "degrees": (f"too few independent people among {here}", "audit more people"),
        "limit": (f"{found}, and no limit is given", unit),
        "group": (f"{least.pool_rows:,} {few} are too few to compare", room),
        "pattern": (f"{attribute} follows what may matter in a pattern too fine to match", persons),
        "matching": (f"people compared still differ in {worst}", match),
    }
    if row.reason == "events" and row.own == row.swapped == 0:
        favourable = "name the decision that people want (--favourable), to compare its rates alone"
        said = f"no comparison of {here} with {there} gives {decision}, so it has no {name}"
        return said, CHECK_MODEL if part.favourable else favourable
    unsure = part.pool_given or record.data.clusters or record.data.weighted
    if row.reason == "degrees" and row.measure == "decision" and not unsure:
        # Without weights and clusters, two halves lack nothing but comparisons that differ.
        return (
            f"{found}, but hardly any comparison changes the decision, so that how sure this is "
            "cannot be measured without a reference sample",
            "give a reference sample (--pool)",
        )
    if row.reason in reasons:
        return reasons[row.reason]
    if math.isnan(value):
        return f"{arrows(row, names)} has no {name}, CI {interval(ends, '–')}", more
    crossed = [limit(end) for end in limits(part) if ends[0] <= end <= ends[1]]
    return found + f" includes {listed(crossed)}" * bool(crossed), more


def _more(part: MatchedPairsRecord, row: RateComparison, names: Names) -> str:
    """Say how many people, and how large a reference sample, would settle a comparison."""
    people, pool = row.people_needed or 0, row.pool_needed or 0
    if max(people, pool) > MOST_ASKED:
        return "report the ratio as it is: only millions of people would settle it"
    steps = []
    if people:
        compared = f", {row.n:,} of them compared" * (row.n < row.people)
        who = names.people(row.attribute, row.group)
        steps.append(f"audit about {number(people, 2)} {who} (now {row.people:,}{compared})")
    if pool:
        sample = f"a reference sample of about {number(pool, 2)} people"
        steps.append(f"use {sample} (--pool, now {part.pool_size:,})")
    if not steps:
        return "audit more people, with a larger reference sample (--pool)"
    return " and ".join(steps) + ", or give a reference sample (--pool)" * (not part.pool_given)


def balance_of(part: MatchedPairsRecord, row: RateComparison) -> list[ColumnBalance]:
    """Return the balance of the two groups of a comparison, the largest difference left first."""
    found = [b for b in part.balance if b.direction in (row.direction, row.mirrored)]
    return sorted(found, key=lambda b: -abs(b.after))


def _of_perturbation(record: Record) -> tuple[str, str]:
    """Return the claim of a method that perturbs people: flow, search, or another of its kind."""
    names, test = Names.from_record(record), record.deciding
    assert test is not None  # a record without matched pairs has a deciding test
    sure, delta, name = level(test.alpha), limit(test.delta), test_name(test.test)
    by = names.columns(attributes(record), most=3)
    what = f"the directions that go with {by}" if by else "the metric's free directions"
    what = f"a perturbation along {what}" if record.metric is not None else "the perturbation"
    what = f"another value of {by}, and nothing else," if record.method == "flip" else what
    raises = TESTS.get(test.test, ("", f"gives a {name} of {{}}"))[1]
    does = f"{what} {raises.format(number(test.estimate))}"
    lower = number(max(test.lower_bound, 0.0))
    control = record.control.get(test.test)
    if record.verdict == "evidence":
        how = f"{sure} lower bound {lower}"
        groups = [g for g in record.groups if g.rejected and test.outcome != "evidence"]
        for g in sorted(groups, key=lambda g: -g.lower)[:1]:
            does = f"{what} {TESTS[group_test(record)][1].format(number(g.estimate))}"
            does += f" for {names.people(g.attribute, g.group)}"
            how = f"{sure} simultaneous CI {interval((g.lower, g.upper), '–')}"
        return capital(_sensitive(record, names)), f"{does} ({how}); limit {delta}."
    if record.verdict == "within_tolerance":
        said = f"{does} ({sure} upper bound {upper_bound(test)}). {NOT_FAIR}"
        return f"No increase above {delta} on average", said
    if record.paper:
        said = f"the paper's test does not reject, T_n {number(test.T_n)} is not above {delta}."
        said += f" {NOT_FAIR}"
    elif control is not None and control.used and control.p_value > test.alpha:
        said = f"permuted attributes give ratios as large ({span(control.permuted)}; as they are "
        said += f"{number(control.estimate)}, of {control.n:,} people)."
    elif math.isnan(test.lower_bound):
        said = f"no {name} can be computed: {'; '.join(test.notes) or 'nothing was measured'}."
    else:
        said = f"{does} (one-sided {sure} bounds {lower} to {upper_bound(test)})"
        said += f", but {test.held_back.rstrip('.')}" if test.held_back else f"; limit {delta}"
        wide = "; not every group is shown to be below it" if record.reason == "groups" else ""
        said += f"{wide}."
    return "Inconclusive", said


def upper_bound(test: TestRecord) -> str:
    """Return the upper bound that "within tolerance" needs, and what was capped for it."""
    if math.isnan(test.capped_upper_bound):
        return number(test.upper_bound)
    capped = "losses" if test.test == "mean_loss_ratio" else "ratios"
    return f"{number(test.capped_upper_bound)}, {capped} capped at {test.cap:g}"


def next_steps(record: Record) -> tuple[str, ...]:
    """Return what to do next, the most important first; everything is read from the result."""
    part = record.matched_pairs
    if record.verdict == "invalid":
        return ("repair the cause, then audit again",)
    steps = []
    if record.metric is not None and record.metric.learned:
        factors = "name the legitimate factors (--may-matter), and compare real people (--pool)"
        steps.append(f"{factors}: by a learned metric this is exploratory")
    if record.verdict == "evidence":
        steps += _after_evidence(record)
    elif record.verdict == "within_tolerance":
        steps.append("audit again when the model or the people change (likewise monitor)")
    elif part is not None:
        steps.append(_settle(record, part)[1])
    elif not steps:
        steps.append("audit more people (likewise plan says how many)")
    return tuple(steps)


def _after_evidence(record: Record) -> Iterator[str]:
    """Yield what to do about evidence: change the model, or the question if it is not settled."""
    names, row, scored = Names.from_record(record), leading(record), _scored(record)
    if row is None or (record.model.task == "classification" and not scored):
        yield "look for a fairer model that is as accurate (likewise improve)"
    else:
        what = "these decisions are" if scored else "the model is"
        yield f"review how {what} made, change it, and audit again"
    # Fewer people are asked than for the verdict: what could be the same does not count.
    if row is None:
        return
    found = [
        s.change
        for s in record.sensitivity
        if (s.attribute, s.what) == (row.attribute, "column added")
        and s.outcome not in ("", "evidence")
        and not s.lower_bound <= effect(row)[1] <= s.upper_bound
    ]
    if found:
        columns, attribute = names.columns(found, most=3, last="or"), names.column(row.attribute)
        yield (
            f"decide whether {columns} may matter: if so, the finding about {attribute} changes. "
            "People decide this, before the audit"
        )


def method_words(record: Record) -> Iterator[str]:
    """Yield how it was computed, one paragraph each."""
    names, part, test = Names.from_record(record), record.matched_pairs, record.deciding
    chosen = f"δ = {limit(record.delta)}"
    if part is not None:
        alike = names.columns(part.may_matter) or "no column (whole groups are compared)"
        pool = f"{part.pool_size:,} people" + (f", {part.pool}" if part.pool else "")
        remaining = names.columns(part.remaining, most=8) or "none"
        yield (
            f"Pairs of real people of two groups are matched on {alike}. They come from the "
            f"reference sample ({pool}). Each person is compared through the {part.neighbours} "
            "nearest pairs."
        )
        yield (
            "No model is asked: the two members of a pair count as they were decided."
            if _scored(record)
            else "People keep their own columns that may matter. All remaining columns that the "
            f"model reads ({remaining}) come from one member of the pair, then from the other."
        )
        yield (
            f"What matching leaves is measured with the attribute redrawn {part.redraws} times and "
            f"taken off. Intervals are two-sided at {level(part.alpha)}, over people, pairs and "
            "redraws. Evidence needs an interval outside the limits, after Holm's correction; "
            "“within tolerance” needs every interval inside."
        )
        if part.measure == "prediction":
            chosen = f"{limit(part.limit)} in the target's units"
    elif test is not None:
        given = listed([f"{name} = {value:g}" for name, value in record.parameters.items()])
        claimed = record.decided_by.claim if record.decided_by is not None else ""
        yield f"{claimed}{f' Parameters: {given}.' if given else ''}".strip()
        yield (
            f"The {test_name(test.test)} compares the model after and before; its bound is by "
            f"{test.interval_method}."
        )
    if record.metric is not None:
        origin = "learned" if record.metric.learned else "given"
        sample = " from the audited people" if record.metric.same_sample else ""
        free = f"free directions: {len(record.metric.directions)}"
        yield f"The fair metric is {origin}{sample}; {free}."
    yield f"Chosen beforehand: limit {chosen}, level α = {record.alpha:g}."


def error_words(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what methods that perturb people say about their own errors."""
    for name, j in record.jackknife.items():
        fixed, anew = number(j.std_error_fixed), number(j.std_error_refitted)
        errors = f"standard error {fixed} with this metric, {anew} with the metric learned anew"
        yield "Jackknife", f"{test_name(name)}: {errors}"
    if (error := record.numerical_error) is not None:
        bound = f"at most {number(error.error_bound)} ({number(error.error_in_se)} standard errors)"
        how = f"{error.evaluations} gradients a person by {error.method}"
        yield "Numerical", f"{bound}, {how}. {error.note}"


def spread_words(record: Record) -> str:
    """Say where most people's loss ratios lie."""
    spread = record.distribution
    at = dict(zip(spread.get("shares", ()), spread.get("quantiles", ()), strict=False))
    shares = {"Half of the people lie below": 0.5, "19 of 20 below": 0.95, "all below": 1.0}
    return ", ".join(f"{said} {number(at[q])}" for said, q in shares.items() if q in at) + "."


def shown_measure(row: ShownMeasure, names: Names) -> tuple[str, str, str]:
    """Return the name of a measure that is shown beside the verdict, and its two rates."""
    kind, _, outcome = row.measure.partition(" ")
    name = MEASURES.get(kind, kind) + (f" of {names.decision(outcome)}" if outcome else "")
    return name, rate(row.own, kind), rate(row.swapped, kind)


def group_measures(record: Record) -> list[tuple[str, str, dict[str, Measure]]]:
    """Return every group as it is: attribute, group, and its measures by name."""
    found: dict[tuple[str, str], dict[str, Measure]] = {}
    for m in record.measures:
        if m.group and m.name in GROUP_MEASURES:
            found.setdefault((m.attribute, m.group), {})[m.name] = m
    return [(*key, row) for key, row in found.items()]
