"""What counterparts say, in words: the question, the verdict, and a page of text."""

import math
from collections.abc import Sequence

from likewise.record import (
    ColumnShareRecord,
    CounterpartCase,
    CounterpartGroup,
    CounterpartsRecord,
    CounterpartTrait,
    Outcome,
    SubgroupRecord,
)
from likewise.report.layout import number, p_value, percent


def test_name(trait: str, group: str) -> str:
    """Return what the test of one group is called in a result."""
    return f"counterparts, {trait}: {group}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return names as a sentence lists them."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def what(part: CounterpartsRecord) -> str:
    """Return what is compared: the loss, or how often the favourable decision is refused."""
    if part.favourable:
        return f"share refused {part.favourable!r}"
    return part.loss


def alike(part: CounterpartsRecord) -> str:
    """Say in what the people who are compared are alike."""
    if not part.may_matter:
        return "whole groups compared, since no column may matter"
    return f"alike in {listed(part.may_matter)}"


def question(part: CounterpartsRecord) -> str:
    """Return the question that was asked, in one sentence."""
    traits = listed([one.trait for one in part.traits], "or")
    among = (
        f"Among people alike in {listed(part.may_matter)}"
        if part.may_matter
        else "Among all people (no column may matter)"
    )
    if part.favourable:
        ask = f"is {part.favourable!r} refused more often"
    else:
        ask = f"are people served worse (larger {part.loss})"
    return (
        f"{among}: {ask} with everything else that a comparable person of another {traits} brings "
        "along, than with what one of their own brings along?"
    )


def claim(group: CounterpartGroup, trait: CounterpartTrait, part: CounterpartsRecord) -> str:
    """Return what is claimed about a group, with a gap for the number."""
    others = [one.group for one in trait.groups if one.group != group.group]
    other = others[0] if len(others) == 1 else f"person of another {trait.trait}"
    whose = f"for {group.trait} {group.group}"
    of = (
        f"with what a comparable {other} brings along as with what a comparable {group.group} "
        "brings along"
    )
    if part.favourable:
        return f"{whose}, {part.favourable!r} is refused {{}} times as often {of}"
    return f"{whose}, the {part.loss} is {{}} times as large {of}"


def sentence(part: CounterpartsRecord, outcome: Outcome, delta: float, alpha: float) -> str:
    """Say what follows, and with which bound. Never calls a model fair."""
    sure = percent(1 - alpha)
    trait, group = leading(part, outcome)
    said = claim(group, trait, part)
    if outcome == "evidence_of_unfairness":
        more = said.format(f"more than {number(group.lower_bound)}")
        return (
            f"Evidence of unfairness: {more} ({sure} confidence; members of pairs exchanged at "
            f"random: p = {p_value(group.swap_p_value)}), above the tolerance {delta:g}."
        )
    if outcome == "within_tolerance":
        most = said.format(f"at most {number(group.certifying_bound)}")
        still = " (nothing moves it)" if group.estimate == 1 and group.people_error == 0 else ""
        return (
            f"Within tolerance{still}: {most} ({sure} confidence), and no more for others, which "
            f"the tolerance {delta:g} allows."
        )
    if math.isnan(group.estimate) or not math.isfinite(group.upper_bound):
        why = group.reasons[0] if group.reasons else "there is too little to compare"
        return f"Inconclusive: for {group.trait} {group.group}, {why}."
    low, high = max(group.lower_bound, 0.0), group.upper_bound
    if low > delta:
        chance = f"with all groups counted it may be chance (p = {p_value(group.adjusted_p_value)})"
        why = group.reasons[0] if group.doubtful else chance
        more = said.format(f"more than {number(low)}")
        return f"Inconclusive: {more} ({sure} confidence), but {why}."
    between = said.format(f"between {number(low)} and {number(high)}")
    why = f" ({group.reasons[0]})" if group.reasons else ""
    return (
        f"Inconclusive: {between} (bounds of {sure} confidence each); neither more nor at most "
        f"{delta:g} can be claimed{why}."
    )


