"""Plots for papers and slides."""

import matplotlib as mpl
import pytest

import sample_records as samples
from likewise.errors import InvalidSample
from likewise.report.plots import Plots

mpl.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_one_figure_shows_every_comparison_with_its_limits():
    ax = Plots(samples.evidence())()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert (labels[0], len(labels)) == ("sex: Female → Male", 4)
    assert ax.get_title(loc="left").startswith("Evidence of unfairness by sex")
    assert "95 % CI" in ax.get_xlabel()
    places = [line.get_xdata() for line in ax.lines]
    verticals = {round(x[0], 3) for x in places if len(set(x)) == 1}
    assert {0.8, 1.0, 1.25} <= verticals
    ends = [tuple(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-"]
    assert samples.evidence().matched_pairs.comparisons[0].interval in ends


def test_every_sample_can_be_drawn_and_saved(sample, tmp_path):
    Plots(sample)().figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_balance_and_people_are_drawn_on_given_axes():
    _, axes = plt.subplots(3)
    pairs, flow = Plots(samples.evidence()), Plots(samples.flow())
    assert pairs.balance(axes[0]) is axes[0]
    assert axes[0].get_yticklabels()[0].get_text() == "age"
    assert pairs.people(axes[1]).get_ylabel() == "people"
    assert flow.people(axes[2]).get_xscale() == "log"
    assert all(ax.get_title(loc="left") for ax in axes.flat)
    for name in ("balance", "people"):
        with pytest.raises(InvalidSample, match="This result holds no "):
            getattr(Plots(samples.inconclusive()), name)()
