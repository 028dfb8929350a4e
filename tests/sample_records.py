"""Records made by hand: every verdict and reason, every method, and hostile names."""

import math
import typing

import numpy as np

from likewise import record as parts
from likewise.report.text import sentence
from likewise.settings import Settings

HOSTILE = "\"><script>alert('x')</script><img src=x onerror=alert(1)>{{ 7*7 }}🧨"
LONG = "household-member-of-the-applicant-with-the-longest-residence-in-this-municipality"
MAY_MATTER = (
    *("age", "education-num", "hours-per-week", "occupation", "workclass"),
    *("capital-gain", "capital-loss"),
)
REMAINING = ("marital-status", "relationship")
SEX = {"attribute": "sex", "group": "Female", "other": "Male"}
PLAIN = {float: 0.5, int: 20, str: "", bool: False}
"""What stands in a field that a sample does not care about."""


def fill(part, **given):
    """Return a part of a record: what is given, and something plain wherever more is needed."""
    for name, field in part.model_fields.items():
        if field.is_required() and name not in given:
            literal = typing.get_origin(field.annotation) is typing.Literal
            plain = PLAIN.get(field.annotation, ())
            given[name] = typing.get_args(field.annotation)[0] if literal else plain
    return part.model_validate(given)


def about(row):
    return dict(zip(SEX, row.direction, strict=True))


def comparison(attribute, group, other, own, swapped, **changes):
    """One direction; the interval is 7 % wide on both sides."""
    ratio = swapped / own if own else math.nan
    values = {
        **{"attribute": attribute, "group": group, "other": other, "own": own, "swapped": swapped},
        **{"measure": "decision", "outcome": ">50K", "verdict": "evidence", "p_adjusted": 8e-12},
        **{"ratio": ratio, "interval": (ratio / 1.07, ratio * 1.07), "difference": swapped - own},
        "difference_interval": (swapped - own - 0.02, swapped - own + 0.02),
        "control": tuple(round(0.97 + 0.07 * i / 18, 4) for i in range(19)),
        **{"n": 2874, "people": 3012, "without_overlap": 138, "effective_pairs": 1480.0},
        **{"actual": own * 0.97, "raw_group": own * 0.8, "raw_other": max(swapped, own) * 1.1},
        **{"favourable_own": own, "favourable_swapped": swapped},
        **{"changed_up": 0.201, "changed_down": 0.009},
    }
    return fill(parts.RateComparison, **(values | changes))


def changed(record, row=None, rows=None, **part):
    """Return a record with other comparisons, or the first alone with other values."""
    pairs = record.matched_pairs
    if row is not None:
        rows = [pairs.comparisons[0].model_copy(update=row)]
    part |= {} if rows is None else {"comparisons": tuple(rows)}
    return record.model_copy(update={"matched_pairs": pairs.model_copy(update=part)})


def histogram(row, up=True):
    edges = np.linspace(-1, 1, 42)
    middle = (edges[1:] + edges[:-1]) / 2
    counts = 900 * np.exp(-0.5 * (middle / 0.05) ** 2)
    counts += 260 * np.exp(-0.5 * ((middle - (0.3 if up else -0.3)) / 0.2) ** 2)
    values = {"edges": edges.tolist(), "counts": counts.round().tolist()}
    return parts.ChangeHistogram(**about(row), **values)


def compared(i):
    member = dict(zip((*REMAINING, "race"), ("Divorced", "Wife", "White"), strict=True))
    return fill(
        parts.ComparedPerson,
        **{**SEX, "outcome": ">50K", "row": 1234 + 7 * i, "label": "<=50K" if i % 2 else ">50K"},
        **{"decision": "<=50K", "decision_own": "<=50K", "decision_swapped": ">50K"},
        **{"probability": 0.18 + 0.02 * i, "probability_own": 0.21},
        **{"probability_swapped": 0.78 - 0.03 * i, "own": 0.15, "swapped": 0.85 - 0.05 * i},
        kept={"age": 39 + i, "education-num": 13, "hours-per-week": 40.0, "occupation": "Sales"},
        person=member | {"marital-status": "Never-married"},
        own_member=member,
        other_member=member | {"marital-status": "Married-civ-spouse", "relationship": "Husband"},
    )


