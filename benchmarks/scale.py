"""How fast an audit in pieces is, what memory it takes, and what workers and Ray add.

python benchmarks/scale.py                                         all parts, for hours
python benchmarks/scale.py --part compared --method flow [--rows 1300000]
python benchmarks/scale.py --part growing --method pairs [--rows 1000000]

``compared`` is one process, two, and Ray; ``growing`` is memory from 100,000 people to as many as
are asked for (the flow 10,000,000, matched pairs 1,000,000 with a reference sample of 100,000).
People are synthetic, in the likeness of the Adult census: 39 features of which 34 are one-hot, a
label, two protected attributes; the model is a network with one hidden layer of 50. Every audit
runs in a fresh process, which reports its own peak memory and that of its workers, and the
processor time of all of them: where others use the machine too, compare that. What the main process
takes a person is its processor time while people are read and measured.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from likewise.models import save_model

# One thread a process: workers are what is compared.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import likewise
from likewise.settings import Settings

LEVELS = (7, 7, 14, 6)
FILE_ROWS = 500_000
POOL = 100_000
SMALLEST = 100_000
ROWS = {"compared": {"flow": 20 * 65_536, "pairs": 300_000}}
ROWS["growing"] = {"flow": 10_000_000, "pairs": 1_000_000}
PERSON_BY_PERSON = ("reading people", "measuring")
"""What the main process tells progress of for everyone."""
BARS = {"two over one": 1.7, "Ray over two": 0.85, "main": 0.3, "memory": 1.3}

Found = dict[str, Any]


def write_people(folder: Path, n: int, seed: int = 1) -> None:
    """Write people in Parquet files of half a million."""
    folder.mkdir()
    tilt = np.random.default_rng(1).normal(size=39) / 3
    rng = np.random.default_rng(seed)
    for k, begin in enumerate(range(0, n, FILE_ROWS)):
        size = min(FILE_ROWS, n - begin)
        male, white = rng.random(size) < 0.67, rng.random(size) < 0.85
        x = np.zeros((size, 39))
        x[:, :5] = rng.normal(size=(size, 5)) + 0.4 * male[:, None]
        start = 5
        for levels in LEVELS:
            level = rng.geometric(0.35, size) - 1 + male * rng.integers(0, 2, size)
            x[np.arange(size), start + np.minimum(level, levels - 1)] = 1
            start += levels
        y = (x @ tilt + 0.5 * male + rng.logistic(size=size) > 1).astype(np.int8)
        columns = {f"x{j:02d}": x[:, j] if j < 5 else x[:, j].astype(np.int8) for j in range(39)}
        sex, race = np.where(male, "Male", "Female"), np.where(white, "White", "Other")
        table = pa.table({**columns, "sex": sex, "race": race, "y": y})
        path = folder / f"part-{k:04d}.parquet"
        pq.write_table(table, path, row_group_size=65_536, compression="zstd")


def write_world(folder: Path) -> None:
    """Write a network, a metric and a reference sample."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(39, 50), torch.nn.ReLU(), torch.nn.Linear(50, 2))
    save_model(net.double(), folder / "model.safetensors", classes=(0, 1))
    directions = np.random.default_rng(2).normal(size=(2, 39))
    likewise.metrics.save_metric(
        likewise.metrics.ignoring(directions), folder / "metric.safetensors"
    )
    write_people(folder / "pool", POOL, seed=2)


def peaks() -> tuple[float, float]:
    """Return the most memory, in MB, that this process had, and any that it started."""
    # Not by rusage, where a process begins with the peak of the one that started it.
    here, below = 0.0, 0.0
    for place in ("self", *(p.name for p in Path("/proc").iterdir() if p.name.isdigit())):
        with contextlib.suppress(OSError, IndexError):
            words = Path(f"/proc/{place}/status").read_text()
            parent, most = (words.partition(k)[2].split()[0] for k in ("PPid:", "VmHWM:"))
            if place == "self":
                here = int(most) / 1024
            elif int(parent) == os.getpid():
                below = max(below, int(most) / 1024)
    return here, below