def leading(
    part: CounterpartsRecord, outcome: Outcome
) -> tuple[CounterpartTrait, CounterpartGroup]:
    """Return the group that the sentence is about.

    Of those accused the one with the largest lower bound; of those within tolerance the one with
    the largest upper bound; else the undecided one with the largest estimate.
    """
    groups = [(trait, group) for trait in part.traits for group in trait.groups]
    same = [pair for pair in groups if pair[1].outcome == outcome] or groups

    def size(pair: tuple[CounterpartTrait, CounterpartGroup]) -> float:
        group = pair[1]
        value = {
            "evidence_of_unfairness": group.lower_bound,
            "within_tolerance": group.certifying_bound,
            "inconclusive": group.estimate,
        }[outcome]
        return -math.inf if math.isnan(value) else value

    return max(same, key=size)


def direction(group: CounterpartGroup, trait: CounterpartTrait) -> str:
    """Say who is visited as whom: ``Female visited as Male``."""
    others = [one.group for one in trait.groups if one.group != group.group]
    return f"{group.group} visited as {others[0] if len(others) == 1 else 'others'}"


def near(trait: CounterpartTrait) -> str:
    """Say how near pairs and their people are."""
    far = [g for g in trait.groups if g.far_share > 0]
    shares = ", ".join(f"{g.group} {percent(round(g.far_share, 3))}" for g in far)
    words = (
        f"{trait.pairs} {'pair' if trait.pairs == 1 else 'pairs'}, members "
        f"{number(trait.pair_distance, 3)} standard deviations apart (median)"
    )
    words += f"; visitors not all near for {shares}" if far else "; all visitors near"
    lone = trait.without_group
    return f"{words}; {lone} people are in no group of the pool" if lone else words


def columns_left_out(part: CounterpartsRecord) -> list[str]:
    """Say what the finding is with each column that may matter made free, one line a trait."""
    lines = []
    for trait in part.traits:
        if trait.left_out:
            each = ", ".join(f"{one.column} {number(one.estimate)}" for one in trait.left_out)
            whole = number(trait.overall.estimate)
            lines.append(f"{trait.trait} without {each}; with all {whole}")
    return lines


def columns_that_carry(shares: Sequence[ColumnShareRecord], most: int = 3) -> str:
    """Say which columns carry what was found: ``relationship 71 % (66 to 76 %)``."""
    known = [one for one in shares if not math.isnan(one.share)][:most]
    return listed(
        [
            f"{one.column} {100 * one.share:.0f} % ({100 * one.interval[0]:.0f} to "
            f"{100 * one.interval[1]:.0f} %; alone {number(one.alone)}, without it "
            f"{number(one.without)})"
            for one in known
        ]
    )


def subgroup_words(one: SubgroupRecord) -> str:
    """Say how a subgroup that nobody named fares."""
    whose = f"{one.trait}, " if one.trait else ""
    return (
        f"{whose}{one.words} ({one.n} people): {number(one.estimate)}, at least "
        f"{number(max(one.lower_bound, 0.0))}"
    )


def other_sides(part: CounterpartsRecord) -> list[str]:
    """Say what is found with each free column among those that may matter, one line a trait."""
    return [
        f"{trait.trait} if it may matter: "
        + ", ".join(f"{one.column} {number(one.estimate)}" for one in trait.moved_in)
        for trait in part.traits
        if trait.moved_in
    ]


def undecided(part: CounterpartsRecord) -> list[str]:
    """Say why groups could not be decided, one line a reason."""
    groups: dict[str, list[str]] = {}
    for trait in part.traits:
        for group in trait.groups:
            if group.outcome == "inconclusive" and group.reasons:
                groups.setdefault(group.reasons[0], []).append(f"{trait.trait} {group.group}")
    return [f"{listed(names)}: {reason}" for reason, names in groups.items()]


