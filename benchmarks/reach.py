"""What share of the worst the search within reach finds when there are many directions.

    python benchmarks/reach.py [--people 120] [--seeds 3] [--json FILE]

Networks, networks without their gradients, trees, and a network that knows 60 people by heart are
asked about fresh people, with 2, 4 and 8 free directions. The rise of the mean loss that the search
finds is compared with that of 3000 calls, and with what an audit would say: how
much twice the calls add, and whether it warns.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from torch import nn

from likewise.checks.reach_crosscheck import WORTH_MORE, more_calls
from likewise.methods.metric import ignoring
from likewise.methods.reach import Reach
from likewise.models import as_model

FEATURES, CALLS = 12, 3000


def trained(x: np.ndarray, y: np.ndarray, width: int, activation: type, epochs: int) -> nn.Module:
    """Return a network fitted to people."""
    net = nn.Sequential(nn.Linear(FEATURES, width), activation(), nn.Linear(width, 2)).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    rows, labels = torch.as_tensor(x), torch.as_tensor(y)
    for _ in range(epochs):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    return net


def closed(net: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    """Return the probabilities of a network, without its gradients."""
    inner = as_model(net, output="logits")

    def answer(rows: np.ndarray) -> np.ndarray:
        logits = inner(rows)
        shown = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shown / shown.sum(axis=1, keepdims=True)

    return answer


def models(x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the models, each fitted to people."""
    torch.manual_seed(seed)
    tanh, mild = trained(x, y, 48, nn.Tanh, 300), trained(x, y, 24, nn.Tanh, 60)
    relu = trained(x, y, 48, nn.ReLU, 300)
    by_heart = trained(x[:60], y[:60], 1000, nn.ReLU, 400)
    boosted = GradientBoostingClassifier(n_estimators=60, random_state=seed).fit(x, y)
    forest = RandomForestClassifier(30, min_samples_leaf=3, random_state=seed).fit(x, y)
    return {
        "tanh network": as_model(tanh, output="logits"),
        "ReLU network": as_model(relu, output="logits"),
        "tanh network, black box": as_model(closed(mild)),
        "boosted trees": as_model(boosted),
        "forest": as_model(forest),
        "overfitted network": as_model(by_heart, output="logits"),
        "overfitted, black box": as_model(closed(by_heart)),
    }


def population(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return people whose labels are no linear matter."""
    x = rng.normal(size=(n, FEATURES))
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] + 0.5 * x[:, 4:8].sum(axis=1)
    return x, (score + 0.5 * rng.normal(size=n) > 0).astype(int)


def measure(model: Any, k: int, seed: int, n: int) -> dict[str, float]:
    """Return the share found, what twice the calls add, and whether an audit warns."""
    rng = np.random.default_rng([seed, k])
    x, y = population(rng, n)
    free = rng.normal(size=(k, FEATURES))
    metric = ignoring(free).with_reach(rng.normal(size=(2000, FEATURES)))
    calls = Reach().bind(model, metric).budget
    own, once, twice, long = (
        model.loss(model(at), y)
        for at in (x, *(Reach(c).bind(model, metric)(x, y).x for c in (calls, 2 * calls, CALLS)))
    )
    said = more_calls(*(float(loss.mean()) for loss in (own, once, twice)))
    added = said.record["diagnostics"]["doubled_budget"]
    rise = float((np.max([once, twice, long], axis=0) - own).mean())
    return {
        "calls": calls,
        "share": float((once - own).mean()) / rise,
        "of_search": float((long - own).mean()) / rise,
        "added": added,
        "warns": float(added > WORTH_MORE),
    }


def main() -> int:
    """Measure all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        known = models(*population(np.random.default_rng(seed), 1500), seed)
        for name, model in known.items():
            for k in (2, 4, 8):
                found = measure(model, k, seed, options.people)
                rows.append({"model": name, "k": k, "seed": seed, **found})
    print("| model | k | calls | found | twice the calls add | warns |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, k in dict.fromkeys((row["model"], row["k"]) for row in rows):
        some = [row for row in rows if (row["model"], row["k"]) == (name, k)]
        mean = {key: np.mean([row[key] for row in some]) for key in ("share", "added")}
        least = min(row["share"] for row in some)
        print(
            f"| {name} | {k} | {some[0]['calls']} | {mean['share']:.1%} (least {least:.1%}) | "
            f"{mean['added']:.1%} | {sum(row['warns'] for row in some):.0f} of {len(some)} |"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
