"""The simulated people of Section 4.1 and Appendix E.1."""

import dataclasses

import numpy as np

from likewise.audit_data import AuditData


def simulation(n: int = 400, *, seed: int = 1) -> AuditData:
    r"""Return people of two groups who differ in the first coordinate only.

    A person of the majority (probability 0.9) is drawn around :math:`\mu = (-1.5, 0)`, one of the
    minority around :math:`(1.5, 0)`, with standard deviation 0.25; the label is
    :math:`1\{w^\top (x - \mu) + \varepsilon > 0\}`, where :math:`w = (\mp 0.2, -0.01)` and
    :math:`\varepsilon` has standard deviation 0.01. (Appendix E.1 prints it without :math:`\mu`.)
    The first coordinate is what a fair model must not look at; ``group`` is ``majority`` or
    ``minority``.

    Parameters
    ----------
    n, seed
        How many people, and the seed of the legacy generator; by default the authors' own.
    """
    # The authors' people can be drawn only from NumPy's legacy generator, in this order.
    random = np.random.RandomState(seed)
    noise = random.normal(scale=0.25, size=(n, 2))
    majority = random.choice([0, 1], size=n, p=[0.1, 0.9]) == 1
    side = np.where(majority, -1.0, 1.0)
    score = 0.2 * side * noise[:, 0] - 0.01 * noise[:, 1] + random.normal(scale=0.01, size=n)
    data = AuditData.from_arrays(
        noise + np.stack([1.5 * side, np.zeros(n)], axis=1),
        (score > 0).astype(np.int64),
        {"group": np.where(majority, "majority", "minority").astype(object)},
        features=("x1", "x2"),
    )
    return dataclasses.replace(data, source=f"the paper's simulation, seed {seed}")
