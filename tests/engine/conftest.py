"""A small world on disk: people in several files, a saved network, a metric."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import likewise
from likewise.settings import Settings

FEATURES = ("a", "b", "c", "d")


@dataclasses.dataclass(frozen=True)
class World:
    """Where things are, and what goes with them."""

    folder: Path
    metric: likewise.ProjectionMetric
    settings: Settings

    @property
    def model(self) -> str:
        return str(self.folder / "model.safetensors")

    @property
    def files(self) -> list[str]:
        return sorted(str(path) for path in self.folder.glob("part-*.parquet"))

    def read(self, settings: Settings | None = None) -> likewise.AuditData:
        columns = (settings or self.settings).columns
        return likewise.read(
            self.files,
            label="y",
            protected=columns.protected,
            weight=columns.weight,
            cluster=columns.cluster,
            ignore=columns.ignore,
        )


def _make_world(folder: Path, n: int = 3000, classes: int = 2) -> World:
    """Write people (in files of odd sizes), a network and a metric."""
    rng = np.random.default_rng(11)
    group = rng.choice(["red", "green", "blue"], n, p=[0.6, 0.35, 0.05])
    age = rng.integers(18, 80, n)
    x = rng.normal(size=(n, 4)) + np.outer(group == "red", [1.0, 0.5, 0, 0])
    score = x @ [1.0, 1.0, 0.5, 0.0] + 0.7 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    missing = rng.random(n) < 0.02
    columns = dict(zip(FEATURES, x.T, strict=True))
    columns |= {
        "group": pa.array(group, mask=missing),
        "age": age,
        "y": y,
        "w": rng.uniform(0.5, 2.0, n),
        "household": rng.integers(0, n // 3, n),
    }
    table = pa.table(columns)
    cuts = [0, n // 5, n // 5 + 7, n // 2, n]
    for k, (begin, end) in enumerate(itertools.pairwise(cuts)):
        pq.write_table(
            table.slice(begin, end - begin), folder / f"part-{k}.parquet", row_group_size=501
        )
    torch.manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, max(2, classes))
    )
    with torch.no_grad():  # a network that has learned something
        net[0].weight += torch.outer(torch.linspace(0.3, 1.2, 8), torch.tensor([1, 1, 0.5, 0.1]))
        net[2].weight += torch.linspace(-0.5, 0.5, max(2, classes))[:, None]
    likewise.save_model(net, folder / "model.safetensors", classes=tuple(range(classes)))
    metric = likewise.ignoring([[1.0, 0.5, 0.0, 0.0]])
    settings = Settings(checks="core").changed(
        columns__label="y",
        columns__protected=("group", "age"),
        columns__ignore=("w", "household"),
        method={"name": "gradient_flow", "time": 1.0, "steps": 4},
    )
    return World(folder, metric, settings)


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    return _make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return _make_world(tmp_path_factory.mktemp("world"))
