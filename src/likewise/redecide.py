"""Another limit on the same evidence: what a record says about it, without model or data."""

import math
from typing import Any

from likewise.errors import InvalidSettings
from likewise.record import MatchedPairsRecord, Record
from likewise.stats.decision import holm_adjusted, overall, read_interval


def at_limit(record: Record, delta: float) -> Record:
    """Return the record as it would be at another limit on the ratio.

    Comparisons are decided by the same intervals, which do not depend on the limit, and by the
    p-values that the record holds (those at the next larger limit, which are no smaller), adjusted
    anew. Tests of perturbations are decided by the two bounds of the record. Other choices of
    columns are not decided again, and keep no verdict.
    """
    from likewise.report.text import sentence

    if not 1 <= delta < math.inf:
        raise InvalidSettings(f"The limit on a ratio is at least 1 (--delta, got {delta:g}).")
    if record.verdict == "invalid":
        return record
    if record.matched_pairs is not None:
        if record.matched_pairs.measure == "prediction":
            raise InvalidSettings(
                f"--delta is a limit on ratios (got {delta:g}), and this result is decided by a "
                "difference: audit again with --set method.limit=NUMBER, in the target's units."
            )
        part = _pairs(record.matched_pairs, delta)
        verdict = overall([row.verdict for row in part.comparisons])
        reason = part.leading.reason if verdict == "inconclusive" else ""
        update: dict[str, Any] = {"matched_pairs": part, "verdict": verdict, "reason": reason}
    else:
        curve, test = record.delta_curve, record.deciding
        if curve is None or test is None:
            raise InvalidSettings("The record does not hold what another limit needs. Audit again.")
        above = delta < curve.evidence_below and not test.held_back
        within = delta >= curve.within_from and not record.paper
        # A group's p-value is known at the audit's limit, and is no smaller at a larger one.
        kept = {"rejected": False} if delta > record.delta else {}
        groups = tuple(group.model_copy(update=kept) for group in record.groups)
        wide = any(not g.upper <= delta for g in groups)
        within, why = within and not wide, "groups" if within and wide and not above else ""
        verdict = "evidence" if above else "within_tolerance" if within else "inconclusive"
        again = {"delta": delta, "outcome": verdict, "rejected": above}
        tests = {**record.tests, test.test: test.model_copy(update=again)}
        update = {"tests": tests, "groups": groups, "verdict": verdict, "reason": why}
    settings = record.settings.changed(delta=delta, cap=max(record.settings.cap, 2 * delta))
    note = f"Read again at the limit {delta:g}; the audit was made at {record.delta:g}."
    tried = (row.model_copy(update={"outcome": ""}) for row in record.sensitivity)
    update |= {"delta": delta, "sensitivity": tuple(tried), "notes": (*record.notes, note)}
    update |= {"settings": settings, "settings_hash": settings.hash}
    changed = record.model_copy(update=update)
    return changed.model_copy(update={"sentence": sentence(changed)})


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
        decided = row.reason in ("", "too_few", "holm", "events", "matching")
        if decided and not math.isnan(low):
            inside, outside = 1 / delta <= low and high <= delta, low > delta or high < 1 / delta
            verdict, reason = read_interval(inside, outside, row.events, adjusted[k], part.alpha)
            found = {"verdict": verdict, "reason": reason or "", "p_value": p_values[k]}
            needed = {"people_needed": None, "pool_needed": None, "p_adjusted": adjusted[k]}
            rows[k] = row.model_copy(update={**found, **needed})
    return part.model_copy(update={"comparisons": tuple(rows), "delta": delta})
