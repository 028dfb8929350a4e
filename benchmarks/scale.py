"""How fast an audit in pieces is, what memory it takes, and what workers and Ray add.

python benchmarks/scale.py [ROWS] [STEPS]          everything below, and memory up to so many people
python benchmarks/scale.py --compared [ROWS]       one and two processes, and Ray
python benchmarks/scale.py --learned [ROWS]        a metric learned from people of five features

People are synthetic, in the likeness of the Adult census: 39 features of which 34 are one-hot,
a label, two protected traits; the model is a network with one hidden layer of 50. Every audit
runs in a fresh process, which reports its own peak memory and that of its workers, and the
processor time of all of them: where others use the machine too, compare that. What the main
process takes a person is its processor time while people are read and moved; and, with all that
comes before and after, the difference between a table and a smaller one.
"""

import argparse
import importlib.util
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# One thread a process: workers are what is compared.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import likewise
from likewise.settings import Settings

ROWS = 10_000_000
STEPS = 8
COMPARED = 20 * 65_536
LEVELS = (7, 7, 14, 6)
FILE_ROWS = 500_000
EVERYONE = ("reading people", "moving people")
"""What the main process tells progress of, person by person."""


def write_people(folder: Path, n: int, features: int = 39) -> list[str]:
    """Write people in Parquet files of half a million, with their first so many features."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    tilt = rng.normal(size=39) / 3
    paths = []
    for k, begin in enumerate(range(0, n, FILE_ROWS)):
        size = min(FILE_ROWS, n - begin)
        male, white = rng.random(size) < 0.67, rng.random(size) < 0.85
        columns: dict[str, np.ndarray] = {}
        x = np.zeros((size, 39))
        x[:, :5] = rng.normal(size=(size, 5)) + 0.4 * male[:, None]
        start = 5
        for levels in LEVELS:
            level = np.minimum(
                rng.geometric(0.35, size) - 1 + male * rng.integers(0, 2, size), levels - 1
            )
            x[np.arange(size), start + level] = 1
            start += levels
        y = (x @ tilt + 0.5 * male + rng.logistic(size=size) > 1).astype(np.int8)
        for j in range(features):
            columns[f"x{j:02d}"] = x[:, j] if j < 5 else x[:, j].astype(np.int8)
        table = pa.table(
            {
                **columns,
                "sex": np.where(male, "Male", "Female"),
                "race": np.where(white, "White", "Other"),
                "y": y,
            }
        )
        path = folder / f"part-{k:04d}.parquet"
        pq.write_table(table, path, row_group_size=65_536, compression="zstd")
        paths.append(str(path))
    return paths


def write_world(folder: Path) -> None:
    """Write a network and a metric."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(39, 50), torch.nn.ReLU(), torch.nn.Linear(50, 2))
    likewise.save_model(net.double(), folder / "model.safetensors", classes=(0, 1))
    narrow = torch.nn.Sequential(torch.nn.Linear(5, 10), torch.nn.ReLU(), torch.nn.Linear(10, 2))
    likewise.save_model(narrow.double(), folder / "narrow.safetensors", classes=(0, 1))
    directions = np.random.default_rng(2).normal(size=(2, 39))
    likewise.save_metric(likewise.ignoring(directions), folder / "metric.safetensors")


def rate(moving: list[tuple[float, int]], workers: int) -> float:
    """Return rows per second, from what was told as (moment, rows done); the first is the start.

    The clock starts with the first finished piece, so that starting workers is not counted. At
    that moment the other workers have a piece half done: one piece for each of them is left out,
    so that everything counted was done by the clock, and two workers never seem more than
    twice as fast as one.
    """
    (_, nothing), (first, early), (last, done) = moving[0], moving[1], moving[-1]
    counted = done - early - (workers - 1) * (early - nothing)
    return counted / (last - first) if last > first and counted > 0 else float("nan")


def audit(folder: str, data: str, workers: int, ray: str, steps: int, learned: bool) -> None:
    """Run one audit in this process, and print what it took."""
    settings = Settings(checks="core").changed(
        columns__label="y",
        columns__protected=("sex", "race"),
        map__solver="exponential4",
        map__steps=steps,
    )
    moments: dict[str, list[tuple[float, int]]] = {}
    spent: dict[str, list[float]] = {}

    def progress(what: str, done: int, total: int) -> None:
        moments.setdefault(what, []).append((time.perf_counter(), done))
        spent.setdefault(what, []).append(time.process_time())

    began = time.perf_counter()
    run = likewise.Processes(workers) if workers else likewise.Inline()
    store = tempfile.mkdtemp(prefix="likewise-")
    record = likewise.audit(
        f"{folder}/{'narrow' if learned else 'model'}.safetensors",
        sorted(map(str, Path(data).glob("*.parquet"))),
        metric=None if learned else likewise.load_metric(f"{folder}/metric.safetensors"),
        settings=settings,
        run=likewise.Ray(ray, workers or None) if ray else run,
        store=likewise.Folder(Path(store) / "parts"),
        progress=progress,
    ).record
    seconds = time.perf_counter() - began
    moving = moments["moving people"]
    unit = 1024
    here, below = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        json.dumps(
            {
                "n": record.rows["n"],
                "seconds": seconds,
                "startup": moving[1][0] - moving[0][0],
                "moving": moving[-1][0] - moving[0][0],
                "rate": rate(moving, max(workers, 1)),
                "here": here.ru_maxrss * unit,
                "worker": below.ru_maxrss * unit,
                "cpu": here.ru_utime + here.ru_stime,
                "busy": sum(spent[what][-1] - spent[what][0] for what in EVERYONE if what in spent),
                "cpu_below": below.ru_utime + below.ru_stime,
                "estimate": record.tests["loss_ratio"].estimate,
                "learned_from": record.metric.origin.n if record.metric.origin else 0,
                "evaluations": record.certificate.evaluations if record.certificate else 0,
            }
        )
    )


