"""The network, its batches and its progress bar."""

import math

import numpy as np
import torch

from likewise.training.networks import batches, new_network
from likewise.training.sklearn_compat import progress_steps


def test_initial_weights_are_glorot_uniform(rng):
    first, _, last = new_network(30, 200, 2, rng, bias=0.1)

    for layer in (first, last):
        limit = math.sqrt(6 / sum(layer.weight.shape))
        assert layer.weight.abs().max() <= limit
        assert layer.bias.eq(0.1).all()
    # Uniform on ±a has standard deviation a/√3; 6000 draws know it to about 1 %.
    assert abs(first.weight.std() - math.sqrt(6 / 230) / math.sqrt(3)) < 0.004


def test_a_balanced_batch_holds_equally_many_of_each_class(rng):
    y = np.repeat([0, 1, 2], [500, 40, 3])

    drawn = list(batches(y, 90, 300, rng, balanced=True))

    assert len(drawn) == 300
    counts = np.array([np.bincount(y[rows.numpy()], minlength=3) for rows in drawn])
    assert (counts == 30).all()


def test_an_unbalanced_batch_looks_like_the_sample(rng):
    y = np.repeat([0, 1], [900, 100])

    drawn = torch.stack(list(batches(y, 100, 400, rng, balanced=False))).numpy()

    # 40 000 draws at a rate of .1: six standard errors are .009.
    assert abs(y[drawn].mean() - 0.1) < 0.009


def test_the_progress_bar_is_shown_on_request_and_stays_off_stdout(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    assert list(progress_steps(range(5), 5, "quiet", show=False)) == list(range(5))
    assert capsys.readouterr().err == ""

    assert list(progress_steps(range(5), 5, "shown", show=True)) == list(range(5))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "shown" in shown.err
