"""Five ways to the same flow: a plain loop, two other libraries, and ours twice."""

import dataclasses
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flow_lines.networks import Case, move
from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.numerical_error import choose_steps
from likewise.record import NumericalErrorRecord
from likewise_studies.datasets import cache_folder

LAM, STEP, N_STEPS = 50.0, 0.01, 500
PEERS = ("inFairness==0.2.3", "POT==0.9.7.post1", "torchdiffeq==0.2.5")


@dataclasses.dataclass(frozen=True)
class Moved:
    """Where people went, at what cost, and what is promised about the error."""

    x: np.ndarray
    evaluations: int
    error: NumericalErrorRecord | None = None


def naive(case: Case) -> Moved:
    """Euler's method as an expert writes it in PyTorch: no blocks, no tricks."""
    x0, y, free = case.tensors()
    x = x0
    for _ in range(N_STEPS):
        x = x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(case.module(x), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
        with torch.no_grad():
            v = x - x0
            x = x + STEP * (gradient - 2 * LAM * (v - (v @ free.T) @ free))
    return Moved(x.numpy(), N_STEPS)


def infairness(case: Case) -> Moved:
    """Run the SenSR auditor, made to sum over people and to start where they are."""
    auditors = peer("inFairness.auditor")
    distance = peer("inFairness.distances").SensitiveSubspaceDistance()
    x, y, free = case.tensors()
    distance.fit(free.T)
    auditor = auditors.SenSRAuditor(
        loss_fn=torch.nn.functional.cross_entropy,
        distance_x=distance,
        num_steps=N_STEPS,
        lr=STEP * len(case.x),
        max_noise=0.0,
        min_noise=0.0,
    )
    moved = auditor.generate_worst_case_examples(
        case.module, x, y, torch.tensor(LAM).double(), torch.optim.SGD
    )
    case.module.requires_grad_(True)
    return Moved(moved.detach().numpy(), N_STEPS)


def torchdiffeq(case: Case, tolerance: float) -> Moved:
    """Dormand and Prince's adaptive method of order five."""
    (x0, y, free), calls = case.tensors(), [0]

    def field(t: Tensor, x: Tensor) -> Tensor:
        calls[0] += 1
        v = x - x0
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(case.module(x), y, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, x)
        return gradient - 2 * LAM * (v - (v @ free.T) @ free)

    with torch.no_grad():
        x = peer("torchdiffeq").odeint(
            field,
            x0,
            torch.tensor([0.0, STEP * N_STEPS], dtype=torch.float64),
            rtol=tolerance,
            atol=tolerance,
            method="dopri5",
        )[-1]
    return Moved(x.numpy(), calls[0])


def paper_euler(case: Case) -> Moved:
    """Ours, with the paper's algorithm."""
    return Moved(move(case, GradientFlow.paper(LAM, STEP, N_STEPS)), N_STEPS)


def default(case: Case) -> Moved:
    """Ours by default: the steps chosen, their error bounded, and everyone moved."""
    flow, error = choose_steps(GradientFlow(), case.model, case.metric, case.x, case.y)
    return Moved(move(case, flow), error.evaluations, error)


def contenders(case: Case, tolerance: float) -> dict[str, Callable[[], Moved]]:
    """Return all contenders by name, ready to be timed."""
    return {
        "naive": functools.partial(naive, case),
        "infairness": functools.partial(infairness, case),
        "torchdiffeq": functools.partial(torchdiffeq, case, tolerance),
        "paper_euler": functools.partial(paper_euler, case),
        "default": functools.partial(default, case),
    }


def peer(module: str) -> Any:
    """Import from another library, installed for the benchmark alone and without its torch."""
    folder = cache_folder() / "benchmark-peers"
    if not folder.exists():
        print(f"installing {', '.join(PEERS)} for the benchmark", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *PEERS], check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(module)