def measures(levels):
    """Selection rates and error rates of groups, as the record holds them."""
    found = [parts.Measure(name="accuracy", value=0.853, lower=0.846, upper=0.86, n=9045)]
    for attribute, groups in levels.items():
        for group, rate in groups.items():
            values = {"selection_rate": rate, "impact_ratio": rate / max(groups.values())}
            values |= {"error_rate": 0.1 + rate / 4, "false_positive_rate": rate / 3}
            for name, value in values.items():
                ends = {"value": value, "lower": 0.95 * value, "upper": 1.05 * value, "n": 3000}
                found.append(parts.Measure(name=name, attribute=attribute, group=group, **ends))
    return tuple(found)


def sensitivity(what, change, estimate, ends, outcome="evidence", **row):
    values = {"what": what, "change": change, "estimate": estimate, "outcome": outcome, "n": 2000}
    bounds = {"lower_bound": ends[0], "upper_bound": ends[1]}
    return parts.SensitivityRecord(**values, **bounds, **row)


def common(**changes):
    values = {
        **{"likewise_version": "0.2.0", "created": "2026-01-02T03:04:05+00:00", "sentence": ""},
        **{"method": "matched_pairs", "delta": 1.25, "alpha": 0.05, "rows": {"n": 9045}},
        "model": fill(
            parts.ModelRecord,
            **{"name": "model.safetensors", "kind": "network of 3 layers", "sha256": "ab" * 32},
            **{"task": "classification", "classes": ("<=50K", ">50K")},
        ),
        "data": fill(
            parts.DataRecord,
            **{"source": "test.csv", "n": 9045, "label": "income", "sha256": "cd" * 32},
            **{"features": (*MAY_MATTER, *REMAINING), "classes": {"<=50K": 6800, ">50K": 2245}},
            protected={
                "sex": {"Male": 6033, "Female": 3012},
                "race": {"White": 7790, "non-White": 1255},
            },
            notes=("capital-gain is 99999 in 44 rows: a missing-value code?",),
        ),
        **{"settings": Settings(), "settings_hash": Settings().hash, "seconds": {"total": 9.27}},
        "command": "likewise audit model.safetensors test.csv --label income --protected sex,race",
        "versions": {"python": "3.13.5", "likewise": "0.2.0", "numpy": "2.3.1"},
    }
    return values | changes


def finished(values):
    record = parts.Record.model_validate(values)
    return record.model_copy(update={"sentence": sentence(record)})


def pairs(comparisons, verdict="evidence", part=(), **changes):
    """A record of matched pairs."""
    values = {
        **{"may_matter": MAY_MATTER, "remaining": REMAINING, "favourable": ">50K"},
        **{"measure": "decision", "delta": 1.25, "alpha": 0.05, "neighbours": 20, "redraws": 19},
        **{"pool": "train.csv", "pool_size": 36177, "pool_given": True},
        "comparisons": tuple(comparisons),
    }
    made = fill(parts.MatchedPairsRecord, **(values | dict(part)))
    return finished(common(verdict=verdict, matched_pairs=made, **changes))


