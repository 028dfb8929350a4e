"""Audits of version 0.1, kept with their models, people and metrics: later code finds the same.

Each folder holds a model, people, a metric and ``case.json``: the settings of one audit and the
numbers that version 0.1 found. README.md says how each was made, and lists every number that has
changed since, with its reason.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from jaxtyping import Float
from scipy.special import expit

import likewise
from helpers import authors_network
from likewise.audit_data import AuditData
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.observe import observe
from likewise.models.base import Model, ModelCard
from likewise.record import Record

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/case.json"))

EXACT = 1e-12
"""For the paper's statistics: what is left is the order of summation."""

ALLOWING, WIDENED = ("clusters_weights", "streamed"), ("T_n", "lower_bound", "upper_bound")
"""Audits whose bounds allow for the numerical error, which is stated smaller than it was."""


def audited(model: Any, people: Any, metric: Any, case: Mapping[str, Any]) -> Record:
    """Audit by the public function; the only place that knows how it is called."""
    columns = {
        "label": case.get("label"),
        "protected": case.get("protected", ()),
        "weight": case.get("weights"),
        "cluster": case.get("clusters"),
    }
    settings = likewise.Settings.model_validate({**case["settings"], "columns": columns})
    if not isinstance(people, list):  # arrays, which are taken as they are; paths are streamed
        roles = {case["label"], *case["protected"], case.get("weights"), case.get("clusters")}
        names = [name for name in people if name not in roles]
        people = AuditData.from_arrays(
            np.column_stack([people[name] for name in names]),
            people[case["label"]],
            {name: people[name] for name in case["protected"]},
            features=names,
            weight=people.get(case.get("weights")),
            cluster=people.get(case.get("clusters")),
        )
    result = likewise.audit(
        model, people, metric=metric, settings=settings, executor=likewise.executors.Inline()
    )
    return result.record


def ratios(model: Model, metric: Any, x: Any, y: Any) -> Float[np.ndarray, " n"]:
    """Return everyone's ratio by the flow of the paper's simulation."""
    bound = GradientFlow.paper_simulation().bind(model, metric)
    return observe(model, bound, metric, x, y).outcomes.ratio


def numbers(record: Record) -> dict[str, Any]:
    """Return what is compared: every test, the groups, how many moved, and the stated error."""
    of_test = ("S_n", "V_n", "T_n", "p_value", "interval", "lower_bound", "upper_bound", "n")
    of_group = ("n", "estimate", "std_error", "error_rate_before", "error_rate_after")
    tests = {
        name: {key: getattr(test, key) for key in of_test} for name, test in record.tests.items()
    }
    groups = {
        f"{group.attribute}={group.group}": {
            **{key: getattr(group, key) for key in of_group},
            "interval": [group.lower, group.upper],
        }
        for group in record.groups
    }
    error = 0.0 if record.numerical_error is None else record.numerical_error.error_bound
    return {"tests": tests, "groups": groups, "rows": dict(record.rows), "error": error}


