"""An audit in words: one sentence for the verdict, one table for the tests."""

import math
from collections.abc import Iterable, Mapping

from likewise.record import CertificateRecord, PlaceboRecord, Record, TestRecord
from likewise.report import counterpart_words
from likewise.report.layout import WIDTH, facts, number, percent, title_case, wrap
from likewise.report.next_steps import next_steps
from likewise.report.verdict_words import TITLES, not_below_zero, placebo_words, tests_table


def summary(record: Record, more: Iterable[str] = ()) -> str:
    """Return the whole audit on one page of text, the verdict last; ``more`` lines before it."""
    lines = ["Individual fairness audit".center(WIDTH).rstrip(), "=" * WIDTH]
    lines += _with_counterparts(record) if record.counterparts is not None else _by_moves(record)
    for warning in record.warnings:
        lines += wrap(f"Warning: {warning}", "")
    if more := list(more):
        lines += ["-" * WIDTH, *more]
    worst = [one for one in record.subgroups if one.found] or list(record.subgroups[:1])
    said = [("Worst for", counterpart_words.subgroup_words(one)) for one in worst[:3]]
    said += [("What now", step) for step in next_steps(record)]
    lines += ["-" * WIDTH, *facts(said)]
    lines += ["=" * WIDTH, *wrap(record.sentence, "")]
    test = record.decided_by.test
    if test in record.placebo and not record.tests[test].held_back:
        lines += wrap(placebo_words(record.placebo[test]), "")
    for reason in record.reasons:
        lines += wrap(f"Not trustworthy: {title_case(reason)}", "")
    if not record.trustworthy:
        lines.append("Do not use this result.")
    return "\n".join(lines)


def _by_moves(record: Record) -> list[str]:
    """Return the page of an audit that moves people under a fair metric."""
    about = facts([*_model(record), *_metric(record), _tolerance(record)])
    return [
        *about,
        "-" * WIDTH,
        tests_table(moved_tests(record)),
        *facts([*_people(record), *_trust(record)]),
    ]


def _with_counterparts(record: Record) -> list[str]:
    """Return the page of an audit by counterparts, with what another map says below."""
    part = record.counterparts
    assert part is not None
    lines = [*wrap(counterpart_words.question(part), ""), "-" * WIDTH]
    lines += facts([*_model(record), *counterpart_words.rows(part), _tolerance(record)])
    lines += ["-" * WIDTH, *counterpart_words.table(part, WIDTH)]
    lines += facts(counterpart_words.findings(part))
    if moved := moved_tests(record):
        lines += ["", *wrap("Below, people moved under a fair metric; this does not decide.", "")]
        lines += [*facts(_metric(record, moved[0].map)), tests_table(moved)]
        if (shuffled := moved_placebo(record)) is not None:
            lines += wrap(placebo_words(shuffled), "")
        lines += facts([*_people(record), *_trust(record)])
    elif record.skipped:
        lines += facts([("Skipped", ", ".join(record.skipped))])
    return lines


def moved_tests(record: Record) -> list[TestRecord]:
    """Return the tests of people who were moved: all but those by counterparts."""
    return [test for test in record.tests.values() if test.map != "counterparts"]


def moved_placebo(record: Record) -> PlaceboRecord | None:
    """Return the placebo of the test that decides, or would decide without counterparts."""
    names = [record.decided_by.test, *(test.test for test in moved_tests(record))]
    return next((record.placebo[name] for name in names if name in record.placebo), None)


def flow_beside(record: Record) -> str:
    """Say what the gradient flow finds beside a search, with its own placebo."""
    flows = {test.test: test for test in record.beside if test.map == "flow"}
    name = next((name for name in (record.decided_by.test, *flows) if name in flows), "")
    if not name or all(test.map == "flow" for test in moved_tests(record)):
        return ""
    shuffled = record.placebo_beside.get(name)
    also = f". {placebo_words(shuffled)}" if shuffled is not None else "."
    title = TITLES.get(name, name)
    return f"the gradient flow, {title} {number(flows[name].estimate)}{also}"


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"


def _model(record: Record) -> list[tuple[str, str]]:
    """Say what was audited, and on whom."""
    model, data = record.model, record.data
    classes = f", classes {', '.join(model.classes)}" if model.classes else ""
    fed = f"; fed: {model.fed}" if model.fed else ""
    # With counterparts alone nothing is made of the columns that the model reads.
    inputs = "columns" if record.metric.kind == "columns that may matter" else "features"
    rows = [
        ("Model", f"{model.kind}, {model.n_features} {inputs}{classes}{fed}"),
        ("People", f"{data.n} from {data.source}"),
    ]
    if data.protected:
        counts = "; ".join(
            f"{trait} ({', '.join(f'{g} {c}' for g, c in list(groups.items())[:SOME_LEVELS])}"
            f"{_more_levels(groups)})"
            for trait, groups in data.protected.items()
        )
        rows.append(("Protected", counts))
    gone = {f"{name} missing": count for name, count in data.missing.items() if count}
    gone |= {f"dropped: {name}": count for name, count in data.dropped.items() if count}
    if gone:
        rows.append(("Missing", ", ".join(f"{name} {count}" for name, count in gone.items())))
    rows += [("Read", note) for note in data.notes[:SOME_LEVELS]]
    return rows