def evidence(**changes):
    """Women against men: evidence; race: inconclusive. Everything that can be shown is there."""
    undecided = {"verdict": "inconclusive", "reason": "too_few"}
    rows = (
        comparison("sex", "Female", "Male", 0.159, 0.351),
        comparison("sex", "Male", "Female", 0.468, 0.236, mirror=True),
        comparison("race", "non-White", "White", 0.229, 0.28, people_needed=12400, **undecided),
        comparison("race", "White", "non-White", 0.384, 0.319, mirror=True, **undecided),
    )
    part = {
        "shown": [
            fill(parts.ShownMeasure, measure=measure, own=0.2, swapped=0.27, **about(row))
            for row in rows
            for measure in ("error", "loss", "score")
        ],
        "balance": [
            parts.ColumnBalance(
                **{"column": column, "before": 0.5 - 0.13 * i, "after": (-1) ** i * 0.12 / (i + 1)},
                **about(row),
            )
            for row in rows
            for i, column in enumerate(MAY_MATTER)
        ],
        "changes": [histogram(row, up=i % 2 == 0) for i, row in enumerate(rows)],
        "people": [compared(i) for i in range(6)],
        "hidden_factor": [
            parts.HiddenFactor(gamma=4.0 if row.attribute == "sex" else 1.25, **about(row))
            for row in rows
        ],
    }
    drivers = (("marital-status", 0.59, (0.5, 0.68)), ("relationship", 0.41, (0.3, 0.5)))
    figures = {"attribute": "sex", "alone": 1.8, "predicts": 0.71, "moves": 0.24}
    levels = {
        "sex": {"Female": 0.118, "Male": 0.301},
        "race": {"White": 0.261, "non-White": 0.163},
    }
    tried = [
        sensitivity("column left out", column, 2.2 + 0.05 * i, (2.0, 2.5), **SEX)
        for i, column in enumerate(MAY_MATTER)
    ]
    added = ("column added", "relationship", 1.2, (1.1, 1.31), "inconclusive")
    subgroup = {"attribute": "sex", "words": "Female, age ≤ 38, education-num > 12"}
    values = {
        "drivers": [
            parts.DriverRecord(column=column, share=share, interval=ends, **figures)
            for column, share, ends in drivers
        ],
        "measures": measures(levels),
        "sensitivity": [*tried, sensitivity(*added, **SEX)],
        "subgroups": [fill(parts.SubgroupRecord, **subgroup)],
        "skipped": ("reach",),
    }
    return pairs(rows, part=part, **(values | changes))


def within():
    known = {"verdict": "within_tolerance", "p_adjusted": 1.0, "changed_up": 0.03}
    rows = [
        comparison("sex", "Female", "Male", 0.301, 0.31, changed_down=0.021, **known),
        comparison("sex", "Male", "Female", 0.33, 0.325, mirror=True, **known),
    ]
    return pairs(rows, "within_tolerance")


def inconclusive(reason="too_few"):
    """One attribute, undecided for one reason."""
    changes = {"interval": (1.08, 1.39)}
    if reason in ("pairs", "redraws", "degrees", "group"):
        changes = {"ratio": math.nan, "interval": (0.0, math.inf), "control": ()}
    units = {"measure": "prediction"} if reason == "limit" else {}
    changes |= {"people_needed": 12400} if reason == "too_few" else {}
    changes |= {"pool_rows": 3} if reason == "group" else {}
    known = {"verdict": "inconclusive", "reason": reason, **units, **changes}
    row = comparison("race", "non-White", "White", 0.229, 0.28, **known)
    return pairs([row], "inconclusive", units and {**units, "favourable": ""}, reason=reason)


def invalid():
    causes = ("the model gave two answers to the same row; switch off its randomness",)
    return evidence(verdict="invalid", causes=causes)


def regression():
    """Predictions in units, with a limit of 25."""
    unknown = ("favourable_own", "favourable_swapped", "changed_up", "changed_down")
    known = {"measure": "prediction", "outcome": "", **dict.fromkeys(unknown, math.nan)}
    ends = {"difference_interval": (28.2, 43.4)}
    rows = [
        comparison("sex", "Female", "Male", 512.3, 548.1, **ends, **known),
        comparison("sex", "Male", "Female", 555.0, 521.0, mirror=True, **known),
    ]
    part = {"favourable": "", "measure": "prediction", "limit": 25.0}
    model = fill(parts.ModelRecord, kind="Ridge", task="regression")
    return pairs(rows, part=part, model=model)


def three_groups():
    groups = {"Asian": 0.31, "Black": 0.19, "White": 0.34}
    rows = []
    for a, b in ((a, b) for a in groups for b in groups if a != b):
        far = abs(math.log(groups[b] / groups[a])) > 0.4
        known = {"verdict": "evidence" if far else "inconclusive", "mirror": groups[a] > groups[b]}
        known |= {"reason": "" if far else "too_few"}
        rows.append(comparison("race", a, b, groups[a], groups[b], **known))
    reads = [parts.AttributeUse(attribute="race", changed=0.021, lower=0.018, upper=0.024, n=9045)]
    return pairs(rows, part={"reads": reads}, measures=measures({"race": groups}))


