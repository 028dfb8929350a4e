"""Redaction: nobody can be found in what remains, and it says what was left out."""

import dataclasses
import json
import math

import pytest

import likewise
import sample_records as samples
from helpers import run
from likewise.errors import InvalidSample
from likewise.record import FoldInfluence, Measure, Record
from likewise.report.export import WRITERS
from likewise.report.html import to_html
from likewise.report.redact import CHOSEN, _measures, _rounded, redact
from likewise.stats.groups import Share, group_table
from sample_records import changed

TECHNICAL = {
    *("schema_version", "seed", "redraws", "neighbours", "steps", "evaluations", "planned"),
    *("n_features", "dimension"),
}


def numbers(value, name=""):
    """Yield every number in a record that is about the people, with its name."""
    if name not in CHOSEN and isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else ((name, v) for v in value):
            yield from numbers(inner, key)
    elif name not in CHOSEN and isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def with_levels(record, levels):
    data = record.data.model_copy(update={"protected": levels})
    return record.model_copy(update={"data": data})


def test_no_person_and_no_count_or_long_number_is_left_in_what_is_written(sample):
    hidden = redact(sample)
    assert Record.from_json(hidden.to_json()).redacted
    assert all(write(hidden) for write in WRITERS.values())
    hidden = json.loads(hidden.model_dump_json(exclude={"settings"}))
    assert hidden["perturbed"] == []
    assert not hidden["matched_pairs"] or hidden["matched_pairs"]["people"] == []
    digits = 2 if sample.decided_by and sample.decided_by.test == "error_rate_ratio" else 3
    for name, value in numbers(hidden):  # those of impact ratios have two, too
        if isinstance(value, float):
            assert value == float(f"{value:.{digits}g}"), name
        else:
            assert value % 10 == 0 or name in TECHNICAL, name


def test_values_rows_and_labels_of_people_are_gone():
    said = redact(samples.evidence()).to_json() + redact(samples.flow()).to_json()
    for word in ("Never-married", "Not-in-family", "HS-grad", "1234", "99999 in", "loss_before"):
        assert word not in said
    page = to_html(redact(samples.evidence()))
    assert "this report is redacted" in page
    assert "Counts are rounded to tens" in page


def test_levels_of_few_people_are_named_other_and_their_tables_left_out():
    record = samples.evidence()
    race = {"White": 8000, "non-White": 1000, "Martian": 4, "Venusian": 7}
    extra = samples.comparison("race", "Martian", "White", 0.2, 0.4, people=12)
    rows = (*record.matched_pairs.comparisons, extra)
    texts = ("White and little green ones cannot be compared", "The model is new")
    labels = {"race = Martian": "little green ones", "race = White": "Whites"}
    given = {"label_map": {"Martian": "1"}, "bins": {"race": [1], "age": [40]}}
    settings = record.settings.changed(labels=labels, columns=given)
    said = {"warnings": texts, "skipped": texts, "causes": ("Martian is too small; leave it out",)}
    said |= {"settings": settings, "command": "likewise audit --label-map Martian=1"}
    levels = {"race": race, "sex": {"a": 50, "b": 3}}
    record = changed(record, rows=rows).model_copy(update=said)
    hidden = redact(with_levels(record, levels))
    assert hidden.data.protected == {"race": {"White": 8000, "non-White": 1000, "other": 10}}
    assert len(hidden.matched_pairs.comparisons) == 4
    assert hidden.warnings == hidden.skipped == ("The model is new",)
    assert hidden.causes == ("other is too small; leave it out",)
    assert hidden.settings.labels == {"race = White": "Whites"}
    assert hidden.settings.columns.bins == {"age": (40,)}
    assert not any(word in hidden.to_json() for word in ("Martian", "green"))


def test_where_every_comparison_is_small_nothing_is_said_of_it():
    levels = {"race": {"White": 900, "non-White": 7}}
    few = changed(samples.inconclusive(), {"people": 6, "n": 7})
    hidden = redact(with_levels(few, levels))
    kept = hidden.matched_pairs.comparisons[0]
    assert (kept.group, kept.n, kept.people) == ("other", 0, 0)
    assert math.isnan(kept.own)
    assert "non-White" not in to_html(hidden)


@pytest.mark.parametrize("rate", [0.001, 0.999, 0.0])
def test_rates_that_tell_of_a_few_are_left_out_with_all_of_their_group(rate):
    record = samples.evidence()
    small = ("Female", "selection_rate")
    measures = tuple(
        m.model_copy(update={"value": rate} if (m.group, m.name) == small else {})
        for m in record.measures
    )
    hidden = redact(record.model_copy(update={"measures": measures}))
    assert {m.group for m in hidden.measures} == {"Male", "White", "non-White", ""}