def audit(folder: Path, data: Path, method: str, executor: Any) -> Found:
    """Run one audit in this process, and return what it took."""
    moments: dict[str, list[tuple[float, float, float]]] = {}
    memory = [peaks()]
    spent = 0.0  # here, on looking at memory

    def progress(what: str, done: int, total: int) -> None:
        nonlocal spent
        here = time.process_time()
        moments.setdefault(what, []).append(
            (time.perf_counter(), here - spent, done / max(total, 1))
        )
        if time.perf_counter() > began + 2 * len(memory):
            memory.append(peaks())
            spent += time.process_time() - here

    how: dict[str, Any] = {
        "flow": {
            "metric": likewise.metrics.load_metric(folder / "metric.safetensors"),
            "settings": Settings(
                method={"name": "gradient_flow", "solver": "exponential", "steps": 8}
            ),
        },
        "pairs": {
            "pool": sorted(map(str, (folder / "pool").glob("*.parquet"))),
            "may_matter": ["x00", "x01", "x02"],
            "favourable": 1,
        },
    }[method]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="likewise-scale-") as store:
        record = likewise.audit(
            str(folder / "model.safetensors"),
            sorted(map(str, data.glob("*.parquet"))),
            label="y",
            protected=["sex", "race"],
            checks="core",
            executor=executor,
            store=likewise.Folder(Path(store) / "journal"),
            progress=progress,
            **how,
        ).record
    n, measured = record.data.n, moments["measuring"]
    here, below = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # From the first finished task on, so that starting workers is not counted.
    (first, _, early), (last, _, done) = measured[1], measured[-1]
    return {
        "n": n,
        "seconds": time.perf_counter() - began,
        "rate": n * (done - early) / (last - first) if last > first else float("nan"),
        "here": peaks()[0],
        "worker": max(found for _, found in memory),
        "cpu": here.ru_utime + here.ru_stime,
        "cpu_below": below.ru_utime + below.ru_stime,
        "busy": sum(
            moments[what][-1][1] - moments[what][0][1]
            for what in PERSON_BY_PERSON
            if what in moments
        ),
        "record": record.model_dump_json(include={"tests", "matched_pairs", "verdict"}),
    }


def measured(folder: Path, data: Path, method: str, executor: str, workers: int) -> Found:
    """Run one audit in a process of its own, print its line, and return what it took."""
    command = [sys.executable, __file__, "--audit", str(folder), str(data), method, executor]
    done = subprocess.run([*command, str(workers)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    name = f"{method}, {executor} {workers}"
    numbers = ("n", "seconds", "rate", "here", "worker", "cpu", "cpu_below")
    cells = (f"{found[k]:>11,.0f}" if k in ("n", "rate") else f"{found[k]:>9,.1f}" for k in numbers)
    print(f"{name:<22}{''.join(cells)}", flush=True)
    return found


def compared(folder: Path, method: str, rows: int) -> list[str]:
    """Print what two processes are over one, what Ray is, and what the main process takes."""
    data = folder / f"{rows}"
    if not data.exists():
        write_people(data, rows)
    one, two = (measured(folder, data, method, "processes", k) for k in (1, 2))
    assert one["record"] == two["record"]
    # Processor time where others use the machine: what one worker took over what each of two did.
    missed = bar(f"{method}: two over one", two["rate"] / one["rate"], at_least="two over one")
    print(f"  by processor time {2 * one['cpu_below'] / two['cpu_below']:.2f}")
    print(f"  main process, µs a person, its start included: {1e6 * two['busy'] / two['n']:.2f}")
    if importlib.util.find_spec("ray") is not None:
        ray = measured(folder, data, method, "ray", 2)
        assert ray["record"] == one["record"]
        over = ray["rate"] / two["rate"]
        missed += bar(f"{method}: Ray over two", over, at_least="Ray over two")
    return missed


def growing(folder: Path, method: str, rows: int) -> list[str]:
    """Print how memory grows with the number of people."""
    peaks = []
    for n in (SMALLEST, rows):
        if not (data := folder / f"{n}").exists():
            write_people(data, n)
        found = measured(folder, data, method, "processes", 2)
        peaks.append(found["here"] + 2 * found["worker"])
    missed = bar(
        f"{method}: memory, {rows:,} over {SMALLEST:,}", peaks[1] / peaks[0], most="memory"
    )
    taken = 1e6 * found["busy"] / found["n"]
    return missed + bar(f"{method}: main process, µs a person", taken, most="main")


def bar(what: str, value: float, *, at_least: str = "", most: str = "") -> list[str]:
    """Print a figure beside its bar; return its name if it misses."""
    limit = BARS[at_least or most]
    missed = value < limit if at_least else value > limit
    sign = "≥" if at_least else "≤"
    print(f"{what}: {value:.2f} ({sign} {limit}){'  MISSED' if missed else ''}", flush=True)
    return [what] if missed else []


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=[*ROWS], action="append")
    parser.add_argument("--method", choices=["flow", "pairs"], action="append")
    parser.add_argument("--rows", type=int, help="people, instead of the usual number")
    asked = parser.parse_args()
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="likewise-scale-") as name:
        folder = Path(name)
        write_world(folder)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
        heads = ("people", "seconds", "people/s", "MB here", "MB wkr", "CPU here", "CPU wkrs")
        widths = (11, 9, 11, 9, 9, 9, 9)
        print(" " * 22 + "".join(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True)))
        for part in asked.part or [*ROWS]:
            for method in asked.method or ["flow", "pairs"]:
                work = compared if part == "compared" else growing
                missed += work(folder, method, asked.rows or ROWS[part][method])
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--audit"]:
        folder, data, method, executor, workers = sys.argv[2:]
        run = likewise.executors.Ray("local", int(workers)) if executor == "ray" else None
        result = audit(
            Path(folder), Path(data), method, run or likewise.executors.Processes(int(workers))
        )
        print(json.dumps(result))
    else:
        main()
