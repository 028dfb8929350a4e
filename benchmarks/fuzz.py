"""Whatever a file holds, the answer is a result or one sentence.

python benchmarks/fuzz.py --count 1000000 [--minutes 30] [--progress FILE] [--target NAME ...]
python benchmarks/fuzz.py --target NAME --only INDEX     # one input again, with its traceback

Every target takes damaged or invented input (`mutations.py`) and may raise nothing but a
`LikewiseError`, within 10 seconds of processor time and 2 GB. Each runs in a process of its own, so
that a crash inside a library is seen as one. An input is made from the seed, the target's name and
its number alone, so that it can be made again; with a file for its progress, a run that was stopped
goes on where it was.
"""

import argparse
import contextlib
import dataclasses
import faulthandler
import functools
import http.server
import io
import json
import logging
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import likewise
import mutations
from likewise.data.encode import Encoder
from likewise.data.pairs import Pairs, find_pairs
from likewise.data.pairs_file import KEY
from likewise.errors import LikewiseError
from likewise.files import write_whole
from likewise.inference.monitor import Monitor
from likewise.models import Endpoint, check, trial
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.record.json_text import UNPRINTABLE
from likewise.settings import Settings, make_settings
from likewise.settings.settings_file import read_settings, write_settings

SECONDS, BY_THE_CLOCK = 10, 300
"""Of processor time, and by the clock, as others may use the machine too."""

BYTES = 2 * 2**30

