"""Four models of Adult, and their exact flow; trained once and kept in the cache folder."""

import dataclasses
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from likewise.audit_data import AuditData
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.learn_metric import sensitive_subspace
from likewise.methods.metric import ProjectionMetric
from likewise.models import as_model
from likewise.models.base import Model
from likewise.run.executors import block_size, run_blocks
from likewise_studies.datasets import adult, cache_folder

MODELS = ("baseline", "deeper", "logistic", "overfitted")
SPLIT = 98539
WEIGHTS = Path(__file__).resolve().parents[2].parent / "shared/reference/adult_split_98539.npz"
EXACT_STEPS = 16_000


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One model with the people it is audited on."""

    name: str
    module: nn.Sequential
    model: Model
    metric: ProjectionMetric
    x: np.ndarray
    y: np.ndarray

    def ratios(self, x: np.ndarray) -> np.ndarray:
        """Loss ratios of people moved to ``x``."""
        before, after = (self.model.loss(self.model(at), self.y) for at in (self.x, x))
        return after / before

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return people, labels and the free directions, for those who work in torch."""
        x, y, free = map(torch.from_numpy, (self.x, self.y, self.metric.free))
        return x, y, free

    def some(self, n: int) -> tuple["Case", np.ndarray]:
        """Return the same with ``n`` people drawn at random, and who they are."""
        rows = np.random.default_rng(0).choice(len(self.x), n, replace=False)
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows]), rows

    def exact(self) -> np.ndarray:
        """Loss ratios of the flow in float64 with 16,000 steps."""
        digest = hashlib.sha256(f"{self.model.card.fingerprint} {EXACT_STEPS}".encode())
        digest.update(self.metric.free.tobytes() + self.x.tobytes())
        kept = cache_folder() / f"flow-exact-{digest.hexdigest()[:16]}.npy"
        if not kept.exists():
            print(f"solving {self.name} exactly; kept for the next time", file=sys.stderr)
            flow = GradientFlow(solver="exponential_euler", steps=EXACT_STEPS)
            np.save(kept, self.ratios(move(self, flow, threads=2)))
        return np.load(kept)


def move(case: Case, flow: GradientFlow, threads: int = 1) -> np.ndarray:
    """Move everyone, in blocks, as an audit does."""
    bound = flow.bind(case.model, case.metric)
    size = block_size(case.x.shape[1])
    parts = run_blocks(
        lambda rows: bound(case.x[rows], case.y[rows]).x, len(case.x), size=size, threads=threads
    )
    return np.concatenate(parts)


def case(name: str) -> Case:
    """Return one of the models, with the test people of one split of Adult."""
    split = adult(SPLIT)
    authors = np.load(WEIGHTS) if WEIGHTS.exists() else None
    if authors is None:
        metric = sensitive_subspace(split.test, groups=0)
    else:
        metric = ProjectionMetric(authors["basis"])
    if name == "logistic":
        net = _logistic(split.train)
    elif name == "baseline" and authors is not None:
        net = _authors(authors)
    else:
        net = _kept(name, split.train)
    y = (split.test.y == ">50K").astype(np.int64)
    return Case(name, net, as_model(net), metric, split.test.x, y)


def _authors(saved: Mapping[str, np.ndarray]) -> nn.Sequential:
    """Return the paper's own baseline network for this split."""
    net = _network((39, 50, 2)).double()
    with torch.no_grad():
        for layer, number in ((net[0], 1), (net[2], 2)):
            layer.weight.copy_(torch.from_numpy(saved[f"baseline_W{number}"]).T)
            layer.bias.copy_(torch.from_numpy(saved[f"baseline_b{number}"]))
    return net


# Sizes, steps, learning rate, balanced batches.
RECIPES = {
    "baseline": ((39, 50, 2), 8000, 1e-4, True),
    "deeper": ((39, 128, 64, 2), 8000, 1e-4, True),
    "overfitted": ((39, 50, 2), 20_000, 1e-3, False),
}


def _kept(name: str, train: AuditData) -> nn.Sequential:
    sizes, steps, rate, balanced = RECIPES[name]
    path = cache_folder() / f"flow-{name}-{SPLIT}.pt"
    net = _network(sizes)
    if path.exists():
        net.load_state_dict(torch.load(path, weights_only=True))
    else:
        print(f"training {name}; kept for the next time", file=sys.stderr)
        _train(net, train, steps, rate, balanced)
        torch.save(net.state_dict(), path)
    return net.double()


def _network(sizes: tuple[int, ...]) -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for i in range(len(sizes) - 1):
        layer = nn.Linear(sizes[i], sizes[i + 1])
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _train(net: nn.Module, train: AuditData, steps: int, rate: float, balanced: bool) -> None:
    x = torch.from_numpy(train.x).float()
    y = torch.from_numpy((train.y == ">50K").astype(np.int64))
    rng = np.random.default_rng(0)
    classes = [np.flatnonzero(y.numpy() == k) for k in (0, 1)]
    optimiser = torch.optim.Adam(net.parameters(), rate)
    for _ in range(steps):
        pools = classes if balanced else [np.arange(len(y))]
        rows = np.concatenate([rng.choice(pool, 250 // len(pools)) for pool in pools])
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimiser.step()


def _logistic(train: AuditData) -> nn.Sequential:
    fitted = LogisticRegression(max_iter=2000).fit(train.x, train.y == ">50K")
    layer = nn.Linear(39, 2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[1] = torch.from_numpy(fitted.coef_[0])
        layer.bias.copy_(torch.tensor([0.0, fitted.intercept_[0]]))
    return nn.Sequential(layer)
