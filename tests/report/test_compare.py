"""Models side by side: corrected together, told apart, and honest about what differs."""

import pytest

from helpers import run
from likewise.errors import InvalidSample
from likewise.report.compare_page import comparison_page
from likewise.report.side_by_side import compare, read_all, words


@pytest.fixture(scope="module")
def four(make):
    """Four audits: two far above the tolerance, one at its edge, one below."""

    def one(estimate, lower, p, balanced):
        loss = make.test(estimate=estimate, lower=lower, upper=2 * estimate - lower, p_value=p)
        record = make.record(tests={"loss_ratio": loss})
        measures = tuple(
            m.model_copy(update={"value": balanced}) if m.name == "balanced_accuracy" else m
            for m in record.measures
        )
        return record.model_copy(update={"measures": measures})

    return {
        "baseline": one(3.6, 3.3, 1e-12, 0.825),
        "reductions": one(5.7, 5.0, 1e-9, 0.80),
        "edge": one(1.35, 1.27, 0.03, 0.81),
        "sensr": one(1.04, 1.02, 1.0, 0.765),
    }


def test_p_values_are_corrected_for_the_number_of_tests(four):
    found = compare(four)
    # Holm by hand: 4e-12, 3e-9, 2 × 0.03, 1.
    assert list(found.adjusted.values()) == pytest.approx([4e-12, 3e-9, 0.06, 1.0])
    assert four["edge"].tests["loss_ratio"].rejected
    assert not found.rejected("edge", "loss_ratio")


def test_what_an_audit_holds_back_is_no_evidence_in_a_comparison(four):
    test = four["baseline"].tests["loss_ratio"]
    held = test.model_copy(update={"rejected": False, "held_back": "a coin does as much"})
    mixed = four | {"baseline": four["baseline"].model_copy(update={"tests": {"loss_ratio": held}})}
    found = compare(mixed)
    assert not found.rejected("baseline", "loss_ratio")
    assert found.rejected("reductions", "loss_ratio")
    line = next(line for line in words(found).splitlines() if line.startswith("baseline"))
    assert line.endswith("held")
    assert "held back by its own audit" in comparison_page(found)


def test_the_text_fits_a_terminal_and_names_every_model(four):
    text = words(compare(four))
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in four)
    long = {f"{name} {'x' * 60}": record for name, record in four.items()}
    assert max(map(len, words(compare(long)).splitlines())) <= 80


def test_what_the_audits_do_not_share_is_said(four):
    other = four["edge"].data.model_copy(update={"sha256": "other"})
    mixed = four | {"edge": four["edge"].model_copy(update={"data": other, "trustworthy": False})}
    caveats = compare(mixed).caveats
    first = next(name for name in four if name != "edge")
    pair = f"{first} and edge" if next(iter(four)) != "edge" else f"edge and {first}"
    assert f"The audits of {pair} do not share their people." in caveats
    assert "The audit of edge is not trustworthy." in caveats
    assert compare(four).caveats == ()


def test_the_page_holds_the_plot_and_escapes_names(four):
    evil = {"<script>alert(1)</script>": four["edge"], "other": four["sensr"]}
    page = comparison_page(compare(evil))
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in page
    assert "balanced accuracy 0.810" in page


def test_the_page_keeps_the_case_of_names_of_groups(four):
    kind, both = "counterparts, sex: Frau", {}
    for name in ("edge", "sensr"):
        tests = {kind: four[name].tests["loss_ratio"].model_copy(update={"test": kind})}
        decided = four[name].decided_by.model_copy(update={"test": kind})
        both[name] = four[name].model_copy(update={"tests": tests, "decided_by": decided})
    assert "Counterparts, sex: Frau" in comparison_page(compare(both))


def test_one_result_is_no_comparison(four):
    with pytest.raises(InvalidSample, match="at least two"):
        compare({"edge": four["edge"]})


def test_the_command_reads_prints_and_writes(four, tmp_path):
    paths = [tmp_path / f"{name}.json" for name in four]
    for path, record in zip(paths, four.values(), strict=True):
        path.write_text(record.to_json())
    page = tmp_path / "compare.html"
    done = run("compare", *paths, "--html", page)
    assert done.exit_code == 0, done.stderr
    assert "Holm's" in done.stdout
    assert page.stat().st_size < 1_000_000
    twice = run("compare", paths[0], paths[0])
    assert twice.exit_code == 2
    assert "twice" in twice.stderr


def test_files_of_one_name_are_told_apart_by_their_folder(four, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "result.json").write_text(four["edge"].to_json())
    names = list(read_all([tmp_path / "a" / "result.json", tmp_path / "b" / "result.json"]))
    assert len(set(names)) == 2