ROUND = 20_000
"""Inputs between two notes of the progress."""

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
    """

    make: Make
    run: Callable[[Any], object]
    share: float = 1.0


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
    def of(cls, folder: Path) -> "Kit":
        """Make them."""
        from sklearn.linear_model import LogisticRegression

        table = people()
        logistic = LogisticRegression().fit(np.column_stack([table[c] for c in "abc"]), table["y"])
        data = likewise.read(table, label="y", protected="g")
        metric = likewise.sensitive_subspace(data)
        likewise.save_metric(metric, folder / "metric.safetensors")
        settings = Settings(checks="core")
        result = likewise.audit(
            logistic, data, metric=metric, settings=settings, run=likewise.Inline()
        )
        result.outcomes.save(folder / "good_outcomes.parquet")
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
    model = likewise.as_model(likewise.open_model(path))
    width = model.card.n_features or 3
    return check(model, np.zeros((2, width))) if width <= 10_000 else None


def read_table(path: str) -> object:
    """Read people from a file."""
    return likewise.read(path, label="y", protected="g")


def everything(record: Record, folder: Path) -> None:
    """Write a result in every form, and look for what must not be in any."""
    from likewise.report.compare_page import comparison_page
    from likewise.report.details import details
    from likewise.report.escaping import for_terminal
    from likewise.report.outputs import write_outputs
    from likewise.report.redact import redact
    from likewise.report.side_by_side import compare, words
    from likewise.report.words import summary

    names = {"html": "r.html", "junit": "r.xml", "csv": "r.csv", "markdown": "r.md", "json": "r.js"}
    write_outputs(record, **{kind: folder / name for kind, name in names.items()})
    write_outputs(redact(record), html=folder / "h.html")
    comparison = compare({"one": record, mutations.MARK: record})
    shown = comparison_page(comparison) + (folder / "r.html").read_text(encoding="utf-8")
    assert mutations.MARK not in shown
    said = words(comparison) + for_terminal(summary(record, details(record)))
    assert not UNPRINTABLE.search(shown + said + (folder / "r.md").read_text(encoding="utf-8"))
    assert Record.read(folder / "r.js")


def result_targets(kit: Kit) -> dict[str, Target]:
    """Return what reads results, outcomes, settings and states."""
    from likewise.scale.folder_store import Folder

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
        from likewise.engine.decide import judge_outcomes

        return judge_outcomes(Outcomes.read(path), Settings())

    def journal(content: bytes) -> object:
        place = kit.folder / "journal"
        place.mkdir(exist_ok=True)
        (place / "identity.json").write_bytes(content)
        return Folder(place, resume=True).begun()

    return {
        "settings (text)": Target(
            lambda rng: mutations.toml_file(rng, settings), kit.file("s.toml", read_settings), 4
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
        "test on outcomes": Target(parquet, kit.file("o.parquet", judged), 0.3),
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
        return likewise.AuditData.from_arrays(x, y, **named)

    find_pairs(kit.table, "g", may_matter=["a"]).save(kit.folder / "pairs.parquet")
    pairs = pq.read_table(kit.folder / "pairs.parquet")
    stated = json.loads(pairs.schema.metadata[KEY])

    def paired(rng: random.Random) -> bytes:
        found, sink = (mutations.table(rng, pairs) if rng.random() < 0.5 else pairs), io.BytesIO()
        if rng.random() < 0.5:
            found = found.replace_schema_metadata({KEY: mutations.json_file(rng, stated)})
        pq.write_table(found, sink)
        return mutations.octets(rng, sink.getvalue()) if rng.random() < 0.3 else sink.getvalue()

    def audited(table: pa.Table) -> object:
        data = likewise.read(table, label="y", protected="g", ignore=())
        return likewise.audit(
            kit.logistic,
            data,
            metric=kit.metric,
            settings=Settings(checks="core"),
            run=likewise.Inline(),
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
        "pairs": Target(paired, kit.file("p.parquet", lambda path: Pairs.load(path, kit.table))),
    }


def model_targets(kit: Kit) -> dict[str, Target]:
    """Return what opens models and metrics."""
    import catboost
    import lightgbm
    import xgboost
    from skl2onnx import to_onnx
    from skops import io as skops

    likewise.save_model(kit.logistic, kit.folder / "good.safetensors")
    model, metric = kit.bytes("good.safetensors"), kit.bytes("metric.safetensors")
    graph = to_onnx(kit.logistic, np.zeros((1, 3), np.float32), options={"zipmap": False})
    packed = skops.dumps(kit.logistic)
    mlflow = kit.folder / "mlflow"
    mlflow.mkdir(exist_ok=True)
    (mlflow / "model.onnx").write_bytes(graph.SerializeToString())
    listing = "flavors:\n  onnx:\n    data: model.onnx\n    onnx_version: 1.19.0\n"

    def mlflow_folder(content: str) -> object:
        (mlflow / "MLmodel").write_text(content, encoding="utf-8", errors="replace")
        return likewise.models.mlflow_folder.model_file(mlflow)

    def untrusted(given: tuple[str, bytes]) -> object:
        suffix, content = given
        path = kit.folder / f"m{suffix}"
        path.write_bytes(content)
        likewise.open_model(str(path))
        raise AssertionError(f"{suffix} was opened without trust")

    suffixes = [".pkl", ".pickle", ".joblib", ".pt", ".pth", ".pt2"]
    rows, labels = np.column_stack([kit.table[c] for c in "abc"]), kit.table["y"].to_numpy()
    trees = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(rows, labels)
    trees.save_model(kit.folder / "good.json")
    trees.save_model(kit.folder / "good.ubj")
    leaves = lightgbm.train(
        {"objective": "binary", "num_leaves": 4, "verbose": -1}, lightgbm.Dataset(rows, labels), 3
    )
    leaves.save_model(kit.folder / "good.lgb")
    even = catboost.CatBoostClassifier(iterations=3, depth=2, thread_count=1, verbose=False)
    even.fit(rows, labels).save_model(str(kit.folder / "good.cbm"))
    boosted, lines = json.loads(kit.bytes("good.json")), kit.bytes("good.lgb").decode()

    def boosted_file(rng: random.Random) -> tuple[str, bytes]:
        kind = rng.randrange(4)
        if kind == 0:
            return "b.json", mutations.json_file(rng, boosted)
        if kind == 1:
            return "b.lgb", mutations.lines(rng, lines)
        suffix = rng.choice([".ubj", ".cbm"])
        return f"b{suffix}", mutations.octets(rng, kit.bytes(f"good{suffix}"))

    def open_boosted(given: tuple[str, bytes]) -> object:
        name, content = given
        trial.subprocess = SimpleNamespace(  # type: ignore[assignment]
            run=forked, TimeoutExpired=subprocess.TimeoutExpired
        )
        return kit.file(name, run_model)(content)

    def asked(given: tuple[int, bytes, int]) -> object:
        endpoint, answers = answered()
        answers.append(given)
        return endpoint(np.zeros((2, 3)))

    def answer(rng: random.Random) -> tuple[int, bytes, int]:
        content = mutations.json_file(rng, {"predictions": [[0.25, 0.75], [1.0, 0.0]]})
        code = rng.choice([200] * 8 + [201, 204, 206, 302, 400, 404, 418])
        return code, content, len(content) + rng.choice([0] * 9 + [-1])

    return {
        "metric file": Target(
            lambda rng: mutations.safetensors_file(rng, metric),
            kit.file("d.safetensors", likewise.load_metric),
            2,
        ),
        "model file": Target(
            lambda rng: mutations.safetensors_file(rng, model), kit.file("m.safetensors", run_model)
        ),
        "ONNX": Target(
            lambda rng: mutations.message(rng, graph), kit.file("m.onnx", run_model), 0.2
        ),
        "skops": Target(
            lambda rng: mutations.zip_file(rng, packed), kit.file("m.skops", run_model), 0.2
        ),
        "boosted trees": Target(boosted_file, open_boosted, 0.2),
        "MLflow folder": Target(lambda rng: mutations.text(rng, listing), mlflow_folder, 6),
        "files that need trust": Target(
            lambda rng: (rng.choice(suffixes), mutations.octets(rng, packed)), untrusted, 6
        ),
        "endpoint": Target(answer, asked, 0.5),
    }


def forked(command: list[str], input: bytes, **limits: Any) -> subprocess.CompletedProcess[bytes]:
    """Try a file out in a copy of this process, which has read its libraries already.

    A process from nothing takes a second for each file, nearly all of it for these.
    """
    here, there = os.pipe()
    child = os.fork()
    if not child:
        code, said = 1, io.StringIO()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library says as it crashes
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(said):
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            sys.stdin = io.TextIOWrapper(io.BytesIO(input))
            # A process from nothing has its libraries within the limit: about half a gigabyte.
            more = pages * resource.getpagesize() - 2**29
            code = trial.main(command[-2], int(command[-1]) + more)
        os.write(there, said.getvalue().encode()[:60_000])
        os._exit(code)
    os.close(there)
    with os.fdopen(here, "rb") as said_by_child:
        output = said_by_child.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return subprocess.CompletedProcess(command, code, output)


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
    return Endpoint(url, retries=0, pause=0.001, timeout=2, max_calls=10**9), answers


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
        ["test", rows, "--delta", "1.25", "--alpha", "0.05"],
        ["plan", "--effect", "1.4", "--sd", "0.9", "--base-error", "0.2", "--power", "0.8"],
        ["plan", "--effect", "1.4", "--delta", "1.25", "--alpha", "0.05", "--pilot", rows],
        ["monitor", "--state", str(kit.folder / "new.json"), rows],
        ["audit", good, rows, "--label", "y", "--protected", "g"],
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


def targets(folder: Path) -> dict[str, Target]:
    """Return all targets; their files go into a folder."""
    kit = Kit.of(folder)
    return {
        **result_targets(kit),
        **table_targets(kit),
        **model_targets(kit),
        **command_targets(kit),
    }


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
    """Return the most that this process or one it started has taken."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return 1024 * max(resource.getrusage(who).ru_maxrss for who in whose)


