"""How time and memory of the flow grow with the number of people.

    python benchmarks/flow_scaling.py [--json FILE] [--markdown FILE] [--quick]
        [--bounds | --audits]

People are drawn at random, d = 39 features up to a million people and d = 2000 up to a hundred
thousand; the model is a network with one hidden layer, the metric has two free directions, and
the steps are fixed (8 of the fourth-order method), so that all people get the same work. Each row
runs in a process of its own: CPU and wall seconds of moving everyone and observing them, one
thread, and the peak of its memory beyond the input. Also shown: d = 10 000, and 50 free
directions. Ends with exit code 1 if time grows faster than n^1.1.

With ``--bounds`` alone: how far a gradient of a block is from what the processor can do, for two
networks in both precisions: the time of its matrix products by themselves, the time to read and
write its arrays once a pass, and what it takes; then eight blocks on one thread and on two. With
``--audits`` alone: processor time of whole audits by free directions, refits and the pool.
"""

import argparse
import itertools
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
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the people")
    parser.add_argument("--bounds", action="store_true", help="only what the processor allows")
    parser.add_argument("--audits", action="store_true", help="only whole audits")
    parser.add_argument("--one", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bounds or options.audits:
        print(bounds() if options.bounds else audits())
        return 0
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
    if options.markdown:
        options.markdown.write_text(table(rows, markdown=True) + "\n", encoding="utf-8")
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


def bounds() -> str:
    """Return the table of what the processor allows, and what is reached."""
    rng, d = np.random.default_rng(0), 39
    n, steps = block_size(d), 32
    metric = ignoring(rng.normal(size=(2, d)))
    x, y = rng.normal(size=(8 * n, d)), np.arange(8 * n) % 2
    lines = [
        "| network | precision | products µs | memory µs | reached µs | 1 thread s | 2 threads s |"
    ]
    lines.append("| --- | --- |" + " ---: |" * 5)
    for sizes in ((d, 50, 2), (d, 128, 64, 2)):
        net = torch.nn.Sequential(
            *(
                layer
                for before, after in itertools.pairwise(sizes)
                for layer in (torch.nn.Linear(before, after), torch.nn.ReLU())
            )
        )[:-1]
        model = as_model(net.double())
        for precision in ("float64", "float32"):
            flow = GradientFlow(solver="exponential", steps=steps, precision=precision)
            bound = flow.bind(model, metric)
            into, widths = bound.way.into, sizes[1:-1]
            shapes = [into.shape, bound.way.back.shape]
            shapes += [pair for a, b in itertools.pairwise(widths) for pair in ((b, a), (a, b))]
            shapes += [(1, widths[-1])]
            products = sum(_seconds(_product(shape, n, into.dtype)) for shape in shapes)
            # States, their velocity and its change; layers forward, their masks and slopes.
            passes = 7 * into.shape[1] + 6 * sum(widths)
            room = np.ones((passes, n), dtype=into.dtype)
            memory = _seconds(lambda room=room: np.add(room, 1, out=room)) / 2
            reached = _seconds(lambda bound=bound: bound(x[:n], y[:n])) / steps
            wall = [_wall(bound, x, y, n, threads) for threads in (1, 2)]
            times = [f"{1e6 * seconds:.0f}" for seconds in (products, memory, reached)]
            times += [f"{seconds:.3f}" for seconds in wall]
            lines.append(f"| {'-'.join(map(str, sizes))} | {precision} | {' | '.join(times)} |")
    return "\n".join(lines)


def audits() -> str:
    """Return the seconds of whole audits of a linear model, by what they grow with."""
    from sklearn.linear_model import LogisticRegression

    import likewise

    rng, n, d = np.random.default_rng(0), 1000, 20
    x = rng.normal(size=(6 * n, d)).round(1)
    traits = {f"trait {j}": x[:, j] + rng.normal(size=len(x)) > 0 for j in range(4)}
    y = (x[:, 0] + x[:, 5] + rng.normal(size=len(x)) > 0).astype(int)
    model = LogisticRegression().fit(x[:n], y[:n])

    def people(begin: int, end: int, k: int) -> Any:
        rows, known = slice(begin, end), list(traits.items())[:k]
        return likewise.AuditData.from_arrays(x[rows], y[rows], {a: t[rows] for a, t in known})

    def timed(what: str, k: int, **how: Any) -> str:
        began = time.process_time()
        likewise.audit(model, people(n, 2 * n, k), run=likewise.Threads(1), **how)
        return f"| {what} | {time.process_time() - began:.2f} |"

    def learned(k: int, groups: int) -> Any:
        return likewise.sensitive_subspace(people(2 * n, 3 * n, k), groups=groups, placebos=0)

    full = likewise.Settings(checks="full").changed(map="reach")
    timed("warm", 1, metric=learned(1, 0), checks="core")
    lines = ["| audit of 1000 people | CPU s |", "| --- | ---: |"]
    for k in (1, 2, 4):
        metric = learned(k, 0)
        lines.append(timed(f"core, {len(metric.free)} free", k, metric=metric, checks="core"))
    for groups in (5, 10, 20):
        lines.append(timed(f"full, {groups} refits", 1, metric=learned(1, groups), settings=full))
    for size in (1000, 4000):
        question = likewise.Counterparts(may_matter=("x5", "x6"))
        pool = people(2 * n, 2 * n + size, 1)
        lines.append(
            timed(f"counterparts, pool of {size}", 1, map=question, pool=pool, checks="core")
        )
    return "\n".join(lines)


def _product(shape: tuple[int, ...], n: int, dtype: Any) -> Any:
    left, right = np.ones(shape, dtype), np.ones((shape[1], n), dtype)
    out = np.empty((shape[0], n), dtype)
    return lambda: np.matmul(left, right, out=out)


def _seconds(work: Any) -> float:
    """Return the least processor time of a few rounds."""
    found = []
    for _ in range(15):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _wall(bound: Any, x: np.ndarray, y: np.ndarray, size: int, threads: int) -> float:
    found = []
    for _ in range(3):
        began = time.perf_counter()
        run_blocks(lambda rows: bound(x[rows], y[rows]).x, len(x), size=size, threads=threads)
        found.append(time.perf_counter() - began)
    return min(found)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def slope(rows: list[Row]) -> float:
    """Return the slope of log time on log n."""
    n, seconds = (np.log([row[name] for row in rows]) for name in ("n", "cpu_seconds"))
    return float(np.polyfit(n, seconds, 1)[0])


def table(rows: list[Row], *, markdown: bool = False) -> str:
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
    if markdown:
        lines = [heads, ("---:",) * len(heads), *cells]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[i]) for line in (heads, *cells)) for i in range(len(heads))]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in (heads, *cells)
    )


if __name__ == "__main__":
    sys.exit(main())
