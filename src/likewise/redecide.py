"""Another limit on the same evidence: what a record says about it, without model or data."""

import math
from typing import Any

from likewise.errors import InvalidSettings
from likewise.methods.decide import decide_with_groups
from likewise.record import MatchedPairsRecord, Record
from likewise.stats.decision import holm_adjusted, overall, read_interval


def at_limit(record: Record, delta: float) -> Record:
    """Return the record as it would be at another limit on the ratio; at its own, as it is.

    Comparisons are decided by the same intervals, which do not depend on the limit, and by the
    p-values that the record holds (those at the next larger limit, which are no smaller), adjusted
    anew. Tests of perturbations are decided as in the audit, over everyone and the groups, by the
    bounds of the record and by p-values that are no smaller than the audit's: evidence and "within
    tolerance" are what an audit at that limit finds, and what is "inconclusive" may be decided
    there. Other choices of columns are not decided again, and keep no verdict.
    """
    from likewise.report.text import sentence

    if not 1 <= delta < math.inf:
        raise InvalidSettings(f"The limit on a ratio is at least 1 (--delta, got {delta:g}).")
    part = record.matched_pairs
    if part is not None and part.measure == "prediction" and record.verdict != "invalid":
        raise InvalidSettings(
            f"--delta is a limit on ratios (got {delta:g}), and this result is decided by a "
            "difference: audit again with --set method.limit=NUMBER, in the target's units."
        )
    if record.verdict == "invalid" or delta == record.delta:
        return record
    if record.redacted:
        raise InvalidSettings("--delta needs the full result: a redacted one may lack groups.")
    if part is not None:
        part = _pairs(part, delta)
        verdict = overall([row.verdict for row in part.comparisons])
        reason = part.leading.reason if verdict == "inconclusive" else ""
        update: dict[str, Any] = {"matched_pairs": part, "verdict": verdict, "reason": reason}
    else:
        update = _perturbed(record, delta)
    settings = record.settings.changed(delta=delta, cap=max(record.settings.cap, delta + 1))
    note = f"Read again at the limit {delta:g}; the audit was made at {record.delta:g}. "
    note += "P-values are at most those shown."
    tried = (row.model_copy(update={"outcome": ""}) for row in record.sensitivity)
    update |= {"delta": delta, "sensitivity": tuple(tried), "notes": (*record.notes, note)}
    update |= {"settings": settings, "settings_hash": settings.hash}
    changed = record.model_copy(update=update)
    return changed.model_copy(update={"sentence": sentence(changed)})


def _perturbed(record: Record, delta: float) -> dict[str, Any]:
    """Decide over everyone and the groups again, by bounds and by what p-values are at most."""
    curve, test, groups = record.delta_curve, record.deciding, []
    if curve is None or test is None:
        raise InvalidSettings("The record does not hold what another limit needs. Audit again.")
    control, held = record.control.get(test.test), ""
    normal = record.paper or record.settings.decide.interval == "paper"
    learned = record.metric is not None and record.metric.learned and not normal
    if learned and (control is None or control.p_value > test.alpha):
        held = test.held_back or "random attributes may give ratios as large"
    refused = curve.within_from <= record.delta and test.outcome != "within_tolerance"
    above = delta < curve.evidence_below and test.std_error > 0
    # At the cap and beyond it, an audit has another one.
    within = delta >= curve.within_from and not (normal or refused or delta >= test.cap)
    outcome = "evidence" if above and not held else "within_tolerance" if within else "inconclusive"
    # P-values at the audit's limit are no smaller at a smaller one; groups' bounds have level α/2m.
    nearer, level = delta < record.delta, test.alpha / (2 * max(len(record.groups), 1))
    again = {"delta": delta, "outcome": outcome, "rejected": outcome == "evidence"}
    known = [test.alpha] * above + [test.p_value] * nearer
    test = test.model_copy(update=again | {"p_value": min(known, default=math.nan)})
    for g in record.groups:
        known = [level] * (delta < g.lower) + [g.p_value] * nearer
        kept = {"p_value": min(known, default=math.nan), "rejected": nearer and g.rejected}
        groups.append(g.model_copy(update=kept))
    jack = record.jackknife.get(test.test)
    free = 1 if record.metric is None else len(record.metric.directions)
    wider = {} if jack is None else jack.widening(free)
    some = () if record.paper else groups
    verdict, reason, found = decide_with_groups(test, some, held_back=held, **wider)
    update = {"groups": found or tuple(groups), "verdict": verdict, "reason": reason}
    return update | {"tests": {**record.tests, test.test: test}}


def _pairs(part: MatchedPairsRecord, delta: float) -> MatchedPairsRecord:
    """Decide all comparisons again."""
    p_values = {
        k: next((p for limit, p in row.p_by_limit if limit >= delta - 1e-12), 1.0)
        for k, row in enumerate(part.comparisons)
    }
    adjusted = holm_adjusted(p_values)
    rows = list(part.comparisons)
    for k, row in enumerate(rows):
        low, high = row.interval
        if row.reason in ("", "too_few", "holm", "events", "matching") and not math.isnan(low):
            inside, outside = 1 / delta <= low and high <= delta, low > delta or high < 1 / delta
            verdict, reason = read_interval(inside, outside, row.events, adjusted[k], part.alpha)
            found = {"verdict": verdict, "reason": reason or "", "p_value": p_values[k]}
            needed = {"people_needed": None, "pool_needed": None, "p_adjusted": adjusted[k]}
            rows[k] = row.model_copy(update={**found, **needed})
    return part.model_copy(update={"comparisons": tuple(rows), "delta": delta})