def spent() -> float:
    """Return the processor time of this process and those it started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def one(name: str, target: Target, first: int, count: int, seed: int, to: Any) -> None:
    """Attack one target in this process."""
    logging.disable(logging.CRITICAL)
    # A stranger's model is opened as by a user, not as by a worker whose parent has tried it.
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
    to.send(attack(name, target, first, count, seed))


def main() -> None:
    """Attack all targets, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="inputs in all")
    parser.add_argument("--minutes", type=float, default=1e6, help="no new round after these")
    parser.add_argument("--progress", type=Path, help="where to note what is done, and to go on")
    parser.add_argument("--target", action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="only the input of this number")
    asked = parser.parse_args()
    note = asked.progress.absolute() if asked.progress else None
    found = noted(note, asked.seed)
    end = time.monotonic() + 60 * asked.minutes
    rounds = max(1, asked.count // ROUND)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        known = targets(Path(folder))
        wanted = {name: known[name] for name in asked.target or known}
        everyone = sum(target.share for target in wanted.values())
        for _ in range(rounds):
            for name, target in wanted.items():
                tally = found.setdefault(name, Tally())
                goal = max(1, round(asked.count * target.share / everyone))
                first, count = tally.inputs, min(-(-goal // rounds), goal - tally.inputs)
                if asked.only is not None:
                    first, count = asked.only, 1
                if count > 0 and not tally.failed:
                    tally.add(apart(name, target, first, count, asked.seed), count)
            total = sum(tally.inputs for tally in found.values())
            print(f"{total:,} inputs", file=sys.stderr, flush=True)
            if note:
                tallies = {name: dataclasses.asdict(tally) for name, tally in found.items()}
                told = json.dumps({"seed": asked.seed, "found": tallies}, indent=1)
                write_whole(note, told.encode())
            if time.monotonic() >= end or asked.only is not None:
                break
    print(f"{'target':<22}{'inputs':>9}{'refused':>9}{'slowest':>9}{'memory':>9}{'seconds':>9}")
    for name, tally in found.items():
        print(
            f"{name:<22}{tally.inputs:>9,}{tally.refused:>9,}{tally.slowest:>7.2f} s"
            f"{tally.megabytes:>6.0f} MB{tally.seconds:>9.0f}"
        )
    if failed := [name for name, tally in found.items() if tally.failed]:
        raise SystemExit(f"neither read nor refused: {', '.join(failed)}")
    print(f"{total:,} inputs, each read or refused in a sentence")


def noted(note: Path | None, seed: int) -> dict[str, "Tally"]:
    """Return what a run that was stopped has done; what failed is tried again."""
    if note is None or not note.exists():
        return {}
    read = json.loads(note.read_text())
    if read["seed"] != seed:
        raise SystemExit(f"{note} is of seed {read['seed']}")
    return {name: Tally(**{**tally, "failed": False}) for name, tally in read["found"].items()}


@dataclasses.dataclass
class Tally:
    """What became of a target's inputs so far."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    megabytes: float = 0.0
    seconds: float = 0.0
    failed: bool = False

    def add(self, found: dict[str, Any] | None, count: int) -> None:
        """Add a round; None is one that did not end well."""
        if found is None:
            self.failed = True
            return
        self.inputs += count
        self.refused += found["refused"]
        self.seconds += found["seconds"]
        self.slowest = max(self.slowest, found["slowest"])
        self.megabytes = max(self.megabytes, found["megabytes"])


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