def smallest_detectable(part: CounterpartsRecord) -> str:
    """Say which ratios would have been found."""
    known = [
        f"{group.detectable:.2f} ({trait.trait}: {group.group})"
        for trait in part.traits
        for group in trait.groups
        if math.isfinite(group.detectable) and not group.doubtful
    ]
    return f"a ratio of {listed(known)} would be found in 4 of 5 such audits" if known else ""


def served(case: CounterpartCase, part: CounterpartsRecord) -> str:
    """Say what happened to one person."""
    change = (
        f"decision {case.decision_before} → {case.decision_after}"
        if case.decision_before != case.decision_after
        else f"decision {case.decision_after} both times"
    )
    if part.favourable:
        return (
            f"refused {part.favourable!r} in {percent(round(case.mean_after, 3))} of visits as "
            f"{case.other}, {percent(round(case.mean_before, 3))} as {case.own}"
        )
    return f"{part.loss} {number(case.mean_before)} → {number(case.mean_after)}; {change}"


def rows(part: CounterpartsRecord) -> list[tuple[str, str]]:
    """Return who was compared with whom, for a page of text."""
    pool = f"{part.pool_size} people, {part.pool}"
    if not part.pool_given:
        pool += "; the other half is audited, since no pool was given"
    found = [
        ("May matter", listed(part.may_matter) or "nothing"),
        ("Free", listed(part.free) or "nothing that the model reads"),
        ("Pool", pool),
        *(("Pairs", f"{trait.trait}: {near(trait)}") for trait in part.traits),
    ]
    if part.in_pool:
        found.append(
            (
                "In the pool",
                f"{part.in_pool} of those audited have the same row as somebody there; nobody is "
                "visited by themselves",
            )
        )
    return found


def table(part: CounterpartsRecord, width: int) -> list[str]:
    """Return everyone and every group of every trait, within the width of a page."""
    head = f"{'ratio':>8}{'std err':>9}{'lower':>8}{'upper':>8}{'swap p':>9}{'people':>9}"
    lines = [" " * (width - len(head)) + head, "-" * width]
    for trait in part.traits:
        names = [f"{trait.trait}, everyone"]
        names += [f"  {direction(group, trait)}" for group in trait.groups]
        for name, group in zip(names, (trait.overall, *trait.groups), strict=True):
            label = name if len(name) < width - len(head) else f"{name[: width - len(head) - 2]}…"
            lines.append(
                f"{label:{width - len(head)}}{number(group.estimate):>8}"
                f"{number(group.std_error):>9}{bound(group.lower_bound):>8}"
                f"{bound(group.upper_bound):>8}{p_value(group.swap_p_value):>9}{group.n:>9}"
            )
    return [*lines, "-" * width]


def bound(value: float) -> str:
    """Return a bound of a ratio, which is never below zero, and unknown if it is infinite."""
    return "–" if not math.isfinite(value) else number(max(value, 0.0))


def findings(part: CounterpartsRecord) -> list[tuple[str, str]]:
    """Return what is known besides the table, for a page of text."""
    found = [
        ("Carried by", f"{trait.trait}: {words}")
        for trait in part.traits
        if (words := columns_that_carry(trait.carriers()))
    ]
    found += [("Left out", line) for line in columns_left_out(part)]
    found += [("Other side", line) for line in other_sides(part)]
    found += [("Undecided", line) for line in undecided(part)]
    if words := smallest_detectable(part):
        found.append(("Detectable", words))
    if part.worst:
        case = part.worst[0]
        found.append(
            ("Worst served", f"row {case.row} ({case.trait} {case.own}): {served(case, part)}")
        )
    found.append(("Read it as", CAUTION))
    return found


CAUTION = (
    "associations, not causes; a model that predicts perfectly exceeds 1 where free columns "
    "predict the label and go with the trait"
)