def recomputed(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a kept case, and its numbers as they are found now."""
    folder = HERE / name
    case = json.loads((folder / "case.json").read_text())
    paths = sorted(folder.glob("people*.parquet"))
    table = pq.read_table(paths[0])
    people: Any = {n: np.asarray(table[n].to_pylist()) for n in table.column_names}
    if len(paths) > 1:
        people = [str(path) for path in paths]
    model = str(next(folder.glob("model.*")))
    metric = likewise.metrics.load_metric(folder / "metric.safetensors")
    return case, numbers(audited(model, people, metric, case))


def differences(found: Any, kept: Any, rtol: float, atol: float, place: str = "") -> list[str]:
    """Return the numbers that are not equal, by where they stand."""
    if isinstance(kept, dict):
        assert set(found) == set(kept), place
        return [
            line
            for key in kept
            for line in differences(found[key], kept[key], rtol, atol, f"{place}/{key}")
        ]
    a, b = (np.asarray(value, dtype=np.float64) for value in (found, kept))
    if a.shape == b.shape and np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return []
    return [f"{place}: {found} now, {kept} kept"]


@pytest.mark.parametrize("name", CASES)
def test_an_audit_of_version_0_1_gives_the_same_numbers(name: str) -> None:
    case, found = recomputed(name)
    kept = case["numbers"]
    # Each of the two may be off by as much as it says itself; p-values in standard errors.
    off = found.pop("error") + kept.pop("error")
    assert math.isfinite(off)
    if case["exact"]:  # the same steps, whatever they are off
        if name in ALLOWING:
            bounds = [
                {test: [own.pop(key) for key in WIDENED] for test, own in numbers["tests"].items()}
                for numbers in (found, kept)
            ]
            assert not differences(*bounds, 0.0, off)
        assert not differences(found, kept, EXACT, EXACT)
        return
    smallest = min(test["V_n"] / math.sqrt(test["n"]) for test in kept["tests"].values())
    p_values = [
        [test.pop("p_value") for test in tests.values()]
        for tests in (found["tests"], kept["tests"])
    ]
    assert not differences(found, kept, 1e-9, off)
    np.testing.assert_allclose(*p_values, rtol=0, atol=off / smallest + 1e-9)


@pytest.mark.parametrize("name", ["baseline", "project", "sensr"])
def test_the_reference_networks_give_the_same_numbers(name: str, reference: Path) -> None:
    """The authors' networks on the audited people of the demo; their files are not kept here."""
    with np.load(reference / "adult_split_98539.npz") as arrays:
        weights = {key: arrays[key].astype(np.float64) for key in arrays.files}
    case = json.loads((HERE / "demo_paper" / "case.json").read_text())
    table = pq.read_table(HERE / "demo_paper" / "people.parquet")
    people = {n: np.asarray(table[n].to_pylist()) for n in table.column_names}
    people["label"] = (people["label"] == ">50K").astype(np.int64)
    metric = likewise.metrics.ProjectionMetric(weights["basis"])
    found = numbers(audited(authors_network(weights, name), people, metric, case))
    kept = json.loads((HERE / "reference.json").read_text())[name]
    del found["error"], kept["error"]
    assert not differences(found, kept, EXACT, EXACT)


@dataclasses.dataclass(frozen=True, eq=False)
class RowsOfLinearModels(Model):
    """Logistic models, one for each row, so that a whole grid is audited in one run."""

    theta: Float[np.ndarray, "n 2"]
    bias: Float[np.ndarray, " n"]
    card = ModelCard("linear", "logits", (0, 1), 2)

    def __call__(self, x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 1"]:
        return ((x * self.theta).sum(1) + self.bias)[:, None]

    def outputs_and_pullback(self, x: Float[np.ndarray, "n 2"]) -> Any:
        return self(x), lambda g: g * self.theta


def simulation_grid(degrees: float) -> Float[np.ndarray, "t t"]:
    """Return T_n (19) of 121 models under a metric whose free direction is turned."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2)) @ np.diag([1.0, 0.5]) + np.repeat([[-1, 0], [1, 0]], 200, 0)
    y = (rng.random(400) < expit(2 * x[:, 0] + x[:, 1])).astype(np.int64)
    steps = np.linspace(-4, 4, 11)
    theta = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    angle = math.radians(degrees)
    normal = np.array([-math.sin(angle), math.cos(angle)])
    metric = likewise.metrics.QuadraticMetric(np.outer(normal, normal))
    each = [np.repeat(values, len(x), axis=0) for values in (theta, 0.1 * theta[:, 0])]
    model = RowsOfLinearModels(each[0], each[1])
    ratio = ratios(model, metric, np.tile(x, (len(theta), 1)), np.tile(y, len(theta)))
    ratio = ratio.reshape(len(theta), len(x))
    spread = ratio.std(axis=1, ddof=1) / math.sqrt(len(x))
    return (ratio.mean(axis=1) - 1.645 * spread).reshape(11, 11)


@pytest.mark.parametrize("degrees", [0, 10])
def test_the_simulation_grid_is_the_same(degrees: int) -> None:
    kept = json.loads((HERE / "simulation.json").read_text())[str(degrees)]
    np.testing.assert_allclose(simulation_grid(degrees), kept, rtol=1e-9, atol=1e-9)
