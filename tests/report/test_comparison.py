"""Models compared: what is shown first, every ratio below, as text and as a page."""

import pytest

import sample_records as samples
from likewise._compare import Comparison, Difference, ModelComparison
from likewise.report.comparison import comparison_page, comparison_text


def difference(what, first, second, p_value, **about):
    ends = (second - first - 0.1, second - first + 0.1)
    return Difference(what, first, second, 0.05, 19.0, ends, p_value, **about)


@pytest.fixture
def compared():
    about = {"attribute": "sex", "group": "Female", "other": "Male"}
    lower = difference("deviation", 0.79, 0.03, 0.001, **about)
    errors = difference("error rate", 0.15, 0.16, 0.4)
    pair = ModelComparison("old", "new", (lower,), (errors,), 0.05)
    return Comparison({"old": samples.evidence(), "new": samples.within()}, (pair,), 0.05)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_shown_comes_first_and_all_models_stand_together(compared, width):
    said = comparison_text(compared, width)
    lines = said.splitlines()
    assert max(map(len, lines)) <= width
    first = " ".join(said.split("\n\n")[1].split())
    assert first == (
        "new differs less than old for Female → Male: |log ratio| 0.790 → 0.0300 (difference "
        "−0.760, 95 % CI −0.860 to −0.660, p 0.001). No difference shown in error rate: 15.0 % → "
        "16.0 % (difference 1.0 points, 95 % CI −9.0 points to 11.0 points, p 0.4)."
    )
    assert str(compared) == comparison_text(compared, 80)
    place = lines.index("sex: Female → Male")
    assert [line.split()[0] for line in lines[place + 1 : place + 3]] == ["old", "new"]
    assert lines[place + 1].endswith("evidence")
    assert lines[place + 2].endswith("within tolerance")


def test_a_page_shows_every_ratio(compared):
    page = comparison_page(compared)
    assert page.count("<circle") == 6
    assert "new differs less than old" in page
    assert repr(compared) == "<Comparison of old, new>"
    assert repr(compared.records["new"]).startswith("<Record within_tolerance: No difference")
    assert "new differs less than old" in compared._repr_html_()
    # Hostile names stay text.
    records = {samples.HOSTILE: samples.hostile(), "b": samples.hostile()}
    page = comparison_page(Comparison(records, (), 0.05))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