def yes_no(labels=None):
    """Values that say nothing without their column, and refusals that are the rarer decision."""
    known = {"favourable_own": 0.767, "favourable_swapped": 0.879, "outcome": "1"}
    other = {"favourable_own": 0.908, "favourable_swapped": 0.829, "outcome": "1", "mirror": True}
    rows = [
        comparison("black", "yes", "no", 0.233, 0.121, **known),
        comparison("black", "no", "yes", 0.092, 0.171, **other),
    ]
    part = {"may_matter": ("ltv", "pi_rat"), "remaining": tuple("abcdefghi"), "favourable": "0"}
    people = {"label": "deny", "protected": {"black": {"no": 2041, "yes": 339}}}
    data = common()["data"].model_copy(update=people)
    return pairs(rows, part=part, settings=Settings(labels=labels or {}), data=data)


def many(count=20):
    """Twenty attributes with long names."""
    rows, first, second = [], f"first {LONG}", f"second {LONG}"
    for i in range(count):
        name, verdict = f"attribute-{i}-{LONG}", "inconclusive" if i % 4 else "evidence"
        rows.append(comparison(name, first, second, 0.2, 0.3, verdict=verdict))
        rows.append(comparison(name, second, first, 0.3, 0.2, verdict=verdict, mirror=True))
    part = {"may_matter": tuple(f"{LONG}-{i}" for i in range(40)), "remaining": (LONG,)}
    return pairs(rows, part=part)


def one_test(test="loss_ratio", estimate=1.62, lower=1.55, upper=1.71, **changes):
    values = {
        **{"test": test, "method": "flow", "interval_method": "Hall's interval"},
        **{"estimate": estimate, "std_error": (upper - lower) / 3.3, "statistic": lower},
        **{"p_value": 0.00002, "rejected": lower > 1.25, "interval": (lower - 0.01, upper + 0.01)},
        **{"lower_bound": lower, "upper_bound": upper, "delta": 1.25, "alpha": 0.05, "n": 9045},
        "outcome": "evidence" if lower > 1.25 else "inconclusive",
    }
    return parts.TestRecord.model_validate(values | changes)


def perturbed(i):
    flips = i % 2 == 0
    before = {"age": 54, "education": "HS-grad", "hours": 40.0, "note": None}
    return fill(
        parts.PerturbedPerson,
        **{"row": 100 * (10 - i) + 7, "label": "<=50K", "ratio": 12.5 - i},
        **{"loss_before": 0.19, "loss_after": 0.19 * (12.5 - i)},
        **{"decision_before": "<=50K", "decision_after": ">50K" if flips else "<=50K"},
        **{"probability_before": 0.83, "probability_after": 0.09 if flips else 0.55},
        groups={"sex": ("Female", "Male")[i % 2], "race": "White"},
        before=before,
        after=before | {"age": 52 - i, "education": "Masters", "hours": 38.5},
    )