def test_folds_and_histograms_which_tell_counts_are_left_out():
    folds = FoldInfluence(**dict.fromkeys(FoldInfluence.model_fields, (0.1,) * 20))
    errors = {"weight": (500.0,) * 20, "error": (100.0,) * 20}
    full = changed(samples.evidence(), {"folds": folds, "people": 9000}, performance_folds=errors)
    hidden = redact(full).matched_pairs
    assert hidden.changes == ()
    assert hidden.performance_folds == {}
    assert hidden.comparisons[0].folds is None
    with pytest.raises(InvalidSample, match="'new' is redacted"):
        likewise.compare({"old": full, "new": redact(full)})


def published(hits, n, best=(800, 1600)):
    """Return what is published of a group with so many selected, beside the group with most."""
    shares = {"g": Share(hits / n, n, n), "most": Share(best[0] / best[1], best[1], best[1])}
    table = group_table({k: {"selection_rate": share} for k, share in shares.items()}, 0.05)
    measures = [
        Measure(name=name, attribute="sex", group=group, **dataclasses.asdict(quantity))
        for (name, group), quantity in table.items()
    ]
    return [_rounded(m.model_dump()) for m in _measures(measures, set())]


@pytest.mark.parametrize(("hits", "n"), [(424, 1381), (23, 68), (31, 3012), (6021, 20_017)])
def test_no_count_of_people_can_be_worked_out_from_rates_and_their_intervals(hits, n):
    known = published(hits, n)
    near = [(k, m) for k in range(hits - 6, hits + 7) for m in range(n - 6, n + 7)]
    same = [pair for pair in near if published(*pair) == known]
    assert all(len(set(values)) >= 4 for values in zip(*same, strict=True))


def test_counts_in_sentences_are_rounded():
    said = ("1,381 of 4,002 people, 4 rows and 0 clusters; 3 of 20 refits",)
    hidden = redact(samples.evidence().model_copy(update={"warnings": said}))
    assert hidden.warnings == (
        "1,380 of 4,000 people, fewer than 10 rows and 0 clusters; 3 of 20 refits",
    )


def test_shares_that_are_a_few_people_are_left_out():
    few = {"people": 3012, "changed_up": 4 / 3012, "changed_down": 0.0, "events": 3.0}
    (found,) = redact(changed(samples.evidence(), few)).matched_pairs.comparisons
    assert math.isnan(found.changed_up)
    assert math.isnan(found.events)
    assert found.changed_down == 0


def test_what_names_levels_in_a_metric_or_its_features_is_gone():
    record = samples.flow()
    origin = {**record.metric.origin, "levels": ["Martian"], "first_row": 1234}
    about = {"origin": origin, "directions": ({"job=Spy": 0.9},)}
    features = {"features": ("age", "job=Spy", "job=Baker")}
    update = {"metric": record.metric.model_copy(update=about)}
    update["data"] = record.data.model_copy(update=features)
    hidden = redact(record.model_copy(update=update))
    assert hidden.data.features == ("age", "job")
    assert len(hidden.metric.directions) == 1
    assert hidden.metric.origin == record.metric.origin
    assert not any(word in hidden.to_json() for word in ("Martian", "Spy"))


def test_the_table_of_errors_goes_and_what_is_made_of_it_has_two_digits():
    cells = {"both": 500.0, "newly_wrong": 104, "newly_right": 61.0, "neither": 700.0}
    numbers = {"estimate": 1.0767, "p_value": 3.2e-5, "lower_bound": 1.0312}
    update = {"test": "error_rate_ratio", "details": cells | {"kish": 1.25}, **numbers}
    test = samples.flow().tests["loss_ratio"].model_copy(update=update)
    hidden = redact(samples.flow(secondary=(test,))).secondary[0]
    assert hidden.details == {"kish": 1.2}
    assert (hidden.estimate, hidden.p_value, hidden.lower_bound) == (1.1, 0, 1.0)


@pytest.mark.parametrize("name", ["a1-Comparators.csv", "rows.parquet"])
def test_files_of_single_people_are_refused(tmp_path, name):
    result = tmp_path / "result.json"
    result.write_text(samples.evidence().to_json())
    ended = run("report", result, "--redact", "-o", tmp_path / name)
    assert ended.exit_code == 2
    assert not (tmp_path / name).exists()
