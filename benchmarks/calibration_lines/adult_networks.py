"""Loss ratios of two networks on Adult, audited with the paper's settings; made once and kept."""

import functools

import numpy as np

from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.learn_metric import sensitive_subspace
from likewise.methods.observe import observe
from likewise.models import as_model
from likewise.training import BaselineClassifier
from likewise_studies.datasets import adult, cache_folder

NETWORKS = {
    "baseline": BaselineClassifier(random_state=0),
    # Trained far too long on unbalanced batches: sure of itself, and badly skewed.
    "overfitted": BaselineClassifier(
        learning_rate=1e-3, max_iter=20_000, balanced=False, random_state=0
    ),
}
STEPS = {"baseline": 16, "overfitted": 32}
VERSION = 1
"""Counted up when networks or audit change, so that kept ratios are made anew."""


@functools.cache
def network_ratios(kind: str) -> np.ndarray:
    """Return the loss ratios of the test split's 9045 people."""
    kept = cache_folder() / f"calibration-{kind}-{VERSION}.npy"
    if kept.exists():
        return np.load(kept)
    import torch

    torch.set_num_threads(1)
    split = adult()
    network = NETWORKS[kind].fit(split.train.x, split.train.y)
    model = as_model(network)
    metric = sensitive_subspace(split.test, groups=0, controls=0)
    flow = GradientFlow(steps=STEPS[kind])
    y = (split.test.y == ">50K").astype(np.int64)
    ratio = observe(model, flow.bind(model, metric), metric, split.test.x, y)
    values = ratio.outcomes.ratio
    np.save(kept, values)
    return values
