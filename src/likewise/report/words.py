"""An audit in words: one sentence for the verdict, one table for the tests."""

import math
from collections.abc import Iterable, Mapping

from likewise.record import PlaceboRecord, Record, TestRecord

WIDTH = 78
TITLES = {
    "loss_ratio": "loss ratio",
    "error_rate_ratio": "error-rate ratio",
    "mean_loss_ratio": "ratio of mean losses",
}
SUBJECTS = {
    "loss_ratio": "the loss of people moved to a similar place is, on average, {} times their own",
    "error_rate_ratio": "the error rate of people moved to a similar place is {} times their own",
    "mean_loss_ratio": "the mean loss of people moved to a similar place is {} times their own",
}
METHODS = {
    "hall": "Hall's interval",
    "bootstrap_t": "bootstrap-t",
    "paper": "the paper's normal limit",
    "midp": "mid-P",
    "exact": "exact",
    "score": "score test",
}


def number(value: float, digits: int = 4) -> str:
    """Return a number as people write it: four digits, no noise."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    return f"{value:.{digits}g}" if abs(value) >= 1000 else f"{value:.{digits - 1}f}"


def p_value(value: float) -> str:
    """Return a p-value; below one in ten thousand only that is said."""
    return "–" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.4f}"


def percent(share: float) -> str:
    """Return a share as a percentage without needless digits."""
    return f"{100 * share:.4g} %"


def sentence(test: TestRecord, this_metric: bool = False) -> str:
    """Say what follows from the deciding test, and with which bound. Never calls a model fair."""
    sure = percent(1 - test.alpha)
    where = "under this metric " if this_metric else ""
    own = test.claim.replace("{", "").replace("}", "") or "the ratio"
    subject = where + SUBJECTS.get(test.test, f"{own} is {{}}")
    if test.outcome == "evidence_of_unfairness":
        claim = subject.format(f"more than {number(test.lower_bound)}")
        return (
            f"Evidence of unfairness: {claim} ({sure} confidence), "
            f"above the tolerance {test.delta:g}."
        )
    if test.outcome == "within_tolerance":
        bound = test.capped_upper_bound if certifies(test) else test.upper_bound
        claim = subject.format(f"at most {number(bound)}")
        cap = f", {capped(test)}" if certifies(test) and math.isfinite(test.cap) else ""
        return (
            f"Within tolerance: {claim} ({sure} confidence{cap}), "
            f"which the tolerance {test.delta:g} allows."
        )
    if test.held_back:
        claim = subject.format(f"more than {number(test.lower_bound)}")
        return f"Inconclusive: {claim} ({sure} confidence), but {test.held_back}."
    claim = subject.format(f"between {number(test.lower_bound)} and {number(test.upper_bound)}")
    return (
        f"Inconclusive: {claim} (bounds of {sure} confidence each); "
        f"neither more nor at most {test.delta:g} can be claimed."
    )


def placebo_words(placebo: PlaceboRecord) -> str:
    """Say what a trait that means nothing gives."""
    drawn, shown = placebo.placebos, "" if placebo.used else "; shown only"
    return (
        f"With the traits shuffled: {number(min(drawn))} to {number(max(drawn))}, "
        f"p = {placebo.p_value:.2g} ({len(drawn)} placebos, {placebo.n} people{shown})."
    )


def certifies(test: TestRecord) -> bool:
    """Tell whether a bound with a cap is what finds this model within tolerance, or does not."""
    accused = test.outcome == "evidence_of_unfairness"
    return not accused and not math.isnan(test.capped_upper_bound)


def capped(test: TestRecord) -> str:
    """Say what a test caps where it finds a model within tolerance."""
    if test.test == "mean_loss_ratio":
        return f"losses capped at {test.cap:g} times their mean"
    return f"ratios capped at {test.cap:g}"


def tests_table(tests: Iterable[TestRecord]) -> str:
    """Return a table of tests within 80 columns."""
    head = f"{'':22}{'estimate':>9}{'std err':>9}{'lower':>9}{'upper':>9}{'p-value':>10}"
    lines = [head, "-" * WIDTH]
    notes: list[str] = []
    for test in tests:
        name = TITLES.get(test.test, test.test)[:21]
        lines.append(
            f"{name:22}{number(test.estimate):>9}{number(test.std_error):>9}"
            f"{number(test.lower_bound):>9}{number(test.upper_bound):>9}"
            f"{p_value(test.p_value):>10}"
        )
        low, high = test.interval
        method = METHODS.get(test.method, test.method)
        lines.append(
            f"  {method}; {percent(1 - test.alpha)} interval {number(low)} to {number(high)}"
        )
        if certifies(test):
            lines.append(f"  upper bound {number(test.capped_upper_bound)}, {capped(test)}")
        notes += [f"  {title_case(note)}" for note in test.notes]
    lines.append("-" * WIDTH)
    return "\n".join(lines + [line for note in notes for line in wrap(note)])


def title_case(text: str) -> str:
    """Return text with a capital first letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def wrap(text: str, indent: str = "  ") -> list[str]:
    """Break text at the width of the page."""
    import textwrap

    return textwrap.wrap(text.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent)


