"""How fast the flow is, and how exact, beside a plain loop and two other libraries.

    python benchmarks/flow_speed.py [--json FILE] [--only MODEL] [--rounds 5]
        [--without torchdiffeq]

Four models of Adult, n = 9045 people, λ = 50, T = 5. All contenders do the same work in one
process, on one thread and in float64, in turns; seconds are the median of five turns
(fewer for what takes a minute in all). The error is |S_n − S_true| in standard errors, where S_true
comes from 16,000 steps of the exponential Euler method.
Ends with exit code 1 if a figure that the documentation promises is missed.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# NumPy's BLAS takes the kernels of this processor, as torch's does.
os.environ.pop("OPENBLAS_CORETYPE", None)

import numpy as np
import torch

from flow_lines.contenders import Moved, contenders, torchdiffeq
from flow_lines.networks import MODELS, Case, case

PATIENCE = 60.0
"""A contender that took longer in all, in seconds, is not run again."""

TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
FASTER = {"baseline": 40, "deeper": 20, "logistic": 60, "overfitted": 8}
"""How many times as fast as the plain loop the documentation says that the default is."""

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", choices=["torchdiffeq"], help="it takes most of the time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module=r"(functorch|torchdiffeq|inFairness|ot)(\..*)?$")
    rows: list[Row] = []
    missed: list[str] = []
    for name in MODELS if options.only is None else [options.only]:
        found, failures = compare(case(name), options.rounds, options.without)
        rows += found
        missed += failures
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for failure in missed:
        print(f"missed: {failure}")
    return 1 if missed else 0


def compare(case: Case, rounds: int, without: str | None) -> tuple[list[Row], list[str]]:
    exact = case.exact()
    std_error = exact.std(ddof=1) / math.sqrt(len(exact))

    def error(x: np.ndarray) -> float:
        return abs(float(case.ratios(x).mean() - exact.mean())) / std_error

    runs = contenders(case, 1.0 if without else loosest(case, exact, std_error))
    runs = {name: run for name, run in runs.items() if name != without}
    timed: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    last: dict[str, Moved] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            if sum(wall for _, wall in timed[name]) < PATIENCE:
                seconds, last[name] = clock(run)
                timed[name].append(seconds)
    cpu, wall = (
        {name: statistics.median(t[i] for t in times) for name, times in timed.items()}
        for i in (0, 1)
    )
    rows = [
        {
            "model": case.name,
            "name": name,
            "cpu_seconds": cpu[name],
            "wall_seconds": wall[name],
            "ratio_to_naive": cpu["naive"] / cpu[name],
            "evaluations": moved.evaluations,
            "error_in_se": error(moved.x),
        }
        for name, moved in last.items()
    ]
    describe(case, last, std_error)
    return rows, failures(case, cpu, last, rows)


def loosest(case: Case, exact: np.ndarray, std_error: float) -> float:
    """Return the loosest tolerance that will do for torchdiffeq, as seen on some people.

    Tight ones stall at the kinks of ReLU networks.
    """
    few, some = case.some(1000)
    for tolerance in TOLERANCES:
        gap = few.ratios(torchdiffeq(few, tolerance).x).mean() - exact[some].mean()
        if abs(float(gap)) <= 0.1 * std_error:
            return tolerance
    return TOLERANCES[-1]


def clock(run: Callable[[], Moved]) -> tuple[tuple[float, float], Moved]:
    cpu, wall = time.process_time(), time.perf_counter()
    moved = run()
    return (time.process_time() - cpu, time.perf_counter() - wall), moved


def failures(
    case: Case, cpu: dict[str, float], last: dict[str, Moved], rows: list[Row]
) -> list[str]:
    """Return the promises that were not kept."""
    error = {row["name"]: row["error_in_se"] for row in rows}
    stated = last["default"].error
    held = stated is not None and error["default"] <= stated.error_in_se
    promises = {
        "the stated holds": held,
        "the default is within 0.1 standard errors": error["default"] <= 0.1,
    }
    times = FASTER.get(case.name, 1)
    promises[f"the default is {times} times as fast as the plain loop"] = (
        cpu["naive"] >= times * cpu["default"]
    )
    if case.name == "baseline":
        euler, plain = lower_bound(case, last["paper_euler"]), lower_bound(case, last["naive"])
        promises |= {
            "the default is 60 times as fast as inFairness": cpu["infairness"]
            >= 60 * cpu["default"],
            "Euler is 3 times as fast as the plain loop": cpu["naive"] >= 3 * cpu["paper_euler"],
            "with the same T_n to 1e-5": abs(euler - plain) <= 1e-5 * plain,
        }
    return [f"{case.name}: {what}" for what, kept in promises.items() if not kept]


def lower_bound(case: Case, moved: Moved) -> float:
    """Return T_n."""
    ratio = case.ratios(moved.x)
    return float(ratio.mean() - 1.6448536 * ratio.std(ddof=1) / math.sqrt(len(ratio)))


def describe(case: Case, last: dict[str, Moved], std_error: float) -> None:
    """Print what the table leaves out: the statistics and the error that is stated."""
    stated = last["default"].error
    assert stated is not None
    value = case.exact().mean()
    bounds = {name: lower_bound(case, last[name]) for name in ("naive", "paper_euler", "default")}
    print(
        f"{case.name}: S_true {value:.6f} (se {std_error:.4f}); T_n "
        + ", ".join(f"{name} {bound:.6f}" for name, bound in bounds.items())
        + f"; stated {stated.steps} steps, error ≤ {stated.error_in_se:.3f} se, "
        f"found on {stated.subsample} people"
    )


def table(rows: list[Row]) -> str:
    heads = ("model", "contender", "CPU s", "wall s", "× naive", "evaluations", "error in se")
    cells = [
        (
            row["model"],
            row["name"],
            f"{row['cpu_seconds']:.3f}",
            f"{row['wall_seconds']:.3f}",
            f"{row['ratio_to_naive']:.2f}",
            str(row["evaluations"]),
            f"{row['error_in_se']:.4f}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (heads, *cells)) for i in range(len(heads))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in (heads, *cells)
    )


if __name__ == "__main__":
    sys.exit(main())
