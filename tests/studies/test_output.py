"""Tables, figures and pages."""

import itertools
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len

from likewise_studies import figures, summary
from likewise_studies.command import write
from likewise_studies.published import METHODS, NOTES
from likewise_studies.reproduction import Reproduction
from likewise_studies.secondary import PairedAudit, PermutationTest
from likewise_studies.stopping_time import times_table
from likewise_studies.study import Inference, Row
from likewise_studies.text_tables import Table

PAIRED = PairedAudit({"sex": 1.9, "race": 1.04}, "Female → Male", 1.9, 1.48, 2.3, "evidence")


def made_up_rows(splits: int = 3) -> list[Row]:
    rng = np.random.default_rng(0)
    inferred = Inference(1.4, 0.01, 0.2, 1.1, 1.9, "inconclusive")
    others = {
        **{"study": "adult", "n": 100, "accuracy": 0.85, "aod_sex": -0.1, "aod_race": 0.05},
        **{"S_n": 2.0, "S_tilde_n": 1.5, "T_tilde_n_rejected": True},
        **{"flow": inferred, "reach": inferred, "paired": PAIRED},
        **{"shuffled": PermutationTest(100, 2.5, (1.1, 123.45), 1, 0.05)},
        **{"train_seconds": 1.0, "audit_seconds": 1.0},
    }
    return [
        Row(
            method=method,
            split=split,
            balanced_accuracy=rng.uniform(0.7, 0.8),
            T_n=rng.uniform(1, 30),
            T_n_rejected=bool(split % 2),
            T_tilde_n=rng.uniform(1, 3),
            **others,
        )
        for split, method in itertools.product(range(splits), METHODS)
    ]


def made_up_paths() -> list[dict[str, object]]:
    times = (0.5, 1.0, 2.0, 5.0)
    path = {
        **{"split": 0, "n": 100, "times": times, "error_in_se": 0.01},
        **{"S_n": (1.1, 1.2, 1.6, 3.0), "T_n": (1.09, 1.19, 1.5, 2.7)},
        **{"lower": (1.08, 1.18, 1.45, 2.6), "upper": (1.12, 1.22, 1.7, 3.5)},
    }
    return [{"method": method, **path} for method in METHODS]


def test_a_table_is_aligned_although_a_tilde_takes_no_room():
    text = Table("title", ("", "T̃_n", "x"), (("a", "1", "2"), ("bb", "10", "20"))).text()
    _, rule, head, _, first, second, _ = text.splitlines()
    assert {cell_len(line) for line in (rule, head, first, second)} == {2 + 2 + 3 + 2 + 2}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        # Table 1, Baseline; and the authors' Baseline at 500 steps.
        (summary.paper_table("adult", "Adult", made_up_rows()), ["3.68 ± 2.16", "2.26 ± 0.35"]),
        (summary.inference_table("Adult", made_up_rows()), ["s.e. refitted", "0.200"]),
        # p ≤ .05 in every split, and one of two permutations rejected.
        (summary.shuffled_table("Adult", made_up_rows()), ["1.10 – 123.45", "3 of 3", "0.50"]),
        (summary.paired_table("COMPAS", made_up_rows()), ["CI low", "1.480"]),
        (times_table(made_up_paths()), ["above δ"]),
    ],
    ids=["paper", "inference", "permuted", "pairs", "times"],
)
def test_tables_fit_eighty_columns_and_show_what_they_are_for(table, words):
    text = table.text()
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    "figure",
    [
        figures.split_dots(made_up_rows(), summary.BESIDE["adult"]),
        figures.split_dots(made_up_rows(1), {}),
        figures.time_paths(made_up_paths()),
        figures.heat_maps({"corrected": {0: np.linspace(1, 3, 441).reshape(21, 21)}}),
    ],
    ids=["adult", "one split", "times", "heat maps"],
)
def test_figures_are_written_small_and_as_drawings_too(figure, tmp_path):
    png, svg = figures.save(figure, tmp_path, "figure")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size < 300_000
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    words = "".join(ElementTree.parse(svg).getroot().itertext())
    assert "T" in words  # letters stay letters, to be searched and edited


def test_a_reproduction_is_written_as_table_json_figures_and_page(tmp_path):
    rows = made_up_rows()
    found = Reproduction(
        study="adult",
        title="Adult",
        tables=(summary.paper_table("adult", "Adult", rows),),
        results=summary.study_json("adult", rows),
        figures={"statistics": figures.split_dots(rows, {})},
    )
    written = {path.name for path in write(found, tmp_path)}
    assert written == {"statistics.png", "statistics.svg", "results.json", "page.md"}
    results = json.loads((tmp_path / "results.json").read_text())
    assert [(r["method"], r["split"]) for r in results["rows"]] == [
        (row.method, row.split) for row in rows
    ]
    values = [row.T_n for row in rows if row.method == "SenSR"]
    known = results["means"]["SenSR"]["T_n"]
    assert known["mean"] == pytest.approx(np.mean(values))
    assert known["sd"] == pytest.approx(np.std(values, ddof=1))
    assert results["published"]["SenSR"]["T_n"]["mean"] == 1.021
    assert results["authors_models"]["SenSR"]["T_n"]["mean"] == 1.040
    page = (tmp_path / "page.md").read_text()
    assert "![statistics](statistics.png)" in page
    assert all(note in page for note in NOTES["adult"])