def flow(**changes):
    """The paper's method with a learned metric, and everything that it can hold."""
    errors = one_test("error_rate_ratio", 1.4, 1.31, 1.5, interval_method="mid-P")
    levels = [("sex", "Male"), ("sex", "Female"), ("race", "White"), ("race", "non-White")]
    permuted = tuple(1.05 + 0.006 * i for i in range(39))
    control = {"estimate": 1.62, "p_value": 0.025, "planned": 39, "n": 2000, "used": True}
    jackknife = fill(parts.JackknifeRecord, replicates=(1.6, 1.7, 1.5))
    values = common(
        **{"method": "flow", "parameters": {"lam": 50.0, "time": 5.0}, "verdict": "evidence"},
        decided_by=parts.DecidedBy(test="loss_ratio", interval="hall", metric="refitted"),
        tests={"loss_ratio": one_test(), "error_rate_ratio": errors},
        secondary=(one_test(estimate=1.4, lower=1.2, upper=1.5, method="reach"),),
        rows={"n": 9045, "moved": 9044, "diverged": 1, "undefined": 0, "below_one": 3},
        numerical_error=fill(parts.NumericalErrorRecord, method="exponential"),
        jackknife={"loss_ratio": jackknife},
        control={"loss_ratio": parts.ControlRecord(permuted=permuted, **control)},
        distribution={
            "shares": (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0),
            "quantiles": (0.9, 0.95, 1.0, 1.1, 1.3, 1.8, 4.0, 7.0, 12.5),
            "edges": tuple(0.9 * 1.4**i for i in range(9)),
            "counts": (4000.0, 3000.0, 1200.0, 600.0, 200.0, 40.0, 4.0, 1.0),
        },
        groups=[
            fill(
                parts.GroupRecord,
                **{"attribute": attribute, "group": group, "estimate": 1.6 + 0.1 * i},
                **{"n": 5 if group == "non-White" else 4000, "small": group == "non-White"},
                **{"lower": 1.5 + 0.1 * i, "upper": 1.7 + 0.1 * i, "rejected": group == "Female"},
            )
            for i, (attribute, group) in enumerate(levels)
        ],
        measures=measures({"sex": {"Female": 0.118, "Male": 0.301}}),
        sensitivity=[sensitivity("λ", "25 instead of 50", 1.64, (1.55, 1.75))],
        drivers=[parts.DriverRecord(column="relationship", share=0.7, interval=(0.6, 0.8))],
        delta_curve=parts.DeltaCurveRecord(evidence_below=1.55, within_from=1.71),
        perturbed=[perturbed(i) for i in range(10)],
        metric=fill(
            parts.MetricRecord,
            **{"kind": "ProjectionMetric", "learned": True, "same_sample": True},
            directions=({"age": 0.4, "hours-per-week": -0.3},),
            origin={"source": "the audited people", "n": 5000},
        ),
    )
    return finished(values | changes)


def flow_held_back():
    """A learned metric whose permuted attributes give as much."""
    record = flow()
    test = one_test(outcome="inconclusive", held_back="permuted attributes give as much")
    control = record.control["loss_ratio"].model_copy(update={"p_value": 0.4})
    found = {"tests": {**record.tests, "loss_ratio": test}, "control": {"loss_ratio": control}}
    return flow(verdict="inconclusive", reason="control", **found)


def flow_within():
    bounds = {"estimate": 1.03, "lower": 1.02, "upper": 1.04, "capped_upper_bound": 1.09}
    test = one_test(cap=10.0, outcome="within_tolerance", **bounds)
    metric = flow().metric.model_copy(update={"learned": False})
    changes = {"tests": {"loss_ratio": test}, "control": {}, "metric": metric, "groups": ()}
    return flow(verdict="within_tolerance", **changes)


def paper(rejected=True):
    test = one_test(lower=1.55 if rejected else 1.13, interval_method="normal limit")
    changes = {"tests": {"loss_ratio": test}, "control": {}, "jackknife": {}}
    return flow(paper=True, verdict="evidence" if rejected else "inconclusive", **changes)


def renamed(value, text):
    """Return a record's data with every name of a person, column or group replaced."""
    names = {"sex", "race", "Female", "Male", "White", "non-White", *MAY_MATTER, *REMAINING}
    names |= {">50K", "<=50K", "Never-married", "Divorced", "train.csv", "test.csv"}
    table = {name: f"{name}{text}" for name in names}
    if isinstance(value, dict):
        return {table.get(k, k): renamed(v, text) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(inner, text) for inner in value]
    return table.get(value, value) if isinstance(value, str) else value


def hostile(record=None, text=HOSTILE):
    """The same record with names that try to break out of every output."""
    values = renamed((record or evidence()).model_dump(mode="json"), text)
    return finished(values | {"warnings": [text], "command": f"likewise audit {text}"})


SAMPLES = {
    **{"evidence": evidence, "within": within, "invalid": invalid, "regression": regression},
    **{"inconclusive": inconclusive, "too few rows": lambda: inconclusive("group")},
    **{"three groups": three_groups, "yes and no": yes_no, "many": many},
    **{"flow": flow, "flow, held back": flow_held_back, "flow, within": flow_within},
    **{"paper": paper, "paper, not rejected": lambda: paper(rejected=False)},
    **{"hostile": hostile, "hostile flow": lambda: hostile(flow())},
}
