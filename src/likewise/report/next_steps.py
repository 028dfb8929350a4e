"""What to do after a verdict: what would settle it, what to try, what it does not cover."""

import math
from collections.abc import Iterator

from likewise.record import CounterpartsRecord, CounterpartTrait, Record, TestRecord
from likewise.report.counterpart_words import leading, listed
from likewise.report.layout import number


def next_steps(record: Record) -> tuple[str, ...]:
    """Return what to do next, one sentence each; everything is read from the result."""
    if not record.trustworthy:
        return ("Repair what makes the result not trustworthy, then audit again.",)
    steps = {
        "evidence_of_unfairness": _evidence,
        "within_tolerance": _within,
        "inconclusive": _inconclusive,
    }[record.outcome]
    return tuple(steps(record))


def _evidence(record: Record) -> Iterator[str]:
    """Name the columns, the groups and the command to try."""
    part = record.counterparts
    if part is not None:
        for trait in part.traits:
            accused = [g.group for g in trait.groups if g.outcome == "evidence_of_unfairness"]
            if not accused:
                continue
            first = next((one for one in trait.carried if one.share > 0), None)
            who = f"{trait.trait} {listed(accused)}"
            carries = (
                f": {first.column} carries {100 * first.share:.0f} % of it, and with it alike "
                f"{number(first.without)} is left"
                if first is not None
                else ""
            )
            yield f"Look at {who}{carries}."
            settles = [o.column for o in trait.moved_in if o.outcome != "evidence_of_unfairness"]
            if settles:
                yield (
                    f"If {listed(settles, 'or')} may matter after all, the finding about "
                    f"{trait.trait} changes: that is a decision for people, to be made beforehand."
                )
        yield _try(record, part)
        return
    groups = [f"{g.trait} {g.group}" for g in record.groups if g.rejected]
    first = next((one for one in record.carried if one.share > 0), None)
    about = f": {first.column} carries {100 * first.share:.0f} % of it" if first is not None else ""
    worst = listed(groups[:3]) or "the people treated worst in the report"
    yield f"Look at {worst}{about}."
    traits = ",".join(record.data.protected) or "TRAIT"
    yield (
        "Name the columns that may matter, and look for a fairer model as accurate: likewise "
        f"improve MODEL TRAIN --label {record.data.label or 'LABEL'} --protected {traits} "
        f"--may-matter COLUMNS{_ignored(record)}"
    )


def _try(record: Record, part: CounterpartsRecord) -> str:
    traits = ",".join(one.trait for one in part.traits)
    columns = ",".join(part.may_matter) or "COLUMNS"
    return (
        "Look for a fairer model as accurate: likewise improve MODEL TRAIN --label "
        f"{record.data.label or 'LABEL'} --protected {traits} --may-matter {columns}"
        f"{_ignored(record)}"
    )


def _ignored(record: Record) -> str:
    names = record.settings.columns.ignore
    return f" --ignore {','.join(names)}" if names else ""


def _within(record: Record) -> Iterator[str]:
    """Say what the finding does not cover."""
    traits = listed(tuple(record.data.protected)) or "the metric's directions"
    yield (
        f"This covers {traits}, people like these {record.data.n}, this model, and harm in "
        f"{record.counterparts.loss if record.counterparts else 'loss'} up to "
        f"{record.settings.delta:g}. It does not cover other traits or their combinations, people "
        "of another place or time, or labels that are unjust themselves."
    )
    follow = " (likewise monitor follows outcomes)" if record.counterparts is None else ""
    yield f"Audit again when model or people change{follow}."


def _inconclusive(record: Record) -> Iterator[str]:
    """Say what would settle it: people, columns, or the tolerance at which it turns."""
    test, delta = record.tests[record.decided_by.test], record.settings.delta
    part = record.counterparts
    if part is not None:
        trait, group = leading(part, "inconclusive")
        if not group.doubtful:
            yield from _columns(trait, delta)
            yield from _people(group.estimate, group.std_error, group.n, record)
        reasons = group.reasons[:1]
        low, high = group.lower_bound, group.certifying_bound
        stuck = group.doubtful
    else:
        reasons = (against,) if (against := _placebo(record, test)) else test.notes[:1]
        stuck = bool(against)
        if not stuck:
            yield from _people(test.estimate, test.std_error, test.n, record)
        low = test.lower_bound
        high = test.upper_bound if math.isnan(test.capped_upper_bound) else test.capped_upper_bound
        limits = [test.details.get("largest_possible", math.inf), test.cap]
        high = math.nan if any(high >= limit for limit in limits) else high
    if reasons:
        yield f"What stands in the way: {reasons[0].rstrip('.')}."
    if stuck and part is None:
        yield (
            "More people would not change that. Compare people with real counterparts, for which "
            "no metric is learned: name the columns that may matter, and a pool (--may-matter "
            "COLUMNS --pool TRAIN)."
        )
    low = math.nan if low > delta else low  # then it is not the tolerance that stands in the way
    if not stuck and (1 <= low < math.inf or 1 <= high < math.inf):
        below = f"below {number(low)} it would be evidence" if low >= 1 else ""
        above = f"from {number(high)} on within tolerance" if 1 <= high < math.inf else ""
        yield (
            f"The tolerance at which the bounds turn: {listed([x for x in (below, above) if x])}. "
            "It is to be chosen beforehand, not now."
        )


def _placebo(record: Record, test: TestRecord) -> str:
    """Say that traits which mean nothing would hold evidence back, if they did or would."""
    tried = record.placebo.get(test.test)
    if test.held_back or tried is None or not tried.used or test.estimate <= test.delta:
        return test.held_back
    if tried.p_value <= test.alpha:
        return ""
    return f"the model is as sensitive to traits that mean nothing (p = {tried.p_value:.2g})"


def _columns(trait: CounterpartTrait, delta: float) -> Iterator[str]:
    sides = [one.column for one in trait.left_out if one.outcome == "evidence_of_unfairness"]
    if sides:
        yield (
            f"Decide whether {listed(sides, 'or')} may matter for {trait.trait}: without it there "
            "is evidence."
        )


def _people(estimate: float, std_error: float, n: int, record: Record) -> Iterator[str]:
    """Say how many people would decide, if the estimate stays: 2.5 errors from the tolerance."""
    gap = abs(estimate - record.settings.delta)
    if not (math.isfinite(estimate) and std_error > 0 and n) or gap <= 0:
        return
    needed = n * (2.5 * std_error / gap) ** 2
    if needed > 1000 * n:
        yield "The estimate lies at the tolerance: no sample would settle it."
    elif needed > n:
        pool = ", and a pool as many times larger" if record.counterparts is not None else ""
        yield (
            f"About {_round(needed)} people in place of {n}{pool} would settle it, if the estimate "
            f"stays {number(estimate)}."
        )


def _round(value: float) -> int:
    size = 10 ** max(math.floor(math.log10(value)) - 1, 0)
    return math.ceil(value / size) * size
