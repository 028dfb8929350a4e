"""Does the certificate of the flow tell the truth? Claims beside a far finer solution.

    python benchmarks/certificate.py [--audits 100] [--seed 0] [--only MODEL] [--json FILE]

Audits are drawn at random over networks with one to three hidden layers (ReLU, tanh, GELU, SIREN,
LayerNorm), weights × 1 and × 10, one narrow hidden layer, one of 1000 trained to the end on 50
people, logistic models with a wild field for two per cent of people, λ 50, 500 and 5000, T 5 and
20, 50 to 10 000 people, people's weights up to 30, two and three classes, and regressions. Every
claim is compared with the flow of everybody, solved with at least 20 times as many steps, and some
of them four times finer still. Ends with exit code 1 if fewer than 98 of 100 claims hold.
"""

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn

from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ignoring
from likewise.methods.numerical_error import FlowSample, choose_steps, fine_flow, fine_steps
from likewise.models import as_model

FEATURES = 8
NARROW = 14
"""Units of a hidden layer with few kinks."""

GOAL = 0.98
FINER, MOST_STEPS = 20, 4000
FINEST, MOST_FINEST, CHECKED = 4, 16_000, 150
"""The steps of the truth, beside those of the audit, and at most; beside these, the steps of some
people, at most, and how many people that is."""

SIZES, OFTEN = (50, 200, 1000, 3000, 10_000), (0.2, 0.2, 0.35, 0.15, 0.1)
MODELS = (
    *("relu", "relu", "narrow", "tanh", "gelu", "siren", "layernorm"),
    *("gated 3", "gated 25", "overfitted"),
)


class Sine(nn.Module):
    """The activation of SIREN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sine."""
        return torch.sin(x)


class Gated(nn.Module):
    """A logistic model plus a fast wave for the few people beyond a gate."""

    def __init__(self, frequency: float) -> None:
        super().__init__()
        self.linear, self.frequency = nn.Linear(FEATURES, 1), frequency

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return two logits."""
        gate = torch.sigmoid(40 * (x[:, -1] - 2.05))
        wave = 4 * gate * torch.sin(self.frequency * x[:, 0])
        out = self.linear(x)[:, 0] + wave
        return torch.stack([torch.zeros_like(out), out], 1)


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "siren": Sine}


@dataclasses.dataclass(frozen=True)
class Audit:
    """One audit to be certified."""

    model: str
    layers: int
    times: float
    lam: float
    time: float
    n: int
    heaviest: float
    outputs: int
    seed: int

    @classmethod
    def drawn(cls, rng: np.random.Generator, largest: int, only: str | None = None) -> "Audit":
        """Draw an audit of up to ``largest`` people."""

        def one(*of: Any) -> Any:
            return of[rng.integers(len(of))]

        model = only or one(*MODELS)
        gated, overfitted = model.startswith("gated"), model == "overfitted"
        single = overfitted or model == "narrow"
        n = min(int(rng.choice(SIZES, p=OFTEN)), largest)
        return cls(
            model=model,
            layers=1 if single else one(1, 2, 3),
            times=1.0 if gated or overfitted else one(1.0, 1.0, 10.0),
            lam=one(50.0, 500.0, 5000.0),
            time=one(5.0, 5.0, 20.0),
            n=50 if overfitted else min(max(1000, n), largest) if gated else n,
            heaviest=one(1.0, 1.0, 30.0),
            outputs=2 if gated or single else one(1, 2, 2, 3),
            seed=int(rng.integers(2**31)),
        )

    def network(self) -> nn.Module:
        """Return the model, drawn at random."""
        torch.manual_seed(self.seed)
        if self.model.startswith("gated"):
            return Gated(float(self.model.split()[1])).double()
        parts: list[nn.Module] = []
        width, hidden = FEATURES, NARROW if self.model == "narrow" else 24
        for _ in range(self.layers):
            parts.append(nn.Linear(width, hidden))
            if self.model == "layernorm":
                parts.append(nn.LayerNorm(hidden))
            parts.append(ACTIVATIONS.get(self.model, nn.ReLU)())
            width = hidden
        net = nn.Sequential(*parts, nn.Linear(width, self.outputs)).double()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(2 * self.times ** (1 / (self.layers + 1)))
        return net

    def run(self) -> dict[str, Any]:
        """Certify, and compare with what is true."""
        rng = np.random.default_rng(self.seed)
        x = rng.normal(size=(self.n, FEATURES))
        net, y = self.network(), rng.integers(0, max(self.outputs, 2), size=self.n)
        if self.model == "overfitted":
            net = overfitted(x, y, self.seed)
        model = as_model(net, output="values" if self.outputs == 1 else "logits")
        if self.outputs == 1:
            y = model(x)[:, 0] + rng.normal(size=self.n)
        free = np.zeros((2, FEATURES))
        free[0, 0], free[1, 1:-1] = 1.0, rng.normal(size=FEATURES - 2)
        metric, weight = ignoring(free), rng.uniform(1, self.heaviest, size=self.n)
        began = time.process_time()
        flow, certificate = choose_steps(
            GradientFlow(lam=self.lam, time=self.time), model, metric, x, y, weight=weight
        )
        seconds = time.process_time() - began
        found = {"error": 0.0, "doubt": 0.0, "error_in_se": 0.0}
        if np.isfinite(certificate.error_bound):  # if not, nothing is claimed that could be untrue
            everyone = FlowSample(model, metric, x, y, weight)
            found = compare(everyone, flow, certificate.steps, rng)
        return {
            **dataclasses.asdict(self),
            "method": certificate.method,
            "evaluations": certificate.evaluations,
            "precision": certificate.precision,
            "certified": np.isfinite(certificate.error_bound),
            "claim": certificate.error_bound,
            "claim_in_se": certificate.error_in_se,
            **found,
            "held": found["error"] <= certificate.error_bound,
            "seconds": seconds,
            "seconds_in_all": time.process_time() - began,
        }


def overfitted(x: np.ndarray, y: np.ndarray, seed: int) -> nn.Module:
    """Return a wide network that knows its people by heart."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(FEATURES, 1000), nn.ReLU(), nn.Linear(1000, 2)).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    rows, labels = torch.as_tensor(x), torch.as_tensor(y)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    return net