def facts(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of ``name  value``, long values continued below."""
    import textwrap

    lines: list[str] = []
    for name, value in rows:
        lines += textwrap.wrap(f"{name:13}{value}", WIDTH, subsequent_indent=" " * 13) or [name]
    return lines


def summary(record: Record, more: Iterable[str] = ()) -> str:
    """Return the whole audit on one page of text, the verdict last; ``more`` lines before it."""
    lines = ["Individual fairness audit".center(WIDTH).rstrip(), "=" * WIDTH]
    lines += facts(_about(record))
    lines += ["-" * WIDTH, tests_table(record.tests.values())]
    lines += facts([*_people(record), *_trust(record)])
    for warning in record.warnings:
        lines += wrap(f"Warning: {warning}", "")
    if more := list(more):
        lines += ["-" * WIDTH, *more]
    lines += ["=" * WIDTH, *wrap(record.sentence, "")]
    test = record.decided_by.test
    if test in record.placebo and not record.tests[test].held_back:
        lines += wrap(placebo_words(record.placebo[test]), "")
    for reason in record.reasons:
        lines += wrap(f"Not trustworthy: {title_case(reason)}", "")
    if not record.trustworthy:
        lines.append("Do not use this result.")
    return "\n".join(lines)


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"


def _about(record: Record) -> list[tuple[str, str]]:
    model, data, metric = record.model, record.data, record.metric
    classes = f", classes {', '.join(model.classes)}" if model.classes else ""
    fed = f"; fed: {model.fed}" if model.fed else ""
    kind = "learned" if metric.learned else "given"
    sample = " from the audited people" if metric.same_sample else ""
    lam, time, budget = map_numbers(record)
    maps = {
        "flow": f"gradient flow, λ = {lam:g}, T = {time:g}",
        "reach": f"search within reach, {budget} calls a person",
        "flips": "protected value swapped",
        "worst": f"the worse of flow (λ = {lam:g}, T = {time:g}) and search within reach",
    }
    rows = [
        ("Model", f"{model.kind}, {model.n_features} features{classes}{fed}"),
        ("People", f"{data.n} from {data.source}"),
    ]
    if data.protected:
        counts = "; ".join(
            f"{trait} ({', '.join(f'{g} {c}' for g, c in list(groups.items())[:6])})"
            for trait, groups in data.protected.items()
        )
        rows.append(("Protected", counts))
    gone = {f"{name} missing": count for name, count in data.missing.items() if count}
    gone |= {f"dropped: {name}": count for name, count in data.dropped.items() if count}
    if gone:
        rows.append(("Missing", ", ".join(f"{name} {count}" for name, count in gone.items())))
    rows += [
        ("Fair metric", f"{kind}{sample}, {_count(len(metric.directions), 'free direction')}"),
        ("Unfair map", maps.get(record.decided_by.map, record.decided_by.map)),
        (
            "Tolerance",
            f"δ = {record.settings.delta:g}, α = {record.settings.alpha:g}, "
            f"cap {record.settings.cap:g}; settings {record.settings_hash[:12]}",
        ),
    ]
    return rows


def map_numbers(record: Record) -> tuple[float, float, int]:
    """Return λ and the time of the flow, and the calls of the search, as they were run."""
    chosen = record.settings.map
    several = chosen.get("maps", ())
    known = {"lam": 50.0, "time": 5.0, "budget": 60.0}
    for part in (chosen.params, *(several if isinstance(several, list | tuple) else ())):
        given = part if isinstance(part, Mapping) else {}
        # A map of one's own may call other things by these names.
        numbers = {k: v for k, v in given.items() if isinstance(v, int | float)}
        known |= {k: v for k, v in numbers.items() if k in known and math.isfinite(v)}
    return known["lam"], known["time"], int(known["budget"])


def _people(record: Record) -> list[tuple[str, str]]:
    """Say how good the model is, and which groups have the least and the largest value."""
    rows: list[tuple[str, str]] = []
    for measure in record.measures:
        if measure.name == "balanced_accuracy" and not measure.group:
            span = f"({number(measure.lower)} to {number(measure.upper)})"
            area = "" if math.isnan(record.model.auc) else f", AUC {number(record.model.auc)}"
            rows.append(("Performance", f"balanced accuracy {number(measure.value)} {span}{area}"))
    known = sorted((g for g in record.groups if not g.small), key=lambda g: g.estimate)
    if len(known) > 1:
        least, most = (
            f"{number(g.estimate)} ({g.trait}: {g.group})" for g in (known[0], known[-1])
        )
        rows.append(("Groups", f"loss ratio from {least} to {most}"))
    if record.worst and record.model.task == "classification":
        top = record.worst[0]
        rows.append(("Worst case", f"row {top.row}, {number(top.ratio)} times the loss"))
    return rows


def search_words(search: Mapping[int, float]) -> str:
    """Say how many model calls a search took, and what the later half of them bought."""
    calls = max(search)
    half = max(spent for spent in search if 2 * spent <= calls or spent == min(search))
    gain = percent(search[calls] / search[half] - 1) if search[half] > 0 else "0 %"
    return f"{calls} model calls a person; after the first {half}, the mean loss rose by {gain}"


def _trust(record: Record) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    others = {k: v for k, v in record.rows.items() if k not in ("n", "moved") and v}
    if record.model.clipped:
        others["with a probability clipped to [0.001, 0.999]"] = record.model.clipped
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in others.items())
    rows.append(
        ("Rows", f"{record.rows['moved']} of {record.rows['n']} moved{', ' * bool(said)}{said}")
    )
    if record.certificate is not None:
        c = record.certificate
        rows.append(
            (
                "Certificate",
                f"{c.method}, {c.evaluations} gradients a person, numerical error at most "
                f"{number(c.error_in_se, 3)} standard errors",
            )
        )
    if record.search:
        rows.append(("Search", search_words(record.search)))
    if record.horizons:
        ladder = ", ".join(f"{number(h.lower_bound)} at {h.time:g}" for h in record.horizons)
        rows.append(("Horizon", f"lower bound on the loss ratio: {ladder}"))
    for refit in record.refits.values():
        used = "decides" if refit.used else "shown only"
        rows.append(
            (
                "Refits",
                f"standard error {number(refit.std_error_fixed)} under this metric, "
                f"{number(refit.std_error_refitted)} with the metric refitted ({used})",
            )
        )
        break
    names = {
        "mean_fair_distance": "mean fair distance moved",
        "free_only": "loss ratio along free directions only",
        "reach": "loss ratio within reach",
    }
    shown = [
        f"{words} {number(record.diagnostics[key])}"
        for key, words in names.items()
        if key in record.diagnostics
    ]
    if shown:
        rows.append(("Diagnostics", "; ".join(shown)))
    if record.skipped:
        rows.append(("Skipped", ", ".join(record.skipped)))
    return rows