SOME_LEVELS = 6
"""Levels of a trait, and notes on the data, that a summary shows."""


def _more_levels(groups: Mapping[str, int]) -> str:
    rest = list(groups.values())[SOME_LEVELS:]
    return f", and {len(rest)} more levels of {sum(rest)} people" if rest else ""


def _metric(record: Record, by: str = "") -> list[tuple[str, str]]:
    """Say who counts as alike, and how people were moved."""
    metric = record.metric
    kind = "learned" if metric.learned else "given"
    sample = " from the audited people" if metric.same_sample else ""
    lam, time, budget = map_numbers(record)
    maps = {
        "flow": f"gradient flow, λ = {lam:g}, T = {time:g}",
        "reach": f"search within reach, {budget} places a person",
        "flips": "protected value swapped",
        "worst": f"the worse of flow (λ = {lam:g}, T = {time:g}) and search within reach",
    }
    by = by or record.decided_by.map
    return [
        ("Fair metric", f"{kind}{sample}, {_count(len(metric.directions), 'free direction')}"),
        ("Unfair map", maps.get(by, by)),
    ]


def _tolerance(record: Record) -> tuple[str, str]:
    chosen = record.settings
    numbers = f"δ = {chosen.delta:g}, α = {chosen.alpha:g}, cap {chosen.cap:g}"
    return "Tolerance", f"{numbers}; settings {record.settings_hash[:12]}"


def map_numbers(record: Record) -> tuple[float, float, int]:
    """Return λ and the time of the flow, and the calls of the search, as they were run."""
    chosen = record.settings.map
    several = chosen.get("maps", ())
    known = {"lam": 50.0, "time": 5.0, "budget": float(max(record.search, default=60))}
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
    refused = {measure.name: measure.value for measure in record.measures}
    if "refused_before" in refused and record.counterparts is None:
        shares = [percent(refused[f"refused_{when}"]) for when in ("before", "after")]
        wanted = record.settings.decide.favourable
        rows.append(
            (
                "Refused",
                f"{wanted!r} to {shares[0]} of people, to {shares[1]} after the move (described, "
                "not tested)",
            )
        )
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


def numerical_error(c: CertificateRecord) -> str:
    """Say how far off the solution can be, against chance where that is larger."""
    if not math.isfinite(c.error_bound):
        return "numerical error not certified"
    if c.error_in_se <= 1:
        return f"numerical error at most {number(c.error_in_se, 3)} standard errors"
    return f"numerical error at most {number(c.error_bound)}, more than chance adds here"


def search_words(search: Mapping[int, float]) -> str:
    """Say at how many places a search looked, and what the later half of them bought."""
    calls = max(search)
    half = max(spent for spent in search if 2 * spent <= calls or spent == min(search))
    gain = percent(search[calls] / search[half] - 1) if search[half] > 0 else "0 %"
    return f"{calls} places a person; after the first {half}, the mean loss rose by {gain}"


def _trust(record: Record) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if carried := counterpart_words.columns_that_carry(record.carried):
        rows.append(("Carried by", carried))
    others = {k: v for k, v in record.rows.items() if k not in ("n", "moved") and v}
    if record.model.clipped:
        others["with a probability clipped to [0.001, 0.999], before or after"] = (
            record.model.clipped
        )
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in others.items())
    rows.append(
        ("Rows", f"{record.rows['moved']} of {record.rows['n']} moved{', ' * bool(said)}{said}")
    )
    if record.certificate is not None:
        c = record.certificate
        kind = f" in {c.precision}" if c.precision else ""
        rows.append(
            (
                "Certificate",
                f"{c.method}, {c.evaluations} gradients a person{kind}, {numerical_error(c)}",
            )
        )
    if record.search:
        rows.append(("Search", search_words(record.search)))
    if record.horizons:
        ladder = ", ".join(f"{number(h.lower_bound)} at {h.time:g}" for h in record.horizons)
        rows.append(("Horizon", f"lower bound on the loss ratio: {ladder}"))
    if flow := flow_beside(record):
        rows.append(("Beside", flow))
    for refit in record.refits.values():
        used = ("counted" if record.counterparts else "decides") if refit.used else "shown only"
        rows.append(
            (
                "Refits",
                f"standard error {number(refit.std_error_fixed)} under this metric, "
                f"{number(refit.std_error_refitted)} with the metric refitted ({used}: between "
                f"{not_below_zero(refit.lower_bound)} and {number(refit.upper_bound)})",
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