def compare(
    everyone: FlowSample, flow: GradientFlow, steps: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return how far the audit value is off, and the standard error of what is said here.

    Everybody is solved with FINER times the steps. Some are solved finer still, the likelier the
    more their loss depends on the steps, and the mean of what that changes is added.
    """
    metric, n = everyone.metric, len(everyone.x)
    finer = min(max(FINER * steps, fine_steps(flow, metric)), MOST_STEPS)
    ours, true = everyone.after(flow), everyone.after(fine_flow(flow, metric, finer))
    (value, _), (truth, spread) = everyone.value(ours), everyone.value(true)
    size = np.abs(everyone.changes(ours, true))
    chance = 0.5 / n + 0.5 * size / size.sum() if size.any() else np.full(n, 1 / n)
    rows, factor = np.arange(n), np.full(n, 1 / n)
    if n > CHECKED:
        rows = rng.choice(n, CHECKED, p=chance)
        factor = 1 / (CHECKED * n * chance[rows])
    x, y, weight = everyone.x[rows], everyone.y[rows], everyone.share[rows]
    some = FlowSample(everyone.model, metric, x, y, weight)
    finest = some.after(fine_flow(flow, metric, min(FINEST * finer, MOST_FINEST)))
    part = factor * weight.mean() * some.changes(true[rows], finest)
    doubt = 0.0 if n <= CHECKED else float(np.sqrt(CHECKED) * part.std(ddof=1))
    error = abs(value - truth - float(part.sum()))
    unit = spread / np.sqrt(n) or 1.0
    return {"error": error, "doubt": doubt / unit, "error_in_se": error / unit}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=100)
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=dict.fromkeys(MODELS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    found = []
    for _ in range(options.audits):
        found.append(Audit.drawn(rng, options.largest, options.only).run())
        print(line(found[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    held = sum(row["held"] for row in found)
    bounded = sum(row["certified"] for row in found)
    print(
        f"{held} of {len(found)} hold; {bounded - len(found) + held} of {bounded} that are bounds"
    )
    for kind in dict.fromkeys(MODELS):
        rows = [row for row in found if row["model"] == kind]
        none = sum(not row["certified"] for row in rows)
        print(f"{kind:10s} {len(rows):3d} audits, {none} not certified")
    print(f"{sum(row['seconds_in_all'] for row in found):.0f} seconds of processor time")
    return 0 if held >= GOAL * len(found) else 1


def line(row: dict[str, Any]) -> str:
    claim = f"{row['claim_in_se']:.3f}" if row["certified"] else "not certified"
    return (
        f"{row['model']:9s} {row['layers']} layers × {row['times']:g}, λ {row['lam']:g}, "
        f"T {row['time']:g}, n {row['n']}, weights to {row['heaviest']:g}, {row['outputs']} "
        f"outputs: {row['method']} {row['evaluations']} {row['precision']}, claim {claim}, truth "
        f"{row['error_in_se']:.3f} ± {row['doubt']:.3f} se ({row['seconds']:.1f} of "
        f"{row['seconds_in_all']:.1f} s){'' if row['held'] else '  MISSED'}"
    )


if __name__ == "__main__":
    sys.exit(main())
