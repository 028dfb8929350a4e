"""Whatever a file holds, the answer is a result or one sentence.

python benchmarks/fuzz.py [--count 200000] [--native 500] [--quick] [--target NAME ...]
python benchmarks/fuzz.py --target NAME --only INDEX     # one input again, with its traceback

Every target takes damaged or invented input (`mutations.py`) and may raise nothing but a
`LikewiseError`, within 10 seconds of processor time and 2 GB. Each runs in a process of
its own, so that a crash inside a library is seen as one. An input is made from the seed, the
target's name and its number alone, so that it can be made again. Files of ONNX, XGBoost, LightGBM
and CatBoost have ``--native`` random bytes changed, one each; an endpoint misbehaves in 20 ways.
"""

import argparse
import contextlib
import dataclasses
import faulthandler
import functools
import http.server
import io
import itertools
import json
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # a fork of a process with more threads waits for them forever

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import likewise
import mutations
from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.errors import UNPRINTABLE, LikewiseError
from likewise.models import Endpoint, as_model, check, open_model, save_model
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.run import isolated
from likewise.settings import Settings, make_settings
from likewise.settings.settings_file import settings_and_files, write_settings
from likewise.stats.monitor import Monitor

SECONDS, BY_THE_CLOCK = 10, 300
"""Of processor time, and by the clock, as others may use the machine too."""

BYTES = 2 * 2**30

NATIVE = (".onnx", ".json", ".ubj", ".lgb", ".cbm")
"""Files of libraries in C++."""

Make = Callable[[random.Random], Any]


@dataclasses.dataclass(frozen=True)
class Target:
    """Something that reads what others wrote.

    Parameters
    ----------
    make
        Makes an input.
    run
        Reads one; returns or raises a `LikewiseError`.
    share
        Its part of all inputs, relative to the other targets.
    count
        How many inputs, if that is settled.
    """

    make: Make
    run: Callable[[Any], object]
    share: float = 1.0
    count: int | None = None


