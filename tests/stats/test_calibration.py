"""The quick version of benchmarks/calibration.py, seeded.

Limits are those of the benchmark, widened by three or four Monte-Carlo standard errors of the
limit: a method exactly at its limit fails for one seed in 700, or in 30 000.
"""

import math
import re
import subprocess
import sys

import numpy as np
import pytest

from calibration_lines import designs, learned_metric, loss_ratios


def within(rate, limit, repetitions):
    """Whether a rate is below its limit, but for chance."""
    return rate <= limit + 4 * math.sqrt(limit * (1 - limit) / repetitions)


@pytest.mark.parametrize("name", ["lognormal, σ = 1.5", "1 % harmed", "2.7 % harmed, to the cap"])
def test_hall_keeps_its_size_where_the_papers_z_certifies_too_often(name, rng, monkeypatch):
    monkeypatch.setattr(loss_ratios, "network_ratios", lambda kind: 1 + rng.exponential(size=500))
    (population,) = (p for p in loss_ratios.populations(rng) if p.name == name)
    excess = population.draw(rng, (300, 400))
    hall, z = (loss_ratios._measure(population, excess, i) for i in ("hall", "paper"))
    assert within(hall.size, 0.065, 300)
    assert hall.power >= z.power
    assert hall.upper_miss < z.upper_miss
    if population.name != "1 % harmed":  # whose capped mean is within tolerance whatever the harm
        assert within(hall.false_certification, 0.06, 300)
        assert hall.false_certification <= z.false_certification


QUICK = (
    *("rare_harm", "unequal_designs", "skewed_groups", "flips", "numerical_error"),
    *("heavy_tails", "robust_fairness_interval", "late_drift", "error_rates"),
)
"""Lines that need no data and take seconds, with a promise in every population."""


@pytest.mark.slow
def test_promises_are_kept_where_they_were_attacked(root):
    # In a process of its own, where shapes are not checked: 15 seconds of one core, not 60.
    script = str(root / "benchmarks" / "calibration.py")
    found = subprocess.run(
        [sys.executable, script, "--quick", "--only", *QUICK], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout[-600:] + found.stderr[-600:]
    promises = int(re.search(r"(\d+) rows carry a promise; broken: 0", found.stdout)[1])
    assert promises >= 3 * len(QUICK)


@pytest.mark.slow
def test_weights_and_clusters_are_allowed_for(rng):
    for population, draw in designs.DESIGNS.items():
        samples = [draw(rng) for _ in range(60)]
        # Bounds of error rates are searched for, which takes longer.
        for name, count in (("Hall", 60), ("error rates", 30)):
            row = designs._row(name, population, designs.TESTS[name], samples[:count], False)
            assert within(1 - row.coverage, 0.07, count)


@pytest.mark.slow
@pytest.mark.usefixtures("adult")  # skips where the data cannot be had
def test_refits_cover_the_value_under_the_populations_metric(rng):
    seen = [list(learned_metric.one_sample(rng)) for _ in range(8)]
    for position, value in enumerate(learned_metric.VALUES):
        covered = np.zeros(3)
        for sample in seen:
            model, bounds = sample[position]
            assert model.value == value
            intervals = [b.interval(0.05) for b in bounds]
            covered += [low <= value <= high for low, high in intervals]
        # 93 % of 8, less than 5 once in 1000; without refits it is about 2 %, over 2 as rarely.
        assert covered[2] >= 5
        assert max(covered[:2]) <= 2
