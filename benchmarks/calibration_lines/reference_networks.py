"""The paper's networks on Adult: both standard errors, and the verdicts that follow.

Needs the authors' weights in ``shared/reference`` beside the repository; says so without them.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibration_lines import ALPHA, DELTA, Effort, Row, line
from likewise.audit_data import AuditData
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.jackknife import groups_between, unit_hashes, with_jackknife
from likewise.methods.learn_metric import sensitive_subspace
from likewise.methods.metric import ProjectionMetric
from likewise.methods.observe import observe
from likewise.methods.reach import Reach
from likewise.methods.unfair_map import UnfairMap
from likewise.models import as_model
from likewise.models.base import Model
from likewise.outcomes import Outcomes
from likewise.stats.loss_ratio import LossRatioTest
from likewise_studies.datasets import adult

WEIGHTS = Path(__file__).resolve().parents[2].parent / "shared/reference/adult_split_98539.npz"
MAPS: dict[str, UnfairMap] = {"flow, T = 5": GradientFlow(steps=20), "reach": Reach(budget=33)}


@line
def reference_networks(effort: Effort, rng: np.random.Generator) -> Iterator[Row]:
    """Audit three networks with a metric that is learned from the audited people."""
    if not WEIGHTS.exists() or effort == Effort.quick():
        note = "left out: minutes long" if WEIGHTS.exists() else "shared/reference is not here"
        yield Row("none", "the authors' networks", 0, 0, note=note)
        return
    people = adult(98539).test
    metric = sensitive_subspace(people, placebos=0)
    for name in ("baseline", "project", "sensr"):
        model = as_model(network(name), classes=("<=50K", ">50K"))
        for map_name, map in MAPS.items():
            yield _row(f"{name}, {map_name}", model, people, metric, map)


def network(name: str) -> object:
    """Return one of the authors' networks as a torch module."""
    import torch

    torch.set_num_threads(1)
    saved = {
        key.removeprefix(f"{name}_"): torch.from_numpy(value.astype(np.float64))
        for key, value in np.load(WEIGHTS).items()
        if key.startswith(f"{name}_")
    }
    layers: list[torch.nn.Module] = []
    if "proj" in saved:
        d = saved["proj"].shape[1]
        removing = torch.nn.Linear(d, d, bias=False, dtype=torch.float64)
        removing.weight.data = torch.eye(d, dtype=torch.float64) - saved["proj"].T @ saved["proj"]
        layers.append(removing)
    for number in (1, 2):
        weight, bias = saved[f"W{number}"], saved[f"b{number}"]
        layer = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        layer.weight.data, layer.bias.data = weight.T.contiguous(), bias
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def moved(model: Model, people: AuditData, metric: ProjectionMetric, map: UnfairMap) -> Outcomes:
    """Return the outcomes of moving everyone."""
    y, _ = model.targets(people.y)
    return observe(model, map.bind(model, metric), metric, people.x, y).outcomes


def _row(
    name: str, model: Model, people: AuditData, metric: ProjectionMetric, map: UnfairMap
) -> Row:
    test = LossRatioTest(DELTA, ALPHA)
    evidence = test.evidence_of(moved(model, people, metric, map))
    groups = groups_between(unit_hashes([people]), metric.cuts)
    replicates = [
        test.evidence_of(moved(model, people.take(groups != g), refit, map))
        for g, refit in enumerate(metric.refits)
    ]
    fixed, refitted = (
        e.result(DELTA, ALPHA) for e in (evidence, with_jackknife(evidence, replicates))
    )
    note = (
        f"S {fixed.estimate:.3f}: as given ± {fixed.std_error:.3f}, {fixed.outcome}; "
        f"refitted ± {refitted.std_error:.3f} [{refitted.lower_bound:.2f}, "
        f"{refitted.upper_bound:.2f}], {refitted.outcome}"
    )
    return Row(name, "Adult, split 98539", fixed.n, 0, note=note)
