"""Whoever looks a row up finds the person it stands for."""

import numpy as np
import pandas as pd
import pytest
import torch

import likewise
from likewise import read

# The network is as it was drawn.
pytestmark = pytest.mark.filterwarnings("ignore:The model is no better than a constant")

GONE = [0, 1, 2, 40, 119]


def test_rows_are_those_of_the_table_though_some_were_left_out():
    rng = np.random.default_rng(5)
    group, b = rng.integers(0, 2, 120), rng.normal(size=120)
    a = group + rng.normal(size=120)
    frame = pd.DataFrame({"group": group, "a": a, "b": b, "y": (a + b > 0.5).astype(int)})
    frame.loc[GONE, "b"] = np.nan
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    people = read(frame, label="y", protected="group", drop_missing=True)
    result = likewise.audit(model, people, checks="core")
    kept = np.setdiff1d(np.arange(120), GONE)
    assert result.outcomes.row.tolist() == kept.tolist()
    assert result.outcomes.y.tolist() == frame.y[kept].tolist()
    for case in result.record.perturbed:
        assert case.before == pytest.approx(frame.loc[case.row, ["a", "b"]].to_dict())
        assert case.label == str(frame.y[case.row])
    top = result.record.perturbed[0]
    assert f"Row {top.row}" in result.to_html()
