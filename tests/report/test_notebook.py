"""What a notebook shows, the plots, and the check for one's own test suite."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from helpers import people
from likewise.errors import InvalidSample
from likewise.report.html import result_snippet
from likewise.report.plots import Plots

mpl.use("Agg")


def test_a_notebook_shows_the_verdict_with_its_picture(record, hostile):
    shown = result_snippet(record)
    assert "Evidence of unfairness" in shown
    assert "<svg" in shown
    assert "<script" not in result_snippet(hostile)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("verdict", "ratio after / before"),
        ("groups", "mean loss ratio"),
        ("sensitivity", "ratio after / before"),
        ("features", "mean distance moved"),
        ("ratios", "loss ratio"),
        ("horizons", "T"),
    ],
)
def test_plots_return_axes_and_draw_on_those_given(record, bare, name, label):
    from matplotlib import pyplot

    ax = getattr(Plots(record), name)()
    assert ax.get_xlabel() == label
    assert ax.has_data()
    ax.figure.canvas.draw()
    _, own = pyplot.subplots()
    assert getattr(Plots(record), name)(ax=own) is own
    pyplot.close("all")
    if name != "verdict":
        with pytest.raises(InvalidSample, match="holds no"):
            getattr(Plots(bare), name)()


def test_hostile_names_are_plotted_as_text(hostile):
    from matplotlib import pyplot

    dollars = hostile.groups[0].model_copy(update={"trait": "$x$", "group": "$\\frac{1}"})
    ax = Plots(hostile.model_copy(update={"groups": (dollars,)})).groups()
    ax.figure.canvas.draw()
    assert "frac" in ax.get_yticklabels()[0].get_text()
    pyplot.close("all")


def model(weights):
    fitted = LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])
    fitted.coef_, fitted.intercept_ = np.array([weights]), np.zeros(1)
    return fitted


SETTINGS = likewise.Settings(checks="core")


def test_the_check_passes_where_there_is_no_evidence():
    result = likewise.assert_no_evidence_of_unfairness(
        model([0.0, 0.0, 2.0, 0.0]), people(), settings=SETTINGS
    )
    assert result.outcome != "evidence_of_unfairness"


def test_the_check_fails_with_the_summary():
    with pytest.raises(AssertionError) as caught:
        likewise.assert_no_evidence_of_unfairness(
            model([2.0, 2.0, 0.0, 0.0]),
            people(),
            metric=likewise.ignoring(np.eye(4)[:2]),
            settings=SETTINGS,
        )
    said = str(caught.value)
    assert "Individual fairness audit" in said
    assert "Evidence of unfairness" in said


def test_outcomes_show_their_first_rows():
    outcomes = likewise.audit(model([0.0, 0.0, 2.0, 0.0]), people(), settings=SETTINGS).outcomes
    shown = outcomes._repr_html_()
    assert "Outcomes of 300 people (300 moved); traits: group" in shown
    assert shown.count("<tr>") == 6
