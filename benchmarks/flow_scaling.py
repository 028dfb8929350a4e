"""How time and memory of the flow grow with the number of people.

    python benchmarks/flow_scaling.py [--json FILE] [--quick]

People are drawn at random, d = 39 features up to a million people and d = 2000 up to a hundred
thousand; the model is a network with one hidden layer, the metric has two free directions, and
the steps are fixed (8 of the fourth-order method), so that all people get the same work. Each row
runs in a process of its own: CPU and wall seconds of moving everyone and observing them, one
thread, and the peak of its memory beyond the input. Also shown: d = 10 000, and 50 free
directions. Ends with exit code 1 if time grows faster than n^1.1.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import torch

from likewise.methods.gradient_flow import GradientFlow
from likewise.methods.metric import ignoring
from likewise.methods.observe import observe
from likewise.models import as_model
from likewise.run.executors import block_size, run_blocks

SIZES = {39: [10**3, 10**4, 10**5, 10**6], 2000: [10**3, 10**4, 10**5]}
ODD = [(10_000, 2, 1000), (39, 30, 10_000), (200, 50, 10_000)]
STEEPEST = 1.1
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the people")
    parser.add_argument("--one", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return 0
    share = 100 if options.quick else 1
    plans = [(d, 2, n // share) for d, sizes in SIZES.items() for n in sizes if n // share >= 10]
    rows = [apart(*plan) for plan in [*plans, *((d, k, n // share) for d, k, n in ODD)]]
    print(table(rows))
    slopes = {d: slope([row for row in rows if row["d"] == d and row["free"] == 2]) for d in SIZES}
    for d, found in slopes.items():
        print(f"d = {d}: time grows like n^{found:.2f}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "slopes": slopes}, indent=2) + "\n")
    return 0 if all(found <= STEEPEST for found in slopes.values()) else 1


def apart(d: int, k: int, n: int) -> Row:
    """Measure in a process of its own, so that its peak of memory is its own."""
    command = [sys.executable, __file__, "--one", str(d), str(k), str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(d: int, k: int, n: int) -> Row:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    net = torch.nn.Sequential(torch.nn.Linear(d, 50), torch.nn.ReLU(), torch.nn.Linear(50, 2))
    model, metric = as_model(net.double()), ignoring(draw(k, d))
    bound = GradientFlow(steps=8).bind(model, metric)
    warm = draw(64, d)
    observe(model, bound, metric, warm, np.arange(64) % 2)
    x, y = draw(n, d), np.arange(n) % 2
    before = peak()
    cpu, wall = time.process_time(), time.perf_counter()
    ratios = run_blocks(
        lambda rows: observe(model, bound, metric, x[rows], y[rows]).outcomes.ratio,
        n,
        size=block_size(d),
        threads=1,
    )
    return {
        "d": d,
        "free": k,
        "n": n,
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - wall,
        "input_mb": x.nbytes / 1e6,
        "memory_mb": peak() - before,
        "loss_ratio": float(np.concatenate(ratios).mean()),
    }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def slope(rows: list[Row]) -> float:
    """Return the slope of log time on log n."""
    n, seconds = (np.log([row[name] for row in rows]) for name in ("n", "cpu_seconds"))
    return float(np.polyfit(n, seconds, 1)[0])


def table(rows: list[Row]) -> str:
    heads = ("d", "free", "n", "CPU s", "wall s", "µs a person", "input MB", "memory MB")
    cells = [
        (
            str(row["d"]),
            str(row["free"]),
            str(row["n"]),
            f"{row['cpu_seconds']:.2f}",
            f"{row['wall_seconds']:.2f}",
            f"{1e6 * row['cpu_seconds'] / row['n']:.1f}",
            f"{row['input_mb']:.1f}",
            f"{row['memory_mb']:.1f}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (heads, *cells)) for i in range(len(heads))]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in (heads, *cells)
    )


if __name__ == "__main__":
    sys.exit(main())