def measured(
    folder: Path, data: Path, workers: int, steps: int, ray: str = "", learned: bool = False
) -> dict[str, float]:
    command = [sys.executable, __file__, "--audit", str(folder), str(data), str(workers)]
    command += [ray, str(steps), "learned" * learned]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, found: dict[str, float]) -> str:
    return (
        f"{name:<26}{found['n']:>11,.0f}{found['seconds']:>9.1f}{found['startup']:>9.1f}"
        f"{found['rate']:>10,.0f}{found['here'] / 2**20:>9.0f}{found['worker'] / 2**20:>9.0f}"
        f"{found['cpu']:>9.1f}{found['cpu_below']:>9.1f}"
    )


def compared(folder: Path, rows: int, steps: int) -> None:
    """Print what two processes are over one, what Ray is, and what the main process takes."""
    large, small = folder / "compared", folder / "fifth"
    write_people(large, rows)
    write_people(small, rows // 5)
    runs = [("1 worker", large, 1, ""), ("2 workers", large, 2, "")]
    runs.append(("2 workers, a fifth", small, 2, ""))
    if importlib.util.find_spec("ray") is not None:
        runs += [("Ray, 2 actors", large, 2, "local"), ("Ray, a fifth", small, 2, "local")]
    found = {}
    for name, data, workers, ray in runs:
        found[name] = measured(folder, data, workers, steps, ray)
        print(row(name, found[name]), flush=True)
    one, two, fifth = (found[name] for name in list(found)[:3])
    assert one["estimate"] == two["estimate"]
    print(f"two workers over one, rows a second: {two['rate'] / one['rate']:.2f}")
    print(
        f"processor time of two workers over that of one: {two['cpu_below'] / one['cpu_below']:.2f}"
    )
    print(f"main process, microseconds a person: {main_cost(two, fifth)}")
    if "Ray, 2 actors" in found:
        actors = found["Ray, 2 actors"]
        assert actors["estimate"] == one["estimate"]
        print(f"Ray over two workers, rows a second: {actors['rate'] / two['rate']:.2f}")
        cost = main_cost(actors, found["Ray, a fifth"])
        print(f"main process with Ray, microseconds a person: {cost}")


def main_cost(large: dict[str, float], small: dict[str, float]) -> str:
    """Return the processor time that each person takes in the main process, in words."""
    more = (large["cpu"] - small["cpu"]) / (large["n"] - small["n"])
    return f"{1e6 * large['busy'] / large['n']:.2f} at work, {1e6 * more:.2f} by the difference"


def learned(folder: Path, rows: int, steps: int) -> None:
    """Audit people of five features under a metric that is learned from them."""
    write_people(folder / "narrow", rows, 5)
    found = measured(folder, folder / "narrow", 2, steps, learned=True)
    print(row("2 workers, metric learned", found))
    print(f"the metric was learned from {found['learned_from']:,.0f} of them")


def growing(folder: Path, rows: int, steps: int) -> None:
    """Print what memory and the main process take as tables grow."""
    found = []
    for n in [n for n in (100_000, 1_000_000, 10_000_000) if n <= rows] or [rows]:
        data = folder / str(n)
        write_people(data, n)
        found.append(measured(folder, data, 2, steps))
        print(row("2 workers", found[-1]), flush=True)
    peaks = [one["here"] + 2 * one["worker"] for one in found]
    print(f"peak memory, largest over smallest table: {peaks[-1] / peaks[0]:.2f}")
    for small, large in itertools.pairwise(found):
        print(
            f"main process, microseconds a person, of {small['n']:,.0f} to {large['n']:,.0f}: "
            f"{main_cost(large, small)}"
        )


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="?", type=int, default=ROWS, help="people (10 000 000)")
    parser.add_argument("steps", nargs="?", type=int, default=STEPS, help="steps of the flow (8)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--compared", action="store_true", help="only processes and Ray, compared")
    only.add_argument("--learned", action="store_true", help="only with a learned metric")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="likewise-scale-") as name:
        folder = Path(name)
        write_world(folder)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
        print(
            f"{'':<26}{'people':>11}{'seconds':>9}{'first':>9}{'rows/s':>10}{'MB here':>9}"
            f"{'MB a wkr':>9}{'CPU here':>9}{'wkrs':>9}"
        )
        if not asked.learned:
            compared(
                folder, asked.rows if asked.compared else min(COMPARED, asked.rows), asked.steps
            )
        if not (asked.learned or asked.compared):
            growing(folder, asked.rows, asked.steps)
        if not asked.compared:
            learned(folder, asked.rows, asked.steps)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--audit"]:
        folder, data, workers, ray, steps, kind = sys.argv[2:]
        audit(folder, data, int(workers), ray, int(steps), bool(kind))
    else:
        main()