def people(n: int = 60) -> pa.Table:
    """Return a small table."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    job = rng.choice(["cook", "judge"], n)
    return pa.table(
        {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "g": job, "y": (x[:, 0] > 0).astype(int)}
    )


@dataclasses.dataclass(frozen=True)
class Kit:
    """Good files to be damaged, in a folder."""

    folder: Path
    table: pa.Table
    logistic: Any
    metric: Any
    record: Record
    outcomes: Outcomes

    @classmethod
    def made_in(cls, folder: Path) -> "Kit":
        """Make them."""
        from sklearn.linear_model import LogisticRegression

        table = people()
        logistic = LogisticRegression().fit(np.column_stack([table[c] for c in "abc"]), table["y"])
        data = likewise.read(table, label="y", protected="g")
        metric = likewise.metrics.sensitive_subspace(data)
        likewise.metrics.save_metric(metric, folder / "metric.safetensors")
        settings = Settings(checks="core")
        result = likewise.audit(
            logistic, data, metric=metric, settings=settings, executor=likewise.executors.Inline()
        )
        pq.write_table(result.outcomes.to_arrow(), folder / "good_outcomes.parquet")
        return cls(folder, table, logistic, metric, result.record, result.outcomes)

    def file(self, name: str, read: Callable[[str], object]) -> Callable[[bytes], object]:
        """Return what writes bytes to a file and reads it."""
        path = self.folder / name

        def run(content: bytes) -> object:
            path.write_bytes(content)
            return read(str(path))

        return run

    def bytes(self, name: str) -> bytes:
        """Return what a good file holds."""
        return (self.folder / name).read_bytes()


def run_model(path: str) -> object:
    """Open a model without trust, and ask it about two people."""
    model = as_model(open_model(path))
    width = model.card.n_features or 3
    return check(model, np.zeros((2, width))) if width <= 10_000 else None


def read_table(path: str) -> object:
    """Read people from a file."""
    return likewise.read(path, label="y", protected="g")


def everything(record: Record, folder: Path) -> None:
    """Write a result in every form, and look for what must not be in any."""
    from likewise.errors import printable
    from likewise.report.comparison import comparison_page, comparison_text
    from likewise.report.export import write_outputs
    from likewise.report.redact import redact
    from likewise.report.terminal import summary

    names = {"html": "r.html", "junit": "r.xml", "csv": "r.csv", "markdown": "r.md", "json": "r.js"}
    write_outputs(record, {kind: folder / name for kind, name in names.items()})
    write_outputs(redact(record), {"html": folder / "h.html"})
    shown = (folder / "r.html").read_text(encoding="utf-8")
    said = printable(summary(record, verbose=True))
    with contextlib.suppress(LikewiseError):
        comparison = likewise.compare({"one": record, mutations.MARK: record})
        shown += comparison_page(comparison)
        said += printable(comparison_text(comparison))
    assert mutations.MARK not in shown
    assert not UNPRINTABLE.search(shown + said + (folder / "r.md").read_text(encoding="utf-8"))
    assert Record.read(folder / "r.js")


def result_targets(kit: Kit) -> dict[str, Target]:
    """Return what reads results, outcomes, settings and states."""
    from likewise.run.journal import Folder

    record = json.loads(kit.record.to_json())
    settings = tomllib.loads(write_settings(Settings()))
    outcomes = kit.outcomes.to_arrow()
    encoder = json.loads(Encoder.fit(kit.table, label="y", protected="g").to_json())
    monitor = Monitor(1.25, 0.05)
    monitor.update(kit.outcomes)
    monitor.save(kit.folder / "monitor.json")
    state = json.loads(kit.bytes("monitor.json"))

    def parquet(rng: random.Random) -> bytes:
        sink = io.BytesIO()
        pq.write_table(mutations.table(rng, outcomes), sink)
        content = sink.getvalue()
        return mutations.octets(rng, content) if rng.random() < 0.3 else content

    def judged(path: str) -> object:
        from likewise.redecide import at_limit

        return at_limit(Record.read(path), 1.4)

    def journal(content: bytes) -> object:
        place = kit.folder / "journal"
        place.mkdir(exist_ok=True)
        (place / "identity.json").write_bytes(content)
        return Folder(place, resume=True).begun()

    return {
        "settings (text)": Target(
            lambda rng: mutations.toml_file(rng, settings),
            kit.file("s.toml", settings_and_files),
            4,
        ),
        "settings (values)": Target(
            lambda rng: mutations.tree(rng, Settings().model_dump(mode="json")),
            lambda tree: make_settings(tree),
            12,
        ),
        "result file": Target(
            lambda rng: mutations.json_file(rng, record), kit.file("r.json", Record.read), 2
        ),
        "report": Target(
            lambda rng: mutations.json_file(rng, record),
            kit.file("r.json", lambda path: everything(Record.read(path), kit.folder)),
            0.3,
        ),
        "outcomes": Target(parquet, kit.file("o.parquet", Outcomes.read)),
        "another limit": Target(
            lambda rng: mutations.json_file(rng, record), kit.file("r.json", judged), 0.5
        ),
        "encoder": Target(
            lambda rng: mutations.json_file(rng, encoder), kit.file("e.json", Encoder.load), 8
        ),
        "monitor": Target(
            lambda rng: mutations.json_file(rng, state), kit.file("m.json", Monitor.load), 8
        ),
        "journal": Target(
            lambda rng: mutations.json_file(rng, {"settings": "1", "rows of a piece": "5"}),
            journal,
            8,
        ),
    }


def table_targets(kit: Kit) -> dict[str, Target]:
    """Return what reads people."""
    sink = io.BytesIO()
    pyarrow.csv.write_csv(kit.table, sink)
    text = sink.getvalue().decode()

    def parquet(rng: random.Random) -> bytes:
        sink = io.BytesIO()
        pq.write_table(mutations.table(rng, kit.table), sink)
        content = sink.getvalue()
        return mutations.octets(rng, content) if rng.random() < 0.4 else content

    def arrays(rng: random.Random) -> Any:
        good = {"x": [[0.0, 1.0]] * 6, "y": [0, 1] * 3, "protected": {"g": ["a", "b"] * 3}}
        return mutations.tree(rng, {**good, "weight": [1.0] * 6, "cluster": [1, 2, 3] * 2})

    def from_arrays(given: Any) -> object:
        given = given if isinstance(given, dict) else {"x": given}
        named = {name: given.get(name) for name in ("x", "y", "protected", "weight", "cluster")}
        x, y = named.pop("x"), named.pop("y")
        return AuditData.from_arrays(x, y, **named)

    def audited(table: pa.Table) -> object:
        data = likewise.read(table, label="y", protected="g", ignore=())
        return likewise.audit(
            kit.logistic,
            data,
            metric=kit.metric,
            settings=Settings(checks="core"),
            executor=likewise.executors.Inline(),
        )

    return {
        "CSV": Target(lambda rng: mutations.csv_file(rng, text), kit.file("t.csv", read_table)),
        "Parquet": Target(parquet, kit.file("t.parquet", read_table)),
        "Arrow table": Target(
            lambda rng: mutations.table(rng, kit.table),
            lambda table: likewise.read(table, label="y", protected="g"),
        ),
        "arrays": Target(arrays, from_arrays, 12),
        "audit": Target(lambda rng: mutations.table(rng, kit.table), audited, 0.1),
    }


def model_targets(kit: Kit) -> dict[str, Target]:
    """Return what opens models and metrics."""
    from skops import io as skops

    save_model(kit.logistic, kit.folder / "good.safetensors")
    model, metric = kit.bytes("good.safetensors"), kit.bytes("metric.safetensors")
    packed = skops.dumps(kit.logistic)

    def untrusted(given: tuple[str, bytes]) -> object:
        suffix, content = given
        path = kit.folder / f"m{suffix}"
        path.write_bytes(content)
        open_model(str(path))
        raise AssertionError(f"{suffix} was opened without trust")

    suffixes = [".pkl", ".pickle", ".joblib", ".pt", ".pth", ".pt2"]
    return {
        "metric file": Target(
            lambda rng: mutations.safetensors_file(rng, metric),
            kit.file("d.safetensors", likewise.metrics.load_metric),
            2,
        ),
        "model file": Target(
            lambda rng: mutations.safetensors_file(rng, model), kit.file("m.safetensors", run_model)
        ),
        "skops": Target(
            lambda rng: mutations.zip_file(rng, packed), kit.file("m.skops", run_model), 0.2
        ),
        "files that need trust": Target(
            lambda rng: (rng.choice(suffixes), mutations.octets(rng, packed)), untrusted, 6
        ),
    }


def native_targets(folder: Path, native: int) -> dict[str, Target]:
    """Return what libraries in C++ read, and what comes from an address."""
    import catboost
    import lightgbm
    import xgboost
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    table = people()
    rows, labels = np.column_stack([table[c] for c in "abc"]), table["y"].to_numpy()
    logistic = LogisticRegression().fit(rows, labels)
    graph = to_onnx(logistic, np.zeros((1, 3), np.float32), options={"zipmap": False})
    trees = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(rows, labels)
    trees.save_model(folder / "good.json")
    trees.save_model(folder / "good.ubj")
    leaves = lightgbm.train(
        {"objective": "binary", "num_leaves": 4, "verbose": -1}, lightgbm.Dataset(rows, labels), 3
    )
    leaves.save_model(folder / "good.lgb")
    even = catboost.CatBoostClassifier(
        iterations=3, depth=2, thread_count=1, verbose=False, allow_writing_files=False
    )
    even.fit(rows, labels).save_model(str(folder / "good.cbm"))
    (folder / "good.onnx").write_bytes(graph.SerializeToString())
    good = {suffix: (folder / f"good{suffix}").read_bytes() for suffix in NATIVE}
    boosted, lines = json.loads(good[".json"]), good[".lgb"].decode()

    def mutated(suffix: str) -> Make:
        def make(rng: random.Random) -> bytes:
            if suffix == ".json":
                return mutations.json_file(rng, boosted)
            if suffix == ".lgb":
                return mutations.lines(rng, lines)
            if suffix == ".onnx":
                return mutations.message(rng, graph)
            return mutations.octets(rng, good[suffix])

        return make

    def one_byte(suffix: str) -> Make:
        def make(rng: random.Random) -> bytes:
            content = bytearray(good[suffix])
            content[rng.randrange(len(content))] = rng.randrange(256)
            return bytes(content)

        return make

    def opened(suffix: str) -> Callable[[bytes], object]:
        path = folder / f"m{suffix}"

        def run(content: bytes) -> object:
            path.write_bytes(content)
            return run_model(str(path))

        return run

    def asked(given: tuple[int, bytes, int]) -> object:
        endpoint, answers = answered()
        answers.append(given)
        return endpoint(np.zeros((2, 3)))

    def answer(rng: random.Random) -> tuple[int, bytes, int]:
        content = mutations.json_file(rng, {"predictions": [[0.25, 0.75], [1.0, 0.0]]})
        code = rng.choice([200] * 8 + [201, 204, 206, 302, 400, 404, 418])
        return code, content, len(content) + rng.choice([0] * 9 + [-1])

    behaviours = itertools.cycle(BEHAVIOURS)

    def misbehaved(behaviour: Behaviour) -> object:
        with raw_server(behaviour) as url:
            began = time.monotonic()
            try:
                found = Endpoint(url, retries=0, timeout=1.0)(np.zeros((2, 3)))
            finally:
                assert time.monotonic() - began < 10, "the clock did not end it"
        raise AssertionError(f"taken for probabilities: {found}")

    return {
        **{f"damaged {s}": Target(mutated(s), opened(s), 0.02) for s in NATIVE},
        **{f"one byte {s}": Target(one_byte(s), opened(s), count=native) for s in NATIVE},
        "endpoint": Target(answer, asked, 0.5),
        "misbehaving endpoint": Target(lambda rng: next(behaviours), misbehaved, count=20),
    }


class Forked:
    """A process as `subprocess.Popen` starts one, but a copy of this one, with its libraries read.

    A process from nothing takes a second for each file, nearly all of it for these.
    """

    def __init__(self, command: list[str], **_: Any) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        for stream in (1, 2):  # what a library says as it refuses or crashes
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        with contextlib.suppress(BaseException):
            job = json.loads(command[-1])
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            # A process from nothing has its libraries within the limit: about half a gigabyte.
            job["memory"] += pages * resource.getpagesize() - 2**29
            isolated.serve(job)
        os._exit(1)

    def kill(self) -> None:
        """End it."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = 60) -> int:
        """Wait until it has ended."""
        end = time.monotonic() + seconds
        while self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("a copy of this process", seconds)
            else:
                time.sleep(0.001)
        return self.returncode


