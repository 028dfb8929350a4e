"""Hides what is known about single people; what is said of all of them together stays."""

import dataclasses
import re

import numpy as np

from likewise.outcomes import AtHorizon, Outcomes
from likewise.record import CounterpartCase, Record, WorstCase

HIDDEN = "hidden"

QUOTED = re.compile(r"it holds .*(?= among its numbers)", re.DOTALL)
"""One person's value, in the note about a column of numbers that is read as text."""


def redact(record: Record) -> Record:
    """Return the record without any person's values.

    Row numbers, ratios, probabilities and distances stay, and which columns moved; their values,
    the label, the decisions and the protected traits do not.
    """
    worst = tuple(_redact_case(case) for case in record.worst)
    notes = tuple(QUOTED.sub(f"it holds {HIDDEN} text", note) for note in record.data.notes)
    data = record.data.model_copy(update={"notes": notes})
    part = record.counterparts
    if part is not None:
        hidden = tuple(_redact_visited(case) for case in part.worst)
        part = part.model_copy(update={"worst": hidden})
    update = {"worst": worst, "data": data, "counterparts": part, "redacted": True}
    return record.model_copy(update=update)


def _redact_visited(case: CounterpartCase) -> CounterpartCase:
    """Hide the person and both members of the pair; which columns differ stays."""
    names = list(case.person)
    differs = {n for n in names if case.own_member.get(n) != case.other_member.get(n)}
    flipped = case.decision_before != case.decision_after
    return case.model_copy(
        update={
            "own": HIDDEN,
            "other": f"{HIDDEN}, another",
            "label": HIDDEN if case.label else "",
            "decision": HIDDEN,
            "decision_before": HIDDEN,
            "decision_after": f"{HIDDEN}, another" if flipped else HIDDEN,
            "person": dict.fromkeys(names, HIDDEN),
            "own_member": dict.fromkeys(names, HIDDEN),
            "other_member": {n: f"{HIDDEN}, another" if n in differs else HIDDEN for n in names},
        }
    )


def _redact_case(case: WorstCase) -> WorstCase:
    names = list(dict.fromkeys([*case.before, *case.after]))
    moved = {name for name in names if case.before.get(name) != case.after.get(name)}
    flipped = case.decision_before != case.decision_after
    return case.model_copy(
        update={
            "label": HIDDEN,
            "decision_before": HIDDEN,
            "decision_after": f"{HIDDEN}, another" if flipped else HIDDEN,
            "groups": {},
            "before": dict.fromkeys(names, HIDDEN),
            "nearest": dict.fromkeys(case.nearest, HIDDEN),
            "after": {name: f"{HIDDEN}, moved" if name in moved else HIDDEN for name in names},
        }
    )


def redact_outcomes(outcomes: Outcomes) -> Outcomes:
    """Return outcomes from which the tests can be repeated, but nobody's values read.

    Losses and weights stay. Of labels and decisions only right (0) or wrong (1) stays; protected
    traits and probabilities are left out; clusters are numbered.
    """
    regression = outcomes.about.get("task") == "regression"
    zero = np.zeros(len(outcomes), dtype=float if regression else np.int64)
    unknown = np.full(len(outcomes), np.nan)

    def wrong(decision: np.ndarray) -> np.ndarray:
        return zero if regression else (decision != outcomes.y).astype(np.int64)

    cluster = outcomes.cluster
    return dataclasses.replace(
        outcomes,
        y=zero,
        decision_before=wrong(outcomes.decision_before),
        decision_after=wrong(outcomes.decision_after),
        probability_before=unknown,
        probability_after=unknown,
        groups={},
        cluster=None if cluster is None else np.unique(cluster, return_inverse=True)[1],
        horizons={
            time: AtHorizon(then.loss_after, wrong(then.decision_after))
            for time, then in outcomes.horizons.items()
        },
        about={
            **outcomes.about,
            "redacted": True,
            "classes": [] if regression else ["right", "wrong"],
        },
    )
