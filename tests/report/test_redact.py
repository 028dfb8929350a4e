"""Redaction: nobody can be found in what remains, and it says what was left out."""

import json
import math

import pytest

import sample_records as samples
from helpers import run
from likewise.record import FoldInfluence, OriginRecord, Record
from likewise.report.export import WRITERS
from likewise.report.html import to_html
from likewise.report.redact import redact


def counts(value, name=""):
    """Yield every whole number of people in a record, with its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from counts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from counts(inner, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


TECHNICAL = {
    *("schema_version", "seed", "redraws", "neighbours", "steps", "evaluations", "planned"),
    *("n_features", "dimension", "people_needed"),
}


def test_all_samples_can_be_redacted_written_and_read(sample):
    hidden = redact(sample)
    assert Record.from_json(hidden.to_json()).redacted
    for write in WRITERS.values():
        assert write(hidden)


def test_no_person_and_no_small_count_is_left(sample):
    hidden = json.loads(redact(sample).model_dump_json(exclude={"settings"}))
    assert hidden["perturbed"] == []
    assert not hidden["matched_pairs"] or hidden["matched_pairs"]["people"] == []
    assert [
        (name, n) for name, n in counts(hidden) if name not in TECHNICAL and n % 10 and n > 0
    ] == []


def test_values_rows_and_labels_of_people_are_gone():
    said = redact(samples.evidence()).to_json() + redact(samples.flow()).to_json()
    for word in ("Never-married", "Not-in-family", "HS-grad", "1234", "99999 in", "loss_before"):
        assert word not in said


def test_levels_of_few_people_are_named_other_and_their_tables_left_out():
    record = samples.evidence()
    levels = {"White": 8000, "non-White": 1000, "Martian": 4, "Venusian": 7}
    data = record.data.model_copy(update={"protected": {"race": levels, "sex": {"a": 50, "b": 3}}})
    extra = samples.comparison("race", "Martian", "White", 0.2, 0.4, people=12)
    part = record.matched_pairs
    part = part.model_copy(update={"comparisons": (*part.comparisons, extra)})
    hidden = redact(record.model_copy(update={"data": data, "matched_pairs": part}))
    assert hidden.data.protected == {"race": {"White": 8000, "non-White": 1000, "other": 10}}
    assert "Martian" not in hidden.to_json()
    assert len(hidden.matched_pairs.comparisons) == 4


def test_where_every_comparison_is_small_nothing_is_said_of_it():
    record = samples.inconclusive()
    row = record.matched_pairs.comparisons[0].model_copy(update={"people": 6, "n": 7})
    data = record.data.model_copy(update={"protected": {"race": {"White": 900, "non-White": 7}}})
    part = record.matched_pairs.model_copy(update={"comparisons": (row,)})
    hidden = redact(record.model_copy(update={"data": data, "matched_pairs": part}))
    kept = hidden.matched_pairs.comparisons[0]
    assert (kept.group, kept.n, kept.people) == ("other", 0, 0)
    assert kept.own != kept.own
    assert "non-White" not in to_html(hidden)


@pytest.mark.parametrize("rate", [0.001, 0.999, 0.0])
def test_rates_that_tell_of_a_few_are_left_out_with_all_of_their_group(rate):
    record = samples.evidence()
    measures = tuple(
        m.model_copy(update={"value": rate})
        if (m.group, m.name) == ("Female", "selection_rate")
        else m
        for m in record.measures
    )
    hidden = redact(record.model_copy(update={"measures": measures}))
    assert {m.group for m in hidden.measures} == {"Male", "White", "non-White", ""}


def test_histograms_with_a_few_people_in_a_bin_are_left_out():
    record = samples.evidence()
    few = record.matched_pairs.changes[0]
    many = few.model_copy(update={"counts": tuple(max(c, 10.0) for c in few.counts)})
    part = record.matched_pairs.model_copy(update={"changes": (many, few)})
    hidden = redact(record.model_copy(update={"matched_pairs": part}))
    assert hidden.matched_pairs.changes == (many,)


@pytest.mark.parametrize(("people", "kept"), [(150, False), (2874, True)])
def test_folds_of_fewer_than_ten_people_are_left_out(people, kept):
    record = samples.evidence()
    folds = FoldInfluence(**dict.fromkeys(FoldInfluence.model_fields, (0.1,) * 20))
    rows = tuple(
        row.model_copy(update={"folds": folds, "people": people})
        for row in record.matched_pairs.comparisons
    )
    weights = {"weight": (people / 20,) * 20, "error": (people / 100,) * 20}
    update = {"comparisons": rows, "performance_folds": weights}
    part = record.matched_pairs.model_copy(update=update)
    hidden = redact(record.model_copy(update={"matched_pairs": part})).matched_pairs
    assert bool(hidden.performance_folds) is kept
    assert (hidden.comparisons[0].folds is not None) is kept


def test_the_page_says_what_was_left_out():
    page = to_html(redact(samples.evidence()))
    assert "this report is redacted" in page
    assert "Counts are rounded to tens" in page
    assert "Row 1,234" not in page


def test_no_sentence_names_a_level_of_a_few_people():
    record = samples.evidence()
    levels = {"White": 8000, "non-White": 1000, "Martian": 4}
    data = record.data.model_copy(update={"protected": {"race": levels}})
    texts = ("race: White and Martian cannot be compared", "The model is new")
    named = record.model_copy(
        update={
            "data": data,
            "warnings": texts,
            "skipped": texts,
            "causes": ("Martian is too small; leave it out",),
        }
    )
    hidden = redact(named)
    assert hidden.warnings == hidden.skipped == ("The model is new",)
    assert hidden.causes == ("other is too small; leave it out",)
    assert "Martian" not in hidden.to_json()


def test_what_else_the_origin_of_a_metric_holds_is_gone():
    record = samples.flow()
    origin = OriginRecord.model_validate(
        {**record.metric.origin.model_dump(), "levels": ["Martian"], "first_row": 1234}
    )
    metric = record.metric.model_copy(update={"origin": origin})
    hidden = redact(record.model_copy(update={"metric": metric}))
    assert "Martian" not in hidden.to_json()
    assert "1234" not in hidden.metric.model_dump_json()
    assert hidden.metric.origin.source == record.metric.origin.source


def test_shares_that_are_a_few_people_are_left_out():
    record = samples.evidence()
    part = record.matched_pairs
    row = part.comparisons[0]
    few = row.model_copy(update={"changed_up": 4 / row.people, "changed_down": 0.0, "events": 3.0})
    hidden = redact(
        record.model_copy(update={"matched_pairs": part.model_copy(update={"comparisons": (few,)})})
    )
    (found,) = hidden.matched_pairs.comparisons
    assert math.isnan(found.changed_up)
    assert math.isnan(found.events)
    assert found.changed_down == 0


def test_levels_of_encoded_columns_are_not_named():
    record = samples.flow()
    data = record.data.model_copy(update={"features": ("age", "job=Spy", "job=Baker")})
    metric = record.metric.model_copy(update={"directions": ({"job=Spy": 0.9},)})
    hidden = redact(record.model_copy(update={"data": data, "metric": metric}))
    assert hidden.data.features == ("age", "job")
    assert len(hidden.metric.directions) == 1
    assert "Spy" not in hidden.to_json()


@pytest.mark.parametrize(("newly_wrong", "kept"), [(9, False), (104, True)])
def test_tables_of_errors_with_a_small_cell_are_left_out(newly_wrong, kept):
    cells = {"both": 500.0, "newly_wrong": newly_wrong, "newly_right": 61.0, "neither": 700.0}
    test = samples.flow().tests["loss_ratio"].model_copy(update={"details": cells | {"kish": 1.2}})
    hidden = redact(samples.flow(tests={"loss_ratio": test})).tests["loss_ratio"].details
    rounded = {"both": 500, "newly_wrong": 100, "newly_right": 60, "neither": 700}
    assert hidden == {"kish": 1.2} | (rounded if kept else {})


def test_sums_of_weights_do_not_pass_for_people():
    record = samples.evidence()
    change = record.matched_pairs.changes[0]
    heavy = change.model_copy(update={"counts": (50.0,) * len(change.counts)})
    folds = {"weight": (500.0,) * 20, "error": (100.0,) * 20}
    update = {"changes": (heavy,), "performance_folds": folds}
    part = record.matched_pairs.model_copy(update=update)
    data = record.data.model_copy(update={"weighted": True})
    hidden = redact(record.model_copy(update={"matched_pairs": part, "data": data}))
    assert hidden.matched_pairs.changes == ()
    assert hidden.matched_pairs.performance_folds == {}


@pytest.mark.parametrize("name", ["comparators.csv", "rows.parquet"])
def test_files_of_single_people_are_refused(tmp_path, name):
    result = tmp_path / "result.json"
    result.write_text(samples.evidence().to_json())
    ended = run("report", result, "--redact", "-o", tmp_path / name)
    assert ended.exit_code == 2
    assert not (tmp_path / name).exists()