def body(content: str | bytes, head: str = "") -> bytes:
    """Return an answer with a code of 200."""
    content = content.encode() if isinstance(content, str) else content
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Behaviour = tuple[bytes, bytes]
"""What a server says first, and what it then repeats for ever."""

BEHAVIOURS: list[Behaviour] = [
    (b"", b""),
    (b"HTTP/1.1 200 OK\r\n", b""),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    (CHUNKED, b"1"),
    (CHUNKED, b"1\r\n[\r\n"),
    (CHUNKED + b"0\r\n", b"X-A: b\r\n"),
    (b"HTTP/1.1 200 OK\r\n\r\n[", b"0.5,"),
    (b"HTTP/1.1 200 " + b"x" * 60_000 + b"\r\n\r\n", b""),
    (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", b""),
    (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", b""),
    (body("[true, false]"), b""),
    (body('["0.5", "0.5"]'), b""),
    (body("[NaN, 0.5]"), b""),
    (body('[[0.5, {"re": 1}], [1, 0]]'), b""),
    (body("[0.5]"), b""),
    (body('{"predictions": {"a": [1]}}'), b""),
    (body("[" * 100_000), b""),
    (body("<html>"), b""),
    (body(b"\x1f\x8b" + bytes(99), "Content-Encoding: gzip\r\n"), b""),
]


@contextlib.contextmanager
def raw_server(behaviour: Behaviour) -> Iterator[str]:
    """Answer whoever connects as a behaviour says, a few bytes at a time."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(10_000)
                    connection.sendall(behaviour[0])
                    while behaviour[1]:
                        connection.sendall(behaviour[1])
                        time.sleep(0.01)
                    time.sleep(0.3)

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}/predict"
    server.close()


@functools.cache
def answered() -> tuple[Endpoint, list[tuple[int, bytes, int]]]:
    """Return an endpoint on this machine, and the list whose last entry it answers with."""
    answers: list[tuple[int, bytes, int]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            code, content, length = answers[-1]
            self.send_response(code)
            self.send_header("Content-Length", str(max(length, 0)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/predict?key=abc"
    return Endpoint(url, retries=0, timeout=2), answers


def command_targets(kit: Kit) -> dict[str, Target]:
    """Return the command line itself: no options may end in an internal error."""
    from typer.testing import CliRunner

    from likewise.cli import app

    (kit.folder / "good.json").write_text(kit.record.to_json(), encoding="utf-8")
    good, rows = str(kit.folder / "good.json"), str(kit.folder / "good_outcomes.parquet")
    commands = [
        ["report", good],
        ["report", good, "--redact", "--verbose"],
        ["compare", good, rows],
        ["report", good, "--delta", "1.25"],
        ["plan", good, "--power", "0.8"],
        ["monitor", "--state", str(kit.folder / "new.json"), rows],
        ["audit", good, rows, "--label", "y", "--protected", "g", "--may-matter", "a,b"],
        ["audit", good, rows, "--label", "y", "--run", "threads:2,1GB", "--set", "seed=1"],
    ]
    runner = CliRunner()

    def typed(rng: random.Random) -> list[str]:
        found = mutations.tree(rng, {"typed": rng.choice(commands)})
        words = found.get("typed") if isinstance(found, dict) else None
        return [str(word)[:300] for word in words] if isinstance(words, list) else ["--help"]

    def run(words: list[str]) -> object:
        done = runner.invoke(app, words)
        assert done.exit_code in (0, 1, 2, 3), (words, done.exit_code, done.output)
        typed_back = done.exit_code == 2  # a usage error repeats what was typed
        assert typed_back or not UNPRINTABLE.search(done.output), words
        return done

    return {"command line": Target(typed, run, 0.3)}


def targets(folder: Path, wanted: list[str] | None, native: int) -> dict[str, Target]:
    """Return all targets, or those that are wanted; their files go into a folder."""
    found = native_targets(folder, native)
    if not wanted or not found.keys() >= set(wanted):
        kit = Kit.made_in(folder)
        found |= {**result_targets(kit), **table_targets(kit), **model_targets(kit)}
        found |= command_targets(kit)
    return {name: found[name] for name in wanted or found}


def attack(name: str, target: Target, first: int, count: int, seed: int) -> dict[str, float]:
    """Run a target on so many inputs; say how many were refused, and what the worst one took."""
    refused, slowest, start = 0, 0.0, spent()
    for index in range(first, first + count):
        value = target.make(random.Random(f"{seed} {name} {index}"))
        faulthandler.dump_traceback_later(
            BY_THE_CLOCK, exit=True
        )  # sees hangs inside libraries too
        began = spent()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.run(value)
        except LikewiseError:
            refused += 1
        except BaseException:
            shown = ascii(value)
            print(f"{name}, input {index}: {shown[:1500]}", file=sys.stderr)
            raise
        slowest = max(slowest, spent() - began)
        if slowest > SECONDS:
            raise TimeoutError(f"input {index} took more than {SECONDS} seconds")
        faulthandler.cancel_dump_traceback_later()
        if memory() > BYTES:
            raise MemoryError(f"input {index} took more than {BYTES:,} bytes")
    taken = spent() - start
    return {"refused": refused, "slowest": slowest, "megabytes": memory() / 2**20, "seconds": taken}


def memory() -> int:
    """Return the most memory that this process has taken; workers have limits of their own."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def spent() -> float:
    """Return the processor time of this process and those it started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def one(name: str, target: Target, first: int, count: int, seed: int, to: Any) -> None:
    """Attack one target in this process."""
    logging.disable(logging.CRITICAL)
    isolated.subprocess = SimpleNamespace(  # type: ignore[assignment]
        Popen=Forked, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
    )
    isolated.SECONDS = SECONDS
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
    to.send(attack(name, target, first, count, seed))


def main() -> None:
    """Attack all targets, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000, help="inputs in all")
    parser.add_argument("--native", type=int, default=500, help="changed bytes a native format")
    parser.add_argument("--quick", action="store_true", help="2,000 inputs, 10 changed bytes")
    parser.add_argument("--target", action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="only the input of this number")
    asked = parser.parse_args()
    in_all, native = (2_000, 10) if asked.quick else (asked.count, asked.native)
    failed, total = [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        wanted = targets(Path(folder), asked.target, native)
        shares = sum(target.share for target in wanted.values() if target.count is None)
        print(f"{'target':<22}{'inputs':>9}{'refused':>9}{'slowest':>9}{'memory':>9}{'seconds':>9}")
        for name, target in wanted.items():
            count = max(1, round(in_all * target.share / max(shares, 1e-9)))
            first, count = 0, count if target.count is None else target.count
            if asked.only is not None:
                first, count = asked.only, 1
            found = apart(name, target, first, count, asked.seed)
            if found is None:
                failed.append(name)
                continue
            total += count
            print(
                f"{name:<22}{count:>9,}{found['refused']:>9,}{found['slowest']:>7.2f} s"
                f"{found['megabytes']:>6.0f} MB{found['seconds']:>9.0f}",
                flush=True,
            )
    if failed:
        raise SystemExit(f"neither read nor refused: {', '.join(failed)}")
    print(f"{total:,} inputs, each read or refused in a sentence")


def apart(name: str, target: Target, first: int, count: int, seed: int) -> dict[str, Any] | None:
    """Attack one target in a process of its own; None if that does not end well."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=one, args=(name, target, first, count, seed, there))
    process.start()
    there.close()
    try:
        found: dict[str, Any] | None = here.recv()
    except EOFError:
        found = None
    process.join()
    return found


if __name__ == "__main__":
    main()
